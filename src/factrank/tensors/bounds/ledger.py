"""Ledger: runs methods within a time budget and records how long each took, or why it was skipped."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from factrank.tensors.bounds.certified_bounds import Skipped

T = TypeVar("T")

INTERRUPTED = "interrupted"
NO_SEARCHES = "a search that the clock ends does not repeat"

RESERVE = 0.2
"""Fraction of the budget that expensive methods leave for the cheap ones after them."""

PER_FACT = 1e-6
"""Expected seconds per fact of a near-linear pass."""

CHEAP = 0.05
"""Passes expected to take at most this many seconds run regardless of the budget."""


def expected_of(passes: float, n_facts: int) -> float:
    """Returns the expected seconds of a number of passes over the facts, or 0 if they are cheap enough to always run.

    >>> expected_of(2.0, 10_000), expected_of(2.0, 1_000_000)
    (0.0, 2.0)
    """
    seconds = PER_FACT * passes * n_facts
    return seconds if seconds > CHEAP else 0.0


class Ledger:
    """Time budget of a measurement, and a log of its steps.

    A method is skipped, and the reason recorded, if its expected time exceeds the rest of the budget. Expected times
    refer to a reference machine; `calibrate` rescales them for this one. Methods that run in steps stop at `deadline`.

    Arguments:
        budget: seconds.
        on_step: called with the name of each method before it runs.
        interruptible: on Ctrl-C, stop the running method, keep the findings and skip all but the cheapest methods.

    Attributes:
        searches: whether methods may search until their time is up, and so find more on a faster machine.
    """

    searches = True

    def __init__(self, budget: float, on_step: Callable[[str], None], *, interruptible: bool = False) -> None:
        self._budget, self._start, self._on_step = budget, time.monotonic(), on_step
        self._interruptible, self._interrupted = interruptible, False
        self.skipped: list[Skipped] = []
        self.seconds: dict[str, float] = {}
        self._pace, self._held_back = 1.0, 0.0

    def left(self) -> float:
        """Returns the seconds left in the budget, without those held back."""
        return self._budget - self._held_back - (time.monotonic() - self._start)

    def hold_back(self, seconds: float, most: float = 1.0) -> None:
        """Keeps these seconds, at most a fraction `most` of the budget, for later methods, until called again."""
        self._held_back = min(seconds, most * self._budget)

    def deadline(self) -> float:
        """Returns the `time.monotonic` time at which an expensive method should stop with what it has found."""
        return time.monotonic() + max(self.left() - RESERVE * self._budget, 0.0)

    def calibrate(self, method: str, expected: float) -> None:
        """Scales expected times by the actual time of a finished method, if that was slower than expected."""
        if expected:
            self._pace = max(self.seconds[method] / expected, 1.0)

    def report(self, step: str) -> None:
        """Reports progress within a method."""
        self._on_step(step)

    def interrupt(self, method: str) -> None:
        """Handles Ctrl-C inside a method that keeps what it has found; raises again unless interruptible."""
        if not self._interruptible:
            raise KeyboardInterrupt
        self._interrupted = True
        self.skip(method, INTERRUPTED)

    def take_skipped(self) -> tuple[Skipped, ...]:
        """Returns the methods skipped since the last call."""
        skipped, self.skipped = tuple(self.skipped), []
        return skipped

    def skip(self, method: str, reason: str) -> None:
        """Records that a method was not run."""
        self.skipped.append(Skipped(method, reason))

    def run(self, method: str, expected: float, compute: Callable[[], T], *, expensive: bool = False) -> T | None:
        """Runs a method; returns None if it is skipped.

        Arguments:
            method: its name.
            expected: its expected time in seconds; 0 if it always runs.
            compute: the method.
            expensive: whether it has to leave a fraction of the budget for later, cheap methods.
        """
        expected *= self._pace
        if self._interrupted and expected:
            self.skip(method, INTERRUPTED)
            return None
        left = self.left() - (RESERVE * self._budget if expensive else 0.0)
        if expected and expected > left:
            self.skip(method, f"would take about {expected:.1f} s, {max(left, 0):.1f} s of the budget left")
            return None
        start = time.monotonic()
        try:
            self._on_step(method)
            return compute()
        except KeyboardInterrupt:
            self.interrupt(method)
            return None
        except MemoryError:
            self.skip(method, "not enough memory")
            return None
        finally:
            self.seconds[method] = time.monotonic() - start
