"""Upper bounds: every witness multiplies out exactly, and every value agrees with a slow reference."""

from itertools import combinations, product

import numpy as np
import pytest
from hypothesis import given

from factrank.tensors.bounds.lower.flattenings import flattening_ranks
from factrank.tensors.bounds.upper import spanning_tree
from factrank.tensors.bounds.upper.by_component import best_upper
from factrank.tensors.bounds.upper.plain_bounds import facts_bound, flattenings_bound, slices_bound
from factrank.tensors.bounds.upper.reference_values import completion_bound, reference_bound
from factrank.tensors.bounds.upper.spanning_tree import spanning_tree_bound
from factrank.tensors.core.decomposition import lift
from factrank.tensors.core.zero_one import AXES, Core, others
from strategies import dense_flattening_rank, dense_rank, tensors


def every_bound(core):
    flat = {axis: flattening_ranks(core, axis)[1] for axis in AXES}
    bounds = [facts_bound(core)]
    bounds += [slices_bound(core, axis) for axis in AXES]
    bounds += [flattenings_bound(core, flat, *pair) for pair in combinations(AXES, 2)]
    bounds += [spanning_tree_bound(core, axis) for axis in AXES]
    for z in AXES:
        if core.tensor.determined[z]:
            bounds += [reference_bound(core, *others(z)), reference_bound(core, *others(z)[::-1])]
    return bounds


@given(tensors())
def test_every_witness_multiplies_out_to_the_tensor(tensor):
    core = Core.of(tensor)
    bounds = every_bound(core)
    for bound in [*bounds, best_upper(core, bounds)]:
        terms = lift(bound.decomposition(), core)
        assert terms.equals(tensor), bound.method
        assert terms.n_terms == bound.value or ("U5" in bound.method and terms.n_terms <= bound.value), bound.method


@given(tensors())
def test_best_upper_is_at_most_each_and_at_least_the_flattenings(tensor):
    core = Core.of(tensor)
    bounds = every_bound(core)
    best = best_upper(core, bounds).value
    assert best <= min(bound.value for bound in bounds)
    assert best >= max(dense_flattening_rank(tensor, axis) for axis in AXES)


@given(tensors())
def test_slice_sums_against_dense_ranks(tensor):
    core = Core.of(tensor)
    for axis in AXES:
        expected = sum(dense_rank(piece) for piece in np.moveaxis(core.tensor.dense(), axis, 0))
        assert slices_bound(core, axis).value == expected


@given(tensors(functional=True))
def test_query_slices_count_the_ranges(tensor):
    core = Core.of(tensor)
    ranges = {(q, v) for _, q, v in core.tensor.coordinates.tolist()}
    assert slices_bound(core, 1).value == len(ranges)


@given(tensors())
def test_flattening_products_against_dense_ranks(tensor):
    """Component by component, U5 is at most the product of the flattening ranks of the whole."""
    core = Core.of(tensor)
    flat = {axis: flattening_ranks(core, axis)[1] for axis in AXES}
    for i, j in combinations(AXES, 2):
        parts = [core.part(c) for c in range(core.n_components)]
        expected = sum(dense_flattening_rank(part, i) * dense_flattening_rank(part, j) for part in parts)
        assert flattenings_bound(core, flat, i, j).value == expected


def brute_force_spanning_tree(tensor, axis):
    """Prim's algorithm on the complete graph with dense ranks."""
    slices = [np.zeros_like(np.moveaxis(tensor.dense(), axis, 0)[0]), *np.moveaxis(tensor.dense(), axis, 0)]
    inside, weight = {0}, 0
    while len(inside) < len(slices):
        rank, chosen = min(
            (dense_rank(slices[i] - slices[j]), j) for i, j in product(inside, range(len(slices))) if j not in inside
        )
        inside.add(chosen)
        weight += rank
    return weight


@given(tensors(most=5, empty=False))
def test_spanning_tree_against_prim(tensor):
    core = Core.of(tensor)
    for axis in AXES:
        assert spanning_tree_bound(core, axis).value == brute_force_spanning_tree(core.tensor, axis)


