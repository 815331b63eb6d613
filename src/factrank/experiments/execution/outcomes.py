"""Outcomes of trials: a result, or a failure."""

from __future__ import annotations

from typing import NamedTuple

from factrank.errors import FactrankError
from factrank.experiments.specs import Trial
from factrank.experiments.training import TrialResult


class Failure(NamedTuple):
    """A trial that could not be run, and its error message."""

    trial: Trial
    error: str


Outcome = TrialResult | Failure


def describe(error: BaseException) -> str:
    """Describe an error for the row of a failed trial; errors of other packages include their type.

    >>> describe(MemoryError("too large"))
    'MemoryError: too large'
    """
    text = str(error).strip() or "no message"
    return text if isinstance(error, FactrankError) else f"{type(error).__name__}: {text}"
