"""CP searches as methods: proved decompositions become upper bounds, numerical ones estimates."""

from __future__ import annotations

from collections import Counter
from functools import partial
from math import inf, prod

import numpy as np
from jaxtyping import Float, Int

from factrank.tensors.bounds.bracket import Bracket, RankName
from factrank.tensors.bounds.certified_bounds import Bound, Estimate
from factrank.tensors.bounds.ledger import Ledger
from factrank.tensors.bounds.method import BoundMethod, Stage
from factrank.tensors.bounds.needs import gap, no_searches
from factrank.tensors.core import AXES, Core, Decomposition, lift
from factrank.tensors.cp import (
    MOST_EQUATIONS,
    MOST_UNFOLDED,
    MOST_UNKNOWNS,
    CPBound,
    Elimination,
    Factors,
    Fibers,
    IntervalProof,
    Problem,
    ProjectedProof,
    cp_bound,
    fit_seconds,
    generic_rank,
    least_terms,
    projected_bound,
    random_start,
    shortened,
    valid_fibers,
)

SHARE = 0.4
"""Fraction of the remaining time that a search may take."""

MOST_CELLS = 1_000_000
"""Maximum number of cells of a tensor of which one factor is eliminated."""

MOST_SHORTENED = 250_000
"""Maximum number of unknowns of a fit that starts from a known decomposition."""

PER_CUBE, STEPS = 4e-11, 60
"""Seconds per n^3 of a step with n unknowns, and the typical number of steps of a start."""


def _seconds(bracket: Bracket) -> float:
    return SHARE * bracket.ledger.left()


def _generic(bracket: Bracket) -> int:
    """The expected rank of a generic tensor with as many equations."""
    shape = bracket.tensor.shape
    if bracket.of != "completion rank":
        return generic_rank(shape)
    return generic_rank(shape, len(bracket.tensor.pairs_without(2)) * shape[2])


def _unknowns(bracket: Bracket) -> int:
    return min(_generic(bracket), int(bracket.least)) * sum(bracket.tensor.shape)


def _shortens(bracket: Bracket) -> bool:
    """Whether fits start from a known decomposition, because the tensor is too large for many random starts."""
    unknowns = int(bracket.least) * sum(bracket.tensor.shape)
    small = prod(bracket.tensor.shape) <= MOST_CELLS and unknowns <= MOST_SHORTENED
    return small and _unknowns(bracket) > MOST_UNKNOWNS and not _projects(bracket)


def _projects(bracket: Bracket) -> bool:
    """Whether one factor is eliminated: if the tensor is too large for an interval proof of all equations."""
    n_equations = prod(bracket.tensor.shape)
    if bracket.of != "rank" or not MOST_EQUATIONS < n_equations <= MOST_CELLS:
        return False
    elimination, least = Elimination.of(bracket.tensor), int(bracket.least)
    return elimination.rows <= MOST_UNFOLDED and elimination.least(least_terms(bracket.tensor, 1), inf) < least


def _too_large(bracket: Bracket) -> str:
    unknowns = _unknowns(bracket)
    if unknowns <= MOST_UNKNOWNS or _projects(bracket) or _shortens(bracket):
        return ""
    return (
        f"the table is too large: {unknowns:,} unknowns (at most {MOST_SHORTENED:,}), or more than {MOST_CELLS:,} cells"
    )


def _expected_seconds(bracket: Bracket) -> float:
    if _projects(bracket):
        return Elimination.of(bracket.tensor).seconds(int(bracket.least) - 1)
    if _shortens(bracket):
        n_fibers = len(bracket.tensor.pairs_without(2)) if bracket.of == "completion rank" else None
        return fit_seconds(bracket.tensor.shape, int(bracket.least) - 1, n_fibers)
    return 0.05 + PER_CUBE * STEPS * float(_unknowns(bracket)) ** 3


def _too_late(bracket: Bracket) -> str:
    seconds, expected = _seconds(bracket), _expected_seconds(bracket)
    if seconds >= expected:
        return ""
    return f"a start takes about {expected:.1f} s, {max(seconds, 0.0):.1f} s of the budget are for it"