@given(tensors(empty=False))
def test_spanning_tree_on_candidate_edges_is_valid(tensor):
    core = Core.of(tensor)
    everything = spanning_tree.ALL_PAIRS_WORK
    try:
        spanning_tree.ALL_PAIRS_WORK = 0
        bounds = [spanning_tree_bound(core, axis) for axis in AXES]
    finally:
        spanning_tree.ALL_PAIRS_WORK = everything
    for bound in bounds:
        assert bound.decomposition().equals(core.tensor)
        assert bound.decomposition().n_terms == bound.value


def brute_force_reference_bound(tensor, x, y):
    """Sum of |V_x| - 1 and, per group of equal domain, the size of a smallest hitting set."""
    z = next(axis for axis in AXES if axis not in (x, y))
    ranges, domains = {}, {}
    for fact in tensor.coordinates.tolist():
        ranges.setdefault(fact[x], set()).add(fact[z])
        domains.setdefault(fact[x], set()).add(fact[y])
    groups = {}
    for slice_, domain in domains.items():
        groups.setdefault(frozenset(domain), []).append(ranges[slice_])
    total = sum(len(values) - 1 for values in ranges.values())
    for sets in groups.values():
        values = set().union(*sets)
        total += next(
            size
            for size in range(1, len(values) + 1)
            if any(all(set(hit) & s for s in sets) for hit in combinations(values, size))
        )
    return total


@given(tensors(functional=True, empty=False))
def test_reference_bound_against_smallest_hitting_sets(tensor):
    """Greedy hitting sets are at most a logarithm off; on such small groups off by at most one."""
    core = Core.of(tensor)
    for x, y in ((0, 1), (1, 0)):
        best = brute_force_reference_bound(core.tensor, x, y)
        assert best <= reference_bound(core, x, y).value <= best + 1


@given(tensors(functional=True))
def test_completions_agree_on_valid_fibers(tensor):
    for x, y in ((0, 1), (1, 0)):
        core = Core.of(tensor)
        value, build = completion_bound(core.tensor, x, y)
        assert build().n_terms == value
        assert lift(build(), core).completes(tensor)


@pytest.mark.parametrize("altered", ["weight", "index"])
def test_an_altered_witness_is_rejected(altered):
    from factrank.databases.sample_tables import sample
    from factrank.tensors.core.decomposition import Decomposition, Factor
    from factrank.tensors.core.zero_one import ZeroOneTensor
    from factrank.tensors.measurement import measure

    database = sample("astrid")
    terms = measure(database).rank.upper.witness()
    factor = terms.factors[2]
    weight, index = factor.weight.copy(), factor.index.copy()
    if altered == "weight":
        weight[0] += 1
    else:
        index[0] = (index[0] + 1) % database.n_values
    forged = Decomposition((*terms.factors[:2], Factor(index, factor.term, weight)), terms.denominators)
    assert terms.equals(ZeroOneTensor.of(database))
    assert not forged.equals(ZeroOneTensor.of(database))


def test_huge_weights_are_added_exactly():
    """2^40 e (x) 2^40 e (x) e - (2^80 - 1) e (x) e (x) e = 1, far beyond int64."""
    from factrank.tensors.core.decomposition import Decomposition, Factor
    from factrank.tensors.core.zero_one import ZeroOneTensor

    def factor(*weights):
        exact = np.array(weights, dtype=object if max(map(abs, weights)) >= 2**62 else np.int64)
        return Factor(np.zeros(2, dtype=np.int64), np.arange(2), exact)

    one = ZeroOneTensor(np.zeros((1, 3), dtype=np.int64), (1, 1, 1))
    ones = np.ones(2, dtype=np.int64)
    assert Decomposition((factor(2**40, 1), factor(2**40, 1), factor(1, -(2**80 - 1))), ones).equals(one)
    assert not Decomposition((factor(2**40, 1), factor(2**40, 1), factor(1, -(2**80 - 2))), ones).equals(one)
