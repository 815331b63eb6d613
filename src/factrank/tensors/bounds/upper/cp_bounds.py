"""CP searches as methods: proved decompositions become upper bounds, numerical ones estimates."""

from __future__ import annotations

from functools import partial
from math import inf, prod

import numpy as np

from factrank.tensors.bounds.bracket import Bracket, RankName
from factrank.tensors.bounds.certified_bounds import Bound, Estimate
from factrank.tensors.bounds.ledger import Ledger
from factrank.tensors.bounds.method import BoundMethod, Stage
from factrank.tensors.bounds.needs import gap, no_searches
from factrank.tensors.core import Core, Decomposition, lift
from factrank.tensors.cp import (
    MOST_EQUATIONS,
    MOST_UNFOLDED,
    MOST_UNKNOWNS,
    CPBound,
    Elimination,
    IntervalProof,
    ProjectedProof,
    cp_bound,
    generic_rank,
    least_terms,
    projected_bound,
    valid_fibers,
)

SHARE = 0.4
"""Fraction of the remaining time that a search may take."""

MOST_CELLS = 1_000_000
"""Maximum number of cells of a tensor of which one factor is eliminated."""

PER_CUBE, STEPS = 4e-11, 60
"""Seconds per n^3 of a step with n unknowns, and the typical number of steps of a start."""


def _seconds(bracket: Bracket) -> float:
    return SHARE * bracket.ledger.left()


def _unknowns(bracket: Bracket) -> int:
    shape = bracket.tensor.shape
    return min(generic_rank(shape), int(bracket.least)) * sum(shape)


def _projects(bracket: Bracket) -> bool:
    """Whether one factor is eliminated: if the tensor is too large for an interval proof of all equations."""
    n_equations = prod(bracket.tensor.shape)
    if bracket.of != "rank" or not MOST_EQUATIONS < n_equations <= MOST_CELLS:
        return False
    elimination, least = Elimination.of(bracket.tensor), int(bracket.least)
    return elimination.rows <= MOST_UNFOLDED and elimination.least(least_terms(bracket.tensor, 1), inf) < least


def _too_large(bracket: Bracket) -> str:
    unknowns = _unknowns(bracket)
    if unknowns <= MOST_UNKNOWNS or _projects(bracket):
        return ""
    return f"the table is too large: {unknowns:,} unknowns"


def _expected_seconds(bracket: Bracket) -> float:
    if _projects(bracket):
        return Elimination.of(bracket.tensor).seconds(int(bracket.least) - 1)
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
        else:
            found = cp_bound(bracket.tensor, *between, _seconds(bracket), rng, mask)
    if found is None:
        return []
    _note_divergence(name, found, bracket.ledger)
    fit, findings = found.estimate, list[Bound | Estimate]()
    if found.certified is not None:
        findings.append(_proved(name, bracket.core, found.certified, found.witness))
    if fit:
        numerical = f"{name}, numerical (largest term {fit.largest_term:.1f} |D|)"
        findings.append(Estimate(fit.rank, numerical, fit.residual))
    return findings


def _note_divergence(name: str, found: CPBound, ledger: Ledger) -> None:
    """Records ranks at which terms diverged while the residual fell: evidence of border rank only."""
    for attempt in found.attempts:
        diverged, starts = attempt.statuses.get("diverging", 0), sum(attempt.statuses.values())
        if diverged and not attempt.statuses.get("converged", 0):
            reason = f"terms diverged in {diverged} of {starts} starts: evidence of border rank only"
            ledger.skip(f"{name} with {attempt.rank} terms", reason)


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
