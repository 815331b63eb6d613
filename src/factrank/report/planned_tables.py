"""A plan as tables: proved, trained and excluded layers."""

from __future__ import annotations

from math import ceil, floor
from typing import TYPE_CHECKING, Any

from factrank.foreign_text import shown_name
from factrank.report.display import Description, PlainTable, Words, described, plain_table

if TYPE_CHECKING:
    from factrank.planning import Plan, TableSizes, TrainedLayer, Validation

SHOWN = 6
CHART_SIZE = 420, 280
LONGEST = 10**14
"""Larger counts are shown as powers of ten."""
PUBLISHED = "How LoRA Remembers (arXiv 2605.30260): loss change = C r^a l^-b + const"


def plan_tables(source: str, plan: Plan) -> Description:
    """Describe a plan: what is proved, trained and excluded."""
    parts: list[Words | PlainTable] = [
        Words(shown_name(source)),
        Words(f"{_sizes(plan.table)}; {plan.table.bits:,.0f} bits"),
        Words(_floor(plan)),
        Words(),
        Words("closed forms, recall 1 for every table of these sizes", lead="proved"),
        _proved(plan),
        Words(),
        Words("law of the capacity atlas; d_qk 2, Adam 0.01, 2,000 epochs", lead="trained"),
        _trained(plan),
        *map(Words, _notes(plan)),
    ]
    if plan.excluded:
        words = Words("cannot store the table, whatever the weights", lead="excluded")
        parts += [Words(), words, *_excluded(plan)]
    if plan.update is not None:
        lead = f"update of rank {plan.update.rank}"
        parts += [Words(), Words("W_V and W_O of a layer that is frozen otherwise", lead=lead)]
        parts += map(Words, _update(plan))
    return described(*parts)


def validation_text(found: Validation) -> str:
    """Return what the training of a plan showed, in a few sentences."""
    table, layer = found.plan.table, found.layer
    part = "part of the table" if table.is_real else "random table of the same proportions"
    where = f"a smaller {part}" if found.scaled else "the table" if table.is_real else "a random table of these sizes"
    expected = f"expected recall {layer.recall:.3f}"
    if layer.recall_low is not None:
        expected += f", interval {layer.recall_low:.3f} to {layer.recall_high:.3f}"
    recalls = ", ".join(f"{one:.3f}" for one in found.recalls)
    verdict = {None: "there is no interval to test", True: "the interval held", False: "the interval did not hold"}
    return "\n".join([
        f"validation: trained on {where}",
        _sizes(table),
        f"{layer.shape.in_words()}, {layer.parameters:,} parameters",
        expected,
        f"trained recall {recalls}: {verdict[found.held]}",
    ])  # fmt: skip


def _sizes(table: TableSizes) -> str:
    return f"{table.n_facts:,} facts: {table.n_keys:,} keys x {table.n_queries:,} queries -> {table.n_values:,} values"


def _floor(plan: Plan) -> str:
    """Return the information floor, and for which tables it holds."""
    counted = "each query with its own values" if plan.table.kind == "disjoint" else "|V|^n of them"
    return (
        f"information floor: {plan.least_parameters:,} parameters in {plan.precision}\n"
        f"(for all but one in a million tables of these sizes, {counted})"
    )


def _excluded(plan: Plan) -> list[Words]:
    """Return the layers for each reason."""
    by_reason: dict[str, list[str]] = {}
    for shape, why in plan.excluded:
        by_reason.setdefault(why.reason, []).append(shape.in_words())
    return [Words("\n".join([*words, f"  {reason}"])) for reason, words in by_reason.items()]


def _proved(plan: Plan) -> Words | PlainTable:
    if not plan.proved:
        return Words("no closed form within these limits")
    table = plain_table(
        ("form", "word"),
        ("precision", "word"),
        ("d_model", "number"),
        ("heads", "number"),
        ("d_vo", "number"),
        ("parameters", "number"),
    )
    for one in plan.proved[:SHOWN]:
        cells = one.form, one.precision, str(one.shape.d_model), str(one.shape.n_heads), str(one.shape.d_vo)
        table.add_row(*cells, _count(one.parameters))
    return table


