"""Requirements and refusals that several bounds share."""

from __future__ import annotations

from factrank.tensors.bounds.bracket import Bracket
from factrank.tensors.bounds.ledger import NO_SEARCHES

MEET = "the bounds already meet"


def functional(bracket: Bracket) -> bool:
    """Every (key, query) has at most one value."""
    return bracket.tensor.determined[2]


def searching(bracket: Bracket) -> bool:
    """The ledger allows searches; published ranks come from one that does not."""
    return bracket.ledger.searches


def gap(bracket: Bracket) -> bool:
    """The bounds do not coincide."""
    return bracket.open


def gap_beyond_flattenings(bracket: Bracket) -> bool:
    """The flattening ranks are below the upper bound, even if other lower bounds are not."""
    return bracket.least > bracket.flattenings.total


def met(bracket: Bracket) -> str:
    """Refuses if the bounds coincide."""
    return "" if bracket.open else MEET


def met_here(bracket: Bracket) -> str:
    """Refuses if the bounds found for this rank itself coincide; an inherited upper bound is no reason to stop."""
    return "" if bracket.least_here > bracket.greatest else MEET


def no_searches(bracket: Bracket) -> str:
    """Refuses if the ledger allows no time-limited searches."""
    return "" if bracket.ledger.searches else NO_SEARCHES
