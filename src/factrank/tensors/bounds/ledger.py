"""Ledger: runs methods within a budget of seconds and writes down how long each took, or why it was skipped."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from factrank.tensors.bounds.certified_bounds import Skipped

T = TypeVar("T")

INTERRUPTED = "interrupted"
NO_SEARCHES = "a search that the clock ends does not repeat"

RESERVE = 0.2
"""Fraction of the budget that expensive methods leave to cheap ones after them."""

PER_FACT = 1e-6
"""Seconds per fact of a near-linear pass, for deciding what fits into the budget."""

CHEAP = 0.05
"""Seconds up to which passes always run, whatever is left."""


def expected_of(passes: float, n_facts: int) -> float:
    """The expected seconds of so many passes over the facts; 0 if that is next to nothing, so that they always run.

    >>> expected_of(2.0, 10_000), expected_of(2.0, 1_000_000)
    (0.0, 2.0)
    """
    seconds = PER_FACT * passes * n_facts
    return seconds if seconds > CHEAP else 0.0


class Ledger:
    """The clock of a measurement and the notes of its steps.

    Cheap methods run first; a method whose expected time exceeds what is left of the budget is skipped, and the reason
    is kept. Expected times are those of one machine; `calibrate` compares one with the
    time that was taken, and later ones follow. A method that works in steps asks `deadline` when to end. If
    `interruptible`, Ctrl-C ends the running method and skips all but the cheapest: what was found stays.
    `searches` says whether methods may run that search until their time is up, and so find more on a faster machine.
    """

    searches = True

    def __init__(self, budget: float, on_step: Callable[[str], None], *, interruptible: bool = False) -> None:
        self._budget, self._start, self._on_step = budget, time.monotonic(), on_step
        self._interruptible, self._interrupted = interruptible, False
        self.skipped: list[Skipped] = []
        self.seconds: dict[str, float] = {}
        self._pace = 1.0

    def left(self) -> float:
        """Seconds of the budget that are left."""
        return self._budget - (time.monotonic() - self._start)

    def deadline(self) -> float:
        """The time, by `time.monotonic`, at which an expensive method ends with what it has found."""
        return time.monotonic() + max(self.left() - RESERVE * self._budget, 0.0)

    def calibrate(self, method: str, expected: float) -> None:
        """Take the time of a method that was run for the pace of this machine; a fast one earns no credit."""
        if expected:
            self._pace = max(self.seconds[method] / expected, 1.0)

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
        expected *= self._pace
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
