"""Lower bounds on the effective rank by traces and by pairs of labels: planted ranks are never exceeded."""

from itertools import combinations, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from factrank.databases.database import Database
from factrank.tensors.bounds.certified_bounds import LowerWitness
from factrank.tensors.bounds.lower.label_pairs import LabelPairs, label_pairs
from factrank.tensors.bounds.lower.value_traces import TraceWitness, least_dimension, trace_witness
from factrank.tensors.core.zero_one import Core, ZeroOneTensor
from factrank.tensors.measurement import measure


def planted(rank, shape, sizes, seed):
    """The `size` largest logits of every fiber of random terms, one size per query: effective rank at most `rank`."""
    rng = np.random.default_rng(seed)
    logits = np.einsum("kr,qr,vr->kqv", *(rng.normal(size=(size, rank)) for size in shape))
    facts = [
        (k, q, v)
        for k, q in product(range(shape[0]), range(shape[1]))
        for v in np.argsort(-logits[k, q])[: sizes[q % len(sizes)]].tolist()
    ]
    return Core.of(ZeroOneTensor(np.array(facts), shape)).tensor


@settings(max_examples=25)
@given(st.integers(1, 3), st.sampled_from([(1,), (1, 2), (2, 3)]), st.integers(0, 2**32 - 1))
def test_planted_ranks_are_not_exceeded(rank, sizes, seed):
    tensor = planted(rank, (60, 3, 5), sizes, seed)
    traces = trace_witness(tensor)
    assert traces is None or traces.value <= rank
    if rank <= 2:
        assert label_pairs(tensor, 0) is None
        assert label_pairs(tensor, 1) is None


def test_all_subsets_need_one_dimension_less_than_values():
    """Radon: in R^n at most n + 1 points can be separated in every way. One key, a query for each subset of six."""
    facts = [
        ("k", f"q{number}", value)
        for number, subset in enumerate(subset for size in range(1, 7) for subset in combinations("abcdef", size))
        for value in subset
    ]
    bounds = measure(Database.from_facts(facts, multi=True)).effective_rank
    assert (bounds.lower.value, bounds.lower.method) == (5, "traces of value sets")
    assert isinstance(bounds.lower.witness, LowerWitness)


@pytest.mark.parametrize(("n", "dimension"), [(4, 1), (5, 1), (4, 2), (5, 2)])
def test_counted_dichotomies_of_random_points(n, dimension):
    """Hyperplanes cut random points in exactly 2 sum C(n - 1, i) ways; one more way needs one more dimension."""
    rng = np.random.default_rng(n)
    points, normals = rng.normal(size=(n, dimension)), rng.normal(size=(100_000, dimension))
    order = np.argsort(normals @ points.T, axis=1)
    ways = {frozenset(row[:size].tolist()) for row in order for size in range(n + 1)}
    assert least_dimension(len(ways), n) == dimension
    assert least_dimension(len(ways) + 1, n) == dimension + 1


def test_a_wrong_trace_witness_proves_less():
    tensor = planted(3, (60, 3, 6), (2, 3), seed=1)
    witness = trace_witness(tensor)
    assert witness.recompute(tensor) == witness.value == 2
    assert TraceWitness(witness.values[:2], 2).recompute(tensor) < 2


def test_two_independent_labels_need_rank_three():
    """Nine keys with every pair of three answers to two queries: nine pairs, six answers."""
    facts = [
        (f"k{a}{b}", query, f"{query}{x}")
        for a, b in product(range(3), repeat=2)
        for query, x in zip("pq", (a, b), strict=True)
    ]
    for swapped in (False, True):
        rows = [(query, key, value) if swapped else (key, query, value) for key, query, value in facts]
        bounds = measure(Database.from_facts(rows)).effective_rank
        assert bounds.lower.value == 3
        assert bounds.lower.method == f"pairs of labels of two {'key' if swapped else 'query'} slices"
        assert bounds.upper.value >= 3


def test_six_pairs_of_six_labels_prove_nothing():
    """A cycle of six pairs among six labels is what two rotated triples of arcs show."""
    pairs = [(0, 0), (0, 1), (1, 1), (1, 2), (2, 2), (2, 0)]
    facts = [(k, q, 3 * q + pair[q]) for k, pair in enumerate(pairs) for q in (0, 1)]
    tensor = ZeroOneTensor(np.array(facts), (6, 2, 6))
    assert label_pairs(tensor, 1) is None
    assert LabelPairs(1, ((0, 1), (1, 1))).recompute(tensor) == 0
    more = ZeroOneTensor(np.array([*facts, (6, 0, 0), (6, 1, 5)]), (7, 2, 6))
    assert label_pairs(more, 1).recompute(more) == 3
    assert LabelPairs(1, ((0, 1), (0, 1))).recompute(more) == 0
