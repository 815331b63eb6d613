"""Pictures of results: training curves, recall by query, answers, plans and studies."""

from __future__ import annotations

from math import isfinite
from typing import Any

import altair as alt

from factrank.errors import InputError
from factrank.experiments import TrialResult
from factrank.experiments.study import StudyResults
from factrank.families.attention.circuits import Answer
from factrank.foreign_text import few
from factrank.planning import Plan
from factrank.readouts import RecallReport
from factrank.report.pictures.axis_blocks import MOST_MARKS, distinct_labels
from factrank.report.pictures.grid import Record
from factrank.report.pictures.heat_map import WIDTH, axis_text, titled
from factrank.report.planned_tables import plan_chart
from factrank.report.study import pictures

MOST_QUERIES = 40
ROW_HEIGHT = 110


def curve_records(result: TrialResult, most: int = MOST_MARKS) -> tuple[list[Record], tuple[str, ...]]:
    """Return one record per recorded epoch and metric, evenly thinned if there are too many, and a note on that."""
    epochs = result.curves.get("epoch", [])
    names = [name for name in result.curves if name != "epoch"]
    step = max(1, -(-len(epochs) * len(names) // most))
    kept = sorted({*range(0, len(epochs), step), len(epochs) - 1}) if epochs else []
    note = (f"Every {step:,}th recorded epoch and the last.",) if step > 1 else ()
    return [
        {"x": epochs[at], "y": value, "row": name.replace("_", " ")}
        for name in names
        for at in kept[: most // max(len(names), 1)]
        if isfinite(value := float(result.curves[name][at]))
    ], note


def draw_curves(result: TrialResult) -> Any:
    """Draw the training curves, one panel per metric."""
    records, notes = curve_records(result)
    if not records:
        raise InputError("this trial has no curves: train with measures=Curve(epochs) to record some")
    panels = (
        alt.Chart()
        .mark_line(point=alt.OverlayMarkDef(size=18))
        .encode(
            x=alt.X("x:Q", title="epoch"),
            y=alt.Y("y:Q", title=None, scale=alt.Scale(zero=False)),
            tooltip=[
                alt.Tooltip("row:N", title="metric"),
                alt.Tooltip("x:Q", title="epoch"),
                alt.Tooltip("y:Q", title="value", format=".4g"),
            ],
        )
        .properties(width=WIDTH, height=ROW_HEIGHT)
        .facet(row=alt.Row("row:N", title=None, sort=None), data=alt.InlineData(values=records))
        .resolve_scale(y="independent")
    )
    title = f"Training curves: {result.status} after {result.epochs:,} epochs"
    return titled(panels, None, title, notes)


def draw_queries(report: RecallReport) -> Any:
    """Draw the recall of each query, the worst first."""
    queries = sorted((one for one in report.by_query if one.facts), key=lambda one: (one.recall, one.recall_tau))
    shown = queries[:MOST_QUERIES]
    names = distinct_labels([one.query for one in shown])
    kinds = ("argmax", f"probability >= {report.tau:g}")
    records = [
        {"row": name, "x": value, "colour": kind, "size": one.facts}
        for name, one in zip(names, shown, strict=True)
        for kind, value in zip(kinds, (one.recall, one.recall_tau), strict=True)
    ]
    chart = (
        alt.Chart()
        .mark_bar()
        .encode(
            x=alt.X("x:Q", title="fraction of facts recalled", scale=alt.Scale(domain=[0, 1])),
            y=alt.Y("row:N", title="query", sort=list(names)),
            yOffset=alt.YOffset("colour:N"),
            color=alt.Color("colour:N", title=None),
            tooltip=[
                alt.Tooltip("row:N", title="query"),
                alt.Tooltip("colour:N", title="readout"),
                alt.Tooltip("x:Q", title="recalled", format=".1%"),
                alt.Tooltip("size:Q", title="facts"),
            ],
        )
        .properties(width=WIDTH)
    )
    more = len(queries) > MOST_QUERIES
    notes = (f"The worst {MOST_QUERIES} of {len(queries):,} queries.",) * more
    return titled(chart, records, f"Recall of {report.n_facts:,} facts by query", notes)


def draw_values(answer: Answer) -> Any:
    """Draw the most probable values."""
    names = distinct_labels([value for value, _ in answer.top])
    records = [
        {"row": name, "x": chance, "colour": "fact" if value in answer.facts else "no fact"}
        for name, (value, chance) in zip(names, answer.top, strict=True)
    ]
    asked = f"({axis_text(answer.key)}, {axis_text(answer.query)})"
    return _bars(records, ("value", "probability"), f"Most probable values at {asked}")


def draw_paths(answer: Answer) -> Any:
    """Draw the contribution of each path to the margin of the answer."""
    if answer.heads is None or answer.direct is None or not isfinite(answer.margin):
        raise InputError("this answer has no contributions of paths: the model is no sum of a direct path and heads")
    paths = [("direct", answer.direct), *((f"head {at}", lead) for at, lead in enumerate(answer.heads))]
    shown = sorted(paths, key=lambda path: -abs(path[1]))[:MOST_QUERIES]
    records = [{"row": name, "x": lead, "colour": "for" if lead > 0 else "against"} for name, lead in shown]
    asked = f"({axis_text(answer.key)}, {axis_text(answer.query)})"
    notes = (f"The {MOST_QUERIES} largest of {len(paths):,} paths.",) * (len(paths) > MOST_QUERIES)
    title = f"What each path adds to the margin of {axis_text(answer.answer)} at {asked}"
    return _bars(records, ("path", "adds to the margin"), title, notes)


def _bars(records: list[Record], titles: tuple[str, str], title: str, notes: tuple[str, ...] = ()) -> Any:
    row, number = titles
    chart = (
        alt.Chart()
        .mark_bar()
        .encode(
            x=alt.X("x:Q", title=number),
            y=alt.Y("row:N", title=row, sort=None),
            color=alt.Color("colour:N", title=None),
            tooltip=[alt.Tooltip("row:N", title=row), alt.Tooltip("x:Q", title=number, format=".4g")],
        )
        .properties(width=WIDTH)
    )
    return titled(chart, records, title, notes)


def draw_plan(plan: Plan) -> Any:
    """Draw the layers for which no other of the same source is smaller: parameters against heads."""
    title = f"The smallest layers for {plan.table.n_facts:,} facts at recall {plan.recall:g}"
    return titled(
        plan_chart(plan), None, title, ("Labels are d_model. No layer of the same source is smaller in all three.",)
    )


def draw_study(found: StudyResults, chart: str | None = None) -> Any:
    """Draw a chart or summary of a study by name; by default, the first that has records."""
    drawn = dict(pictures(found))
    if not drawn:
        raise InputError(f"study {found.study.name} has no chart with results yet")
    name = next(iter(drawn)) if chart is None else chart
    if name not in drawn:
        names = few(list(drawn), most=len(drawn))
        raise InputError(f"study {found.study.name} has no chart {name!r} with results: choose one of {names}")
    return drawn[name]
