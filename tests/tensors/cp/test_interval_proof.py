"""Interval proofs: an independent verifier, altered certificates, masks and dropped slices."""

from dataclasses import replace
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from flint import fmpq, fmpq_mat

from cp_fits import fit_many
from factrank.databases.generators.named import matmul, w_state
from factrank.databases.generators.random_tables import uniform
from factrank.tensors.core.zero_one import Core, ZeroOneTensor
from factrank.tensors.cp.cp_fit import Problem, improve
from factrank.tensors.cp.cp_search import cp_bound
from factrank.tensors.cp.interval_proof import IntervalProof, has_one_value, prove, valid_fibers


def tensor_of(database):
    return Core.of(ZeroOneTensor.of(database)).tensor


def exactly_proves(proof, tensor):
    """Krawczyk's condition in rational arithmetic without balls: |F'(x) - F'(x0)| is bounded entry by entry.

    A product b c of entries that move by at most p changes by at most |b| p + |c| p + p^2.
    """
    a, b, c = ([[Fraction(x) for x in row] for row in factor.tolist()] for factor in proof.factors)
    sizes, rank, rho = [len(a), len(b), len(c)], proof.rank, Fraction(proof.radius)
    kept = [k for k in range(tensor.shape[2]) if k != proof.dropped]
    ones = {tuple(row) for row in tensor.coordinates.tolist()}
    offsets = [0, sizes[0] * rank, (sizes[0] + sizes[1]) * rank]
    names = [int(n) for n in np.flatnonzero(proof.free)]
    place = {name: number for number, name in enumerate(names)}
    value = [x for factor in (a, b, c) for row in factor for x in row]
    moves = [rho if free else Fraction(0) for free in proof.free.tolist()]
    cells = [
        cell for cell in product(*(range(size) for size in sizes)) if proof.mask is None or proof.mask[cell[0], cell[1]]
    ]
    size = len(cells)
    if size != len(names):
        return False
    centre, spread, error = [], np.zeros((size, size)), []
    for number, (i, j, k) in enumerate(cells):
        row, total = [Fraction(0)] * size, Fraction(-1 if (i, j, kept[k]) in ones else 0)
        for r in range(rank):
            at = [offsets[axis] + index * rank + r for axis, index in enumerate((i, j, k))]
            total += value[at[0]] * value[at[1]] * value[at[2]]
            for own in range(3):
                one, two = (at[axis] for axis in range(3) if axis != own)
                if at[own] in place:
                    row[place[at[own]]] = value[one] * value[two]
                    change = abs(value[one]) * moves[two] + abs(value[two]) * moves[one] + moves[one] * moves[two]
                    spread[number, place[at[own]]] = np.nextafter(float(change), np.inf)
        centre.append(row)
        error.append(total)
    inverse = np.linalg.inv(np.array([[float(x) for x in row] for row in centre]))
    to_rational = [[fmpq(*float(x).as_integer_ratio()) for x in row] for row in inverse.tolist()]
    exact = fmpq_mat(to_rational)
    newton = exact * fmpq_mat([[fmpq(x.numerator, x.denominator)] for x in error])
    defect = exact * fmpq_mat([[fmpq(x.numerator, x.denominator) for x in row] for row in centre])
    widening = (np.abs(inverse) @ spread).sum(axis=1) * (1 + 1e-9)
    for row in range(size):
        entries = [abs(defect[row, column] - (row == column)) for column in range(size)]
        reach = sum(entries, fmpq(0)) + fmpq(*float(widening[row]).as_integer_ratio())
        radius = fmpq(rho.numerator, rho.denominator)
        if not abs(newton[row, 0]) + reach * radius < radius:
            return False
    return True


def proof_of(tensor, rank, seed=0, mask=None, starts=20):
    target = tensor.dense().astype(np.float64)
    for fit in fit_many(target, rank, np.random.default_rng(seed), seconds=60.0, starts=starts, mask=mask):
        proof = prove(tensor, fit.factors, mask=mask) if fit.status == "converged" else None
        if proof is not None:
            return proof
    return None


@pytest.fixture(scope="module")
def table():
    """A full 5 x 3 x 4 table."""
    return tensor_of(uniform(5, 3, 4, seed=3))


@pytest.fixture(scope="module")
def table_proof(table):
    target, rank, rng = np.delete(table.dense(), 3, axis=2).astype(np.float64), 7, np.random.default_rng(0)
    i, j, k = target.shape
    for _ in range(40):
        a, b, c = (rng.normal(size=(size, rank)) for size in (i, j, k))
        a[:, -1], b[:, -1], c[:, -1] = 1, 1, 0.3 * c[:, -1]
        free = np.ones((i + j + k, rank), dtype=bool)
        free[: i + j, -1] = False
        fit = improve(Problem(target, None, free.ravel()), (a, b, c), seconds=20.0, ridge=1e-3)
        proof = prove(table, fit.factors, dropped=3) if fit.status == "converged" else None
        if proof is not None:
            return proof
    raise AssertionError("no start was proved")


