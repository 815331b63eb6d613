"""Statements: the claims about one published sentence combined into one verdict, and all verdicts of a paper.

Claims with the same quote test the same sentence; a claim without a quote is a sentence of its own. Our extensions,
claims without a published result and claims that hold by construction are not counted.

A sentence with several claims is

- reproduced if all of them are (p: the largest of theirs),
- not reproduced if one of them is not (p: the smallest of theirs, times their number),
- otherwise undecided, or not comparable if none of them has a value.

A paper makes many statements, and with 20 of them one verdict in 20 would be wrong by chance. Holm's procedure bounds
the probability of any wrong verdict by 0.05: with the p-values sorted, p_(i) is multiplied by the number of statements
from i on, and a statement whose product exceeds 0.05 is undecided.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from factrank.experiments.statistics.claims import Claim
from factrank.experiments.statistics.verdicts import LEVEL, ClaimStatus, Verdict

Judged = tuple[str, Claim, Verdict]
"""A claim with its verdict and the name of its study."""
DECIDED = ("reproduced", "not reproduced")


@dataclass(frozen=True)
class Statement:
    """A published sentence with its verdict.

    Arguments:
        text: The sentence, or our wording if there is no quote.
        place: Section, figure or table.
        claims: The claims that test it, with the names of their studies.
        status: The combined verdict, after Holm's correction.
        p: Combined p-value, before the correction; None if nothing can be compared.
        adjusted: The p-value after the correction.
    """

    text: str
    place: str
    claims: tuple[Judged, ...]
    status: ClaimStatus
    p: float | None = None
    adjusted: float | None = None

    @property
    def why(self) -> str:
        """How many claims were reproduced, or what the correction changed."""
        alone = _combined([verdict for *_, verdict in self.claims])[0]
        if alone != self.status:
            return f"{alone} by itself, but not beyond chance among the statements of the paper"
        if len(self.claims) == 1:
            return self.claims[0][2].why
        n_reproduced = sum(verdict.status == "reproduced" for *_, verdict in self.claims)
        return f"{n_reproduced} of {len(self.claims)} claims reproduced"


def statements_of(judged: Iterable[Judged]) -> list[Statement]:
    """Combine the claims of one paper into statements, in order of appearance.

    >>> from factrank import Quantity
    >>> said = Claim("a", "A is more.", Quantity("mean", "a"), "greater", quote="a and b grow")
    >>> other = replace(said, name="b", statement="B is more.")
    >>> yes, no = Verdict("reproduced", p=0.001), Verdict("undecided", p=0.4)
    >>> [(one.text, one.status) for one in statements_of([("s", said, yes), ("s", other, no)])]
    [('a and b grow', 'undecided')]
    """
    groups: dict[str, list[Judged]] = {}
    for study, claim, verdict in judged:
        if counts(claim, verdict):
            groups.setdefault(claim.quote or claim.statement, []).append((study, claim, verdict))
    found = []
    for text, own in groups.items():
        places = dict.fromkeys(claim.place for _, claim, _ in own if claim.place)
        status, p = _combined([verdict for *_, verdict in own])
        found.append(Statement(text, "; ".join(places), tuple(own), status, p))
    return _corrected(found)


def counts(claim: Claim, verdict: Verdict) -> bool:
    """Return whether a claim tests a published statement and could fail."""
    return not (claim.extension or claim.published is None or verdict.status == "by construction")


def _combined(verdicts: Sequence[Verdict]) -> tuple[ClaimStatus, float | None]:
    statuses = {verdict.status for verdict in verdicts}
    refuted = [verdict.p for verdict in verdicts if verdict.status == "not reproduced" and verdict.p is not None]
    if refuted:
        return "not reproduced", min(1.0, len(verdicts) * min(refuted))
    known = [verdict.p for verdict in verdicts if verdict.p is not None]
    if statuses == {"not comparable"} or not known:
        return "not comparable", None
    return ("reproduced" if statuses == {"reproduced"} else "undecided"), max(known)


def _corrected(statements: Sequence[Statement]) -> list[Statement]:
    """Apply Holm's procedure to the statements that have a p-value."""
    tested = sorted((one.p, at) for at, one in enumerate(statements) if one.p is not None)
    found, adjusted = list(statements), 0.0
    for rank, (p, at) in enumerate(tested):
        adjusted = max(adjusted, min(1.0, (len(tested) - rank) * p))
        own = found[at]
        decided = own.status in DECIDED and adjusted <= LEVEL
        status: ClaimStatus = own.status if decided or own.status not in DECIDED else "undecided"
        found[at] = replace(own, status=status, adjusted=adjusted)
    return found
