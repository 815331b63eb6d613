"""The layout of runs on a GPU: tiles hold every fiber once, plans fit the device and depend on the sizes alone."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from factrank.families.attention.fused.fused_plan import Class, Tiles, arena_floats, lanes_and_chunks, plan_for
from factrank.families.attention.fused.fused_run import Fibers

H200 = 232448 - 4096


@st.composite
def supports(draw) -> tuple[int, int, list[int], list[int], int]:
    """Keys, queries, the pairs with a fact, how many values each has, and a size of tile."""
    n_keys, n_queries = draw(st.integers(1, 9)), draw(st.integers(1, 7))
    pairs = draw(
        st.one_of(st.just(range(n_keys * n_queries)), st.sets(st.integers(0, n_keys * n_queries - 1), min_size=1))
    )
    pairs = sorted(pairs)
    counts = draw(st.lists(st.integers(1, 3), min_size=len(pairs), max_size=len(pairs)))
    return n_keys, n_queries, pairs, counts, draw(st.integers(1, len(pairs) + 3))


def fibers_and_tiles(support) -> tuple[Fibers, Tiles, int]:
    n_keys, n_queries, pairs, counts, tile = support
    keys, queries = np.divmod(np.array(pairs), n_queries)
    fibers = Fibers(np.append(0, np.cumsum(counts)), keys, queries, np.arange(sum(counts)))
    return fibers, Tiles.of(fibers, tile, n_keys * n_queries, n_queries), tile


def parts_of(tiles: Tiles, n_fibers: int) -> dict[str, np.ndarray]:
    """The lists of integers, in rows as the kernel reads them."""
    rest = {name: tiles.integers[start:] for name, start in tiles.starts.items()}
    ends = rest["tiles"][: 3 * (tiles.n_tiles + 1)].reshape(-1, 3)
    return {
        "fibers": rest["fibers"][: 4 * n_fibers].reshape(-1, 4),
        "tiles": ends,
        "key_groups": rest["key_groups"][: 4 * ends[-1, 1]].reshape(-1, 4),
        "query_groups": rest["query_groups"][: 4 * ends[-1, 2]].reshape(-1, 4),
        "by_query": rest["by_query"][:n_fibers],
        "values": rest["values"],
    }


@given(supports())
def test_every_fiber_is_in_one_group_of_its_key_and_one_of_its_query(support):
    fibers, tiles, tile = fibers_and_tiles(support)
    parts = parts_of(tiles, len(fibers.keys))
    assert (parts["fibers"][:, 0] == fibers.keys).all()
    assert (parts["fibers"][:, 1] == fibers.queries).all()
    for (first, first_key, first_query), (last, last_key, last_query) in zip(
        parts["tiles"], parts["tiles"][1:], strict=False
    ):
        assert 0 < last - first <= tile
        by_query = parts["by_query"][first:last]
        by_key = {f: key for key, begin, end, _ in parts["key_groups"][first_key:last_key] for f in range(begin, end)}
        assert by_key == dict(enumerate(fibers.keys[first:last]))
        groups = parts["query_groups"][first_query:last_query]
        assert len(set(groups[:, 0])) == len(groups)  # one sum per query and tile
        found = {by_query[at]: query for query, begin, end, _ in groups for at in range(begin, end)}
        assert found == dict(enumerate(fibers.queries[first:last]))


@given(supports())
def test_the_values_of_a_fiber_are_found(support):
    fibers, tiles, _ = fibers_and_tiles(support)
    parts = parts_of(tiles, len(fibers.keys))
    for f, (_, _, begin, end) in enumerate(parts["fibers"]):
        assert parts["values"][begin:end].tolist() == fibers.values[fibers.starts[f] : fibers.starts[f + 1]].tolist()


@given(supports())
def test_in_a_regular_tiling_places_say_key_and_query(support):
    n_keys, n_queries, pairs, _, _ = support
    fibers, tiles, tile = fibers_and_tiles(support)
    assert tiles.regular == (len(pairs) == n_keys * n_queries and tile % n_queries == 0)
    if tiles.regular:
        places = np.arange(len(fibers.keys)) % tile
        firsts = fibers.keys[np.arange(len(fibers.keys)) // tile * tile]
        assert (fibers.keys == firsts + places // n_queries).all()
        assert (fibers.queries == places % n_queries).all()


@given(st.integers(1, 3000))
def test_lanes_and_chunks_hold_every_value(n_values):
    lanes, chunks = lanes_and_chunks(n_values)
    assert (chunks == 0 and lanes == 32 and n_values > 128) or 4 * lanes * chunks >= n_values
    assert chunks <= 8


sizes = st.tuples(
    st.integers(1, 300), st.integers(1, 60), st.integers(1, 400), *[st.integers(1, 32)] * 2, *[st.integers(1, 40)] * 2
)


@given(sizes, st.floats(0.01, 1), st.integers(1, 4))
def test_plans_fit_the_device(sizes, share, n_taus):
    n_fibers = max(1, int(share * sizes[0] * sizes[1]))
    plan = plan_for(sizes, n_fibers, n_taus, H200)
    assert 1 <= plan.tile <= n_fibers
    assert plan.arena == arena_floats(sizes, plan.tile, n_taus)
    assert plan.kind[:2] == lanes_and_chunks(sizes[2])
    assert plan.kind.threads & (plan.kind.threads - 1) == 0  # the kernel deals out tasks by a mask
    if plan.kind.in_shared:
        assert 4 * plan.arena <= H200
    else:
        assert 4 * arena_floats(sizes, 1, n_taus) > H200 or plan.tile > 64 or n_fibers <= 64


@pytest.mark.parametrize(
    ("sizes", "n_fibers", "kind", "tile"),
    [
        ((20, 10, 20, 10, 1, 5, 5), 200, Class(1, 5, 2, 128, True), 200),
        ((50, 20, 50, 12, 2, 12, 12), 1000, Class(2, 7, 4, 512, True), 200),
        ((193, 8, 1137, 16, 2, 8, 8), 1500, Class(32, 0, 4, 512, False), 64),
    ],
)
def test_plans_of_known_models(sizes, n_fibers, kind, tile):
    """Small models share a multiprocessor by five; tiles hold whole rows; what is too large lies outside."""
    plan = plan_for(sizes, n_fibers, 1, H200)
    assert (plan.kind, plan.tile) == (kind, tile)


def test_full_databases_are_tiled_by_whole_rows():
    for n_keys, n_queries in [(20, 10), (50, 20), (40, 5), (10, 20), (200, 100)]:
        plan = plan_for((n_keys, n_queries, 50, 8, 1, 4, 4), n_keys * n_queries, 1, H200)
        assert plan.tile % n_queries == 0
