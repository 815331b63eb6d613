"""The tables of a study's report: verdicts, settings, how it ran, what failed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from html import escape

import pyarrow as pa

from factrank.experiments import label
from factrank.experiments.statistics import SOUND, Claim, Fit, FitResult, Value, Verdict
from factrank.experiments.store import TRIAL_GROUPS, plural
from factrank.experiments.study import StudyResults
from factrank.foreign_text import shown_name

BADGES = {
    "reproduced": ("yes", "✓ reproduced"),
    "not reproduced": ("no", "✗ not reproduced"),
    "measured": ("measured", "○ measured"),
    "not comparable": ("open", "– not comparable"),
}
DIRECTIONS = {"greater": "greater than 0", "less": "less than 0", "flat": "flat", "not rising": "does not rise"}
MOST_VALUES = 20
MOST_ERRORS = 30


def tally(results: StudyResults) -> str:
    """The study in a line: how many trials are done, how many searches ended, how many claims hold."""
    items = [f"<li>{_many(results.n_trials, 'trial')}</li>"]
    kinds = {"finished": "yes", "stopped": "yes", "failed": "no", "diverged": "no"}
    items += [
        f'<li class="{kinds.get(status, "open")}">{count:,} {_text(status)}</li>'
        for status, count in results.statuses.items()
    ]
    items += [f"<li>{_many(results.n_searches, 'search')}</li>"] if results.n_searches else []
    items += [
        f'<li class="{kinds.get(status, "open")}">{_many(count, "search")} {_text(status)}</li>'
        for status, count in results.search_statuses.items()
        if status not in SOUND
    ]
    found: Counter[str] = Counter(verdict.status for claim, verdict in results.judged if not claim.extension)
    items += [
        f'<li class="{BADGES[status][0]}">{_many(found[status], "claim")} {status}</li>'
        for status in BADGES
        if found[status]
    ]
    return f"<ul class=tally>{''.join(items)}</ul>"


def claims_section(judged: Sequence[tuple[Claim, Verdict]]) -> str:
    """Each claim with what was published, what we found, and the verdict."""
    if not judged:
        return ""
    rows = "".join(_claim_row(claim, verdict) for claim, verdict in judged)
    head = "".join(
        f"<th scope=col{' class=number' if name in NUMBERS else ''}>{name}</th>"
        for name in ("Claim", "Published", "Ours", "95 % interval", "Seeds", "Verdict")
    )
    return (
        "<h2>Claims</h2><div class=scroll><table class=cards><caption>Published statements beside what these trials "
        "say. Intervals come from a bootstrap over seeds.</caption>"
        f"<thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>"
    )


NUMBERS = ("Ours", "95 % interval", "Seeds")


def _claim_row(claim: Claim, verdict: Verdict) -> str:
    ours_alone = "not published: a question of ours" if claim.extension else ""
    about = [f"“{_text(claim.quote)}”" if claim.quote else "", _text(claim.place), ours_alone]
    said = f"<div class=soft>{', '.join(filter(None, about))}</div>" if any(about) else ""
    note = f"<div class=soft>{_text(claim.note)}</div>" if claim.note else ""
    kind, badge = BADGES[verdict.status]
    ours = "–" if verdict.value is None else f"{verdict.value:.3g}"
    interval = "–" if verdict.interval is None else f"{verdict.interval[0]:.3g} to {verdict.interval[1]:.3g}"
    return (
        f"<tr><th scope=row>{_text(claim.statement)}{said}{note}</th>"
        f'<td data-label="Published">{_text(_published(claim))}</td>'
        f'<td class=number data-label="Ours">{ours.replace("-", "−")}</td>'
        f'<td class=number data-label="95 % interval">{interval.replace("-", "−")}</td>'
        f'<td class=number data-label="Seeds">{verdict.n_seeds or "–"}</td>'
        f'<td><span class="verdict {kind}">{badge}</span><div class=soft>{_text(verdict.why)}</div></td></tr>'
    )


def _published(claim: Claim) -> str:
    """What was published, or, of an extension, what we ask."""
    if claim.published is None:
        return "none published"
    tolerance = f" ± {claim.tolerance:g}" if claim.tolerance else ""
    if isinstance(claim.published, str):
        return DIRECTIONS.get(claim.published, claim.published) + (f" (0{tolerance})" if tolerance else "")
    return f"{claim.published:g}{tolerance}"


def fits_section(fits: Sequence[tuple[Fit, FitResult]]) -> str:
    """Each fit as a formula, with its errors beside those of the constant alone."""
    if not fits:
        return ""
    names = ("Rule", "Error", "Left out", "Mean alone", "Left out", "R²", "Settings")
    head = "".join(f"<th scope=col{' class=number' if at else ''}>{name}</th>" for at, name in enumerate(names))
    rows = "".join(_fit_row(fit, result) for fit, result in fits)
    caption = (
        "Least squares over settings. Errors are root mean squares: of the rule, and of rules fitted without the "
        "setting that they predict; then both of the mean alone."
    )
    return (
        f"<h2>Fits</h2><div class=scroll><table class='plain fits'><caption>{caption}</caption>"
        f"<thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>"
    )


def _fit_row(fit: Fit, result: FitResult) -> str:
    numbers = (result.error, result.left_out, result.constant_error, result.constant_left_out, result.r_squared)
    cells = ["–" if number is None else f"{number:.3g}".replace("-", "−") for number in numbers]
    without = f" ({result.n_without:,} without a value)" if result.n_without else ""
    formula = f"<div><code>{_text(result.formula)}</code></div>" if result.formula else ""
    ends = ", ".join(f"{low:.3g} to {high:.3g}" for low, high in result.intervals or ())
    formula += f"<div class=soft>95 % over settings: {ends.replace('-', '−')}</div>" if ends else ""
    why = f"<div class=soft>{_text(result.why)}</div>" if result.why else ""
    return (
        f"<tr><th scope=row>{_text(fit.title)}{formula}{why}</th>"
        f"{''.join(f'<td class=number>{cell}</td>' for cell in cells)}"
        f"<td class=number>{result.n_settings:,}{without}</td></tr>"
    )


def searches_section(searches: pa.Table) -> str:
    """How the searches ended: their intervals in words, those without an answer with the reason."""
    if not searches.num_rows:
        return ""
    statuses, monotone = _texts(searches, "status"), _column(searches, "monotone")
    probes = [number for number in _column(searches, "probes") if isinstance(number, int)]
    uneven = sum(value is False for value in monotone)
    said = (
        f"{_many(searches.num_rows, 'search')} over sizes. Each asks for trials round by round, until the largest size "
        "that meets its criterion and the next one above it, which does not, are near each other; both were run."
    )
    said += f" {min(probes)} to {max(probes)} sizes were run for each." if probes else ""
    said += f" In {_many(uneven, 'search')} a size met the criterion above one that did not." if uneven else ""
    reasons: dict[tuple[str, str], list[str]] = {}
    rows = zip(statuses, _texts(searches, "why"), _texts(searches, "search"), strict=True)
    for status, why, name in rows:
        if status not in SOUND:
            reasons.setdefault((status, why), []).append(name)
    items = "".join(
        f"<li>{_many(len(names), 'search')}, first {_text(names[0])}: {_text(f'{status}: {why}')}</li>"
        for (status, why), names in list(reasons.items())[:MOST_ERRORS]
    )
    lacking = f"<p>Without an answer:</p><ul>{items}</ul>" if items else ""
    return f"<h2>Searches</h2><p>{said}</p>{lacking}"


def settings_section(own: pa.Table) -> str:
    """What varies over the trials, and what is the same in all of them."""
    varied: list[tuple[str, str]] = []
    fixed: list[tuple[str, str]] = []
    for name in own.column_names:
        if not name.startswith(TRIAL_GROUPS):
            continue
        found = list(dict.fromkeys(own.column(name).to_pylist()))
        (varied if len(found) > 1 else fixed).append((name, _values_text(found)))
    return (
        "<h2>Settings</h2>"
        + _settings("What varies", varied)
        + f"<details><summary>What is the same in all trials</summary>{_settings('What is the same', fixed)}</details>"
    )


def _settings(caption: str, rows: Sequence[tuple[str, str]]) -> str:
    if not rows:
        return f"<p class=soft>{caption}: nothing.</p>"
    body = "".join(
        f"<tr><th scope=row>{_text(label(name))}</th><td>{_text(found)}</td>"
        f"<td class=soft><code>{_text(name)}</code></td></tr>"
        for name, found in rows
    )
    head = "<th scope=col>Setting</th><th scope=col>Values</th><th scope=col>Column</th>"
    return (
        f"<div class=scroll><table class=plain><caption>{caption}</caption>"
        f"<thead><tr>{head}</tr></thead>"
        f"<tbody>{body}</tbody></table></div>"
    )


def run_section(own: pa.Table, command: str) -> str:
    """With what and how long the trials ran, and how to run them again."""
    rows = []
    for name, title in (("engine", "Engine"), ("device", "Device")):
        counts = Counter(found for found in _texts(own, name) if found)
        if counts:
            rows.append((title, ", ".join(f"{found} ({_many(count, 'trial')})" for found, count in counts.items())))
    for name in ("factrank", "jax", "numba", "python"):
        found = sorted(set(filter(None, _texts(own, name))))
        if found:
            rows.append((f"Version of {name}", ", ".join(found)))
    seconds = [value for value in _column(own, "seconds") if isinstance(value, int | float)]
    if seconds:
        rows.append(("Time", f"{sum(seconds):,.1f} s in all, {sum(seconds) / len(seconds):.3g} s per trial"))
    body = "".join(f"<tr><th scope=row>{title}</th><td>{_text(found)}</td></tr>" for title, found in rows)
    table = (
        f"<div class=scroll><table class=plain><caption>With what the trials ran</caption><tbody>{body}</tbody>"
        "</table></div>"
    )
    again = f"<p>To run it again (trials that are in the store are not repeated):</p><pre>{_text(command)}</pre>"
    return f"<h2>How it ran</h2>{table if rows else '<p class=soft>No trial has run yet.</p>'}{again}"


def failures_section(own: pa.Table, problems: Sequence[str]) -> str:
    """Trials that failed, with the texts of their errors, and what is wrong with the store; empty where nothing is."""
    statuses, hashes, errors = (_texts(own, name) for name in ("status", "hash", "error"))
    failed: dict[tuple[str, str], list[str]] = {}
    for status, found, error in zip(statuses, hashes, errors, strict=True):
        if status in ("failed", "diverged"):
            failed.setdefault((status, error), []).append(found)
    parts = []
    if failed:
        rows = "".join(
            f"<tr><td class=number>{len(found):,}</td><td>{_text(status)}</td>"
            f"<td><code>{_text(found[0][:12])}</code></td>"
            f"<td>{f'<pre>{_lines(error)}</pre>' if error else ''}</td></tr>"
            for (status, error), found in list(failed.items())[:MOST_ERRORS]
        )
        more = len(failed) - MOST_ERRORS
        head = "<th scope=col class=number>Trials</th>" + "".join(
            f"<th scope=col>{name}</th>" for name in ("Status", "First", "Error")
        )
        parts.append(
            f"<div class=scroll><table><caption>Trials without a sound result</caption><thead><tr>{head}</tr></thead>"
            f"<tbody>{rows}</tbody></table></div>{f'<p class=soft>and {more:,} other errors</p>' if more > 0 else ''}"
        )
    if problems:
        items = "".join(f"<li>{_text(problem)}</li>" for problem in problems)
        parts.append(f"<p>Files in the store that could not be read:</p><ul>{items}</ul>")
    return f"<h2>What went wrong</h2>{''.join(parts)}" if parts else ""


# ---------------------------------------------------------------- cells


def _text(user_text: str) -> str:
    return escape(shown_name(user_text, None))


def _lines(user_text: str) -> str:
    return "\n".join(map(_text, user_text.splitlines()))


def _column(own: pa.Table, name: str) -> list[Value]:
    found: list[Value] = own.column(name).to_pylist() if name in own.column_names else [None] * own.num_rows
    return found


def _texts(own: pa.Table, name: str) -> list[str]:
    return ["" if value is None else str(value) for value in _column(own, name)]


def _values_text(found: Sequence[Value]) -> str:
    numeric = [value for value in found if isinstance(value, int | float) and not isinstance(value, bool)]
    if len(numeric) == len(found):
        ordered = sorted(numeric)
        if len(ordered) > 2 and ordered == list(range(int(ordered[0]), int(ordered[0]) + len(ordered))):
            return f"{ordered[0]} to {ordered[-1]}"
        if len(ordered) > MOST_VALUES:
            return f"{len(ordered):,} values from {ordered[0]:g} to {ordered[-1]:g}"
        return ", ".join(f"{value:g}" if isinstance(value, float) else str(value) for value in ordered)
    texts = ["none" if value is None else str(value) for value in found]
    more = len(texts) - MOST_VALUES
    return ", ".join(texts[:MOST_VALUES]) + (f" and {more:,} more" if more > 0 else "")


def _many(count: int, thing: str) -> str:
    return f"{count:,} {thing if count == 1 else plural(thing)}"
