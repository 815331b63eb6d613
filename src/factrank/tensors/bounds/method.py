"""BoundMethod: a way to bound a rank, with its expected cost and requirements; and `run_methods`, which tries them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from functools import partial

from factrank.tensors.bounds.bracket import Bracket, Finding, RankName, Side
from factrank.tensors.bounds.certified_bounds import Bound


class Stage(IntEnum):
    """When a method runs."""

    COUNT = 1
    """First: methods that only count, or that others need."""
    CONSTRUCT = 2
    """Upper bounds by explicit decompositions."""
    PROVE = 3
    """Lower bounds that are more expensive than counting."""
    SEARCH = 4
    """Last: time-limited searches."""


@dataclass(frozen=True, kw_only=True)
class BoundMethod:
    """A way to bound a rank.

    Arguments:
        name: its name in the ledger, starting with its code: "U6 spanning tree of query slices".
        of, side, stage: which rank it bounds, from which side, and when it runs.
        run: maps the bracket so far to findings.
        cost: expected seconds, 0 if it always runs. None bypasses the ledger, for methods that cost next to nothing or
            run each of their steps through the ledger.
        needs: conditions without which the method does not apply; it is then skipped silently.
        refusals: reasons not to run it ("" if none); the first one is recorded.
        instead: findings to use if the ledger does not run it.
        expensive: whether it has to leave a fraction of the budget for cheap methods after it.
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
    expensive: bool = False

    @property
    def code(self) -> str:
        """The first word of the name, such as "U6"."""
        return self.name.split()[0]


def run_methods(methods: Iterable[BoundMethod], bracket: Bracket) -> Bracket:
    """Runs the methods in order and returns the resulting bracket."""
    for method in methods:
        for finding in findings(method, bracket):
            bracket = bracket.joined(finding, method.side)
    return bracket


def findings(method: BoundMethod, bracket: Bracket) -> Sequence[Finding]:
    """Returns what a method finds: nothing if it does not apply, is refused, or exceeds the budget."""
    if not all(need(bracket) for need in method.needs):
        return ()
    reason = next(filter(None, (refusal(bracket) for refusal in method.refusals)), "")
    if reason:
        bracket.ledger.skip(method.name, reason)
        return ()
    if method.cost is None:
        return method.run(bracket)
    found = bracket.ledger.run(
        method.name, method.cost(bracket), partial(method.run, bracket), expensive=method.expensive
    )
    if found is None:
        return method.instead(bracket)
    seconds = bracket.ledger.seconds[method.name]
    return [replace(finding, seconds=seconds) if isinstance(finding, Bound) else finding for finding in found]