def test_w_state_has_rank_three():
    tensor = tensor_of(w_state())
    proof = proof_of(tensor, 3, starts=4)
    assert proof.rank == 3
    assert proof.verify(tensor)
    assert exactly_proves(proof, tensor)


def test_full_table_with_a_dropped_slice(table, table_proof):
    assert has_one_value(table)
    assert table_proof.rank == 7
    assert table_proof.verify(table)
    assert exactly_proves(table_proof, table)


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_an_altered_number_is_rejected(table, table_proof, axis):
    altered = [factor.copy() for factor in table_proof.factors]
    altered[axis][0, 0] += 1e-3
    proof = replace(table_proof, factors=tuple(altered))
    assert not proof.verify(table)
    assert not exactly_proves(proof, table)


def test_altered_parts_are_rejected(table, table_proof):
    free = table_proof.free.copy()
    free[np.flatnonzero(free)[0]] = False
    shifted = [factor.copy() for factor in table_proof.factors]
    shifted[0][0, -1] = 2.0
    other = ZeroOneTensor(table.coordinates[1:], table.shape)
    assert not replace(table_proof, free=free).verify(table)
    assert not replace(table_proof, factors=tuple(shifted)).verify(table)
    assert not replace(table_proof, free=np.append(table_proof.free, False)).verify(table)
    assert not replace(table_proof, dropped=0).verify(table)
    assert not replace(table_proof, dropped=4).verify(table)
    assert not replace(table_proof, dropped=None).verify(table)
    assert not replace(table_proof, radius=table_proof.radius / 1e6).verify(table)
    assert not replace(table_proof, radius=1.0).verify(table)
    assert not replace(table_proof, radius=float("nan")).verify(table)
    assert not table_proof.verify(other)
    assert not replace(table_proof, tensor=other).verify(other)


def test_dropped_slice_needs_the_held_term(table, table_proof):
    rank = table_proof.rank
    order = [rank - 1, *range(rank - 1)]
    free = np.concatenate([part[:, order].ravel() for part in np.split(table_proof.free.reshape(-1, rank), [5, 8])])
    moved = replace(table_proof, factors=tuple(f[:, order] for f in table_proof.factors), free=free)
    assert not moved.verify(table)


def test_masked_proof_concerns_the_valid_fibers():
    tensor = ZeroOneTensor.of(uniform(4, 3, 3, 9, seed=1))
    mask = tensor.dense().sum(axis=2) > 0
    proof = proof_of(tensor, 4, mask=mask)
    assert proof is not None
    assert proof.verify(tensor)
    assert exactly_proves(proof, tensor)
    assert int(proof.free.sum()) == 9 * 3
    assert not replace(proof, mask=None).verify(tensor)


def test_what_cannot_be_proved():
    strassen = tensor_of(matmul(2))
    assert proof_of(strassen, 7, starts=3) is None
    assert proof_of(tensor_of(w_state()), 2, starts=1) is None
    far = tuple(np.random.default_rng(0).normal(size=(2, 3)) for _ in range(3))
    assert prove(tensor_of(w_state()), far) is None


def test_masked_proof_with_a_dropped_slice():
    tensor = ZeroOneTensor.of(uniform(5, 4, 3, 12, seed=1))
    found = cp_bound(tensor, 4, 6, 60.0, np.random.default_rng(0), valid_fibers(tensor))
    proof = found.witness
    assert isinstance(proof, IntervalProof)
    assert proof.mask is not None
    assert proof.dropped == 2
    assert proof.rank == found.certified
    assert proof.verify(tensor)
    assert exactly_proves(proof, tensor)
    everywhere = np.ones_like(proof.mask)
    assert not replace(proof, mask=everywhere).verify(tensor)


def test_a_mask_must_be_the_valid_fibers():
    """One term agrees with the W state on one of its fibers: that is no completion, whatever the mask says."""
    w = ZeroOneTensor(np.array([(0, 0, 1), (0, 1, 0), (1, 0, 0)]), (2, 2, 2))
    factors = (np.ones((2, 1)), np.ones((2, 1)), np.array([[0.0], [1.0]]))
    partial = np.array([[True, False], [False, False]])
    proof = prove(w, factors, mask=partial)
    assert proof is None or not proof.verify(w)
    nothing = np.zeros((2, 2), dtype=bool)
    assert not IntervalProof(w, factors, np.zeros(6, dtype=bool), 1.0, nothing).verify(w)
