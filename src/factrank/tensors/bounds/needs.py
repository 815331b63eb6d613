"""What several bounds need of a table, and what stands against several of them."""

from __future__ import annotations

from factrank.tensors.bounds.bracket import Bracket
from factrank.tensors.bounds.ledger import NO_SEARCHES

MEET = "the bounds already meet"

# -------------------------------------------------------------------- needs


def functional(bracket: Bracket) -> bool:
    """At most one value per (key, query)."""
    return bracket.tensor.determined[2]


def gap(bracket: Bracket) -> bool:
    """The bounds do not meet."""
    return bracket.open


def gap_beyond_flattenings(bracket: Bracket) -> bool:
    """The flattenings do not meet the upper bounds, whatever other lower bounds do."""
    return bracket.least > bracket.flattenings.total


# -------------------------------------------------------------------- refusals


def met(bracket: Bracket) -> str:
    """The bounds meet."""
    return "" if bracket.open else MEET


def met_here(bracket: Bracket) -> str:
    """The bounds that were found for this rank itself meet; an inherited one is no reason to stop."""
    return "" if bracket.least_here > bracket.greatest else MEET


def no_searches(bracket: Bracket) -> str:
    """The ledger allows no search that ends by the clock."""
    return "" if bracket.ledger.searches else NO_SEARCHES
