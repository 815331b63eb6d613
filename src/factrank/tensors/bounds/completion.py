"""Completion rank: the least rank of a tensor that equals D on every valid fiber and is arbitrary elsewhere.

Lower bounds: the span of the valid fibers and the rank of a full sub-table (`valid_fibers`). Upper bounds: the rank, U7
with domains ignored (`reference_values.completion_bound`) and CP on the valid fibers (`cp_bounds`).
"""

from __future__ import annotations

from dataclasses import replace

from factrank.tensors.bounds.bracket import Bracket
from factrank.tensors.bounds.certified_bounds import RankBounds
from factrank.tensors.bounds.ledger import Ledger
from factrank.tensors.bounds.method import run_methods
from factrank.tensors.bounds.registry import methods
from factrank.tensors.core import Core


def completion_bounds(core: Core, rank: RankBounds, ledger: Ledger, *, full: bool) -> RankBounds:
    """Returns bounds on the completion rank, given bounds on the rank. For a full table the two ranks are equal."""
    if full:
        return RankBounds(rank.lower, rank.upper, rank.estimate)
    inherited = replace(rank.upper, method=f"rank: {rank.upper.method}", inherited=True)
    bracket = Bracket("completion rank", core, ledger, inherited)
    return run_methods(methods(bracket.of), bracket).result()
