"""The lanes engine: trains trials of one recipe in bundles, as wide as the memory allows."""

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
    """Train trials with the same recipe; yield finished ones as they end, and the epochs completed by the others.

    On KeyboardInterrupt, yields the lanes that have ended and re-raises.

    Arguments:
        trials: The trials.
        tasks: Their tasks.
        memory: Bytes that the lanes of one bundle may use on each device; wider bundles are split.
        checkpoints: Folder for the states of unfinished lanes, written periodically and on an interruption. Lanes with
            a state there resume from it.
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
    """A trial, its task, and its index in the list."""

    place: int
    trial: Trial
    task: Task


def _valid_program(first: PlacedTrial) -> Program:
    """Build the program of a recipe and trace it, to find mistakes before training."""
    program = program_for(first.trial, first.task)
    try:
        with arithmetic(program.recipe.training.precision):
            program.lane_bytes  # noqa: B018 - traces a whole epoch
    except InputError as error:
        raise InputError(f"trial {first.place}: {error}") from None
    return program


def _widest(program: Program, memory: int | None) -> int:
    """Find the largest power of two that fits into memory, counting all devices."""
    devices = jax.local_devices()
    budget = memory_budget(devices[0]) if memory is None else memory
    return rung_below(int(max(1, budget // max(1, program.lane_bytes)))) * rung_below(len(devices))


def _run_bundle(
    program: Program, entries: list[PlacedTrial], width: int, checkpoints: Checkpoints | None
) -> Generator[tuple[list[Finished], int], None, None]:
    """Run one bundle; if it runs out of memory, continue with the unfinished trials at half the width."""
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
    """Run one bundle; remove trials from `left` when they are yielded."""
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
