"""Lower bounds: against dense ranks, a Koszul matrix built from its definition, and known ranks."""

from itertools import combinations, permutations
from math import comb

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from factrank.databases.database import Database
from factrank.databases.generators.known_rank import boxes, overlapping_boxes
from factrank.databases.generators.named import matmul, unit
from factrank.databases.generators.random_tables import uniform
from factrank.tensors.bounds.lower.flattenings import (
    counted_flattening,
    flattening_bound,
    flattening_ranks,
    with_koszul,
)
from factrank.tensors.bounds.lower.known_ranks import Flattenings
from factrank.tensors.bounds.lower.koszul import Koszul, koszul_bound, koszul_choices, koszul_matrix
from factrank.tensors.bounds.lower.substitution import substitution_bound
from factrank.tensors.bounds.lower.valid_fibers import full_subtable
from factrank.tensors.core.zero_one import AXES, Core, ZeroOneTensor, others
from factrank.tensors.measurement import measure
from strategies import dense_flattening_rank, dense_rank, tensors


def flat_lower(core):
    return np.array([flattening_ranks(core, axis)[0] for axis in AXES])


@given(tensors(empty=False))
def test_flattening_ranks_are_the_dense_ones(tensor):
    core = Core.of(tensor)
    for axis in AXES:
        lower, upper = flattening_ranks(core, axis)
        assert lower.sum() == upper.sum() == dense_flattening_rank(tensor, axis)


@given(tensors(empty=False), st.booleans())
def test_slices_with_a_unit_column_are_counted_from_the_definition(tensor, merged):
    core = Core.of(tensor) if merged else Core.unmerged(tensor)
    dense = core.tensor.dense()
    for axis in AXES:
        rows = np.moveaxis(dense, axis, 0).reshape(dense.shape[axis], -1)
        with_unit = rows[:, rows.sum(axis=0) == 1].any(axis=1)
        found = counted_flattening(core, axis)
        expected = [with_unit[core.component[axis] == part].sum() for part in range(core.n_components)]
        assert found.lower.tolist() == np.maximum(expected, 1).tolist()
        assert found.lower.sum() <= dense_flattening_rank(tensor, axis) <= found.upper.sum()


def test_a_budget_of_nothing_still_counts_unit_columns():
    """A multi-valued table too large for passes that are always made: 300 values stand alone in some fiber."""
    triples = [(k, q, (k * 7 + q) % 300) for k in range(20_000) for q in range(4)]
    triples += [(k, 0, (k * 7 + 1) % 300) for k in range(100)]
    found = measure(Database.from_facts(triples, multi=True), 0.0)
    assert "B1 value flattening" in {skipped.method for skipped in found.rank.skipped}
    assert (found.rank.lower.value, found.rank.lower.method) == (300, "B1 value flattening")  # as many as slices


@given(tensors(empty=False))
def test_component_bound_adds_the_largest_flattening_of_each(tensor):
    core = Core.of(tensor)
    parts = [core.part(component) for component in range(core.n_components)]
    expected = sum(max(dense_flattening_rank(part, axis) for axis in AXES) for part in parts)
    bound = flattening_bound(Flattenings(flat_lower(core), {}))
    assert bound.value == bound.recompute(tensor) == expected


def test_a_flattening_that_is_ranked_in_part_says_so():
    """The rank of the key flattening is at least 5 and at most 6; the other two are known, and smaller."""
    ranks, upper = np.array([[3, 2], [2, 1], [1, 2]]), {1: np.array([2, 1]), 2: np.array([1, 2])}
    assert (
        flattening_bound(Flattenings(ranks, {0: np.array([3, 3]), **upper})).method
        == "B1 key flattening, ranked in part"
    )
    assert flattening_bound(Flattenings(ranks, {0: np.array([3, 2]), **upper})).method == "B1 key flattening"
    assert flattening_bound(Flattenings(ranks, upper)).method == "B1 key flattening, ranked in part"
    ranks[2, 1] = upper[2][1] = 4
    assert (
        flattening_bound(Flattenings(ranks, {0: np.array([4, 2]), **upper})).method == "B3 components, ranked in part"
    )
    assert flattening_bound(Flattenings(ranks, {0: np.array([3, 3]), **upper})).method == "B3 components"


