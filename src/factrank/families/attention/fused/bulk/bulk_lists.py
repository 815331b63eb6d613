"""The lists of `Tiles` of fused_plan for many layers, in compiled code."""

from __future__ import annotations

import numpy as np

from factrank.families.attention.fused.fused_cpu import Array, compiled


@compiled
def list_lengths(starts: Array, keys: Array, queries: Array, sizes: Array, tiles: Array) -> Array:
    """Return the length of each list of each layer."""
    lengths = np.zeros((len(tiles), 6), dtype=np.int64)
    for layer in range(len(tiles)):
        begin, n, tile = starts[layer], starts[layer + 1] - starts[layer], tiles[layer]
        seen = np.full(sizes[layer, 1], -1, dtype=np.int64)
        n_keys, n_queries = 0, 0
        for fact in range(n):
            at = begin + fact
            n_keys += fact % tile == 0 or keys[at] != keys[at - 1]
            if seen[queries[at]] != fact // tile:
                seen[queries[at]] = fact // tile
                n_queries += 1
        lengths[layer] = (4 * n, 4 * n_keys, 4 * n_queries, 3 * ((n + tile - 1) // tile + 1), n, n)
    return lengths


@compiled
def fill_lists(  # noqa: PLR0913, PLR0917
    starts: Array,
    keys: Array,
    queries: Array,
    values: Array,
    sizes: Array,
    tiles: Array,
    begins: Array,
    integers: Array,
) -> None:
    """Write the lists of each layer at their starts."""
    for layer in range(len(tiles)):
        begin, n, tile, n_queries = starts[layer], starts[layer + 1] - starts[layer], tiles[layer], sizes[layer, 1]
        fibers, key_groups, query_groups, tile_rows, by_query, own_values = begins[layer]
        key_group, query_group = 0, 0
        ends = np.zeros(n_queries + 1, dtype=np.int64)
        for number in range((n + tile - 1) // tile + 1):
            first = min(number * tile, n)
            integers[tile_rows + 3 * number] = first
            integers[tile_rows + 3 * number + 1] = key_group
            integers[tile_rows + 3 * number + 2] = query_group
            last = min(first + tile, n)
            ends[:] = 0
            for fact in range(first, last):
                at = begin + fact
                integers[fibers + 4 * fact] = keys[at]
                integers[fibers + 4 * fact + 1] = queries[at]
                integers[fibers + 4 * fact + 2] = fact
                integers[fibers + 4 * fact + 3] = fact + 1
                integers[own_values + fact] = values[at]
                ends[queries[at] + 1] += 1
                if fact == first or keys[at] != keys[at - 1]:
                    group = key_groups + 4 * key_group
                    integers[group], integers[group + 1] = keys[at], fact - first
                    key_group += 1
                integers[key_groups + 4 * key_group - 2] = fact - first + 1
            for query in range(n_queries):
                if ends[query + 1]:
                    group = query_groups + 4 * query_group
                    integers[group], integers[group + 1] = query, ends[query]
                    integers[group + 2] = ends[query] + ends[query + 1]
                    query_group += 1
                ends[query + 1] += ends[query]
            for fact in range(first, last):
                query = queries[begin + fact]
                integers[by_query + first + ends[query]] = fact - first
                ends[query] += 1
