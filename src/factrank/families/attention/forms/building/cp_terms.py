r"""Terms: rank-one terms that add up to a database, at least on the fibers that have a fact, from the rank bounds.

$\sum_r a_r[k]\, b_r[q]\, c_r[v]$ is 1 on every fact and 0 for all other values of its fiber; fibers without a fact are
free. Where they come from: exact witnesses of the upper bounds (the reference-value decomposition by queries, the
slices of queries, for small tables those by keys), whose entries are integers, and a numerical decomposition, which has
fewer terms and a residual of about 1e-12.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from factrank.databases import Database
from factrank.tensors.bounds.upper import completion_bound, slices_bound
from factrank.tensors.core import Core, Decomposition, ZeroOneTensor, lift
from factrank.tensors.cp import MOST_UNKNOWNS, valid_fibers
from factrank.tensors.cp import CpSearch as NumericalSearch

STARTS_PER_RANK = 6
"""Starts of a numerical decomposition before one more term is allowed."""

MOST_TERMS_BY_KEYS = 200
"""Witnesses by keys have a term for each key and value: beyond this they are never the smallest."""


@dataclass(frozen=True, eq=False)
class Terms:
    """The three factors of a sum of rank-one terms, dense; `whole` where all entries are integers."""

    keys: Float[np.ndarray, "keys terms"]
    queries: Float[np.ndarray, "queries terms"]
    values: Float[np.ndarray, "values terms"]
    whole: bool

    @property
    def n_terms(self) -> int:
        """R."""
        return int(self.keys.shape[1])

    def tensor(self) -> Float[np.ndarray, "keys queries values"]:
        """The sum of the terms."""
        return np.asarray(np.einsum("kr,qr,vr->kqv", self.keys, self.queries, self.values))


def dense_terms(terms: Decomposition, shape: tuple[int, int, int]) -> Terms:
    """The terms of an exact decomposition, times their least common denominator."""
    common = int(np.lcm.reduce(terms.denominators.astype(np.int64), initial=1))
    factors = []
    for factor, size in zip(terms.factors, shape, strict=True):
        dense = np.zeros((size, terms.n_terms))
        np.add.at(dense, (factor.index, factor.term), factor.weight.astype(np.float64))
        factors.append(dense)
    return Terms(factors[0], factors[1], factors[2] * (common / terms.denominators.astype(np.float64)), whole=True)


def about_terms(database: Database) -> int:
    """The terms of the witness by queries, up to a few and to equal slices, without building it."""
    n_pairs = len(np.unique(database.triples[:, 1].astype(np.int64) * database.n_values + database.triples[:, 2]))
    n_queries = len(np.unique(database.triples[:, 1]))
    return n_pairs - n_queries + 1 if database.functional else n_pairs


def exact_terms(database: Database) -> Iterator[Terms]:
    """The witnesses, one after the other."""
    core = Core.of(ZeroOneTensor.of(database))
    yield dense_terms(lift(slices_bound(core, 1).decomposition(), core), database.shape)
    for axis in (1, 0) if database.functional else ():
        n_terms, terms = completion_bound(core.tensor, axis, 1 - axis)
        if axis == 1 or n_terms <= MOST_TERMS_BY_KEYS:
            yield dense_terms(lift(terms(), core), database.shape)


def numerical_terms(database: Database, most: int, seconds: float, rng: np.random.Generator) -> Terms | None:
    """A numerical decomposition with fewer than `most` terms on the valid fibers; None where none is found in time."""
    core = Core.of(ZeroOneTensor.of(database))
    search = NumericalSearch.of(core.tensor, seconds, rng, valid_fibers(core.tensor))
    end = time.monotonic() + seconds
    for rank in range(max(search.expected_rank, 2), most):
        if rank * sum(core.tensor.shape) > MOST_UNKNOWNS:
            return None
        for start in range(STARTS_PER_RANK):
            left = end - time.monotonic()
            if left <= 0:
                return None
            fit = search.fit(rank, start, left)
            if fit.status == "converged":
                factors = search.whole(fit.factors)
                a, b, c = (_spread(f, classes) for f, classes in zip(factors, core.classes, strict=True))
                return Terms(a, b, c, whole=False)
    return None


def _spread(
    factor: Float[np.ndarray, "core terms"], classes: Int[np.ndarray, " members"]
) -> Float[np.ndarray, "members terms"]:
    """Equal slices get equal rows, empty ones zero rows."""
    return np.where(classes[:, None] >= 0, factor[classes], 0.0)
