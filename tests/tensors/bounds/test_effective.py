"""Effective rank: the codes are right on every fact, by exact margins; Forster's bound on known sign matrices."""

from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.linalg import hadamard

from factrank.databases.database import Database
from factrank.databases.generators.named import diagonal, diagonal2
from factrank.databases.generators.random_tables import uniform
from factrank.databases.sample_tables import sample
from factrank.tensors.bounds.lower import forster
from factrank.tensors.bounds.lower.forster import (
    certified_squared_norm,
    is_positive_definite,
    sign_rank_bound,
    two_value_bound,
)
from factrank.tensors.codes import parabola
from factrank.tensors.codes.parabola import least_margin, shared_bias_bound, slicewise_bound
from factrank.tensors.core.decomposition import Decomposition, Factor, lift
from factrank.tensors.core.zero_one import Core, ZeroOneTensor
from factrank.tensors.measurement import measure
from strategies import as_database, tensors


def dense_margin(terms, tensor):
    """The least margin by multiplying the terms out into a dense array."""
    array = np.zeros(tensor.shape, dtype=object)
    for cell, weight in terms.multiply_out(tensor.shape).items():
        array[cell] = weight
    margins = []
    for k, q, v in tensor.coordinates.tolist():
        rivals = [x for value, x in enumerate(array[k, q]) if value != v]
        margins.append(array[k, q, v] - max(rivals) if rivals else Fraction(1))
    return min(margins, default=Fraction(1))


@given(tensors(functional=True, empty=False), st.sampled_from([0, 1]))
def test_codes_recall_every_fact(tensor, axis):
    core = Core.of(tensor)
    for bound in (slicewise_bound(core.tensor, axis), shared_bias_bound(core.tensor, axis)):
        terms = bound.decomposition()
        assert terms.n_terms == bound.value
        assert least_margin(terms, core.tensor) == dense_margin(terms, core.tensor) > 0
        used = ZeroOneTensor(tensor.coordinates, tensor.shape)
        assert all(np.isin(core.classes[2][used.coordinates[:, 2]], range(core.tensor.shape[2])))


@given(tensors(functional=True, empty=False), st.sampled_from([0, 1]))
def test_the_column_form_of_the_shared_bias_is_as_good(tensor, axis):
    """Large tables are not ranked exactly: their columns are the terms."""
    core = Core.of(tensor)
    limit = parabola.RANKED_CELLS
    try:
        parabola.RANKED_CELLS = 0
        bound = shared_bias_bound(core.tensor, axis)
        terms = bound.decomposition()
    finally:
        parabola.RANKED_CELLS = limit
    assert terms.n_terms == bound.value
    assert least_margin(terms, core.tensor) > 0


def test_a_wrong_code_has_no_positive_margin():
    tensor = ZeroOneTensor.of(sample("astrid"))
    core = Core.of(tensor)
    terms = shared_bias_bound(core.tensor, 1).decomposition()
    factor = terms.factors[0]
    forged = Factor(factor.index, factor.term, -factor.weight)
    assert least_margin(Decomposition((forged, *terms.factors[1:]), terms.denominators), core.tensor) <= 0


@pytest.mark.parametrize(("shape", "expected"), [((8, 4, 6), 5), ((20, 10, 20), 11), ((50, 10, 50), 11)])
def test_shared_bias_on_random_full_tables(shape, expected):
    """rank(F) + 1 = min(K, Q) + 1 for a generic table."""
    core = Core.of(ZeroOneTensor.of(uniform(*shape, seed=3)))
    assert shared_bias_bound(core.tensor, 1).value == expected


@pytest.mark.parametrize(
    ("database", "brackets"),
    [(sample("astrid"), (2, 2)), (diagonal(), (0, 0)), (diagonal2(), (1, 1)), (diagonal(40), (0, 0))],
)
@pytest.mark.searches
def test_known_effective_ranks(database, brackets):
    bounds = measure(database).effective_rank
    assert (bounds.lower.value, bounds.upper.value) == brackets


