"""The lanes engine: trials of one recipe go together, in bundles as wide as the ladder and the memory allow."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import jax

from factrank.training.bundle import Bundle, Finished
from factrank.training.compilation_cache import use_compilation_cache
from factrank.training.ladder import rung_below, widths
from factrank.training.lanes import Program, Recipe, arithmetic, program_for, recipe_of
from factrank.training.memory import memory_budget
from factrank.training.task import Task
from factrank.training.trial import Trial

WIDEST = {"cpu": 256}
"""On a CPU wider bundles leave the caches and gain nothing; on a GPU they do."""

WIDEST_ELSEWHERE = 16384


def run_lanes(
    trials: Sequence[Trial], tasks: Sequence[Task], memory: int | None = None
) -> Iterator[tuple[list[Finished], int]]:
    """Train these trials; finished ones come out as they end, with the number of model-epochs run since the last.

    `memory` is what the lanes of one bundle may take on each device, in bytes.
    """
    use_compilation_cache()
    groups: dict[Recipe, list[int]] = {}
    for place, (trial, task) in enumerate(zip(trials, tasks, strict=True)):
        groups.setdefault(recipe_of(trial, task), []).append(place)
    for places in groups.values():
        program = program_for(trials[places[0]], tasks[places[0]])
        with arithmetic(trials[places[0]].training.precision):
            widest = _widest(program, memory)
        rest = places
        for width in widths(len(places), widest):
            bundle, rest = rest[:width], rest[width:]
            yield from _run_bundle(program, bundle, [trials[at] for at in bundle], [tasks[at] for at in bundle], width)


def _widest(program: Program, memory: int | None) -> int:
    """The widest rung that fits: every device takes its share of the lanes."""
    devices = jax.local_devices()
    budget = memory_budget(devices[0]) if memory is None else memory
    most = WIDEST.get(devices[0].platform, WIDEST_ELSEWHERE)
    fitting = max(1, budget // max(1, program.lane_bytes))
    return min(rung_below(int(fitting)), most) * rung_below(len(devices))


def _run_bundle(
    program: Program, places: Sequence[int], trials: Sequence[Trial], tasks: Sequence[Task], width: int
) -> Iterator[tuple[list[Finished], int]]:
    """One bundle; where the memory does not suffice after all, two of half the width."""
    if width > 1:
        try:
            yield from _epochs_of(program, places, trials, tasks, width)
        except jax.errors.JaxRuntimeError as error:
            if "RESOURCE_EXHAUSTED" not in str(error):
                raise
        else:
            return
        half = width // 2
        for part in (slice(0, half), slice(half, width)):
            if places[part]:
                yield from _run_bundle(program, places[part], trials[part], tasks[part], half)
        return
    yield from _epochs_of(program, places, trials, tasks, width)


def _epochs_of(
    program: Program, places: Sequence[int], trials: Sequence[Trial], tasks: Sequence[Task], width: int
) -> Iterator[tuple[list[Finished], int]]:
    with arithmetic(trials[0].training.precision):
        bundle = Bundle.start(program, places, trials, tasks, width)
    before = 0
    for finished in bundle.run():
        yield finished, (bundle.epoch - before) * len(bundle.records)
        before = bundle.epoch
