"""Times of lanes, for estimates: to compile a program, and to train.

Only the program that trains is compiled, outside the cache on disk: a program found there would hide what the others
take. Evaluations are compiled too in a run, at checks and at the end. The second call is timed, because the first one
also loads the program: for small models that takes longer than their epochs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import jax

from factrank.experiments.lanes.lane_programs import Program, arithmetic, recipe_of
from factrank.experiments.specs import Trial
from factrank.experiments.task import Task

KEPT = "jax_persistent_cache_min_compile_time_secs"
NEVER = 1e9


@dataclass(frozen=True)
class LaneTimes:
    """Seconds to compile and load the program that trains, and to run it."""

    compilation: float
    training: float


def measured_lanes(trials: Sequence[Trial], tasks: Sequence[Task], n_epochs: int) -> LaneTimes:
    """Compile the program of trials with the same recipe, and train them for n epochs as one bundle."""
    program = Program(trials[0], tasks[0], recipe_of(trials[0], tasks[0]))
    with arithmetic(program.recipe.training.precision), _not_kept():
        lanes = program.start(trials, tasks, len(trials))
        started = perf_counter()
        advance: Any = jax.jit(jax.vmap(program._epochs, in_axes=(0, None, None)))
        compiled = advance.lower(lanes, 0, n_epochs).compile()
        jax.block_until_ready(compiled(lanes, 0, n_epochs))  # type: ignore[no-untyped-call]
        loaded_at = perf_counter()
        jax.block_until_ready(compiled(lanes, 0, n_epochs))  # type: ignore[no-untyped-call]
        return LaneTimes(loaded_at - started, perf_counter() - loaded_at)


@contextmanager
def _not_kept() -> Iterator[None]:
    before = getattr(jax.config, KEPT)
    jax.config.update(KEPT, NEVER)  # type: ignore[no-untyped-call]
    try:
        yield
    finally:
        jax.config.update(KEPT, before)  # type: ignore[no-untyped-call]
