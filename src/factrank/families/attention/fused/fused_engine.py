"""The fused engine: which trials it trains, and how they run.

It trains attention layers with Adam on all facts, by a hand-written loop for every shape. Models do not interact, so on
one kind of device a trial gives the same bits alone and among thousands.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from contextlib import closing, suppress
from typing import Protocol, cast

import numpy as np

from factrank.errors import InputError
from factrank.experiments import Checkpoints, Finished, split
from factrank.experiments.specs import Trial
from factrank.families.attention.attention_layer import PARTS, draw_layer
from factrank.families.attention.attention_work import products, sizes_of
from factrank.families.attention.facts_task import FactsTask
from factrank.families.attention.fused.fused_checkpoints import load_states, save_states
from factrank.families.attention.fused.fused_gpu import Blocks
from factrank.families.attention.fused.fused_run import ADAM, Fibers, Run, State, prepare
from factrank.families.attention.fused.fused_threads import Threads
from factrank.families.attention.layer_shape import LayerShape

MOST_PRODUCTS = {"cpu": 2**26, "gpu": 2**23}
"""Largest number of multiplications in a forward pass for which `auto` uses this engine, by platform.

It was faster than lanes at every measured size: up to 5e7 products on two CPU cores, and up to 8e6 on a GPU, where each
model has its own multiprocessor, with 8 and with 264 models. Larger sizes were not measured, and use lanes.
"""

LARGEST_EPS = 1e30
"""Larger values of Adam's eps are infinite in float32, or nearly so."""

PLAIN_ADAM = {"eps_root": 0, "mu_dtype": None, "nesterov": False}
"""Further options of optax's Adam, with the values that give plain Adam."""


class Backend(Protocol):
    """Trains runs, on CPU threads or GPU blocks."""

    def __init__(self, runs: Iterator[Run], n_runs: int) -> None:
        """Start training; the iterator creates each run on demand, longest first."""

    def __iter__(self) -> Iterator[list[Run]]:
        """Yield lists of finished and evaluated runs, and empty lists a few times per second while there are none."""

    def model_epochs(self) -> int:
        """Return the total number of epochs of the runs in flight, at no cost."""

    def in_flight(self) -> list[Run]:
        """Return the runs that were started and not yet yielded, each with its newest state."""

    def close(self) -> None:
        """Stop soon, and wait until work has ended; runs in flight keep a complete state."""

    @staticmethod
    def missing() -> str | None:
        """Return why this machine cannot use the backend, or None if it can."""

    @staticmethod
    def marks() -> dict[str, str]:
        """Return everything on which bits depend, to validate checkpoints: the `device` and the `kernel`."""


BACKENDS: dict[str, type[Backend]] = {"cpu": Threads, "gpu": Blocks}
"""The backend of each JAX platform."""


def marks_of(device: str) -> dict[str, str] | None:
    """Return the marks of checkpoints on a device; None if there is no backend for it."""
    with suppress(ImportError):  # CuPy is an optional dependency; without it all trials use lanes
        return BACKENDS[device].marks() if device in BACKENDS else None
    return None


def refusal(trial: Trial, platform: str) -> str | None:
    """Return why the fused engine cannot train a trial on a platform, or None if it can."""
    if platform not in BACKENDS:
        return f"there is none for the platform {platform!r}"
    return BACKENDS[platform].missing() or _unsuited(trial)


def _unsuited(trial: Trial) -> str | None:
    training = trial.training
    odd = [name for name, value in training.optimiser.options if not _is_plain_adam(name, value)]
    reasons = (
        (not isinstance(trial.model, LayerShape), "it trains attention layers (LayerShape)"),
        (training.batch_size is not None, "it trains on all facts at once (batch_size None)"),
        (
            training.schedule != "constant" or training.warm_up > 0,
            "its learning rate stays as it is (schedule constant, warm_up 0)",
        ),
        (training.stop != "never" and training.stop_at < 1, "it stops at all facts (stop_at 1)"),
        (training.precision in ("tf32", "bfloat16"), "it computes in float32 or float64"),
        (training.optimiser.name != "adam", f"its optimiser is adam, not {training.optimiser.name}"),
        (bool(odd), f"it does not know adam with these values of {', '.join(odd)}"),
    )
    return next((reason for applies, reason in reasons if applies), None)


