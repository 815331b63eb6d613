"""Claims: published statements as data, and what a table of results says about them.

A claim names a quantity of the table, what was published about it (a number with a tolerance, or a direction), and
where. `evaluate` computes our value and a 95 % interval over seeds, and gives a verdict.

- A number is reproduced when our value lies within the tolerance of it; a number without tolerance, when it lies in our
  interval.
- "greater" and "rises" are reproduced when the whole interval is above 0, "less" and "falls" when it is below, "flat"
  when it lies within 0 +- tolerance, "not rising" when it lies below the tolerance.
- Where nothing comparable was published, our value is "measured": it is reported, and agrees with nothing.
- A claim is not comparable where trials are missing or have no value (an infinite one is none), with fewer than 3
  seeds, and where fewer than half of the resamples have a value; a number also with fewer than 10 seeds. Between 3 and
  9 seeds a direction is judged, and the verdict says that there are few.

The interval is a bootstrap of whole seeds: everything that belongs to one database (by the seed that generated it), or,
where there is one database, to one seed of training, is drawn together, so that shapes are compared on equal databases.
Percentiles are widened for small numbers of seeds (Hesterberg 2015, "What teachers should know about the bootstrap",
arXiv 1411.5279, "expanded percentiles"): with n seeds the tail is Phi(-sqrt(n/(n-1)) t_{n-1}(0.975)).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import isfinite, sqrt
from typing import Any, Literal, get_args

import numpy as np
import pyarrow as pa
from jaxtyping import Bool, Float
from scipy.special import ndtr, stdtrit

from factrank.errors import InputError
from factrank.experiments.statistics.expressions import (
    Value,
    Where,
    columns_in,
    ended_soundly,
    frozen_where,
    missing_columns,
    selected,
)
from factrank.experiments.statistics.quantities import ResampledRows, over_resamples, sample_of
from factrank.experiments.store import ROW_NAMES, DataName, plural, require_data

Kind = Literal["mean", "slope", "correlation", "rank correlation", "best", "least", "first", "greatest", "fraction"]
Direction = Literal["greater", "less", "rises", "falls", "flat", "not rising"]
ClaimStatus = Literal["reproduced", "not reproduced", "measured", "not comparable"]

SEEDS_FOR_NUMBERS = 10
SEEDS_FOR_DIRECTIONS = 3
RESAMPLES = 10_000
DEFINED_SHARE = 0.5
"""The least share of resamples with a value: percentiles of fewer would be those of a minority of the seeds' draws."""
OF_ONE_COLUMN = ("mean", "greatest")
"""The kinds that take no second column."""


@dataclass(frozen=True)
class Quantity:
    """A number computed from the rows of a table.

    `kind`: the mean of a column; the slope of its least-squares line against another column, Pearson's or Spearman's
    correlation with it; "best": the value of the other column at which the mean of this one is greatest (the middle of
    several; not defined where all are equal); "least": the least value of the other column at which the mean of this
    one is within `slack` of what it is at the greatest; "first": the least value of the other column at which this one
    is 0 or more, of each seed, averaged over seeds; "greatest": the greatest value of each seed, averaged over seeds;
    "fraction": the sum of this one over the sum of the other. `within`: computed inside each group of rows that agree
    in these columns, then averaged over groups. `where`: the rows that count. `minus`: another quantity to subtract, on
    the same seeds. Columns may be arithmetic (`factrank.experiments.statistics.expressions`).
    """

    kind: Kind
    column: str
    against: str = ""
    within: tuple[str, ...] = ()
    where: Where = ()
    minus: Quantity | None = None
    slack: int | float = 0.0

    def __post_init__(self) -> None:
        if self.kind not in get_args(Kind):
            raise InputError(f"a quantity is one of {', '.join(get_args(Kind))}; got {self.kind!r}")
        if bool(self.against) == (self.kind in OF_ONE_COLUMN):
            needs = "takes no second column" if self.kind in OF_ONE_COLUMN else "needs a second column, `against`"
            raise InputError(f"a quantity of kind {self.kind} {needs}; got {self.against!r}")
        if isinstance(self.slack, bool) or not (isfinite(self.slack) and self.slack >= 0):
            raise InputError(f"the slack of a quantity must be 0 or more; got {self.slack!r}")
        if self.slack and self.kind != "least":
            raise InputError(f"slack belongs to the kind least; this one is {self.kind}")
        object.__setattr__(self, "slack", float(self.slack))
        within: Any = self.within
        object.__setattr__(self, "within", (within,) if isinstance(within, str) else tuple(within))
        object.__setattr__(self, "where", frozen_where(self.where))
        self.columns  # noqa: B018 - raises where arithmetic is broken

    @property
    def columns(self) -> list[str]:
        """The columns that it is computed from."""
        return [name for text in self.texts for name in columns_in(text)]

    @property
    def texts(self) -> list[str]:
        """The columns and arithmetic that it names."""
        return [self.column, *filter(None, [self.against]), *self.within, *(name for name, _ in self.where)]

    @property
    def parts(self) -> tuple[Quantity, ...]:
        """The quantity itself and what is subtracted from it, in turn."""
        return (self, *(self.minus.parts if self.minus else ()))


