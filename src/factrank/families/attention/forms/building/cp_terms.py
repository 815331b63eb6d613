r"""Rank-one terms that add up to a database, at least on fibers with a fact, from the rank bounds.

$\sum_r a_r[k]\, b_r[q]\, c_r[v]$ is 1 on every fact and 0 for all other values of its fiber; fibers without a fact are
unconstrained. Sources: exact witnesses of the upper bounds with integer entries (slices and spanning trees, the best
for each component; the reference-value decomposition by queries, for small tables also by keys); the decomposition that
proves the best upper bound on the rank, as `measure` finds it; and a numerical one, with fewer terms and a residual of
about 1e-12.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np
from jaxtyping import Float, Int

from factrank.databases import Database
from factrank.tensors.bounds import Ledger, upper_bound
from factrank.tensors.bounds.upper import best_upper, completion_bound, slices_bound, spanning_tree_bound
from factrank.tensors.core import AXES, Core, Decomposition, ZeroOneTensor, lift
from factrank.tensors.cp import MOST_UNKNOWNS, IntervalProof, ProjectedProof, valid_fibers
from factrank.tensors.cp import CpSearch as NumericalSearch

STARTS_PER_RANK = 6
"""Starts of a numerical decomposition before one more term is allowed."""

MOST_SPANNED_FACTS, MOST_SPANNING_WORK = 8_000, 850_000
"""Maximum number of facts, and of facts x slices, for the spanning trees of U6, which rank all pairs of slices."""

MOST_TERMS_BY_KEYS = 200
"""Witnesses by keys have a term for each key and value: above this number they are never the smallest."""


@dataclass(frozen=True, eq=False)
class Terms:
    """The three dense factors of a sum of rank-one terms."""

    keys: Float[np.ndarray, "keys terms"]
    queries: Float[np.ndarray, "queries terms"]
    values: Float[np.ndarray, "values terms"]

    @property
    def n_terms(self) -> int:
        """Return R."""
        return int(self.keys.shape[1])


def dense_terms(terms: Decomposition, shape: tuple[int, int, int]) -> Terms:
    """Return the terms of an exact decomposition, times their least common denominator."""
    common = int(np.lcm.reduce(terms.denominators.astype(np.int64), initial=1))
    factors = []
    for factor, size in zip(terms.factors, shape, strict=True):
        dense = np.zeros((size, terms.n_terms))
        np.add.at(dense, (factor.index, factor.term), factor.weight.astype(np.float64))
        factors.append(dense)
    return Terms(factors[0], factors[1], factors[2] * (common / terms.denominators.astype(np.float64)))


def about_terms(database: Database) -> int:
    """Estimate the terms of the witness by queries without building it, ignoring equal slices."""
    n_pairs, n_queries = int(database.values_per_query.sum()), int((database.values_per_query > 0).sum())
    return n_pairs - n_queries + 1 if database.functional else n_pairs


def exact_terms(database: Database) -> Iterator[Terms]:
    """Yield the exact witnesses."""
    core = Core.of(ZeroOneTensor.of(database))
    yield dense_terms(lift(slices_bound(core, 1).decomposition(), core), database.shape)
    for axis in (1, 0) if database.functional else ():
        n_terms, build = completion_bound(core.tensor, axis, 1 - axis)
        if axis == 1 or n_terms <= MOST_TERMS_BY_KEYS:
            yield dense_terms(lift(build(), core), database.shape)
    spanning = [axis for axis in AXES if len(core.tensor) * core.tensor.shape[axis] <= MOST_SPANNING_WORK]
    if database.n_facts <= MOST_SPANNED_FACTS and spanning:
        best = best_upper(
            core, [*map(partial(slices_bound, core), AXES), *map(partial(spanning_tree_bound, core), spanning)]
        )
        terms = best.decomposition()
        if all(m == 1 for m in terms.denominators.tolist()):
            yield dense_terms(lift(terms, core), database.shape)


def measured_terms(database: Database, seconds: float) -> Terms | None:
    """Return the terms that prove the best upper bound on the rank within the time.

    Proofs by intervals contain two of the three factors of a nearby decomposition; the third is a least-squares fit.
    None if the best bound is only a count.
    """
    core = Core.of(ZeroOneTensor.of(database))
    witness = upper_bound(core, Ledger(seconds, lambda _: None)).witness
    if isinstance(witness, IntervalProof):
        factors = _with_fitted(core.tensor, 2, witness.factors[:2])
    elif isinstance(witness, ProjectedProof):
        factors = _with_fitted(core.tensor, witness.axis, (witness.left, witness.right))
    else:
        return dense_terms(witness(), database.shape) if callable(witness) else None
    a, b, c = (spread_rows(f, classes) for f, classes in zip(factors, core.classes, strict=True))
    return Terms(a, b, c)


def _with_fitted(
    tensor: ZeroOneTensor, axis: int, given: tuple[Float[np.ndarray, "_ terms"], Float[np.ndarray, "_ terms"]]
) -> list[Float[np.ndarray, "_ terms"]]:
    """Insert the factor of an axis that fits the tensor best, with the factors of the two other axes."""
    products = np.einsum("ir,jr->ijr", *given).reshape(-1, given[0].shape[1])
    unfolded = np.moveaxis(tensor.dense(), axis, -1).reshape(len(products), -1).astype(np.float64)
    fitted = np.linalg.lstsq(products, unfolded, rcond=None)[0].T
    factors = list(given)
    factors.insert(axis, fitted)
    return factors


def numerical_terms(database: Database, most: int, seconds: float, rng: np.random.Generator) -> Terms | None:
    """Return a numerical decomposition with fewer than `most` terms on the valid fibers; None if the search fails."""
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
                a, b, c = (spread_rows(f, classes) for f, classes in zip(factors, core.classes, strict=True))
                return Terms(a, b, c)
    return None


def spread_rows(
    factor: Float[np.ndarray, "core terms"], classes: Int[np.ndarray, " members"]
) -> Float[np.ndarray, "members terms"]:
    """Give equal slices equal rows, and empty ones zero rows."""
    return np.where(classes[:, None] >= 0, factor[classes], 0.0)
