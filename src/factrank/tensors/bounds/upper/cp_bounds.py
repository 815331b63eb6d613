"""CP searches as bounds: what is proved becomes an upper bound, what is only numerical an estimate."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from factrank.tensors.bounds.ledger import NO_SEARCHES, Ledger
from factrank.tensors.bounds.rank_bounds import Bound, Estimate
from factrank.tensors.core.decomposition import Decomposition, lift
from factrank.tensors.core.zero_one import Core
from factrank.tensors.cp.cp_search import MOST_UNKNOWNS, CPBound, completion_cp_bound, cp_bound, generic_rank
from factrank.tensors.cp.interval_proof import IntervalProof

SHARE = 0.4
"""Share of the time left that a search may take."""

PER_CUBE, STEPS = 4e-11, 60
"""Seconds per n^3 of a step with n unknowns, and the steps of a usual start."""


def cp_rank_bounds(core: Core, lower: int, upper: int, ledger: Ledger) -> tuple[list[Bound], Estimate | None]:
    """An upper bound of the rank by a proved CP decomposition, and an estimate by an unproved one."""
    return _run("CP", core, upper, ledger, lambda seconds, rng: cp_bound(core, lower, upper, seconds, rng))


def cp_completion_bounds(core: Core, lower: int, upper: int, ledger: Ledger) -> tuple[list[Bound], Estimate | None]:
    """The same for the completion rank: only the valid fibers count."""
    search = completion_cp_bound
    return _run(
        "CP on the valid fibers",
        core,
        upper,
        ledger,
        lambda seconds, rng: search(core.tensor, lower, upper, seconds, rng),
    )


def _run(
    name: str,
    core: Core,
    upper: int,
    ledger: Ledger,
    search: Callable[[float, np.random.Generator], CPBound | None],
) -> tuple[list[Bound], Estimate | None]:
    if not ledger.searches:
        ledger.skip(name, NO_SEARCHES)
        return [], None
    from threadpoolctl import threadpool_limits  # noqa: PLC0415 - trials run where it is not installed

    seconds = SHARE * ledger.left()
    unknowns = min(generic_rank(core.tensor.shape), upper) * sum(core.tensor.shape)
    expected = 0.05 + PER_CUBE * STEPS * float(unknowns) ** 3
    if unknowns > MOST_UNKNOWNS:
        ledger.skip(name, f"the table is too large: {unknowns:,} unknowns")
        return [], None
    if seconds < expected:
        ledger.skip(name, f"a start takes about {expected:.1f} s, {max(seconds, 0.0):.1f} s of the budget are for it")
        return [], None
    # Small dense problems: more than one BLAS thread only makes them wait for each other.
    with threadpool_limits(1, user_api="blas"):
        found = ledger.run(name, expected, lambda: search(seconds, np.random.default_rng(0)), dear=True)
    if found is None:
        return [], None
    _note_divergence(name, found, ledger)
    fit, bounds = found.estimate, list[Bound]()
    if found.certified is not None:
        bounds.append(_proved(name, core, found.certified, found.witness, ledger.seconds[name]))
    numerical = f"{name}, numerical (largest term {fit.largest_term:.1f} |D|)" if fit else ""
    return bounds, Estimate(fit.rank, numerical, fit.residual) if fit else None


def _note_divergence(name: str, found: CPBound, ledger: Ledger) -> None:
    """Say where terms diverged while the residual fell: the border rank may be that small, the rank need not be."""
    for attempt in found.attempts:
        diverged, starts = attempt.statuses.get("diverging", 0), sum(attempt.statuses.values())
        if diverged and not attempt.statuses.get("converged", 0):
            reason = f"terms diverged in {diverged} of {starts} starts: evidence of border rank only"
            ledger.skip(f"{name} with {attempt.rank} terms", reason)


def _proved(name: str, core: Core, value: int, witness: Decomposition | IntervalProof | None, seconds: float) -> Bound:
    if isinstance(witness, Decomposition):
        whole = lift(witness, core)
        return Bound(value, f"{name}, rounded to rationals", witness=lambda: whole, seconds=seconds)
    return Bound(value, f"{name}, proved by interval Newton", witness=witness, seconds=seconds)
