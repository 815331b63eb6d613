"""SteadyLedger: runs methods by expected time only, never by the clock, and so the same ones on every machine."""

from __future__ import annotations

from math import inf

from factrank.tensors.bounds.ledger import Ledger


class SteadyLedger(Ledger):
    """Ledger for reproducible results: a method runs if its expected time is within a limit, in seconds per method.

    Time-limited searches never run.
    """

    searches = False

    def __init__(self, limit: float) -> None:
        super().__init__(0.0, lambda _: None)
        self._limit = limit

    def deadline(self) -> float:
        """Infinity: a method that has started is finished."""
        return inf

    def left(self) -> float:
        """The limit, regardless of the time spent."""
        return self._limit
