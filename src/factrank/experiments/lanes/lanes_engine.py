"""The lanes engine: trials of one recipe go together, in bundles as wide as the ladder and the memory allow."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import NamedTuple

import jax

from factrank.errors import InputError
from factrank.experiments.compilation_cache import use_compilation_cache
from factrank.experiments.lanes.device_memory import memory_budget
from factrank.experiments.lanes.ladder import rung_below, widths
from factrank.experiments.lanes.lane_bundle import Finished, LaneBundle
from factrank.experiments.lanes.lane_programs import Program, arithmetic, program_for
from factrank.experiments.run_checkpoints import Checkpoints
from factrank.experiments.specs import Trial
from factrank.experiments.task import Task


def run_lanes(
    trials: Sequence[Trial],
    tasks: Sequence[Task],
    memory: int | None = None,
    checkpoints: Checkpoints | None = None,
) -> Generator[tuple[list[Finished], int], None, None]:
    """Train these trials, which share a recipe; finished ones come out as they end, with the epochs behind the others.

    `memory` is what the lanes of one bundle may take on each device, in bytes: wider bundles are cut once more. Thrown
    an interruption, it hands out the lanes that had stopped before it lets it through. With `checkpoints` the state of
    the lanes in flight is written now and then, and on an interruption, and lanes whose state is found there resume
    from it.
    """
    use_compilation_cache()
    entries = [PlacedTrial(*entry) for entry in zip(range(len(trials)), trials, tasks, strict=True)]
    if not entries:
        return
    program = _valid_program(entries[0])
    with arithmetic(program.recipe.training.precision):
        widest = _widest(program, memory)
    for width in widths(len(entries), widest):
        now, entries = entries[:width], entries[width:]
        yield from _run_bundle(program, now, width, checkpoints)


class PlacedTrial(NamedTuple):
    """A trial, its task, and its place in the list."""

    place: int
    trial: Trial
    task: Task


def _valid_program(first: PlacedTrial) -> Program:
    """The program of a recipe, its mistakes found before anything is trained."""
    program = program_for(first.trial, first.task)
    try:
        with arithmetic(program.recipe.training.precision):
            program.lane_bytes  # noqa: B018 - traces a whole epoch
    except InputError as error:
        raise InputError(f"trial {first.place}: {error}") from None
    return program


def _widest(program: Program, memory: int | None) -> int:
    """The widest rung that fits: every device takes its share of the lanes."""
    devices = jax.local_devices()
    budget = memory_budget(devices[0]) if memory is None else memory
    return rung_below(int(max(1, budget // max(1, program.lane_bytes)))) * rung_below(len(devices))


def _run_bundle(
    program: Program, entries: list[PlacedTrial], width: int, checkpoints: Checkpoints | None
) -> Generator[tuple[list[Finished], int], None, None]:
    """One bundle; where the memory does not suffice after all, what is left of it at half the width."""
    left = {entry.place for entry in entries}
    try:
        yield from _epochs_of(program, entries, width, left, checkpoints)
    except jax.errors.JaxRuntimeError as error:
        if width == 1 or "RESOURCE_EXHAUSTED" not in str(error):
            raise
    rest, half = [entry for entry in entries if entry.place in left], width // 2
    for start in range(0, len(rest), max(half, 1)):
        yield from _run_bundle(program, rest[start : start + half], half, checkpoints)


def _epochs_of(
    program: Program, entries: list[PlacedTrial], width: int, left: set[int], checkpoints: Checkpoints | None
) -> Generator[tuple[list[Finished], int], None, None]:
    """The same without a second try; places that were handed out are taken from `left`."""
    places, trials, tasks = zip(*entries, strict=True)
    with arithmetic(program.recipe.training.precision):
        folder = checkpoints.folder if checkpoints is not None else None
        bundle = LaneBundle.start(program, places, trials, tasks, width, folder)
    try:
        for finished in bundle.run():
            left -= {lane.place for lane in finished}
            yield finished, bundle.model_epochs
            if checkpoints is not None and checkpoints.due():
                bundle.save()
                checkpoints.written()
    except KeyboardInterrupt:
        bundle.save()
        yield bundle.stopped(), 0
        raise
    if bundle.file is not None:
        bundle.file.remove()