def test_large_matrices_are_ranked_in_part(monkeypatch):
    monkeypatch.setattr("factrank.tensors.matrix.matrix_ranks.DENSE_CELLS", 0)
    monkeypatch.setattr("factrank.tensors.matrix.matrix_ranks.THIN_SIDE", 0)
    rank = measure(uniform(40, 8, 6, seed=0), budget=0.0).rank
    assert rank.lower.method == "B1 key flattening, ranked in part"
    assert rank.lower.value < dense_flattening_rank(ZeroOneTensor.of(uniform(40, 8, 6, seed=0)), 0)


def wedge_sign(i, subset):
    """The sign of a_i ^ a_subset in the basis of increasing wedges, by counting inversions."""
    sequence = (i, *subset)
    return (-1) ** sum(a > b for a, b in combinations(sequence, 2))


def koszul_by_definition(dense, axis, p):
    """w (x) beta -> sum_i (a_i ^ w) (x) T_i(beta), basis vector by basis vector."""
    slices = np.moveaxis(dense, axis, 0)
    size, b, c = slices.shape
    targets = list(combinations(range(size), p + 1))
    columns = []
    for subset in combinations(range(size), p):
        for beta in range(b):
            image = np.zeros((len(targets), c))
            for i in set(range(size)) - set(subset):
                image[targets.index(tuple(sorted((i, *subset))))] += wedge_sign(i, subset) * slices[i][beta]
            columns.append(image.ravel())
    return np.array(columns)


