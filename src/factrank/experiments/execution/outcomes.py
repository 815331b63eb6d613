"""Outcomes: what came of a trial, a result or the reason why there is none."""

from __future__ import annotations

from typing import NamedTuple

from factrank.errors import FactrankError
from factrank.experiments.specs import Trial
from factrank.experiments.training import TrialResult


class Failure(NamedTuple):
    """A trial that could not be run, and why."""

    trial: Trial
    error: str


Outcome = TrialResult | Failure


def describe(error: BaseException) -> str:
    """What went wrong, for the row of a failed trial: the message of our own errors, the kind of any other."""
    text = str(error).strip() or "no message"
    return text if isinstance(error, FactrankError) else f"{type(error).__name__}: {text}"
