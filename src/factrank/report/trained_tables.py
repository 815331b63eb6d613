"""Trained layers as tables for the terminal: what came of every seed of a training."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.text import Text

from factrank.databases import Database
from factrank.experiments import TrialResult, family_of
from factrank.readouts import percent
from factrank.report.layer_words import layer_lines
from factrank.report.plain_output import number
from factrank.report.terminal_tables import MOST_ROWS, plain_table


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
