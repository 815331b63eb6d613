"""The recall of a layer as tables for the terminal: all facts, each query, each path."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.text import Text

from factrank.families.attention.circuits import Attribution, Diagnosis
from factrank.readouts import QueryRecall, RecallReport, percent
from factrank.report.plain_output import name_text, number
from factrank.report.terminal_tables import MOST_ROWS, PlainTable, plain_table


def recall_tables(diagnosis: Diagnosis, attribution: Attribution | None) -> RenderableType:
    """The recall of one layer: all facts, each query, each head; then what is wrong, in words."""
    found = diagnosis.recall
    parts: list[RenderableType] = [_overall(found, attribution), Text(), _by_query(found)]
    if found.attention is not None or attribution is not None:
        parts += [Text(), _by_path(found, attribution)]
    parts += [Text(), Text(diagnosis.text)]
    parts += [Text(f"{finding.name}: {finding.text}") for finding in diagnosis.findings]
    return Group(*parts)


def _overall(found: RecallReport, attribution: Attribution | None) -> PlainTable:
    table = plain_table(("", "word"), ("", "number"), ("", "text"))
    sure = f"probability >= {found.tau:g}"
    table.add_row("recall", percent(found.recall), "of the facts have the largest logit")
    table.add_row(f"recall at {found.tau:g}", percent(found.recall_tau), f"of the facts have {sure}")
    table.add_row("least margin", number(found.margin), "logit of the fact minus the largest other")
    table.add_row("median margin", number(found.median_margin), "")
    artifacts = f"of {found.silent_fibers:,} (key, query) pairs without a fact have a value with {sure}"
    table.add_row("artifacts", f"{found.artifacts:,}", artifacts)
    if attribution is not None:
        words = "of the facts are wrong in every single path and right in their sum"
        table.add_row("additive", percent(attribution.additive_share), words)
    return table


def _by_query(found: RecallReport) -> RenderableType:
    table = plain_table(
        ("query", "name"),
        ("facts", "number"),
        ("recall", "number"),
        (f"p>={found.tau:g}", "number"),
        ("least margin", "number"),
        ("median", "number"),
    )
    queries = [query for query in found.by_query if query.facts]
    if len(queries) <= MOST_ROWS:
        shown, rest = queries, ""
    else:
        shown = sorted(queries, key=_worst_first)[:MOST_ROWS]
        rest = f"... the worst {MOST_ROWS} of {len(queries):,} queries; --json has all"
    for query in shown:
        numbers = percent(query.recall), percent(query.recall_tau), number(query.margin), number(query.median_margin)
        table.add_row(name_text(query.query), f"{query.facts:,}", *numbers)
    return Group(table, Text(rest)) if rest else table


def _worst_first(query: QueryRecall) -> tuple[float, float, float]:
    return query.recall, query.recall_tau, query.margin


def _by_path(found: RecallReport, attribution: Attribution | None) -> RenderableType:
    """What each head attends to, and how many facts each path gets right alone."""
    n_heads = (
        len(found.attention) if found.attention is not None else len(attribution.heads_alone if attribution else ())
    )
    table = plain_table(
        ("path", "word"),
        ("right alone", "number"),
        ("weight on key", "number"),
        ("entropy in bits", "number"),
        ("saturated", "number"),
    )
    table.add_row("direct", percent(attribution.direct_alone) if attribution else "-", "", "", "")
    for head in range(min(n_heads, MOST_ROWS)):
        alone = percent(attribution.heads_alone[head]) if attribution else "-"
        cells = ["-", "-", "-"]
        if found.attention is not None:
            statistics = found.attention[head]
            cells = [f"{statistics.weight_on_key:.2f}", f"{statistics.entropy:.2f}", percent(statistics.saturation)]
        table.add_row(f"head {head}", alone, *cells)
    if n_heads <= MOST_ROWS:
        return table
    return Group(table, Text(f"... and {n_heads - MOST_ROWS:,} more heads, which --json shows"))
