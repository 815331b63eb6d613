"""Verdicts: the evaluation of claims on a table of results.

`evaluate` estimates the quantity of a claim, with a 95 % confidence interval over tables of facts, and judges it:

- A number is reproduced if our 90 % interval lies within the tolerance of it (equivalence, by two one-sided tests of
  level 0.05), and not reproduced if our 95 % interval lies outside.
- "greater" and "rises" are reproduced if the 95 % interval is above 0 and not reproduced if it is below; "less" and
  "falls" the other way round. "flat" is the number 0. "not rising" is reproduced if a one-sided test of level 0.05
  shows the quantity below the tolerance, and not reproduced if the 95 % interval is above.
- Everything else is undecided: the trials do not suffice. Each verdict states the difference that they would have
  detected with a power of 80 %.
- If no comparable result was published, our value is "measured": it is reported but not judged. A claim that cannot
  fail is "by construction".
- A claim is not comparable if trials are missing or have no finite value, if there are fewer than 3 tables (10 kinds
  for a claim over kinds), or if the quantity is undefined on more than half of the resamples.

The unit of the interval is the table of facts, identified by its fingerprint or by the seed that drew it: all rows of
one table are resampled together, whatever was trained on it, so shapes are compared on the same tables. If there is
only one table, the unit is the training seed. A capacity lies between two sizes that were run; a claim about it is
evaluated at both ends, and the interval covers both.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from math import inf, isfinite
from typing import Literal

import numpy as np
import pyarrow as pa
from jaxtyping import Bool, Float

from factrank.experiments.statistics.claims import Claim, Quantity
from factrank.experiments.statistics.expressions import (
    Value,
    Where,
    ended_soundly,
    missing_columns,
    selected,
)
from factrank.experiments.statistics.intervals import ResampledEstimate
from factrank.experiments.statistics.limits import QuantityLimits
from factrank.experiments.statistics.nested_variance import variance_components
from factrank.experiments.statistics.quantities import Draws, ResampledRows, limits_of, over_draws, sample_of
from factrank.experiments.statistics.search_ends import at_upper_end, names_an_end
from factrank.experiments.store import ROW_NAMES, plural

ClaimStatus = Literal["reproduced", "not reproduced", "undecided", "measured", "by construction", "not comparable"]

DIRECTIONS = ("greater", "rises", "less", "falls")
MEASURED: ClaimStatus = "measured"

LEVEL = 0.05
LEAST_UNITS = 3
LEAST_KINDS = 10
FEW_UNITS = 10
RESAMPLES = 10_000


@dataclass(frozen=True)
class Verdict:
    """Result of evaluating a claim on our trials.

    Arguments:
        interval: 95 % confidence interval, over `n_seeds` tables.
        p: p-value of the decision: of the two-sided test of a direction, or of the equivalence with a number.
        detectable: Difference that the trials would have detected with a power of 80 %.
        between: Standard deviation of the quantity between tables; None unless each table was trained several times.
        within: Standard deviation between trainings on one table; None in the same cases.
    """

    status: ClaimStatus
    value: float | None = None
    interval: tuple[float, float] | None = None
    n_seeds: int = 0
    why: str = ""
    p: float | None = None
    detectable: float | None = None
    between: float | None = None
    within: float | None = None


def evaluate(claim: Claim, table: pa.Table, trials: pa.Table | None = None) -> Verdict:
    """Evaluate a claim: estimate its quantity, the interval over tables, and the verdict.

    Arguments:
        claim: The claim.
        table: Table named by `claim.data`.
        trials: Table of all trials. Long tables have no rows for trials that never ran; with this table, the claim is
            not comparable if such a trial is missing (`Tables.beside`).

    >>> table = pa.table({"seed": [0, 0, 1, 1, 2, 2], "d_vo": [1, 2] * 3, "recall": [0.2, 0.5, 0.3, 0.6, 0.2, 0.49]})
    >>> claim = Claim("vo", "Recall rises with d_vo.", Quantity("slope", "recall", "d_vo"), "rises")
    >>> verdict = evaluate(claim, table)
    >>> verdict.status, verdict.n_seeds, round(verdict.value, 3), verdict.why
    ('reproduced', 3, 0.297, 'the interval is above 0 (3 seeds)')
    """
    ends = [table]
    if claim.data == "searches" and names_an_end(claim.quantity):
        ends.append(at_upper_end(table))
    found = [_estimate(claim, end, trials) for end in ends]
    failed = next((one for one in found if isinstance(one, Verdict)), None)
    if failed is not None:
        return failed
    verdict = _judged(claim, [one for one in found if isinstance(one, ResampledEstimate)])
    parts = variance_components(claim, table)
    return verdict if parts is None else replace(verdict, between=parts.between, within=parts.within)


def _estimate(claim: Claim, table: pa.Table, trials: pa.Table | None) -> ResampledEstimate | Verdict:
    """ResampledEstimate the quantity of a claim, or explain why it is not comparable."""
    row_name = ROW_NAMES[claim.data]
    samples: list[ResampledRows] = []
    for quantity in claim.quantity.parts:
        problem = _missing(quantity, trials) if trials is not None else ""
        sample, found = _sample(quantity, table, row_name, claim.kinds) if not problem else (None, problem)
        if sample is None:
            return Verdict("not comparable", why=found)
        samples.append(sample)
    units = samples[0].units
    n_units = len(units)
    if any(sample.units != units for sample in samples):
        return Verdict("not comparable", why="the two sides of the difference have different tables")
    unequal = "" if claim.kinds else next((text for sample in samples if (text := sample.unequal(row_name))), "")
    if unequal:
        return Verdict("not comparable", n_seeds=n_units, why=unequal)
    weights = _weights(n_units)
    parts = [
        over_draws(part.kind, sample, weights, float(part.slack))
        for part, sample in zip(claim.quantity.parts, samples, strict=True)
    ]
    for part, draws in zip(claim.quantity.parts, parts, strict=True):
        if not isfinite(draws.values[0]):
            return Verdict("not comparable", n_seeds=n_units, why=f"{_why_undefined(part)}, so that it is not defined")
    total = _difference(parts)
    limits = _limits(claim.quantity.parts, parts)
    estimate = ResampledEstimate(total.values, total.errors(weights), n_units, samples[0].unit_name, limits)
    least = LEAST_KINDS if claim.kinds else LEAST_UNITS
    few = f"{_counted(estimate)}: too few, {least} are the least" if n_units < least else ""
    problem = few or estimate.problem
    return Verdict("not comparable", estimate.value, None, n_units, problem) if problem else estimate


def _why_undefined(quantity: Quantity) -> str:
    if quantity.kind == "fraction":
        return f"the sum of {quantity.against} is 0"
    return (
        f"{quantity.column} is below 0 throughout in a table" if quantity.kind == "first" else "the numbers do not vary"
    )


def _missing(quantity: Quantity, trials: pa.Table) -> str:
    """Describe the trials that a quantity of a long table requires but that have no sound rows; empty if all have."""
    own = tuple(pair for pair in quantity.where if not missing_columns(trials, pair[0]))
    asked = trials.filter(pa.array(selected(trials, own)))
    return _without_value(asked, ~ended_soundly(asked), "trial")


def _sample(quantity: Quantity, table: pa.Table, row_name: str, kinds: str) -> tuple[ResampledRows | None, str]:
    """Select the rows of a quantity, or explain why it cannot be computed: unknown columns, no rows, missing values."""
    unknown = missing_columns(
        table, quantity.column, *filter(None, [quantity.against, kinds]), *quantity.within, *quantity.given
    )
    if unknown:
        return None, f"no {row_name} has a value of {' or '.join(unknown)}"
    rows = table.filter(pa.array(selected(table, quantity.where)))
    if not rows.num_rows:
        return None, f"no {row_name}{_where_text(quantity.where)}"
    sample = sample_of(rows, quantity.column, quantity.against, quantity.within, kinds, quantity.given)
    # A diverged model has a recall of 0, which is not a measurement of its shape.
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


@lru_cache(maxsize=64)
def _weights(n_units: int) -> Float[np.ndarray, "draws units"]:
    """Draw how often each unit occurs: once in the first row, then in 10,000 resamples with a fixed seed."""
    draws = np.random.default_rng(0).multinomial(n_units, np.full(n_units, 1 / n_units), size=RESAMPLES)
    return np.vstack([np.ones(n_units), draws]).astype(np.float64)


def _difference(parts: Sequence[Draws]) -> Draws:
    """Combine the parts: a.minus = b and b.minus = c mean a - (b - c)."""
    first, *rest = parts
    return first.minus(_difference(rest)) if rest else first


def _limits(quantities: Sequence[Quantity], parts: Sequence[Draws]) -> QuantityLimits | None:
    """Combine the limits of the parts, as in `_difference`; None if one has none, or if all are constant."""
    found = [limits_of(quantity.kind, draws) for quantity, draws in zip(quantities, parts, strict=True)]
    total = QuantityLimits(0.0, 0.0)
    for limits in reversed(found):
        if limits is None:
            return None
        total = limits.minus(total)
    return total if total.low < total.high else None


def _judged(claim: Claim, ends: Sequence[ResampledEstimate]) -> Verdict:
    """Judge a claim by the interval that covers the estimates at all ends."""
    first, interval = ends[0], _covering(ends, 0.95)
    status, why, p = (
        _decided(claim, ends) if claim.published is not None else (MEASURED, "nothing to compare with", None)
    )
    # Report if the interval excludes 0, even if it is within our tolerance.
    if status == "reproduced" and isinstance(claim.published, str) and claim.tolerance:
        why += "" if interval[0] <= 0 <= interval[1] else f", but {'above' if interval[0] > 0 else 'below'} 0"
    if first.n_units < FEW_UNITS:
        why += f" ({_counted(first)})"
    if claim.by_construction and _agrees(claim, first.value):
        status, why = "by construction", claim.by_construction
    return Verdict(status, first.value, interval, first.n_units, why, p, max(end.detectable for end in ends))


def _decided(claim: Claim, ends: Sequence[ResampledEstimate]) -> tuple[ClaimStatus, str, float]:
    """Return the status, where the interval lies, and the p-value of the decision.

    The published result is a range. To lie inside is tested at both ends of the range with a level of 0.05 each, since
    only one of them can fail; a direction has a single end, and its two outcomes share the level.
    """
    low, high, name = _published_range(claim)
    sides = 2 if claim.published in DIRECTIONS else 1
    inside, outside = _covering(ends, 1 - 2 * LEVEL / sides), _covering(ends, 1 - LEVEL)
    p_inside = sides * max(max(end.p_above(low), end.p_below(high)) for end in ends)
    if low <= inside[0] and inside[1] <= high and not _touches(inside, claim):
        return "reproduced", f"the interval is {name}", p_inside
    if outside[1] < low or outside[0] > high:
        p_outside = 2 * max(min(end.p_below(low), end.p_above(high)) for end in ends)
        opposite = {"above 0": "below 0", "below 0": "above 0"}.get(name, f"not {name}")
        return "not reproduced", f"the interval is {opposite}", p_outside
    return "undecided", f"the interval is in part {name}", min(1.0, p_inside)


def _published_range(claim: Claim) -> tuple[float, float, str]:
    """Return the range of the published result, and its name."""
    published, tolerance = claim.published, claim.tolerance
    if published in DIRECTIONS:
        return (0.0, inf, "above 0") if published in ("greater", "rises") else (-inf, 0.0, "below 0")
    if published == "not rising":
        return -inf, tolerance, f"at most {tolerance:g}"
    centre = published if isinstance(published, float) else 0.0
    return centre - tolerance, centre + tolerance, f"within {centre:g} ± {tolerance:g}"


def _agrees(claim: Claim, value: float) -> bool:
    low, high, _ = _published_range(claim)
    return low <= value <= high and not (claim.published in DIRECTIONS and value == 0)


def _touches(interval: tuple[float, float], claim: Claim) -> bool:
    """Return whether the interval of a direction contains 0, which neither rises nor falls."""
    return claim.published in DIRECTIONS and interval[0] <= 0 <= interval[1]


def _covering(ends: Sequence[ResampledEstimate], level: float) -> tuple[float, float]:
    intervals = [end.interval(level) for end in ends]
    return min(low for low, _ in intervals), max(high for _, high in intervals)


def _counted(estimate: ResampledEstimate) -> str:
    return f"{estimate.n_units} {estimate.unit_name}{'s' if estimate.n_units != 1 else ''}"