@dataclass(frozen=True)
class Claim:
    """A published statement: what was said, where, and the quantity that it is about.

    `published` is None where nothing comparable was published; `note` then says why. `data` names the table that the
    quantity is computed from: one row per trial, per trial and recorded epoch or reading, or per search
    (`factrank.experiments.store.result_tables`).
    """

    name: str
    statement: str
    quantity: Quantity
    published: int | float | Direction | None
    tolerance: int | float = 0.0
    place: str = ""
    quote: str = ""
    note: str = ""
    extension: bool = False
    """Not published: a question of ours beside it, judged alike and counted apart."""
    data: DataName = "trials"

    def __post_init__(self) -> None:
        require_data(f"claim {self.name}: the data", self.data)
        if self.published is None:
            if self.tolerance:
                raise InputError(f"claim {self.name}: a tolerance belongs to something published; got {self.tolerance}")
        elif isinstance(self.published, str):
            if self.published not in get_args(Direction):
                choices = ", ".join(get_args(Direction))
                raise InputError(f"claim {self.name}: a direction is one of {choices}; got {self.published!r}")
        elif isinstance(self.published, bool) or not isfinite(self.published):
            raise InputError(f"claim {self.name}: a published number must be finite; got {self.published!r}")
        else:
            object.__setattr__(self, "published", float(self.published))
        if isinstance(self.tolerance, bool) or not (isfinite(self.tolerance) and self.tolerance >= 0):
            raise InputError(f"claim {self.name}: the tolerance must be 0 or more; got {self.tolerance!r}")
        if self.published == "flat" and not self.tolerance:
            raise InputError(f"claim {self.name}: flat needs a tolerance above 0: no measured number is exactly 0")
        object.__setattr__(self, "tolerance", float(self.tolerance))


@dataclass(frozen=True)
class Verdict:
    """What our trials say about a claim."""

    status: ClaimStatus
    value: float | None = None
    interval: tuple[float, float] | None = None
    n_seeds: int = 0
    why: str = ""


