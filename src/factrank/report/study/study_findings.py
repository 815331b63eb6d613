"""Claims, summaries and fits of a study in Markdown."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

import pyarrow as pa

from factrank.experiments.columns import label
from factrank.experiments.statistics import QUANTITY, Claim, FitResult, Statement, Summary, Verdict, fixed
from factrank.experiments.study import Results, StudyResults
from factrank.report.markdown import cell, inline, number_text, steady, table_text, value_text

EXTENSION, EXPLORATORY = "*", "†"
MARKS = {
    EXTENSION: "\\* not published: a question of ours",
    EXPLORATORY: "† exploratory: written or changed after the run, and not counted",
}
"""Marks after the statement of a claim, and what they mean."""


def claims_text(found: StudyResults, *, names: bool = False) -> str:
    """Return the claims of a study as a table, optionally with their names; extensions and later claims are marked."""
    rows = [
        [
            *([cell(claim.name)] if names else []),
            cell(
                " ".join([claim.statement, *claim_marks(claim, found)]) + (f" ({claim.place})" if claim.place else "")
            ),
            cell(published_text(claim)),
            value_text(verdict.value, *(verdict.interval or (None, None))),
            "–" if verdict.detectable is None else number_text(verdict.detectable),
            str(verdict.n_seeds or "–"),
            f"**{verdict.status}**" if verdict.status == "reproduced" else verdict.status,
            cell("; ".join(filter(None, [verdict.why, spread_text(verdict)]))),
        ]
        for claim, verdict in found.judged
    ]
    numeric = ["ours [95 %]", "detectable", "seeds"]
    head = [*(["name"] if names else []), "claim", "published", *numeric, "verdict", "why"]
    used = {mark for claim, _ in found.judged for mark in claim_marks(claim, found)}
    return "\n\n".join([table_text(head, rows, numeric=numeric), *(MARKS[mark] for mark in MARKS if mark in used)])


def claim_marks(claim: Claim, found: StudyResults) -> list[str]:
    """Return the marks that apply to a claim."""
    return [EXTENSION] * claim.extension + [EXPLORATORY] * is_exploratory(claim, found)


def is_exploratory(claim: Claim, found: StudyResults) -> bool:
    """Return whether a claim was added or changed after the run, so that it is not counted."""
    return fixed(claim, found.fixed) in ("added since", "changed since")


def spread_text(verdict: Verdict) -> str:
    """Return both variance components as standard deviations; empty if tables were trained once."""
    if verdict.between is None or verdict.within is None:
        return ""
    between, within = number_text(verdict.between), number_text(verdict.within)
    return f"standard deviation {between} between tables, {within} between trainings of a table"


def statements_text(statements: Sequence[Statement]) -> str:
    """Return the published statements of a paper as a table: one sentence, one verdict."""
    rows = [
        [
            cell(one.text) + (f" ({cell(one.place)})" if one.place else ""),
            f"**{one.status}**" if one.status == "reproduced" else one.status,
            "–" if one.adjusted is None else f"{one.adjusted:.2g}",
            str(len(one.claims)),
            cell(one.why),
        ]
        for one in statements
    ]
    return table_text(["statement", "verdict", "p (Holm)", "claims", "why"], rows, numeric=["p (Holm)", "claims"])


def fixed_text(results: Results) -> str:
    """Return a sentence on whether the claims were fixed before the runs."""
    times = Counter(fixed(claim, found.fixed) for found in results.values() for claim, _ in found.judged)
    total, n_before = times.total(), times["before the run"]
    if times["unknown"] == total:
        return "The claims were not frozen: these runs have no record of what was claimed before they started."
    later = times["added since"] + times["changed since"]
    exploratory = f"; {later:,} were added or changed since, and are exploratory" if later else ""
    unknown = f"; of {times['unknown']:,} there is no record" if times["unknown"] else ""
    return f"{n_before:,} of {total:,} claims were fixed before their runs{exploratory}{unknown}."


def quotes_text(found: StudyResults) -> str:
    """Return the quotes behind the claims of a study and our notes, as a list; empty if there are none."""
    lines = []
    for claim, _ in found.judged:
        said = [f"“{inline(claim.quote)}”"] if claim.quote else []
        said += [f"Note: {inline(claim.note)}"] if claim.note else []
        if said:
            place = f" ({inline(claim.place)})" if claim.place else ""
            lines.append(f"- **{inline(claim.name)}**{place}: {' '.join(said)}")
    return "\n".join(lines)


def published_text(claim: Claim, directions: Mapping[str, str] = MappingProxyType({})) -> str:
    """Return the published value of a claim with its tolerance; a direction in the words of `directions`."""
    tolerance = f" ± {claim.tolerance:g}" if claim.tolerance else ""
    if claim.published is None:
        return "none published"
    if isinstance(claim.published, str):
        return directions.get(claim.published, claim.published) + (f" (0{tolerance})" if tolerance else "")
    return f"{claim.published:g}{tolerance}"


def summary_text(summary: Summary, table: pa.Table) -> str:
    """Return a summary as a table: one row per setting, one column per quantity."""
    labels = [name for name, _ in summary.quantities]
    lines: dict[tuple[object, ...], dict[str, str]] = {}
    seeds: dict[tuple[object, ...], set[int]] = {}
    for row in table.to_pylist():
        setting = tuple(row[name] for name in summary.over)
        lines.setdefault(setting, {})[row[QUANTITY]] = value_text(row["value"], row["low"], row["high"])
        seeds.setdefault(setting, set()).add(row["seeds"])
    head = [*(cell(label(name)) for name in summary.over), *map(cell, labels), "seeds"]
    rows = [
        [
            *map(_setting_text, setting),
            *(found.get(name, "–") for name in labels),
            "/".join(str(count) for count in sorted(seeds[setting])),
        ]
        for setting, found in lines.items()
    ]
    texts = {cell(label(name)) for name in summary.over if pa.types.is_string(table.schema.field(name).type)}
    reasons = list(dict.fromkeys(cell(why) for why in table["why"].to_pylist() if why))
    below = f"\n\n– no value: {'; '.join(reasons)}" if reasons else ""
    return table_text(head, rows, numeric=[name for name in head if name not in texts]) + below


def _setting_text(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{steady(value):g}" if isinstance(value, float) else cell(str(value))


def fit_text(result: FitResult) -> str:
    """Return a fit as a formula, with its errors and the errors of the mean alone."""
    if result.coefficients is None:
        return f"no fit ({result.why})"
    formula = replace(result, coefficients=tuple(map(steady, result.coefficients))).formula
    shown = [f"[{number_text(low)}, {number_text(high)}]" for low, high in result.intervals or ()]
    intervals = f" (95 % over settings: {', '.join(shown)})" if shown else ""
    errors = [("error", result.error, result.constant_error)]
    errors.append(("error on settings left out", result.left_out, result.constant_left_out))
    texts = [
        f"{what} {number_text(own)}" + (f" (of the mean alone {number_text(alone)})" if alone is not None else "")
        for what, own, alone in errors
        if own is not None
    ]
    texts += [f"R² {number_text(result.r_squared)}"] if result.r_squared is not None else []
    without = f", {result.n_without} without a value" if result.n_without else ""
    return f"`{formula}`{intervals}: {', '.join(texts)}; {result.n_settings} settings{without}"


def verdict_text(verdict: Verdict) -> str:
    """Return our value of a claim and its interval, or the reason why there is none."""
    if verdict.value is None:
        return f"no value ({verdict.why})"
    return value_text(verdict.value, *(verdict.interval or (None, None)))
