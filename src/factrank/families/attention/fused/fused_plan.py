"""Layout of a run on a GPU: its compiled class, its tiles of facts, and the memory of its block.

Everything follows from the sizes of the run and the kind of device. The kernel is in fused_gpu_kernel.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Int32

from factrank.families.attention.attention_work import LayerSizes
from factrank.families.attention.fused.fused_run import Fibers

STATIC_BYTES = 4096
"""Shared memory of a block in addition to its arena, rounded up."""

CHUNKS_IN_REGISTERS = 8
"""Largest number of chunks of four logits that a lane keeps in registers."""

FEWEST_FIBERS = 64
"""Smaller tiles are not worth the shared memory they save."""


class Class(NamedTuple):
    """Runs that share compiled code and block size.

    `lanes` share a fiber, each with `chunks` of four logits in registers (0: in the arena). Products are computed in
    tiles of `rows` rows. Arenas are in shared memory or, if too large, in device memory.
    """

    lanes: int
    chunks: int
    rows: int
    threads: int
    in_shared: bool


class GpuPlan(NamedTuple):
    """Layout of one run: its class, fibers per tile, and floats of its arena."""

    kind: Class
    tile: int
    arena: int


def lanes_and_chunks(n_values: int) -> tuple[int, int]:
    """Return how many lanes share a fiber, and how many chunks of four logits each keeps in registers.

    >>> lanes_and_chunks(20), lanes_and_chunks(50), lanes_and_chunks(1000)
    ((1, 5), (2, 7), (32, 0))
    """
    chunks = -(-n_values // 4)
    fitting = [lanes for lanes in (1, 2, 4) if chunks <= CHUNKS_IN_REGISTERS * lanes]
    return (fitting[0], -(-chunks // fitting[0])) if fitting else (32, 0)


def arena_floats(sizes: LayerSizes, tile: int, n_taus: int) -> int:
    """Return the number of floats of an arena, as in `Layout` of the kernel."""
    n_keys, n_queries, n_values, d_model, n_heads, d_qk, d_vo = sizes
    n_tokens, row, columns = n_keys + n_queries, d_model | 1, n_heads * (2 * d_qk + d_vo) | 1
    lanes, chunks = lanes_and_chunks(n_values)
    values = 4 * (lanes * (chunks | 1) if chunks else -(-n_values // 4) | 1)
    weights = _up(n_tokens * row) + _up(d_model * columns) + _up(n_heads * d_vo * row) + d_model * values
    tables = n_tokens * columns, n_heads * d_vo * values, n_heads * n_tokens * values, n_queries * values
    logits, heads, rest = max(tile * values, weights), 2 * _up(n_heads * tile), 4 * _up(tile)
    return 3 * _up(weights) + 2 * sum(map(_up, tables)) + _up(logits) + heads + rest + _up(1 + n_taus) + 16


@lru_cache(maxsize=65536)
def plan_for(sizes: LayerSizes, n_fibers: int, n_taus: int, room: int) -> GpuPlan:
    """Return the plan of a run on a device whose blocks have `room` bytes of shared memory.

    Small models use 128 threads, and five of them share a multiprocessor. Larger models use more threads, and tiles of
    all fibers that these process together. If nothing fits, the arena is in device memory.
    """
    lanes, chunks = lanes_and_chunks(sizes[2])
    for threads, sharing in ((128, 5), (256, 2), (512, 1)):
        at_once = max(threads // lanes, FEWEST_FIBERS)
        rows, tile = 4 if threads == 512 else 2, _tile(n_fibers, 2 * at_once if threads == 128 else at_once, sizes[1])
        arena = arena_floats(sizes, tile, n_taus)
        if 4 * arena + STATIC_BYTES <= room // sharing:
            return GpuPlan(Class(lanes, chunks, rows, threads, True), tile, arena)
    largest = GpuPlan(Class(lanes, chunks, 4, 512, False), tile, arena)
    while tile > FEWEST_FIBERS:
        tile = _tile(n_fibers, tile // 2, sizes[1])
        arena = arena_floats(sizes, tile, n_taus)
        if 4 * arena + STATIC_BYTES <= room:
            return GpuPlan(Class(lanes, chunks, 4, 512, True), tile, arena)
    return largest


def _tile(n_fibers: int, most: int, n_queries: int) -> int:
    """Return the fibers per tile: at most `most`, tiles of nearly equal size, whole rows of queries if they fit."""
    unit = n_queries if n_queries <= most else 1
    units, most_units = -(-n_fibers // unit), max(1, most // unit)
    return min(n_fibers, unit * -(-units // -(-units // most_units)))


def _up(n: int, step: int = 4) -> int:
    return -(-n // step) * step


@dataclass(frozen=True, eq=False)
class Tiles:
    """Fibers of a database in the format of the kernel: concatenated lists of integers, and the start of each list."""

    integers: Int32[np.ndarray, " n"]
    starts: dict[str, int]
    n_tiles: int
    regular: bool

    @classmethod
    def of(cls, fibers: Fibers, tile: int, n_pairs: int, n_queries: int) -> Tiles:
        """Divide fibers into tiles, grouped within each tile by key and by query.

        `regular` means that the database is full and tiles contain whole rows, so key and query follow from a fiber's
        index.
        """
        n_fibers = len(fibers.keys)
        firsts = range(0, n_fibers, tile)
        orders = [np.argsort(fibers.queries[at : at + tile], kind="stable") for at in firsts]
        keys = [_groups(fibers.keys[at : at + tile]) for at in firsts]
        queries = [_groups(np.sort(fibers.queries[at : at + tile])) for at in firsts]
        group_ends = [list(accumulate(map(len, groups), initial=0)) for groups in (keys, queries)]
        lists = {
            "fibers": np.stack([fibers.keys, fibers.queries, fibers.starts[:-1], fibers.starts[1:]], axis=1),
            "key_groups": np.concatenate(keys),
            "query_groups": np.concatenate(queries),
            "tiles": np.stack([[*firsts, n_fibers], *group_ends], axis=1),
            "by_query": np.concatenate(orders),
            "values": fibers.values,
        }
        flat = [np.append(part.ravel(), [0] * (-part.size % 4)) for part in lists.values()]  # aligns groups of 4
        starts = dict(zip(lists, accumulate(map(len, flat), initial=0), strict=False))
        regular = n_fibers == n_pairs and tile % n_queries == 0
        return cls(np.concatenate(flat).astype(np.int32), starts, len(firsts), regular)


def _groups(tokens: Any) -> Any:
    """Return (token, begin, end, 0) for each run of equal tokens."""
    begins = np.flatnonzero(np.append(True, tokens[1:] != tokens[:-1]))
    return np.stack([tokens[begins], begins, np.append(begins[1:], len(tokens)), np.zeros_like(begins)], axis=1)