def evaluate(claim: Claim, table: pa.Table, trials: pa.Table | None = None) -> Verdict:
    """Our value of a claim's quantity, its interval over seeds, and the verdict.

    `table` is the one that `claim.data` names. A long table has no rows of trials that never ran: `trials` has them, so
    that the claim is not comparable when one that it asks for is missing (`Tables.beside`).

    >>> table = pa.table({"seed": [0, 0, 1, 1, 2, 2], "d_vo": [1, 2] * 3, "recall": [0.2, 0.5, 0.3, 0.5, 0.2, 0.4]})
    >>> claim = Claim("vo", "recall rises with d_vo", Quantity("slope", "recall", "d_vo"), "rises")
    >>> verdict = evaluate(claim, table)
    >>> verdict.status, verdict.n_seeds, round(verdict.value, 3), verdict.why
    ('reproduced', 3, 0.233, '3 seeds: direction only')
    """
    row_name = ROW_NAMES[claim.data]
    samples: list[ResampledRows] = []
    for quantity in claim.quantity.parts:
        problem = _missing(quantity, trials) if trials is not None else ""
        sample, found = _sample(quantity, table, row_name) if not problem else (None, problem)
        if sample is None:
            return Verdict("not comparable", why=found)
        samples.append(sample)
    units = samples[0].units
    n_seeds = len(units)
    if any(sample.units != units for sample in samples):
        return Verdict("not comparable", why="the two sides of the difference have different seeds")
    unequal = next((text for sample in samples if (text := sample.unequal(row_name))), "")
    if unequal:
        return Verdict("not comparable", n_seeds=n_seeds, why=unequal)
    parts = _values(claim.quantity, samples)
    undefined = next(
        (part for part, found in zip(claim.quantity.parts, parts, strict=True) if not isfinite(found[0])), 0
    )
    if isinstance(undefined, Quantity):
        return Verdict("not comparable", n_seeds=n_seeds, why=f"{_why_undefined(undefined)}, so that it is not defined")
    total = _difference(parts)
    value = float(total[0])
    interval, problem = _interval(total[1:], n_seeds)
    if interval is None:
        return Verdict("not comparable", value, None, n_seeds, problem)
    status, why = _judge(claim, value, interval, n_seeds)
    return Verdict(status, value, interval, n_seeds, why)


def _why_undefined(quantity: Quantity) -> str:
    if quantity.kind == "fraction":
        return f"the sum of {quantity.against} is 0"
    return (
        f"{quantity.column} is below 0 throughout in a seed" if quantity.kind == "first" else "the numbers do not vary"
    )


def _missing(quantity: Quantity, trials: pa.Table) -> str:
    """Which of the trials that a quantity of a long table asks for have no sound rows there; empty where all have."""
    own = tuple(pair for pair in quantity.where if not missing_columns(trials, pair[0]))
    asked = trials.filter(pa.array(selected(trials, own)))
    return _without_value(asked, ~ended_soundly(asked), "trial")


def _sample(quantity: Quantity, table: pa.Table, row_name: str) -> tuple[ResampledRows | None, str]:
    """The rows of a quantity, or why it cannot be computed: unknown columns, no rows, rows without a value."""
    unknown = missing_columns(table, quantity.column, *filter(None, [quantity.against]), *quantity.within)
    if unknown:
        return None, f"no {row_name} has a value of {' or '.join(unknown)}"
    rows = table.filter(pa.array(selected(table, quantity.where)))
    if not rows.num_rows:
        return None, f"no {row_name}{_where_text(quantity.where)}"
    sample = sample_of(rows, quantity.column, quantity.against, quantity.within)
    # A diverged model recalls nothing, and a recall of 0 is no measurement of its shape.
    problem = _without_value(rows, sample.lacking | ~ended_soundly(rows), row_name)
    return (None, problem) if problem else (sample, "")


def _without_value(rows: pa.Table, lacking: Bool[np.ndarray, " rows"], row_name: str) -> str:
    if not lacking.any():
        return ""
    kinds = rows.column("status").to_pylist() if "status" in rows.column_names else [None] * rows.num_rows
    found = [str(kinds[at]) for at in np.flatnonzero(lacking)]
    counts = ", ".join(f"{found.count(kind)} {kind}" for kind in sorted(set(found)) if kind != "None")
    return f"{len(found):,} of {rows.num_rows:,} {plural(row_name)} have no value{f' ({counts})' if counts else ''}"


def _where_text(where: Where) -> str:
    def shown(wanted: Value | tuple[Value, ...]) -> str:
        return " or ".join(map(str, wanted)) if isinstance(wanted, tuple) else str(wanted)

    return " with " + ", ".join(f"{column} = {shown(wanted)}" for column, wanted in where) if where else ""