@given(tensors(functional=True, empty=False))
def test_effective_bracket_and_witness(tensor):
    measurement = measure(as_database(tensor))
    effective = measurement.effective_rank
    assert effective.lower.value <= effective.upper.value <= measurement.completion_rank.upper.value
    terms = effective.upper.witness()
    assert terms.n_terms == effective.upper.value
    used = sorted(set(tensor.coordinates[:, 2].tolist()))
    columns = np.column_stack([tensor.coordinates[:, :2], np.searchsorted(used, tensor.coordinates[:, 2])])
    compact = ZeroOneTensor(columns, (*tensor.shape[:2], len(used)))
    place = np.full(tensor.shape[2], -1)
    place[used] = range(len(used))
    kept = place[terms.factors[2].index] >= 0
    values = Factor(place[terms.factors[2].index[kept]], terms.factors[2].term[kept], terms.factors[2].weight[kept])
    assert least_margin(Decomposition((*terms.factors[:2], values), terms.denominators), compact) > 0


def rank_one_can_show(fibers, n_values):
    """Whether some vector c has every set strictly on top or strictly at the bottom; only its order matters."""
    for c in product(range(n_values), repeat=n_values):
        for sign_of in product((1, -1), repeat=len(fibers)):
            if all(
                min(sign * c[v] for v in values)
                > max((sign * c[v] for v in range(n_values) if v not in values), default=-9)
                for sign, values in zip(sign_of, fibers, strict=True)
            ):
                return True
    return False


@given(tensors(most=3, empty=False))
def test_small_effective_ranks_against_all_rank_one_tensors(tensor):
    used = Core.of(tensor).tensor
    fibers = {}
    for k, q, v in used.coordinates.tolist():
        fibers.setdefault((k, q), set()).add(v)
    bound = measure(as_database(tensor)).effective_rank.lower.value
    everything = set(range(used.shape[2]))
    if bound >= 1:
        assert any(values != everything for values in fibers.values())
    if bound >= 2:
        assert not rank_one_can_show(list({tuple(sorted(values)) for values in fibers.values()}), used.shape[2])


def test_two_sets_of_equal_size_need_no_rank_two():
    """{0, 1} is the top and {1, 2} the bottom of c = (2, 1, 0) ... unless 1 is in both: c = (1, 0, -1) and signs +, -
    show {0} and {2}; the nested pair {0}, {0, 1} is a top twice."""
    facts = [("k", "p", "a"), ("k", "q", "c")]
    assert measure(Database.from_facts(facts)).effective_rank.lower.value == 1
    nested = [("k", "p", "a"), ("k", "q", "a"), ("k", "q", "b"), ("k", "r", "c")]
    assert measure(Database.from_facts(nested, multi=True)).effective_rank.lower.value == 1


def test_two_overlapping_pairs_are_shown_by_rank_one():
    """(k0, q0) -> {0, 1} and (k1, q0) -> {1, 2}: not nested, and two of a size do not exclude rank one."""
    facts = [("k0", "q0", "0"), ("k0", "q0", "1"), ("k1", "q0", "1"), ("k1", "q0", "2")]
    assert measure(Database.from_facts(facts, multi=True)).effective_rank.lower.value == 1


def test_three_sets_of_equal_size_need_rank_two():
    facts = [("k", query, value) for query, pair in zip("pqr", ("ab", "bc", "ca"), strict=True) for value in pair]
    bounds = measure(Database.from_facts(facts, multi=True)).effective_rank
    assert (bounds.lower.value, bounds.lower.method) == (2, "three or more sets of values in use")


def test_values_that_always_come_together_are_one_value():
    """The fiber {v0, v1} is right when both are strictly above all others; they may tie, so one term is enough."""
    facts = np.array([[0, 0, 0], [0, 0, 1], [0, 1, 2]])
    effective = measure(as_database(ZeroOneTensor(facts, (1, 2, 3)))).effective_rank
    assert (effective.lower.value, effective.upper.value) == (1, 1)
    terms = effective.upper.witness().multiply_out((1, 2, 3))
    logits = [[terms.get((0, q, v), 0) for v in range(3)] for q in range(2)]
    assert min(logits[0][:2]) > logits[0][2]
    assert logits[1][2] > max(logits[1][:2])


