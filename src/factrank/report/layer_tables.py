"""Trained layers as tables for the terminal: the seeds of a training, and the recall of one layer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields

from rich.console import Group, RenderableType
from rich.text import Text

from factrank.databases.database import Database
from factrank.experiments.registry import family_of
from factrank.experiments.specs.roles import ModelSpec
from factrank.experiments.training import TrialResult
from factrank.families.attention.circuits.attribution import Attribution
from factrank.families.attention.circuits.diagnosis import Diagnosis
from factrank.families.attention.layer_shape import LayerShape
from factrank.families.attention.pair_transformer import TransformerShape
from factrank.readouts.plain_data import percent
from factrank.readouts.recall_report import QueryRecall, RecallReport
from factrank.report.plain_output import name_text, number
from factrank.report.terminal_tables import PlainTable, plain_table

MOST_ROWS = 20
"""Rows of a table in the terminal; what is left out is counted, and is in the JSON."""


def trained_table(
    source: str, database: Database, results: Sequence[TrialResult], best: TrialResult | None
) -> RenderableType:
    """What came of each seed, which is best, and how much the layer had to hold."""
    trial = results[0].trial
    tau = trial.measures.taus[0]
    table = plain_table(
        ("seed", "number"),
        ("recall", "number"),
        (f"p>={tau:g}", "number"),
        ("least margin", "number"),
        ("artifacts", "number"),
        ("epochs", "number"),
        ("status", "name"),
    )
    for result in results[:MOST_ROWS]:
        style = "green" if result is best else ""
        table.add_row(*_seed_cells(result, tau), style=style)
    lines: list[RenderableType] = [Text(), table]
    if len(results) > MOST_ROWS:
        lines.append(Text(f"... and {len(results) - MOST_ROWS:,} more seeds, which --json shows"))
    parameters = family_of(trial.model).work(trial, database).parameters
    head = layer_lines(source, database, trial.model, parameters)
    bits = Text(f"{database.bits:,.1f} bits to hold, {database.bits / parameters:.3g} per parameter")
    return Group(head, bits, *lines, Text(), Text(_summary(results, best)))


def recall_tables(diagnosis: Diagnosis, attribution: Attribution | None) -> RenderableType:
    """The recall of one layer: all facts, each query, each head; then what is wrong, in words."""
    found = diagnosis.recall
    parts: list[RenderableType] = [_overall(found, attribution), Text(), _by_query(found)]
    if found.attention is not None or attribution is not None:
        parts += [Text(), _by_path(found, attribution)]
    parts += [Text(), Text(diagnosis.text)]
    parts += [Text(f"{finding.name}: {finding.text}") for finding in diagnosis.findings]
    return Group(*parts)


def layer_lines(source: str, database: Database, shape: ModelSpec, parameters: int) -> Text:
    """The facts and the layer: two sizes to compare."""
    text = name_text(source, longest=None, style="bold")
    text.append(
        f"\n{database.n_facts:,} facts: {database.n_keys:,} keys x {database.n_queries:,} queries "
        f"-> {database.n_values:,} values\n"
        f"{shape_in_words(shape)}; {parameters:,} parameters",
        style="not bold",
    )
    return text


def shape_in_words(shape: ModelSpec) -> str:
    """The sizes of a layer, or of a transformer with the options that are on; of other models what they are given.

    >>> shape_in_words(TransformerShape(8, 2, 4, 4, n_layers=3, mlp_width=32, attention="linear"))
    'transformer: d_model 8, 2 heads, d_qk 4, d_vo 4, 3 layers, MLP 32, linear attention'
    >>> from factrank import MemoryShape
    >>> shape_in_words(MemoryShape(d_model=16, width=64))
    'memory: d_model 16, width 64'
    """
    if not isinstance(shape, LayerShape | TransformerShape):
        given = {one.name: getattr(shape, one.name) for one in fields(shape) if getattr(shape, one.name) != one.default}
        kind = type(shape).__name__.removesuffix("Shape").lower()
        return f"{kind}: {', '.join(f'{name} {value}' for name, value in given.items())}"
    heads = f"{shape.n_heads} head{'s' if shape.n_heads > 1 else ''}"
    words = [f"d_model {shape.d_model}", heads, f"d_qk {shape.d_qk}", f"d_vo {shape.d_vo}"]
    if isinstance(shape, LayerShape):
        return f"layer: {', '.join(words)}"
    words.append(f"{shape.n_layers} layer{'s' if shape.n_layers > 1 else ''}")
    words.append(f"MLP {shape.mlp_width}" if shape.mlp_width else "no MLP")
    words.append(f"{shape.attention} attention")
    options = {"positions": shape.positions, "layer norm": shape.layer_norm, "shared tokens": shape.share_tokens}
    return f"transformer: {', '.join(words + [name for name, is_on in options.items() if is_on])}"


# ---------------------------------------------------------------- seeds


def _seed_cells(result: TrialResult, tau: float) -> list[str]:
    if result.weights is None:
        return [str(result.trial.seed), "-", "-", "-", "-", "-", result.status]
    artifacts = result.metrics.get(f"artifacts_{tau}", float("nan"))
    return [
        str(result.trial.seed),
        percent(result.recall),
        percent(result.recall_tau),
        number(result.metrics.get("margin", float("nan"))),
        f"{artifacts:,.0f}",
        f"{result.epochs:,}",
        result.status,
    ]


def _summary(results: Sequence[TrialResult], best: TrialResult | None) -> str:
    holding = sum(result.recall == 1 for result in results)
    count = f"{holding:,} of {len(results):,} seed{'s' if len(results) > 1 else ''} recall every fact"
    return f"{count}; no layer to keep" if best is None else f"{count}; the best is seed {best.trial.seed}"


# ---------------------------------------------------------------- recall


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
