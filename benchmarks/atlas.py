"""Layers of the atlas per second, the host's time for each, and whether they equal the same trials, on any device.

python benchmarks/atlas.py [LAYERS]
"""

from __future__ import annotations

import sys
from time import perf_counter

import jax

from factrank.experiments.training import train_many
from factrank.planning.atlas.atlas_batches import layers_of, packed_batch
from factrank.planning.atlas.atlas_design import design
from factrank.planning.atlas.atlas_rows import each, join_rows, n_rows, take_rows
from factrank.planning.atlas.atlas_run import run_atlas
from factrank.planning.atlas.atlas_trials import trial_of_row

ROOM = 228352
"""Bytes of shared memory of a block of an H200."""


def host_time(n: int) -> None:
    rows = design("main", n, seed=1)
    packed_batch(take_rows(rows, slice(10)), ROOM)
    start = perf_counter()
    layers_of(rows)
    drawn = perf_counter()
    packed_batch(rows, ROOM)
    each_us = 1e6 / n
    print(f"host, one process: {(drawn - start) * each_us:.0f} us a layer to draw,", end=" ")
    print(f"{(perf_counter() - drawn) * each_us:.0f} us to draw, measure and pack", flush=True)


def throughput(n: int) -> None:
    rows, done = design("main", n, seed=1), []
    meter = run_atlas(iter([rows]), done.append)
    print(f"{meter.rows:,} layers in {meter.seconds:.1f} s: {meter.rows / meter.seconds:,.0f} a second", flush=True)
    some = take_rows(join_rows(done), slice(0, n_rows(rows), max(1, n_rows(rows) // 40)))
    results = train_many(map(trial_of_row, each(some)))
    same = sum(
        result.metrics["recall"] == row["right"] / row["n_facts"]
        for row, result in zip(each(some), results, strict=True)
    )
    print(f"{same} of {len(results)} trials recall what their rows say", flush=True)


if __name__ == "__main__":
    on_gpu = jax.local_devices()[0].platform != "cpu"
    host_time(2000)
    throughput(int(sys.argv[1]) if len(sys.argv) > 1 else 20_000 if on_gpu else 100)