# -------------------------------------------------------------------- Forster


@pytest.mark.parametrize(("size", "expected"), [(1, 1), (4, 2), (16, 4), (64, 8)])
def test_hadamard_matrices(size, expected):
    assert sign_rank_bound(hadamard(size).astype(np.int64)) == expected


@given(st.integers(1, 12), st.integers(1, 12), st.integers(0, 2**32 - 1))
def test_certified_norm_is_an_upper_bound_and_tight(rows, columns, seed):
    signs = np.random.default_rng(seed).choice([-1, 1], (rows, columns))
    exact = float(np.linalg.norm(signs.astype(float), 2) ** 2)
    assert exact - 1e-9 <= certified_squared_norm(signs) <= exact * (1 + 1e-5) + 1e-5


@given(st.integers(1, 4), st.integers(0, 2**32 - 1))
def test_sign_rank_bound_never_exceeds_a_planted_rank(rank, seed):
    rng = np.random.default_rng(seed)
    signs = np.where(rng.normal(size=(20, rank)) @ rng.normal(size=(rank, 15)) > 0, 1, -1)
    assert sign_rank_bound(signs) <= rank


def test_forster_is_used_where_two_values_fill_a_block():
    """A 64 x 64 Hadamard table of two values, and the same beside a query with other values."""
    signs = hadamard(64)
    facts = [(f"k{k}", f"q{q}", "yes" if signs[k, q] > 0 else "no") for k in range(64) for q in range(64)]
    for extra in ([], [(f"k{k}", "name", f"n{k}") for k in range(64)]):
        bounds = measure(Database.from_facts(facts + extra)).effective_rank
        assert bounds.lower.value == 8
        assert "Forster" in bounds.lower.method


def test_forster_needs_a_full_block():
    """A Hadamard pattern of which half the cells are missing at random: no full sub-table is large enough for a 3."""
    signs, kept = hadamard(64), np.random.default_rng(0).random((64, 64)) < 0.5
    facts = np.array([(k, q, int(signs[k, q] > 0)) for k, q in np.argwhere(kept)])
    assert two_value_bound(ZeroOneTensor(facts, (64, 64, 2)), 2) is None


def test_norms_short_of_the_largest_eigenvalue_are_not_certified():
    """The criterion must refuse a matrix that is indefinite by less than the rounding errors of its factorisation."""
    rng = np.random.default_rng(0)
    basis = np.linalg.qr(rng.normal(size=(60, 60)))[0]
    eigenvalues = np.linspace(1, 60, 60)
    for least in (-1e-13, -1e-15, 0.0, 1e-15, 1e-12):
        matrix = (basis * np.append(least, eigenvalues[1:])) @ basis.T
        assert not is_positive_definite((matrix + matrix.T) / 2)
    assert is_positive_definite((basis * eigenvalues) @ basis.T)


def test_lifting_keeps_the_margin():
    database = uniform(9, 5, 7, 20, seed=4)
    tensor = ZeroOneTensor.of(database.compact())
    core = Core.of(tensor)
    terms = slicewise_bound(core.tensor, 1).decomposition()
    assert least_margin(lift(terms, core), tensor) == least_margin(terms, core.tensor) > 0


def test_a_norm_that_no_slack_certifies_is_bounded_by_its_rows(monkeypatch):
    signs = np.sign(np.random.default_rng(0).normal(size=(9, 5))).astype(np.int64)
    largest = np.linalg.svd(signs.astype(float), compute_uv=False)[0] ** 2
    assert largest <= forster.certified_squared_norm(signs) <= largest * (1 + 1e-9)
    monkeypatch.setattr(forster, "is_positive_definite", lambda matrix: False)
    assert largest <= forster.certified_squared_norm(signs) <= 5 * 9
