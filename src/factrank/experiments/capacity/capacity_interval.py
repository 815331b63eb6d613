"""What a capacity search found: the interval, and the sizes that were run for it."""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite, log

from factrank.errors import InputError
from factrank.experiments.store import Row
from factrank.experiments.study import is_measured_number

NO_LOWER, NO_UPPER, WAITING = "no lower end", "no upper end", "missing"
FINISHED, FAILED, DIVERGED = "finished", "failed", "diverged"
UPPER = "upper_"
"""What the columns of the upper end begin with."""


@dataclass(frozen=True)
class Criterion:
    """When a trial holds its facts: a measured number, of the model at its end, is at least so much.

    >>> str(Criterion("recall", 0.99)), Criterion().is_met({"status": "stopped", "recall": 1.0})
    ('recall >= 0.99', True)
    """

    column: str = "recall"
    at_least: int | float = 1.0

    def __post_init__(self) -> None:
        if not isinstance(self.column, str) or not self.column:
            raise InputError(f"the column of a criterion is the name of a measured number; got {self.column!r}")
        number: object = self.at_least
        if isinstance(number, bool) or not isinstance(number, int | float) or not isfinite(number):
            raise InputError(f"a criterion asks for a finite number; got {self.at_least!r}")
        object.__setattr__(self, "at_least", float(self.at_least))

    def __str__(self) -> str:
        return f"{self.column} >= {self.at_least:g}"

    def value(self, row: Row) -> float:
        """The number of a row; minus infinity where there is none, or where the model diverged."""
        number = row.get(self.column)
        sound = row.get("status") in ("finished", "stopped") and is_measured_number(self.column, number)
        value = float(number) if sound else -float("inf")  # type: ignore[arg-type]
        return value if value == value else -float("inf")  # noqa: PLR0124 - nan is no value

    def is_met(self, row: Row) -> bool:
        """Whether the trial of this row meets it."""
        return self.value(row) >= self.at_least


@dataclass(frozen=True)
class Probe:
    """One size that was run: whether any of its trials met the criterion, and the row of the best of them.

    `hash` is that of the best trial. `diverged` says that none of its trials ended soundly: that they did not meet
    the criterion is then no measurement.
    """

    size: int
    met: bool
    hash: str
    row: Row
    diverged: bool = False


@dataclass(frozen=True)
class CapacityInterval:
    """The capacity lies between `lower`, which met the criterion, and `upper`, which did not; both were run.

    `status` is "finished" where that is so and they are as near as was asked for; else it says what is lacking, and
    `why` in words. `monotone` says that no size that met the criterion lies above one that did not. `probes` are all
    sizes that were run, in order.
    """

    lower: int | None
    upper: int | None
    criterion: Criterion
    probes: tuple[Probe, ...]
    rounds: int
    status: str
    why: str = ""
    monotone: bool = True

    def __str__(self) -> str:
        if self.status == FINISHED:
            return f"{self.criterion}: holds at {self.lower:,}, not at {self.upper:,}"
        return f"{self.criterion}: {self.status}: {self.why}"

    def probe(self, size: int | None) -> Probe | None:
        """The probe of a size."""
        return next((probe for probe in self.probes if probe.size == size), None)

    def to_row(self) -> Row:
        """The interval as columns: what was measured at the lower end by its own name, at the upper with `upper_`.

        `log_lower` and `log_facts` are natural logarithms of the lower end and of its facts, for N log N.
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
