"""CP searches as bounds: what is proved becomes an upper bound, what is only numerical an estimate."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from factrank.tensors.bounds.bracket import Bracket, RankName
from factrank.tensors.bounds.certified_bounds import Bound, Estimate
from factrank.tensors.bounds.ledger import Ledger
from factrank.tensors.bounds.method import BoundMethod, Stage
from factrank.tensors.bounds.needs import gap, no_searches
from factrank.tensors.core import Core, Decomposition, lift
from factrank.tensors.cp import MOST_UNKNOWNS, CPBound, IntervalProof, completion_cp_bound, cp_bound, generic_rank

SHARE = 0.4
"""Share of the time left that a search may take."""

PER_CUBE, STEPS = 4e-11, 60
"""Seconds per n^3 of a step with n unknowns, and the steps of a usual start."""

CPSearch = Callable[[Bracket, float, np.random.Generator], CPBound | None]


def _of_rank(bracket: Bracket, seconds: float, rng: np.random.Generator) -> CPBound | None:
    return cp_bound(bracket.core, bracket.greatest, int(bracket.least), seconds, rng)


def _of_completion(bracket: Bracket, seconds: float, rng: np.random.Generator) -> CPBound | None:
    """Only the valid fibers count."""
    return completion_cp_bound(bracket.tensor, bracket.greatest, int(bracket.least), seconds, rng)


def _seconds(bracket: Bracket) -> float:
    return SHARE * bracket.ledger.left()


def _unknowns(bracket: Bracket) -> int:
    shape = bracket.tensor.shape
    return min(generic_rank(shape), int(bracket.least)) * sum(shape)


def _expected_seconds(bracket: Bracket) -> float:
    """Of a usual start."""
    return 0.05 + PER_CUBE * STEPS * float(_unknowns(bracket)) ** 3


def _too_large(bracket: Bracket) -> str:
    unknowns = _unknowns(bracket)
    return f"the table is too large: {unknowns:,} unknowns" if unknowns > MOST_UNKNOWNS else ""


def _too_late(bracket: Bracket) -> str:
    seconds, expected = _seconds(bracket), _expected_seconds(bracket)
    if seconds >= expected:
        return ""
    return f"a start takes about {expected:.1f} s, {max(seconds, 0.0):.1f} s of the budget are for it"


def _searched(name: str, search: CPSearch, bracket: Bracket) -> list[Bound | Estimate]:
    """An upper bound by a proved CP decomposition, and an estimate by an unproved one."""
    from threadpoolctl import threadpool_limits  # noqa: PLC0415 - trials run where it is not installed

    # Small dense problems: more than one BLAS thread only makes them wait for each other.
    with threadpool_limits(1, user_api="blas"):
        found = search(bracket, _seconds(bracket), np.random.default_rng(0))
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
    """Say where terms diverged while the residual fell: the border rank may be that small, the rank need not be."""
    for attempt in found.attempts:
        diverged, starts = attempt.statuses.get("diverging", 0), sum(attempt.statuses.values())
        if diverged and not attempt.statuses.get("converged", 0):
            reason = f"terms diverged in {diverged} of {starts} starts: evidence of border rank only"
            ledger.skip(f"{name} with {attempt.rank} terms", reason)


def _proved(name: str, core: Core, value: int, witness: Decomposition | IntervalProof | None) -> Bound:
    if isinstance(witness, Decomposition):
        whole = lift(witness, core)
        return Bound(value, f"{name}, rounded to rationals", witness=lambda: whole)
    return Bound(value, f"{name}, proved by interval Newton", witness=witness)


def _method(name: str, of: RankName, search: CPSearch) -> BoundMethod:
    return BoundMethod(
        name=name,
        of=of,
        side="upper",
        stage=Stage.SEARCH,
        needs=(gap,),
        refusals=(no_searches, _too_large, _too_late),
        cost=_expected_seconds,
        run=partial(_searched, name, search),
        dear=True,
    )


METHODS = (
    _method("CP", "rank", _of_rank),
    _method("CP on the valid fibers", "completion rank", _of_completion),
)