@given(st.data())
def test_koszul_matrix_against_its_definition(data):
    p = data.draw(st.sampled_from([1, 2]))
    axis = data.draw(st.sampled_from(AXES))
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
    shape = [0, 0, 0]
    shape[axis] = 2 * p + 1
    for other in others(axis):
        shape[other] = data.draw(st.integers(1, 4))
    dense = rng.integers(0, 2, shape)
    tensor = ZeroOneTensor(np.argwhere(dense).astype(np.int64), tuple(shape))
    choice = Koszul(axis, p, *(shape[other] for other in others(axis)))
    expected = koszul_by_definition(dense, axis, p)
    assert dense_rank(koszul_matrix(tensor, choice) * 1.0) == dense_rank(expected)
    assert koszul_bound(tensor, choice) == -(-dense_rank(expected) // comb(2 * p, p))


@given(st.integers(0, 2**32 - 1), st.sampled_from(AXES), st.sampled_from([1, 2]))
def test_a_rank_one_tensor_gives_one(seed, axis, p):
    rng = np.random.default_rng(seed)
    ones = [rng.random(6) < 0.6 for _ in AXES]
    for vector in ones:
        vector[rng.integers(6)] = True
    dense = np.einsum("i,j,k->ijk", *ones)
    tensor = ZeroOneTensor(np.argwhere(dense).astype(np.int64), (6, 6, 6))
    assert koszul_bound(tensor, Koszul(axis, p, 6, 6, seed=seed % 1000)) == 1


@given(tensors(functional=True, most=6, empty=False), st.integers(0, 99))
def test_koszul_never_exceeds_the_best_upper_bound(tensor, seed):
    from factrank.tensors.bounds.upper.plain_bounds import facts_bound, slices_bound

    core = Core.of(tensor)
    upper = min(facts_bound(core).value, *(slices_bound(core, axis).value for axis in AXES))
    for choice in koszul_choices(core.tensor.shape, max_size=200):
        assert koszul_bound(core.tensor, Koszul(choice.axis, choice.p, choice.rows, choice.columns, seed)) <= upper


@pytest.mark.parametrize(("n", "p", "expected"), [(2, 1, 6), (3, 1, 14), (3, 2, 15)])
def test_matrix_multiplication(n, p, expected):
    """Known: 2 n^2 - n for the best p (Landsberg and Ottaviani)."""
    tensor = ZeroOneTensor.of(matmul(n))
    for axis in AXES:
        assert koszul_bound(tensor, Koszul(axis, p, n * n, n * n)) == expected


@pytest.mark.parametrize("n", [3, 5, 7, 9])
def test_unit_tensor(n):
    tensor = ZeroOneTensor.of(unit(n))
    assert koszul_bound(tensor, Koszul(0, 1, n, n)) == n


def test_a_planted_rank_is_found_and_never_exceeded_in_every_view():
    """A full table cut into 13 boxes of one value each has rank 13, however its axes are turned."""
    known = overlapping_boxes(9, 8, 13, seed=1)
    for order in permutations(AXES):
        view = ZeroOneTensor.of(known.database)
        turned = ZeroOneTensor(view.coordinates[:, order], tuple(view.shape[axis] for axis in order))
        core = Core.of(turned)
        assert flattening_bound(Flattenings(flat_lower(core), {})).value == known.rank
        for choice in koszul_choices(core.tensor.shape, max_size=400):
            assert koszul_bound(core.tensor, choice) <= known.rank


def test_one_component_may_use_its_koszul_bound():
    """matmul(2) (Koszul 6) beside three separate facts: at least 6 + 3."""
    square = ZeroOneTensor.of(matmul(2)).coordinates
    extra = np.column_stack([[4, 5, 6]] * 3)
    tensor = ZeroOneTensor(np.concatenate([square, extra]), (7, 7, 7))
    core = Core.of(tensor)
    flat = Flattenings(flat_lower(core), {})
    base, component = flattening_bound(flat), int(core.fact_component[0])
    bound = with_koszul(flat, core.part(component), component, Koszul(0, 1, 4, 4))
    assert (core.n_components, base.value, bound.value, bound.recompute(tensor)) == (4, 7, 9, 9)
    assert "B3" in bound.method


@given(tensors(empty=False), st.permutations(AXES))
def test_substitution_never_exceeds_the_upper_bounds_and_repeats(tensor, axes):
    from factrank.tensors.bounds.upper.plain_bounds import facts_bound, slices_bound

    core = Core.of(tensor)
    bound = substitution_bound(core, *axes[:2])
    assert bound.value == bound.recompute(tensor) >= dense_flattening_rank(tensor, axes[0])
    assert bound.value <= min(facts_bound(core).value, *(slices_bound(core, axis).value for axis in AXES))


@given(st.lists(st.tuples(st.integers(1, 4), st.integers(1, 4)), min_size=1, max_size=6), st.permutations(AXES))
def test_substitution_on_a_planted_rank(shapes, axes):
    known = boxes(shapes, seed=0)
    assert substitution_bound(Core.of(ZeroOneTensor.of(known.database)), *axes[:2]).value == known.rank


def test_substitution_tells_apart_a_value_that_serves_two_queries():
    """Values 1, 2, 3 as `period` and as `group`, independently, and a name for each key: flattenings see 9 + 3 values,
    substitution the 9 names (values of one query) and the rank of the 9 x 6 key flattening of the two others, 5."""
    facts = [(f"k{p}{g}", query, value) for p in "123" for g in "123"
             for query, value in (("name", f"n{p}{g}"), ("period", p), ("group", g))]  # fmt: skip
    tensor = ZeroOneTensor.of(Database.from_facts(facts))
    assert max(dense_flattening_rank(tensor, axis) for axis in AXES) == 12
    assert substitution_bound(Core.of(tensor), 2, 1).value == 14


def test_the_largest_full_subtable_has_two_rows_and_columns():
    """One key with five queries is larger than the two by two, but no table."""
    row, block = [(0, q, q) for q in range(5)], [(1, 0, 1), (1, 1, 0)]
    table = full_subtable(ZeroOneTensor(np.array(row + block), (2, 5, 5)))
    assert (table.shape, sorted(map(tuple, table.coordinates.tolist()))) == (
        (2, 2, 2),
        [(0, 0, 0), (0, 1, 1), (1, 0, 1), (1, 1, 0)],
    )
    assert full_subtable(ZeroOneTensor(np.array([*row, block[0]]), (2, 5, 5))) is None
