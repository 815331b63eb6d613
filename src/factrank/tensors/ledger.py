"""Ledger: runs methods within a budget of seconds and writes down how long each took, or why it was skipped."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from factrank.tensors.bounds import Skipped

T = TypeVar("T")

INTERRUPTED = "interrupted"
NO_SEARCHES = "a search that the clock ends does not repeat"

RESERVE = 0.2
"""Share of the budget that dear methods leave to cheap ones after them."""


class Ledger:
    """The clock of a measurement and the notes of its steps.

    Cheap methods run first; a method whose expected time exceeds what is left of the budget is skipped, and the reason
    is kept. If `interruptible`, Ctrl-C ends the running method and skips all but the cheapest: what was found stays.
    `searches` says whether methods may run that search until their time is up, and so find more on a faster machine.
    """

    searches = True

    def __init__(self, budget: float, on_step: Callable[[str], None], *, interruptible: bool = False) -> None:
        self._budget, self._start, self._on_step = budget, time.monotonic(), on_step
        self._interruptible, self._interrupted = interruptible, False
        self.skipped: list[Skipped] = []
        self.seconds: dict[str, float] = {}

    def left(self) -> float:
        """Seconds of the budget that are left."""
        return self._budget - (time.monotonic() - self._start)

    def take_skipped(self) -> tuple[Skipped, ...]:
        """What was skipped since the last call."""
        skipped, self.skipped = tuple(self.skipped), []
        return skipped

    def skip(self, method: str, reason: str) -> None:
        """Write down that a method was not run."""
        self.skipped.append(Skipped(method, reason))

    def run(self, method: str, expected: float, compute: Callable[[], T], *, dear: bool = False) -> T | None:
        """The result of a method, or None when it was skipped.

        Arguments:
            method: its name.
            expected: its time in seconds; 0 for one that always runs.
            compute: the method.
            dear: leaves a share of the budget to cheap methods that come later.
        """
        if self._interrupted and expected:
            self.skip(method, INTERRUPTED)
            return None
        left = self.left() - (RESERVE * self._budget if dear else 0.0)
        if expected and expected > left:
            self.skip(method, f"would take about {expected:.1f} s, {max(left, 0):.1f} s of the budget left")
            return None
        start = time.monotonic()
        try:
            self._on_step(method)
            return compute()
        except KeyboardInterrupt:
            if not self._interruptible:
                raise
            self._interrupted = True
            self.skip(method, INTERRUPTED)
            return None
        except MemoryError:
            self.skip(method, "not enough memory")
            return None
        finally:
            self.seconds[method] = time.monotonic() - start
