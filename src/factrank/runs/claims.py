"""Claims: published statements as data, and what a table of results says about them.

A claim names a quantity of the table, what was published about it (a number with a tolerance, or a direction), and
where. `evaluate` computes our value and a 95 % interval over seeds, and gives one of three verdicts.

- A number is reproduced when our value lies within the tolerance of it; a number without tolerance, when it lies in our
  interval.
- "greater" and "rises" are reproduced when the whole interval is above 0, "less" and "falls" when it is below, "flat"
  when it lies within 0 +- tolerance, "not rising" when it lies below the tolerance.
- A claim is not comparable where trials are missing or have no value, and with fewer than 3 seeds; a number also with
  fewer than 10. Between 3 and 9 seeds a direction is judged, and the verdict says that there are few.

The interval is a bootstrap of whole seeds: everything that belongs to one database (by the seed that generated it), or,
where there is one database, to one seed of training, is drawn together, so that shapes are compared on equal databases.
Percentiles are widened for small numbers of seeds (Hesterberg 2015, "What teachers should know about the bootstrap",
arXiv 1411.5279, "expanded percentiles"): with n seeds the tail is Phi(-sqrt(n/(n-1)) t_{n-1}(0.975)).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite, sqrt
from typing import Any, Literal, get_args

import numpy as np
import pyarrow as pa
from jaxtyping import Float
from scipy.special import ndtr, stdtrit

from factrank.errors import InputError
from factrank.runs.expressions import Value, Where, columns_in, ended_soundly, frozen_where, missing_columns, selected
from factrank.runs.statistics import Sample, over_resamples, sample_of

Kind = Literal["mean", "slope", "correlation", "rank correlation", "best"]
Direction = Literal["greater", "less", "rises", "falls", "flat", "not rising"]
Status = Literal["reproduced", "not reproduced", "not comparable"]

SEEDS_FOR_NUMBERS = 10
SEEDS_FOR_DIRECTIONS = 3
RESAMPLES = 10_000


@dataclass(frozen=True)
class Quantity:
    """A number computed from the rows of a table.

    `kind`: the mean of a column; the slope of its least-squares line against another column, Pearson's or Spearman's
    correlation with it; or "best": the value of the other column at which the mean of this one is greatest (the middle
    of several). `within`: computed inside each group of rows that agree in these columns, then averaged over groups.
    `where`: the rows that count. `minus`: another quantity to subtract, on the same seeds. Columns may be arithmetic
    (`factrank.runs.expressions`).
    """

    kind: Kind
    column: str
    against: str = ""
    within: tuple[str, ...] = ()
    where: Where = ()
    minus: Quantity | None = None

    def __post_init__(self) -> None:
        if self.kind not in get_args(Kind):
            raise InputError(f"a quantity is one of {', '.join(get_args(Kind))}; got {self.kind!r}")
        if bool(self.against) == (self.kind == "mean"):
            needs = "takes no second column" if self.kind == "mean" else "needs a second column, `against`"
            raise InputError(f"a {self.kind} {needs}; got {self.against!r}")
        within: Any = self.within
        object.__setattr__(self, "within", (within,) if isinstance(within, str) else tuple(within))
        object.__setattr__(self, "where", frozen_where(self.where))
        self.columns  # noqa: B018 - raises where arithmetic is broken

    @property
    def columns(self) -> list[str]:
        """The columns that it is computed from."""
        texts = [self.column, *filter(None, [self.against]), *self.within, *(name for name, _ in self.where)]
        return [name for text in texts for name in columns_in(text)]

    @property
    def parts(self) -> tuple[Quantity, ...]:
        """The quantity itself and what is subtracted from it, in turn."""
        return (self, *(self.minus.parts if self.minus else ()))


@dataclass(frozen=True)
class Claim:
    """A published statement: what was said, where, and the quantity that it is about."""

    name: str
    statement: str
    quantity: Quantity
    published: int | float | Direction
    tolerance: int | float = 0.0
    place: str = ""
    quote: str = ""
    note: str = ""
    extension: bool = False
    """Not published: a question of ours beside it, judged alike and counted apart."""

    def __post_init__(self) -> None:
        if isinstance(self.published, str):
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

    status: Status
    value: float | None = None
    interval: tuple[float, float] | None = None
    n_seeds: int = 0
    why: str = ""


def evaluate(claim: Claim, table: pa.Table) -> Verdict:
    """Our value of a claim's quantity, its interval over seeds, and the verdict.

    >>> table = pa.table({"seed": [0, 0, 1, 1, 2, 2], "d_vo": [1, 2] * 3, "recall": [0.2, 0.5, 0.3, 0.5, 0.2, 0.4]})
    >>> claim = Claim("vo", "recall rises with d_vo", Quantity("slope", "recall", "d_vo"), "rises")
    >>> verdict = evaluate(claim, table)
    >>> verdict.status, verdict.n_seeds, round(verdict.value, 3), verdict.why
    ('reproduced', 3, 0.233, '3 seeds: direction only')
    """
    samples: list[Sample] = []
    for quantity in claim.quantity.parts:
        problem = _problem(quantity, table)
        if problem:
            return Verdict("not comparable", why=problem)
        columns = (quantity.column, quantity.against, quantity.within)
        samples.append(sample_of(table.filter(pa.array(selected(table, quantity.where))), *columns))
    units = samples[0].units
    n_seeds = len(units)
    if any(sample.units != units for sample in samples):
        return Verdict("not comparable", why="the two sides of the difference have different seeds")
    unequal = next((text for sample in samples if (text := sample.unequal())), "")
    if unequal:
        return Verdict("not comparable", n_seeds=n_seeds, why=unequal)
    value, resampled = _values(claim.quantity, samples)
    if not isfinite(value):
        return Verdict("not comparable", n_seeds=n_seeds, why="the numbers do not vary, so that it is not defined")
    if n_seeds < SEEDS_FOR_DIRECTIONS:
        return Verdict("not comparable", value, None, n_seeds, f"{_seeds(n_seeds)}: too few, 3 are the least")
    interval = _interval(resampled, n_seeds)
    status, why = _judge(claim, value, interval, n_seeds)
    return Verdict(status, value, interval, n_seeds, why)


def _problem(quantity: Quantity, table: pa.Table) -> str:
    """Why the quantity cannot be computed: unknown columns, no rows, rows without a value; empty where it can."""
    unknown = missing_columns(table, quantity.column, *filter(None, [quantity.against]), *quantity.within)
    if unknown:
        return f"no trial has a value of {' or '.join(unknown)}"
    rows = table.filter(pa.array(selected(table, quantity.where)))
    if not rows.num_rows:
        return f"no trial{_where_text(quantity.where)}"
    # A diverged model recalls nothing, and a recall of 0 is no measurement of its shape.
    lacking = sample_of(rows, quantity.column, quantity.against, quantity.within).lacking | ~ended_soundly(rows)
    if lacking.any():
        kinds = rows.column("status").to_pylist() if "status" in rows.column_names else [None] * rows.num_rows
        found = [str(kinds[at]) for at in np.flatnonzero(lacking)]
        counts = ", ".join(f"{found.count(kind)} {kind}" for kind in sorted(set(found)) if kind != "None")
        return f"{len(found):,} of {rows.num_rows:,} trials have no value{f' ({counts})' if counts else ''}"
    return ""


def _where_text(where: Where) -> str:
    def shown(wanted: Value | tuple[Value, ...]) -> str:
        return " or ".join(map(str, wanted)) if isinstance(wanted, tuple) else str(wanted)

    return " with " + ", ".join(f"{column} = {shown(wanted)}" for column, wanted in where) if where else ""


def _values(quantity: Quantity, samples: Sequence[Sample]) -> tuple[float, Float[np.ndarray, " resamples"]]:
    """The quantity on all seeds, and on resamples of them, the same resamples for all its parts."""
    n_units = len(samples[0].units)
    draws = np.random.default_rng(0).multinomial(n_units, np.full(n_units, 1 / n_units), size=RESAMPLES)
    weights = np.vstack([np.ones(n_units), draws]).astype(np.float64)
    first, *others = (
        over_resamples(part.kind, sample, weights) for part, sample in zip(quantity.parts, samples, strict=True)
    )
    # a.minus = b and b.minus = c mean a - (b - c): the signs alternate.
    total = first
    for at, other in enumerate(others):
        total = total - other if at % 2 == 0 else total + other
    return float(total[0]), total[1:]


def _interval(resampled: Float[np.ndarray, " resamples"], n_seeds: int) -> tuple[float, float]:
    tail = float(ndtr(-sqrt(n_seeds / (n_seeds - 1)) * stdtrit(n_seeds - 1, 0.975)))
    defined = resampled[np.isfinite(resampled)]
    low, high = np.quantile(defined, [tail, 1 - tail])
    return float(low), float(high)


def _judge(claim: Claim, value: float, interval: tuple[float, float], n_seeds: int) -> tuple[Status, str]:
    low, high = interval
    published, tolerance = claim.published, claim.tolerance
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
    status: Status = "reproduced" if agrees else "not reproduced"
    if n_seeds < SEEDS_FOR_NUMBERS:
        return status, f"{_seeds(n_seeds)}: direction only" if agrees else f"{_seeds(n_seeds)}: not all {place}"
    # Small is not nothing: a tolerance of ours does not hide that the interval excludes 0.
    beside = "" if low <= 0 <= high or not (agrees and tolerance) else f", but {'above' if low > 0 else 'below'} 0"
    return status, f"the interval is {place}{beside}" if agrees else f"the interval is not {place}"


def _seeds(n_seeds: int) -> str:
    return f"{n_seeds} seed{'s' if n_seeds != 1 else ''}"
