"""Rank of D: upper bounds U1 to U7 and lower bounds B1 to B3, cheap ones first."""

from __future__ import annotations

from factrank.tensors.bounds.bracket import Bracket
from factrank.tensors.bounds.certified_bounds import Bound, RankBounds
from factrank.tensors.bounds.ledger import Ledger
from factrank.tensors.bounds.method import Stage, run_methods
from factrank.tensors.bounds.registry import methods
from factrank.tensors.core import Core


def rank_bounds(core: Core, ledger: Ledger) -> RankBounds:
    """Returns bounds on the rank of a tensor, given its core."""
    if not len(core.tensor):
        nothing = Bound(0, "no facts")
        return RankBounds(nothing, nothing)
    bracket = Bracket("rank", core, ledger)
    return run_methods(methods(bracket.of), bracket).result()


def flattening_and_upper(core: Core, ledger: Ledger) -> tuple[int, int]:
    """Returns the largest flattening rank, a certified lower bound on the rank, and the best upper bound."""
    if not len(core.tensor):
        return 0, 0
    bracket = Bracket("rank", core, ledger)
    constructions = [method for method in methods(bracket.of) if method.stage <= Stage.CONSTRUCT]
    bracket = run_methods(constructions, bracket)
    return int(bracket.flattenings.lower.sum(axis=1).max()), int(bracket.least)


def upper_bound(core: Core, ledger: Ledger) -> Bound:
    """Returns the best upper bound on the rank with its witness, spending no time on expensive lower bounds."""
    bracket = Bracket("rank", core, ledger)
    useful = [one for one in methods(bracket.of) if one.side == "upper" or one.stage <= Stage.CONSTRUCT]
    return run_methods(useful, bracket).result().upper