def _searched(name: str, bracket: Bracket) -> list[Bound | Estimate]:
    from threadpoolctl import threadpool_limits  # noqa: PLC0415 - trials run where it is not installed

    between, mask = (bracket.greatest, int(bracket.least)), None
    if bracket.of == "completion rank":
        mask = valid_fibers(bracket.tensor)
    rng = np.random.default_rng(0)
    # The problems are small and dense: several BLAS threads would only wait for each other.
    with threadpool_limits(1, user_api="blas"):
        if _projects(bracket):
            found = projected_bound(bracket.tensor, *between, _seconds(bracket), rng)
        elif _shortens(bracket):
            found = _shortened(bracket, mask, rng)
        else:
            found = cp_bound(bracket.tensor, *between, _seconds(bracket), rng, mask)
    if found is None:
        return []
    _note_failures(name, found, bracket.ledger)
    fit, findings = found.estimate, list[Bound | Estimate]()
    if found.certified is not None:
        findings.append(_proved(name, bracket.core, found.certified, found.witness))
    if fit:
        numerical = f"{name}, numerical (largest term {fit.largest_term:.1f} |D|)"
        findings.append(Estimate(fit.rank, numerical, fit.residual))
    return findings


def _shortened(bracket: Bracket, mask: Fibers | None, rng: np.random.Generator) -> CPBound:
    problem = Problem(bracket.tensor.dense().astype(np.float64), mask)
    known = _known(bracket) or random_start(problem.target, int(bracket.least), rng)
    between = bracket.greatest, int(bracket.least)
    return shortened(problem, known, between, _generic(bracket), _seconds(bracket), rng)


def _known(bracket: Bracket) -> Factors | None:
    """The decomposition that proves the least upper bound, as factors of the core; None if it is not exact."""
    core, witness = bracket.core, bracket.inherited.witness if bracket.inherited else None
    if bracket.best is not None and bracket.best.value <= bracket.least:
        a, b, c = (
            factor_of(bracket.best.decomposition(), axis, np.arange(bracket.tensor.shape[axis])) for axis in AXES
        )
        return a, b, c
    if not callable(witness):
        return None
    terms = witness()
    a, b, c = (factor_of(terms, axis, representatives(core.classes[axis])) for axis in AXES)
    return a, b, c


def factor_of(terms: Decomposition, axis: int, indices: Int[np.ndarray, " rows"]) -> Float[np.ndarray, "rows terms"]:
    """Returns the rows of one factor at some indices; the last factor absorbs the denominators."""
    factor = terms.factors[axis]
    order = np.argsort(indices, kind="stable")
    place = np.searchsorted(indices, factor.index, sorter=order).clip(0, len(indices) - 1)
    place = order[place]
    kept = indices[place] == factor.index
    dense = np.zeros((len(indices), terms.n_terms))
    np.add.at(dense, (place[kept], factor.term[kept]), factor.weight[kept].astype(np.float64))
    return dense / terms.denominators.astype(np.float64) if axis == 2 else dense


def representatives(classes: Int[np.ndarray, " slices"]) -> Int[np.ndarray, " classes"]:
    """Returns the first slice of each class of equal slices."""
    numbers, first = np.unique(classes, return_index=True)
    return np.asarray(first[numbers >= 0])


def _note_failures(name: str, found: CPBound, ledger: Ledger) -> None:
    """Records the numbers of terms for which no fit converged, with the least residual: no bound, nor an estimate.

    If terms diverged while the residual fell, that is evidence of border rank only.
    """
    ranks = dict.fromkeys(attempt.rank for attempt in found.attempts)
    for rank in ranks:
        attempts = [attempt for attempt in found.attempts if attempt.rank == rank]
        statuses = sum((Counter(attempt.statuses) for attempt in attempts), Counter[str]())
        if statuses["converged"] or not statuses:
            continue
        starts, residual = statuses.total(), min(attempt.residual for attempt in attempts)
        reasons = []
        if diverged := statuses["diverging"]:
            reasons.append(f"terms diverged in {diverged} of {starts} starts: evidence of border rank only")
        if residual < inf:
            others = ", ".join(f"{statuses[how]} {how}" for how in ("stalled", "out of time") if statuses[how])
            reasons.append(f"no fit converged ({others}): least relative residual {residual:.1e}")
        ledger.skip(f"{name} with {rank:,} terms", "; ".join(reasons))


def _proved(name: str, core: Core, value: int, witness: Decomposition | IntervalProof | ProjectedProof | None) -> Bound:
    if isinstance(witness, Decomposition):
        whole = lift(witness, core)
        return Bound(value, f"{name}, rounded to rationals", witness=lambda: whole)
    return Bound(value, f"{name}, proved by interval Newton", witness=witness)


def _method(name: str, of: RankName) -> BoundMethod:
    return BoundMethod(
        name=name,
        of=of,
        side="upper",
        stage=Stage.SEARCH,
        needs=(gap,),
        refusals=(no_searches, _too_large, _too_late),
        cost=_expected_seconds,
        run=partial(_searched, name),
        expensive=True,
    )


METHODS = (_method("CP", "rank"), _method("CP on the valid fibers", "completion rank"))
