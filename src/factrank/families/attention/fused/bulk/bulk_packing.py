"""Facts of many layers as the GPU reads them: `Tiles` of fused_plan for all layers, in compiled code.

The integers of a layer equal the output of `Tiles.of`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Int32, Int64

from factrank.families.attention.attention_work import LayerSizes
from factrank.families.attention.fused.bulk.bulk_layers import BulkLayers, starts_of
from factrank.families.attention.fused.fused_plan import GpuPlan, plan_for
from factrank.families.attention.fused.fused_threads import compiled_module

COMPILED = "factrank.families.attention.fused.bulk.bulk_lists"
LISTS = ("fibers", "key_groups", "query_groups", "tiles", "by_query", "values")
N_TAUS = 1


@dataclass(frozen=True, eq=False)
class PackedLayers:
    """Layers of one compiled class with their facts as the kernel reads them.

    `lists` has a column for each of LISTS, its start in `integers`.
    """

    layers: BulkLayers
    plan: GpuPlan
    integers: Int32[np.ndarray, " integers"]
    lists: Int64[np.ndarray, "layers 6"]
    tiles: Int64[np.ndarray, " layers"]
    n_tiles: Int64[np.ndarray, " layers"]
    regular: Int64[np.ndarray, " layers"]


def plans_of(sizes: Int64[np.ndarray, "layers 7"], n_facts: Any, room: int) -> list[GpuPlan]:
    """Return the plan of each layer on a device whose blocks have `room` bytes of shared memory."""
    every = zip(sizes.tolist(), n_facts.tolist(), strict=True)
    return [plan_for(_as_sizes(size), n, N_TAUS, room) for size, n in every]


def pack(layers: BulkLayers, room: int) -> PackedLayers:
    """Pack the facts of layers of one class, with the largest arena that any of them needs."""
    plans = plans_of(layers.sizes, layers.n_facts, room)
    tiles = np.array([plan.tile for plan in plans], dtype=np.int64)
    widest = max(plans, key=lambda plan: plan.arena)
    compiled = compiled_module(COMPILED)
    counts = compiled.list_lengths(layers.fact_starts, layers.keys, layers.queries, layers.sizes, tiles)
    lists = starts_of(_aligned(counts).ravel())
    integers = np.zeros(lists[-1], dtype=np.int32)
    begins = lists[:-1].reshape(-1, len(LISTS))
    compiled.fill_lists(
        layers.fact_starts, layers.keys, layers.queries, layers.values, layers.sizes, tiles, begins, integers
    )
    n_facts, n_queries = layers.n_facts, layers.sizes[:, 1]
    regular = (n_facts == layers.sizes[:, 0] * n_queries) & (tiles % n_queries == 0)
    return PackedLayers(layers, widest, integers, begins, tiles, -(-n_facts // tiles), regular.astype(np.int64))


def _as_sizes(size: list[int]) -> LayerSizes:
    n_keys, n_queries, n_values, d_model, n_heads, d_qk, d_vo = size
    return n_keys, n_queries, n_values, d_model, n_heads, d_qk, d_vo


def _aligned(counts: Any) -> Any:
    return -(-counts // 4) * 4
