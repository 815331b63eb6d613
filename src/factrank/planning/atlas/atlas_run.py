"""Run the atlas, or slices of its parts: on a GPU if there is one, else on the processors.

Batches are drawn and packed in other processes; this one keeps the device busy and collects the rows.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, wait
from dataclasses import dataclass, field
from multiprocessing import get_context
from time import perf_counter, sleep
from typing import Any

import numpy as np

from factrank.families.attention.fused import gpu_missing, shared_room
from factrank.families.attention.fused.bulk import BulkBlocks, PackedLayers
from factrank.planning.atlas.atlas_batches import batches_of, finished, packed_batch, trained_here
from factrank.planning.atlas.atlas_design import design
from factrank.planning.atlas.atlas_rows import AtlasRows, n_rows, products_of, take_rows

SHARD = 50_000
"""Rows that are cut into batches together."""

BATCHES_IN_FLIGHT = 12
PREPARED_PER_PROCESS = 3
POLL_SECONDS = 0.001

Taken = Callable[[dict[str, Any]], None]


@dataclass
class AtlasMeter:
    """Progress of a run."""

    began: float = field(default_factory=perf_counter)
    rows: int = 0
    epoch_products: float = 0.0
    by_class: dict[Any, list[float]] = field(default_factory=dict)

    def note(self, rows: AtlasRows, kind: Any = None, seconds: float = 0.0) -> None:
        """Count finished rows; `seconds` is how long their batch was on the device, together with others."""
        work = float((products_of(rows).astype(float) * rows["epochs"]).sum())
        self.rows += n_rows(rows)
        self.epoch_products += work
        sums = self.by_class.setdefault(kind, [0.0, 0.0, 0.0])
        for place, number in enumerate((n_rows(rows), work, seconds)):
            sums[place] += number

    @property
    def seconds(self) -> float:
        """Return the seconds since the run began."""
        return perf_counter() - self.began


def slices(wanted: Sequence[tuple[str, int, int, int]], seed: int) -> Iterator[dict[str, Any]]:
    """Yield shards of parts, each part given by its name, its whole size, and the ends of the slice."""
    for part, whole, first, last in wanted:
        rows = design(part, whole, seed=seed)
        end = min(last, n_rows(rows))
        for start in range(first, end, SHARD):
            yield take_rows(rows, slice(start, min(start + SHARD, end)))


def run_atlas(
    shards: Iterator[dict[str, Any]], taken: Taken, *, deadline: float = np.inf, processes: int | None = None
) -> AtlasMeter:
    """Train every row, and pass the finished rows to `taken`, batch by batch, in any order.

    After `deadline` seconds no new batch is started.
    """
    processes = processes or len(os.sched_getaffinity(0))
    with ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as pool:
        run = _on_processors if gpu_missing() else _on_gpu
        return run(pool, shards, taken, deadline, processes)


def _on_processors(
    pool: ProcessPoolExecutor, shards: Iterator[dict[str, Any]], taken: Taken, deadline: float, processes: int
) -> AtlasMeter:
    meter, waiting = AtlasMeter(), set[Future[Any]]()
    small = (take_rows(shard, slice(at, at + 64)) for shard in shards for at in range(0, n_rows(shard), 64))
    for rows in small:
        if meter.seconds > deadline:
            break
        waiting.add(pool.submit(trained_here, rows))
        if len(waiting) >= 2 * processes:
            waiting = _pass_on(waiting, taken, meter, return_when="FIRST_COMPLETED")
    _pass_on(waiting, taken, meter, return_when="ALL_COMPLETED")
    return meter


def _pass_on(waiting: set[Future[Any]], taken: Taken, meter: AtlasMeter, return_when: str) -> set[Future[Any]]:
    done, rest = wait(waiting, return_when=return_when)
    for future in done:
        taken(future.result())
        meter.note(future.result())
    return rest


def _on_gpu(
    pool: ProcessPoolExecutor, shards: Iterator[dict[str, Any]], taken: Taken, deadline: float, processes: int
) -> AtlasMeter:
    room, meter, blocks = shared_room(), AtlasMeter(), BulkBlocks()
    batches = (take_rows(shard, places) for shard in shards for places in batches_of(shard, room))
    drawing = list[tuple[dict[str, Any], Future[tuple[dict[str, Any], PackedLayers]]]]()
    exhausted = False
    while not (exhausted and not drawing and not len(blocks)):
        while not exhausted and len(drawing) < PREPARED_PER_PROCESS * processes:
            rows = next(batches, None)
            exhausted = rows is None or meter.seconds > deadline
            if rows is not None and not exhausted:
                drawing.append((rows, pool.submit(packed_batch, rows, room)))
        if meter.seconds > deadline:
            for _, future in drawing:
                future.cancel()
            drawing, exhausted = [], True
        waiting, drawing = drawing, []
        for rows, future in waiting:
            if len(blocks) < BATCHES_IN_FLIGHT and future.done() and blocks.ready(future.result()[1]):
                known, packed = future.result()
                blocks.begin(packed, (rows, known))
            else:
                drawing.append((rows, future))
        ended = blocks.ended()
        for (rows, known), packed, results, seconds in ended:
            taken(finished(rows, known, results))
            meter.note(rows, packed.plan.kind[3:], seconds)
        if not ended:
            sleep(POLL_SECONDS)
    return meter
