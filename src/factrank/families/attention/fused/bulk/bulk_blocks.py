"""Layers in bulk on a GPU: the kernel of trials, from the first epoch to the last in one launch per batch.

Other processes pack the batches, one class each. Several batches run concurrently, each on its own stream: when few
layers of one are left, the next fills the device.
"""

from __future__ import annotations

from dataclasses import dataclass
from time import perf_counter
from typing import Any

import numpy as np

from factrank.errors import FactrankError
from factrank.families.attention.fused.bulk.bulk_layers import BulkResults, starts_of
from factrank.families.attention.fused.bulk.bulk_packing import LISTS, PackedLayers
from factrank.families.attention.fused.fused_gpu import (
    BLOCKS_PER_PROCESSOR,
    MODEL,
    SIZES,
    adam_corrections,
    kernel_of,
    processors,
)
from factrank.families.attention.fused.fused_run import ADAM, LOSS, RIGHT

COLUMNS = RIGHT + 2
"""Columns of a record: epoch, loss, facts recalled by argmax, and at tau."""


@dataclass(frozen=True, eq=False)
class _InFlight:
    """A batch on the device: its inputs, kept until it ends, and its outputs."""

    packed: PackedLayers
    tag: Any
    began: float
    start: Any
    end: Any
    kept: tuple[Any, ...]
    states: Any
    noted: Any
    outcomes: Any
    progress: Any
    rows: Any


class BulkBlocks:
    """Batches in flight on the device; `begin` starts one, `ended` returns the finished ones."""

    def __init__(self) -> None:
        import cupy  # noqa: PLC0415 - an extra

        self._cupy, self._flying, self._streams = cupy, list[_InFlight](), list[Any]()

    def __len__(self) -> int:
        return len(self._flying)

    @staticmethod
    def ready(packed: PackedLayers) -> bool:
        """Return whether the kernel of a batch is compiled; the first call starts the compilation."""
        return kernel_of(packed.plan.kind).done()

    def begin(self, packed: PackedLayers, tag: Any = None) -> None:
        """Start training a batch; waits if the kernel of its class is still being compiled."""
        kernel, layers, cupy = kernel_of(packed.plan.kind).result(), packed.layers, self._cupy
        stream = self._streams.pop() if self._streams else cupy.cuda.Stream(non_blocking=True)
        with stream:  # one of a few: CuPy keeps the memory of each apart
            states = cupy.zeros((3, len(layers.weights)), dtype=np.float32)
            states[0] = cupy.asarray(layers.weights)
            corrections = cupy.asarray(adam_corrections(ADAM["b1"], ADAM["b2"], int(layers.epochs.max())))
            models, checks, rows = _models(packed)
            outcomes = cupy.empty((int(layers.fact_starts[-1]), 2), dtype=np.float32)
            noted, progress = cupy.empty(int(rows[-1]), dtype=np.float64), cupy.zeros((len(layers), 4), dtype=np.int32)
            kind, arena = packed.plan.kind, packed.plan.arena
            n_blocks = min(len(layers), processors() * (BLOCKS_PER_PROCESSOR if kind.in_shared else 1))
            spare = cupy.empty(1 if kind.in_shared else n_blocks * arena, dtype=np.float32)
            queue = cupy.asarray(models.view(np.uint8)), np.int32(len(models)), cupy.zeros(1, dtype=np.int32)
            taus = cupy.asarray(np.array([layers.tau], dtype=np.float32))
            inputs = spare, np.int32(arena), cupy.asarray(packed.integers), corrections, taus, cupy.asarray(checks)
            outputs = states, np.int64(len(layers.weights)), noted, outcomes, progress
            start, end = cupy.cuda.Event(), cupy.cuda.Event()
            start.record()
            shared = 4 * arena if kind.in_shared else 0
            kernel((n_blocks,), (kind.threads,), (*queue, *inputs, *outputs), shared_mem=shared)
            end.record()
        kept = stream, queue, inputs
        flying = _InFlight(packed, tag, perf_counter(), start, end, kept, states, noted, outcomes, progress, rows)
        self._flying.append(flying)

    def ended(self) -> list[tuple[Any, PackedLayers, BulkResults, float]]:
        """Return the batches that ended since the last call: tag, layers, results, and seconds on the device."""
        over = [one for one in self._flying if one.end.done]
        self._flying = [one for one in self._flying if all(one is not other for other in over)]
        self._streams += [one.kept[0] for one in over]
        return [(one.tag, one.packed, self._results(one), self._seconds(one)) for one in over]

    def _seconds(self, one: _InFlight) -> float:
        return float(self._cupy.cuda.get_elapsed_time(one.start, one.end)) / 1e3

    @staticmethod
    def _results(one: _InFlight) -> BulkResults:
        layers, outcomes, progress = one.packed.layers, one.outcomes.get(), one.progress.get()
        if progress[:, 3].any():
            raise FactrankError("an arena is smaller than its model: fused_plan.py and fused_gpu_kernel disagree")
        noted, n_looks = one.noted.get().reshape(-1, COLUMNS), len(layers.looks)
        noted[:, LOSS] = np.maximum(noted[:, LOSS], 0)  # rounding may leave a loss a little below 0
        firsts, counts = one.rows[:-1] // COLUMNS, progress[:, 1]
        curve_loss, curve_right = np.full((len(layers), n_looks), np.nan), np.full((len(layers), n_looks), -1)
        for look in range(n_looks):
            has = counts > look
            curve_loss[has, look] = noted[firsts[has] + look, LOSS]
            curve_right[has, look] = noted[firsts[has] + look, RIGHT]
        margins, begins = outcomes[:, 0], layers.fact_starts[:-1]
        sure = outcomes[:, 1].astype(float) >= layers.tau
        return BulkResults(
            loss=noted[firsts + counts, LOSS],
            right=np.add.reduceat(margins > 0, begins, dtype=np.int64),
            right_tau=np.add.reduceat(sure, begins, dtype=np.int64),
            margin=np.minimum.reduceat(margins, begins).astype(float),
            curve_loss=curve_loss,
            curve_right=curve_right,
            weights=one.states[0].get(),
        )


def _models(packed: PackedLayers) -> tuple[Any, Any, Any]:
    """Return the kernel's list of models, the epochs of their evaluations, and the start of each model's records."""
    layers = packed.layers
    n_checks = (np.array(layers.looks, dtype=np.int64)[None] < layers.epochs[:, None]).sum(axis=1)
    rows = starts_of((n_checks + 1) * COLUMNS)
    models = np.zeros(len(layers), dtype=MODEL)
    columns = {
        "weights": layers.weight_starts[:-1],
        "outcomes": layers.fact_starts[:-1],
        **dict(zip(LISTS, packed.lists.T, strict=True)),
        **dict(zip(SIZES, layers.sizes.T, strict=True)),
        "records": rows[:-1],
        "n_checks": n_checks,
        "n_facts": layers.n_facts,
        "tile": packed.tiles,
        "n_tiles": packed.n_tiles,
        "regular": packed.regular,
        "n_taus": 1,
        "trained": layers.trained,
        "chunk_end": layers.epochs,
        "last_epoch": layers.epochs,
        "scale": layers.scales,
        "learning_rate": layers.learning_rates,
        "b1": ADAM["b1"],
        "b2": ADAM["b2"],
        "rest_1": 1 - ADAM["b1"],
        "rest_2": 1 - ADAM["b2"],
        "epsilon": ADAM["eps"],
    }
    for name, column in columns.items():
        models[name] = column
    return models, np.array([*layers.looks, 0], dtype=np.int32), rows
