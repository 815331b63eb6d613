"""The fused engine: which trials it takes, and how they run.

It trains attention layers with Adam on all facts at once, by one hand-written loop for every shape. A model never meets
another, so a trial gives the same bits alone and among thousands, on one kind of device.
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
"""Multiplications of a forward pass up to which `auto` takes this engine, by platform.

It was faster than lanes at every size measured: on two CPU cores up to 5e7 products, on a GPU, where a model has one
multiprocessor for itself, up to 8e6 with 8 and with 264 models. Beyond that nothing is known, and lanes train.
"""

LARGEST_EPS = 1e30
"""A larger eps of Adam is no number in float32, or next to none."""

PLAIN_ADAM = {"eps_root": 0, "mu_dtype": None, "nesterov": False}
"""Further options of optax's Adam, at the values that leave Adam as its paper has it."""


class Backend(Protocol):
    """What trains runs: threads of a CPU, blocks of a GPU."""

    def __init__(self, runs: Iterator[Run], n_runs: int) -> None:
        """Begin to train the runs of an iterator, longest first, which makes them when they are asked for."""

    def __iter__(self) -> Iterator[list[Run]]:
        """Lists of runs that have ended and been evaluated, an empty one a few times a second while none has."""

    def model_epochs(self) -> int:
        """Epochs behind the runs in flight, at no cost."""

    def in_flight(self) -> list[Run]:
        """The runs that were begun and not handed out, each with its newest state."""

    def close(self) -> None:
        """End the work soon, and return when it has ended; runs in flight keep a whole state."""

    @staticmethod
    def missing() -> str | None:
        """Why this machine cannot train with it; None where it can."""

    @staticmethod
    def marks() -> dict[str, str]:
        """By what a checkpoint knows that it goes on to the same bits here: the `device`, the `kernel`."""


BACKENDS: dict[str, type[Backend]] = {"cpu": Threads, "gpu": Blocks}
"""What trains on each platform of JAX that has a backend."""


def marks_of(device: str) -> dict[str, str] | None:
    """By what checkpoints of this device know each other; None if nothing trains on it."""
    with suppress(ImportError):  # CuPy is an extra; without it all trials run in lanes
        return BACKENDS[device].marks() if device in BACKENDS else None
    return None


def refusal(trial: Trial, platform: str) -> str | None:
    """Why the fused engine does not train this trial on this platform; None where it does."""
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
    """The platform on which the fused engine trains this trial, on a database of this shape; None: lanes train it.

    It follows from the trial and the device alone. In float64 the engine is there for the CPU: on another device `auto`
    leaves such trials to lanes. `engine="fused"` where it does not apply is an `InputError`, and so is a frozen part
    that there is not.
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
        split(draw_layer(trial.model, *shape, rng=np.random.default_rng(0)), trial.training.frozen)  # says which
    return platform


def _worthwhile(trial: Trial, shape: tuple[int, int, int], platform: str, device: str) -> bool:
    """Whether `auto` takes the fused engine for a trial that it can train."""
    n_products = products(sizes_of(cast("LayerShape", trial.model), shape), n_facts=shape[0] * shape[1])
    return platform == device and n_products <= MOST_PRODUCTS[platform]


def run_fused(
    trials: Sequence[Trial], tasks: Sequence[FactsTask], checkpoints: Checkpoints | None = None, platform: str = "cpu"
) -> Generator[tuple[list[Finished], int], None, None]:
    """Train these trials; finished ones come out as they end, with the epochs behind the models still in flight.

    With `checkpoints`, runs go on from the states found there, and states in flight are put there now and then and
    when the work ends early. Thrown an interruption, it hands out what had ended before it lets it through.
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
            try:  # what has ended goes first: writing may take long, and be interrupted again
                if isinstance(reason, KeyboardInterrupt):
                    yield hand_out([run for run in waiting() if run.evaluation is not None])[0], 0
            finally:
                if checkpoints is not None:
                    save_states(checkpoints, waiting(), marks)
            raise


def _together(ended: list[Run]) -> list[list[Run]]:
    """Runs that are finished together: what takes long on the host is handed out one by one, and is not lost."""
    at_once = [run for run in ended if not run.trial.measures.on_host]
    return [at_once, *([run] for run in ended if run.trial.measures.on_host)]


def _longest_first(trials: Sequence[Trial], tasks: Sequence[FactsTask], states: dict[int, State]) -> Iterator[Run]:
    """The runs, each made when it is asked for; a database that several share is prepared once."""

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
    """Whether the kernel knows this option of Adam; what is no sound value is left to optax to complain about."""
    if name in PLAIN_ADAM:
        return value == PLAIN_ADAM[name]
    if name not in ADAM or isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return 0 <= value < (LARGEST_EPS if name == "eps" else 1)
