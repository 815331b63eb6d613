"""Substitution with rank-one slices: against known ranks, upper bounds and the least rank of a pencil by hand."""

from dataclasses import replace
from itertools import permutations, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from factrank.databases.generators.known_rank import boxes, overlapping_boxes
from factrank.databases.generators.named import matmul, unit, w_state
from factrank.tensors.bounds.lower.flattenings import flattening_bound, flattening_ranks
from factrank.tensors.bounds.lower.known_ranks import Flattenings
from factrank.tensors.bounds.lower.rank_one_slice import (
    Chain,
    SliceGroup,
    _peel,
    _pencil,
    _project,
    _shared_vectors,
    rank_one_slice_bound,
)
from factrank.tensors.bounds.upper.plain_bounds import facts_bound, flattenings_bound, slices_bound
from factrank.tensors.bounds.upper.spanning_tree import spanning_tree_bound
from factrank.tensors.core.zero_one import AXES, Core, ZeroOneTensor
from factrank.tensors.matrix.matrix_ranks import rational_rank
from strategies import dense_rank, tensors

ORDERS = list(permutations(AXES))


def turned(tensor, order):
    return ZeroOneTensor(tensor.coordinates[:, list(order)], tuple(tensor.shape[axis] for axis in order))


def proved(tensor):
    bound = rank_one_slice_bound(Core.of(tensor))
    assert bound.recompute(tensor) == bound.value
    return bound


def copies(tensor, n):
    """A direct sum of n copies."""
    moved = [tensor.coordinates + i * np.array(tensor.shape) for i in range(n)]
    return ZeroOneTensor(np.concatenate(moved), tuple(n * size for size in tensor.shape))


def best_upper_value(core):
    flat = {axis: flattening_ranks(core, axis)[1] for axis in AXES}
    bounds = [facts_bound(core), *(slices_bound(core, axis) for axis in AXES)]
    bounds += [spanning_tree_bound(core, axis) for axis in AXES]
    bounds += [flattenings_bound(core, flat, i, j) for i, j in ((0, 1), (0, 2), (1, 2))]
    return int(np.min([bound.by_component for bound in bounds], axis=0).sum())


@pytest.mark.parametrize("order", ORDERS)
def test_the_w_state_has_rank_three_in_every_view(order):
    bound = proved(turned(ZeroOneTensor.of(w_state()), order))
    assert (bound.value, bound.groups[0].axis, bound.groups[0].index) == (3, 0, 1)
    assert bound.method == "B3 rank-one slice of key"


@pytest.mark.parametrize("n", [1, 2, 4])
def test_components_add_up(n):
    """Each W state counts 3, and three terms write it."""
    assert proved(copies(ZeroOneTensor.of(w_state()), n)).value == 3 * n


def real_rank(cube):
    """The rank of a real 2 x 2 x 2 tensor (de Silva and Lim 2008): by flattenings and hyperdeterminant."""
    flat = [dense_rank(np.moveaxis(cube, axis, 0).reshape(2, 4)) for axis in AXES]
    if flat != [2, 2, 2]:
        return max(flat)
    first, second = cube.astype(int)
    mixed = first[0, 0] * second[1, 1] + first[1, 1] * second[0, 0]
    mixed -= first[0, 1] * second[1, 0] + first[1, 0] * second[0, 1]
    det = [int(m[0, 0] * m[1, 1] - m[0, 1] * m[1, 0]) for m in (first, second)]
    return 2 if mixed**2 - 4 * det[0] * det[1] > 0 else 3


def views(cube):
    """A 2 x 2 x 2 tensor with its axes and its slices in every order."""
    flips = [np.flip(cube, axis=[axis for axis in AXES if flipped[axis]]) for flipped in product((0, 1), repeat=3)]
    return [tuple(flip.transpose(order).ravel().tolist()) for flip in flips for order in ORDERS]


def test_all_tensors_of_two_by_two_by_two():
    """Never above the true rank; wherever it is three and some slice has rank one, it is found."""
    kinds = {min(views(np.array(bits).reshape(2, 2, 2))) for bits in product((0, 1), repeat=8)}
    n_found = 0
    for bits in kinds:
        cube = np.array(bits).reshape(2, 2, 2)
        value, rank = proved(ZeroOneTensor(np.argwhere(cube).astype(np.int64), (2, 2, 2))).value, real_rank(cube)
        assert value <= rank
        some = any(_shared_vectors(np.moveaxis(cube, axis, 0)).any() for axis in AXES)
        assert value == 3 or rank < 3 or not some
        n_found += value == 3
    assert (len(kinds), n_found) == (22, 3)


@pytest.mark.parametrize("n", [1, 3, 6])
def test_unit_tensors(n):
    assert proved(ZeroOneTensor.of(unit(n))).value == n


@settings(max_examples=15)
@given(st.lists(st.tuples(st.integers(1, 4), st.integers(1, 4)), min_size=1, max_size=6), st.sampled_from(ORDERS))
def test_boxes(shapes, order):
    known = boxes(shapes, seed=0)
    assert proved(turned(ZeroOneTensor.of(known.database), order)).value == known.rank


@pytest.mark.parametrize("seed", range(2))
def test_overlapping_boxes(seed):
    known = overlapping_boxes(7, 6, 11, seed=seed)
    for order in ORDERS:
        assert proved(turned(ZeroOneTensor.of(known.database), order)).value == known.rank


def test_matrix_multiplication_is_not_exceeded():
    assert 4 <= proved(ZeroOneTensor.of(matmul(2))).value <= 7


