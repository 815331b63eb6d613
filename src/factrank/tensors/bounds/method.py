"""BoundMethod: one way to bound a rank, with its expected cost and what it needs; and how methods are tried in turn."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from functools import partial

from factrank.tensors.bounds.bracket import Bracket, Finding, RankName, Side
from factrank.tensors.bounds.certified_bounds import Bound


class Stage(IntEnum):
    """When a method has its turn."""

    COUNT = 1
    """First: what needs no more than counting, or what others need."""
    CONSTRUCT = 2
    """Upper bounds, which build their terms."""
    PROVE = 3
    """Lower bounds, where those that count fall short."""
    SEARCH = 4
    """Last: searches that end by the clock."""


@dataclass(frozen=True, kw_only=True)
class BoundMethod:
    """One way to bound a rank.

    Arguments:
        name: what the ledger calls it, its code first: "U6 spanning tree of query slices".
        of, side, stage: which rank it bounds, from which side, and when it has its turn.
        run: what it finds, given what is known so far.
        cost: its expected seconds, 0 if it always runs; None for what is no step of the ledger: it costs next to
            nothing, or asks the ledger for every step of its own.
        needs: without one of these it does not apply, and is not mentioned.
        refusals: why it is not run, "" if nothing stands against it; the first reason is written down.
        instead: what holds where the ledger does not run it.
        dear: leaves a share of the budget to cheap methods after it.
    """

    name: str
    of: RankName
    side: Side
    stage: Stage
    run: Callable[[Bracket], Sequence[Finding]]
    cost: Callable[[Bracket], float] | None = None
    needs: tuple[Callable[[Bracket], bool], ...] = ()
    refusals: tuple[Callable[[Bracket], str], ...] = ()
    instead: Callable[[Bracket], Sequence[Finding]] = lambda _: ()
    dear: bool = False

    @property
    def code(self) -> str:
        """The first word of the name, such as "U6"."""
        return self.name.split()[0]


def run_methods(methods: Iterable[BoundMethod], bracket: Bracket) -> Bracket:
    """The bracket after these methods, in their order."""
    for method in methods:
        for finding in findings(method, bracket):
            bracket = bracket.joined(finding, method.side)
    return bracket


def findings(method: BoundMethod, bracket: Bracket) -> Sequence[Finding]:
    """What a method finds; nothing where it does not apply, is refused, or does not fit into the budget."""
    if not all(need(bracket) for need in method.needs):
        return ()
    reason = next(filter(None, (refusal(bracket) for refusal in method.refusals)), "")
    if reason:
        bracket.ledger.skip(method.name, reason)
        return ()
    if method.cost is None:
        return method.run(bracket)
    found = bracket.ledger.run(method.name, method.cost(bracket), partial(method.run, bracket), dear=method.dear)
    if found is None:
        return method.instead(bracket)
    seconds = bracket.ledger.seconds[method.name]
    return [replace(finding, seconds=seconds) if isinstance(finding, Bound) else finding for finding in found]