def platform_of(trial: Trial, shape: tuple[int, int, int], device: str) -> str | None:
    """Return the platform on which the fused engine trains a trial, or None if lanes train it.

    The answer depends only on the trial, the shape of its database and the device. float64 is supported only on the
    CPU: on other devices, `auto` uses lanes for such trials.

    Raises:
        InputError: `engine="fused"` does not apply to the trial, or a frozen part does not exist.
    """
    wanted, platform = trial.training.engine, "cpu" if trial.training.precision == "float64" else device
    if wanted == "lanes":
        return None
    reason = refusal(trial, platform)
    if reason is not None and wanted == "fused":
        raise InputError(f"the fused engine does not apply: {reason}; use lanes or auto")
    if reason is not None or (wanted == "auto" and not _worthwhile(trial, shape, platform, device)):
        return None
    if not set(trial.training.frozen) <= set(PARTS) and isinstance(trial.model, LayerShape):
        split(
            draw_layer(trial.model, *shape, rng=np.random.default_rng(0)), trial.training.frozen
        )  # names an unknown part
    return platform


def _worthwhile(trial: Trial, shape: tuple[int, int, int], platform: str, device: str) -> bool:
    """Return whether `auto` should use the fused engine for a trial that it supports."""
    n_products = products(sizes_of(cast("LayerShape", trial.model), shape), n_facts=shape[0] * shape[1])
    return platform == device and n_products <= MOST_PRODUCTS[platform]


def run_fused(
    trials: Sequence[Trial], tasks: Sequence[FactsTask], checkpoints: Checkpoints | None = None, platform: str = "cpu"
) -> Generator[tuple[list[Finished], int], None, None]:
    """Train trials; yields finished ones as they end, and the total epochs of the models in flight.

    With `checkpoints`, runs resume from the saved states; states in flight are saved periodically and when the work
    ends early. On KeyboardInterrupt, yields the finished runs and re-raises.
    """
    marks = BACKENDS[platform].marks() if checkpoints is not None else {}
    states = load_states(checkpoints, trials, tasks, marks) if checkpoints is not None else {}
    backend = BACKENDS[platform](_longest_first(trials, tasks, states), len(trials))
    handed_out: set[int] = set()

    def waiting() -> list[Run]:
        return [run for run in backend.in_flight() if run.place not in handed_out]

    def hand_out(ended: list[Run]) -> tuple[list[Finished], int]:
        finished, epochs = [run.finish() for run in ended], backend.model_epochs()
        handed_out.update(run.place for run in ended)
        return finished, epochs

    with closing(backend):
        try:
            for ended in backend:
                for part in _together(ended):
                    yield hand_out(part)
                if checkpoints is not None and checkpoints.due():
                    save_states(checkpoints, waiting(), marks)
        except BaseException as reason:
            backend.close()
            try:  # finished runs first, because saving may take long and be interrupted again
                if isinstance(reason, KeyboardInterrupt):
                    yield hand_out([run for run in waiting() if run.evaluation is not None])[0], 0
            finally:
                if checkpoints is not None:
                    save_states(checkpoints, waiting(), marks)
            raise


def _together(ended: list[Run]) -> list[list[Run]]:
    """Group runs to finish together; runs with slow measures are alone, so an interruption loses at most one."""
    at_once = [run for run in ended if not run.trial.measured_on_host]
    return [at_once, *([run] for run in ended if run.trial.measured_on_host)]


def _longest_first(trials: Sequence[Trial], tasks: Sequence[FactsTask], states: dict[int, State]) -> Iterator[Run]:
    """Create the runs on demand, longest first; a database shared by several is prepared once."""

    def cost(place: int) -> int:
        trial, database, begun = trials[place], tasks[place].database, states.get(place)
        n_epochs = trial.training.epochs - (begun.epoch if begun else 0)
        return n_epochs * products(sizes_of(cast("LayerShape", trial.model), database.shape), len(database))

    fibers: dict[int, Fibers] = {}
    for place in sorted(range(len(trials)), key=cost, reverse=True):
        database = tasks[place].database
        if id(database) not in fibers:
            fibers[id(database)] = Fibers.of(database)
        yield prepare(place, trials[place], tasks[place], fibers[id(database)], states.get(place))


def _is_plain_adam(name: str, value: object) -> bool:
    """Return whether the kernel supports an option of Adam; optax reports invalid values."""
    if name in PLAIN_ADAM:
        return value == PLAIN_ADAM[name]
    if name not in ADAM or isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return 0 <= value < (LARGEST_EPS if name == "eps" else 1)