def _trained(plan: Plan) -> Words | PlainTable:
    if not plan.trained:
        why = "every layer within these limits is excluded" if plan.excluded else "no layer is within these limits"
        return Words(why)
    columns = ("heads", "d_model", "d_vo", "parameters", "needed", "recall", "interval", "CPU", "GPU")
    table = plain_table(*((column, "number") for column in columns))
    for one in plan.trained:
        shape = one.shape
        sizes = str(shape.n_heads), str(shape.d_model), str(shape.d_vo), _count(one.parameters)
        times = _seconds(one.seconds_on_cpu), _seconds(one.seconds_on_gpu)
        table.add_row(*sizes, _needed(one), f"{one.recall:.3f}", _interval(one), *times)
    return table


def _count(number: int) -> str:
    return f"{number:,}" if number < LONGEST else f"{number:.2e}"


def _interval(layer: TrainedLayer) -> str:
    """Return the interval, rounded outwards to two decimals."""
    if layer.recall_low is None or layer.recall_high is None:
        return "-"
    return f"{floor(100 * layer.recall_low) / 100:.2f}-{ceil(100 * layer.recall_high) / 100:.2f}"


def _needed(layer: TrainedLayer) -> str:
    return "-" if layer.needed is None else f"{layer.needed[0]:,}-{layer.needed[1]:,}"


def _notes(plan: Plan) -> list[str]:
    """Return the explanations of the entries in the table of trained layers that need one."""
    beyond = [one for one in plan.trained if one.beyond]
    notes = []
    if beyond:
        which = "" if len(beyond) == len(plan.trained) else f" with {beyond[0].shape.n_heads} heads"
        notes.append(f"no interval{which}, beyond the atlas: {beyond[0].beyond}")
    if any(one.needed is None and not one.beyond for one in plan.trained):
        notes.append("needed -: no searches on such tables with this recall and number of heads")
    if any(one.seconds_on_cpu is None for one in plan.trained):
        notes.append("no time: training layers this large was not timed")
    return notes


def _seconds(seconds: float | None) -> str:
    if seconds is None:
        return "-"
    return f"{seconds / 60:,.0f} min" if seconds >= 120 else f"{seconds:.0f} s"


def _update(plan: Plan) -> list[str]:
    update = plan.update
    if update is None:
        return []
    stored = f"{update.trained_parameters:,} parameters store about {update.facts:,} facts with this many values"
    lines = [
        f"trained: {stored}; expected recall of this table {update.recall:.3f}",
        "proved: only at full rank (R = d_model)"
        if update.solved_facts is None
        else f"proved: one linear solve fits any {update.solved_facts:,} facts",
        f"published: {PUBLISHED}; bits in the atlas grow like R^{update.rank_exponent:.2f}",
    ]
    return [*lines, *([f"beyond the atlas: {update.beyond}"] if update.beyond else [])]


def plan_chart(plan: Plan) -> Any:
    """Return the Pareto fronts: parameters against heads, by source, labelled with d_model."""
    import altair as alt  # noqa: PLC0415 - takes a third of a second to load

    heads = sorted({one["n_heads"] for one in plan.front})
    base = alt.Chart(alt.InlineData(values=plan.front)).encode(
        x=alt.X(
            "n_heads:Q",
            title="heads",
            scale=alt.Scale(type="log", base=2, padding=30, nice=False),
            axis=alt.Axis(values=heads, format="d"),
        ),
        y=alt.Y(
            "parameters:Q",
            title="parameters",
            scale=alt.Scale(type="log", padding=25, nice=False),
            axis=alt.Axis(format="~s", tickCount=6),
        ),
        color=alt.Color("source:N", title="source"),
        tooltip=["source:N", "n_heads:Q", "d_model:Q", "parameters:Q"],
    )
    points = base.mark_line(opacity=0.4) + base.mark_point(filled=True, size=70, opacity=1)
    for source, dy in (("proved", 16), ("trained", -14)):
        named = base.transform_filter(alt.datum.source == source).transform_calculate(
            label="'d_model ' + datum.d_model"
        )
        points += named.mark_text(dy=dy).encode(text="label:N")
    return points.properties(width=CHART_SIZE[0], height=CHART_SIZE[1])