def _values(quantity: Quantity, samples: Sequence[ResampledRows]) -> list[Float[np.ndarray, " draws"]]:
    """Each part of the quantity on all seeds, then on resamples of them, the same resamples for all parts."""
    weights = _weights(len(samples[0].units))
    return [
        over_resamples(part.kind, sample, weights, float(part.slack))
        for part, sample in zip(quantity.parts, samples, strict=True)
    ]


@lru_cache(maxsize=64)
def _weights(n_units: int) -> Float[np.ndarray, "draws units"]:
    """How often each unit is drawn: once each in the first row, then in 10,000 resamples with fixed random numbers."""
    draws = np.random.default_rng(0).multinomial(n_units, np.full(n_units, 1 / n_units), size=RESAMPLES)
    return np.vstack([np.ones(n_units), draws]).astype(np.float64)


def _difference(parts: Sequence[Float[np.ndarray, " draws"]]) -> Float[np.ndarray, " draws"]:
    """a.minus = b and b.minus = c mean a - (b - c): the signs alternate."""
    total = parts[0]
    for at, other in enumerate(parts[1:]):
        total = total - other if at % 2 == 0 else total + other
    return total


def _interval(resampled: Float[np.ndarray, " resamples"], n_seeds: int) -> tuple[tuple[float, float] | None, str]:
    """Percentiles of the resamples that have a value, or why there are none."""
    if n_seeds < SEEDS_FOR_DIRECTIONS:
        return None, f"{_seeds(n_seeds)}: too few, 3 are the least"
    defined = resampled[np.isfinite(resampled)]
    if len(defined) < DEFINED_SHARE * len(resampled):
        return None, f"defined on {len(defined):,} of {len(resampled):,} resamples of the seeds, fewer than half"
    tail = float(ndtr(-sqrt(n_seeds / (n_seeds - 1)) * stdtrit(n_seeds - 1, 0.975)))
    low, high = np.quantile(defined, [tail, 1 - tail])
    return (float(low), float(high)), ""


def _judge(claim: Claim, value: float, interval: tuple[float, float], n_seeds: int) -> tuple[ClaimStatus, str]:
    low, high = interval
    published, tolerance = claim.published, claim.tolerance
    if published is None:
        few = f"{_seeds(n_seeds)}, a rough interval; " if n_seeds < SEEDS_FOR_NUMBERS else ""
        return "measured", f"{few}nothing to compare with"
    if not isinstance(published, str):
        if n_seeds < SEEDS_FOR_NUMBERS:
            return "not comparable", f"{_seeds(n_seeds)}: a number needs at least {SEEDS_FOR_NUMBERS}"
        if tolerance:
            agrees, why = abs(value - published) <= tolerance, f"within {tolerance:g} of {published:g}"
        else:
            agrees, why = low <= published <= high, f"{published:g} lies in the interval"
        return ("reproduced", why) if agrees else ("not reproduced", f"not {why}" if tolerance else f"not: {why}")
    tests = {
        "greater": (low > 0, "above 0"),
        "rises": (low > 0, "above 0"),
        "less": (high < 0, "below 0"),
        "falls": (high < 0, "below 0"),
        "flat": (-tolerance <= low and high <= tolerance, f"within 0 ± {tolerance:g}"),
        "not rising": (high <= tolerance, f"at most {tolerance:g}"),
    }
    agrees, place = tests[published]
    status: ClaimStatus = "reproduced" if agrees else "not reproduced"
    if n_seeds < SEEDS_FOR_NUMBERS:
        return status, f"{_seeds(n_seeds)}: direction only" if agrees else f"{_seeds(n_seeds)}: not all {place}"
    # Small is not nothing: a tolerance of ours does not hide that the interval excludes 0.
    beside = "" if low <= 0 <= high or not (agrees and tolerance) else f", but {'above' if low > 0 else 'below'} 0"
    return status, f"the interval is {place}{beside}" if agrees else f"the interval is not {place}"


def _seeds(n_seeds: int) -> str:
    return f"{n_seeds} seed{'s' if n_seeds != 1 else ''}"
