"""Descriptions of trained layers, one row per seed."""

from __future__ import annotations

from collections.abc import Sequence

from factrank.databases import Database
from factrank.experiments import TrialResult, family_of
from factrank.readouts import percent
from factrank.report.display import MOST_ROWS, Description, PlainTable, Words, described, plain_table
from factrank.report.layer_words import layer_lines
from factrank.report.plain_output import many, number


def trained_table(
    source: str, database: Database, results: Sequence[TrialResult], best: TrialResult | None
) -> Description:
    """Describe the result of each seed, the best seed, and the bits per parameter."""
    trial = results[0].trial
    tau = trial.taus[0]
    table = plain_table(
        ("seed", "number"),
        ("recall", "number"),
        (f"p>={tau:g}", "number"),
        ("least margin", "number"),
        ("hallucinations", "number"),
        ("epochs", "number"),
        ("status", "name"),
    )
    for result in results[:MOST_ROWS]:
        table.add_row(*_seed_cells(result, tau), tone="good" if result is best else "plain")
    lines: list[Words | PlainTable] = [Words(), table]
    if len(results) > MOST_ROWS:
        lines.append(Words(f"... and {len(results) - MOST_ROWS:,} more seeds", option=", which --json shows"))
    parameters = family_of(trial.model).work(trial, database).parameters
    head = layer_lines(source, database, trial.model, parameters)
    bits = Words(f"{database.bits:,.1f} bits of facts, {database.bits / parameters:.3g} per parameter")
    return described(head, bits, *lines, Words(), Words(_summary(results, best)))


def _seed_cells(result: TrialResult, tau: float) -> list[str]:
    if result.weights is None:
        return [str(result.trial.seed), "-", "-", "-", "-", "-", result.status]
    hallucinations = result.metrics.get(f"hallucinations_{tau}", float("nan"))
    return [
        str(result.trial.seed),
        percent(result.recall),
        percent(result.recall_tau),
        number(result.metrics.get("margin", float("nan"))),
        f"{hallucinations:,.0f}",
        f"{result.epochs:,}",
        result.status,
    ]


def _summary(results: Sequence[TrialResult], best: TrialResult | None) -> str:
    holding = sum(result.recall == 1 for result in results)
    count = f"{holding:,} of {many(len(results), 'seed')} recall every fact"
    return f"{count}; no layer to save" if best is None else f"{count}; the best is seed {best.trial.seed}"
