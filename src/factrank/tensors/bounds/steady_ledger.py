"""SteadyLedger: decides by expected times alone, never by the clock, so that the same methods run on every machine."""

from __future__ import annotations

from math import inf

from factrank.tensors.bounds.ledger import Ledger


class SteadyLedger(Ledger):
    """A ledger for results that must repeat: each method runs if its expected time is within a limit of seconds.

    The limit is per method; searches that end by the clock never run.
    """

    searches = False

    def __init__(self, limit: float) -> None:
        super().__init__(0.0, lambda _: None)
        self._limit = limit

    def deadline(self) -> float:
        """None: what has begun is finished."""
        return inf

    def left(self) -> float:
        """The limit, whatever was spent."""
        return self._limit