@settings(max_examples=25)
@given(tensors(most=5), st.sampled_from(ORDERS))
def test_never_above_the_upper_bounds_nor_below_the_flattenings(tensor, order):
    core = Core.of(turned(tensor, order))
    bound = rank_one_slice_bound(core)
    flat = flattening_bound(Flattenings(np.array([flattening_ranks(core, axis)[0] for axis in AXES]), {}))
    assert flat.value <= bound.value <= (best_upper_value(core) if len(tensor) else 0)
    assert bound.recompute(turned(tensor, order)) == bound.value


@given(st.integers(0, 2**32 - 1), st.integers(1, 7))
def test_every_chain_stays_below_a_planted_rank(seed, n_terms):
    """Integer tensors with zeros, made of so many terms; every peel and every pencil, along random chains."""
    rng = np.random.default_rng(seed)
    factors = [rng.integers(-1, 2, (size, n_terms)) * (rng.random((size, n_terms)) < 0.6) for size in (4, 4, 5)]
    cube, total = np.einsum("ir,jr,kr->ijk", *factors), 0
    for _ in range(4):
        groups = [
            SliceGroup(axis, along, int(index))
            for axis, along in permutations(AXES, 2)
            for index in np.flatnonzero(_shared_vectors(cube.transpose(SliceGroup(axis, along, 0).order)).any(axis=1))
        ]
        assert all(total + _pencil(cube, group, rational_rank) <= n_terms for group in groups)
        assert total + Chain().bound(cube) <= n_terms
        if not groups:
            break
        gained, cube = _peel(cube, groups[rng.integers(len(groups))])
        total += gained


@given(st.integers(0, 2**32 - 1), st.integers(1, 3))
def test_a_pencil_attains_the_least_rank(seed, n_rest):
    """1 + min over lambda of rank [T_i - lambda_i a b^T]: no lambda is below, and Wedderburn's lambda attains it."""
    rng = np.random.default_rng(seed)
    cube = rng.integers(-1, 2, (n_rest + 1, 3, 4))
    a, b = rng.integers(1, 3, 3), rng.integers(-1, 2, 4)
    b[rng.integers(4)] = 1
    cube[0] = np.outer(a, b)
    cube[1:][_shared_vectors(cube[1:]).any(axis=1)] = np.eye(3, 4, dtype=int)
    least = _pencil(cube, SliceGroup(0, 1, 0), rational_rank) - 1
    whole = np.hstack(list(cube[1:])).astype(float)
    for _ in range(20):
        w = np.kron(rng.integers(-2, 3, n_rest) / rng.integers(1, 3), b)
        assert dense_rank(whole - np.outer(a, w)) >= least
    if least < dense_rank(whole):
        reduced = np.hstack(list(_project(cube[1:], b, 2))).astype(float)
        y = a - reduced @ np.linalg.pinv(reduced) @ a
        assert dense_rank(whole - np.outer(a, y @ whole) / (y @ a)) == least


def test_one_other_slice_by_a_generalised_inverse():
    """rank(M - lambda a b^T) drops iff a in col(M), b in row(M) and b^T M^+ a is not zero."""
    rng = np.random.default_rng(0)
    for _ in range(300):
        m, a, b = rng.integers(0, 2, (3, 3)), rng.integers(0, 2, 3), rng.integers(0, 2, 3)
        if not (a.any() and b.any()) or _shared_vectors(m[None]).any():
            continue
        inverse = np.linalg.pinv(m.astype(float))
        inside = np.allclose(m @ inverse @ a, a) and np.allclose(b @ inverse @ m, b)
        expected = dense_rank(m) - (inside and abs(b @ inverse @ a) > 1e-9)
        for along in (1, 2):
            assert _pencil(np.array([np.outer(a, b), m]), SliceGroup(0, along, 0), rational_rank) == 1 + expected


def test_it_can_beat_flattenings_substitution_and_koszul():
    """Found at random: 20 facts on 8 x 4 x 6, where the other lower bounds give 9."""
    rng = np.random.default_rng(1)
    cells = rng.choice(32, 20, replace=False)
    tensor = ZeroOneTensor(np.column_stack([cells // 4, cells % 4, rng.integers(0, 6, 20)]), (8, 4, 6))
    bound = proved(tensor)
    assert bound.value == 10
    assert any(chain.peels for chain in bound.chains.values())


def test_a_false_witness_is_rejected():
    tensor = ZeroOneTensor.of(w_state())
    bound = proved(tensor)
    other = replace(bound, chains={0: Chain((), SliceGroup(0, 1, 0))})
    with pytest.raises(ValueError, match="rank one"):
        other.recompute(tensor)
    assert replace(bound, chains={}).recompute(tensor) == 2
    assert replace(bound, chains={0: Chain((SliceGroup(0, 1, 1),))}).recompute(tensor) == 2


def test_large_numbers_are_refused():
    cube = np.full((2, 2, 2), 2**29)
    with pytest.raises(OverflowError):
        _project(cube, np.array([3, 2]), 1)


def test_nothing_and_large_components():
    nothing = ZeroOneTensor(np.zeros((0, 3), dtype=np.int64), (2, 3, 4))
    assert proved(nothing).value == 0
    assert not proved(nothing).groups
    rng = np.random.default_rng(0)
    wide = np.unique(rng.integers(0, [70, 5, 5], (200, 3)), axis=0)
    bound = proved(ZeroOneTensor(wide, (70, 5, 5)))
    assert not bound.chains
    assert "flattenings" in bound.method
