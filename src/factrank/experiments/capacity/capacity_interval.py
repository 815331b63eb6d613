"""Result of a capacity search: the interval, and the sizes that were run."""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite, log

from factrank.display import Shown
from factrank.errors import InputError
from factrank.experiments.store import Row
from factrank.experiments.study import is_measured_number

NO_LOWER, NO_UPPER, WAITING = "no lower end", "no upper end", "missing"
FINISHED, FAILED, DIVERGED = "finished", "failed", "diverged"
UPPER = "upper_"
"""Prefix of the columns of the upper end."""


@dataclass(frozen=True)
class Criterion:
    """Criterion for storing the facts: a metric of the trained model must be at least `at_least`.

    >>> str(Criterion("recall", 0.99)), Criterion().is_met({"status": "stopped", "recall": 1.0})
    ('recall >= 0.99', True)
    """

    column: str = "recall"
    at_least: int | float = 1.0

    def __post_init__(self) -> None:
        if not isinstance(self.column, str) or not self.column:
            raise InputError(f"the column of a criterion must be the name of a metric; got {self.column!r}")
        number: object = self.at_least
        if isinstance(number, bool) or not isinstance(number, int | float) or not isfinite(number):
            raise InputError(f"at_least of a criterion must be a finite number; got {self.at_least!r}")
        object.__setattr__(self, "at_least", float(self.at_least))

    def __str__(self) -> str:
        return f"{self.column} >= {self.at_least:g}"

    def value(self, row: Row) -> float:
        """Return the metric in a row; minus infinity if it is missing or the model diverged."""
        number = row.get(self.column)
        sound = row.get("status") in ("finished", "stopped") and is_measured_number(self.column, number)
        value = float(number) if sound else -float("inf")  # type: ignore[arg-type]
        return value if value == value else -float("inf")  # noqa: PLR0124 - false for NaN

    def is_met(self, row: Row) -> bool:
        """Return whether the trial of this row meets the criterion."""
        return self.value(row) >= self.at_least


@dataclass(frozen=True)
class Probe:
    """A size that was run: whether any of its trials met the criterion, and the hash and row of the best trial.

    If `diverged`, no trial ended with a sound model; a criterion that is not met is then not a measurement.
    """

    size: int
    met: bool
    hash: str
    row: Row
    diverged: bool = False


@dataclass(frozen=True)
class CapacityInterval(Shown):
    """The capacity is between `lower`, which met the criterion, and `upper`, which did not; both were run.

    `status` is "finished" if both exist and are within the resolution; otherwise it is the problem, and `why` explains
    it. `monotone` is True if no size that met the criterion is larger than a size that did not. `probes` are all sizes
    that were run, ascending.
    """

    lower: int | None
    upper: int | None
    criterion: Criterion
    probes: tuple[Probe, ...]
    rounds: int
    status: str
    why: str = ""
    monotone: bool = True

    def __repr__(self) -> str:
        return f"CapacityInterval({self}; {len(self.probes):,} sizes run in {self.rounds:,} rounds)"

    def __str__(self) -> str:
        if self.status == FINISHED:
            return f"{self.criterion}: holds at {self.lower:,}, not at {self.upper:,}"
        return f"{self.criterion}: {self.status}: {self.why}"

    def probe(self, size: int | None) -> Probe | None:
        """Return the probe of a size, or None."""
        return next((probe for probe in self.probes if probe.size == size), None)

    def to_row(self) -> Row:
        """Return the interval as a row: metrics at the lower end under their own names, at the upper end with `upper_`.

        `log_lower` and `log_facts` are the natural logarithms of the lower end and of its number of facts.
        """
        row: Row = {
            "status": self.status,
            "why": self.why,
            "lower": self.lower,
            "upper": self.upper,
            "log_lower": log(self.lower) if self.lower else None,
            "criterion": str(self.criterion),
            "probes": len(self.probes),
            "rounds": self.rounds,
            "monotone": self.monotone,
        }
        for before, size in (("", self.lower), (UPPER, self.upper)):
            probe = self.probe(size)
            measured = probe.row if probe is not None else {}
            row |= {
                f"{before}{name}": number
                for name, number in measured.items()
                if is_measured_number(name, number) and f"{before}{name}" not in row
            }
        facts = row.get("facts")
        row["log_facts"] = log(facts) if isinstance(facts, int | float) and facts > 0 else None
        return row
