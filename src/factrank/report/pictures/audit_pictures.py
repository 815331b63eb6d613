"""Pictures of an audit: heat maps over layers and heads, singular values, and effective ranks by distance."""

from __future__ import annotations

from statistics import median
from typing import Any

import altair as alt

from factrank.auditing import LoraAudit, ModelAudit
from factrank.errors import InputError
from factrank.report.pictures.grid import Grid
from factrank.report.pictures.heat_map import heat_map, titled

MOST_MARKS = 5_000
CURVE_POINTS = 64
MOST_HUES = 12
CIRCUITS = ("QK", "OV")


def draw_effective_ranks(found: ModelAudit, circuit: str | None = None) -> Any:
    """Draw the effective rank of each head, layers against heads; a menu chooses QK or OV unless one is given."""
    return heat_map(effective_grid(found, _circuits(circuit)))


def effective_grid(found: ModelAudit, circuits: tuple[str, ...] = CIRCUITS) -> Grid:
    """Return the cells of the heat map; layers beyond the most marks are left out."""
    shown = found.layers[: max(1, MOST_MARKS // (len(circuits) * found.sizes.n_heads))]
    records = [
        {
            "row": str(layer.layer),
            "column": str(head.head),
            "colour": round((head.qk if name == "QK" else head.ov).effective_rank, 3),
            "layer": name,
        }
        for layer in shown
        for head in layer.heads
        for name in circuits
    ]
    notes = () if len(shown) == len(found.layers) else (f"The first {len(shown)} of {len(found.layers)} layers.",)
    return Grid(
        "Effective rank",
        *("layer", "head", "effective rank", records),
        rows=tuple(str(layer.layer) for layer in shown),
        columns=tuple(str(head) for head in range(found.sizes.n_heads)),
        layers=circuits,
        layer_title="circuit",
        notes=notes,
    )


def draw_circuit_values(found: ModelAudit, layer: int | None = None) -> Any:
    """Draw the median singular values of QK and OV, divided by the largest, over all heads or the heads of a layer."""
    heads = [head for head in found.heads if layer is None or head.layer == layer]
    if not heads:
        raise InputError(f"layer {layer} was not audited")
    records = []
    for name in CIRCUITS:
        spectra = [head.qk if name == "QK" else head.ov for head in heads]
        curves = [[value / each.largest for value in each.values] for each in spectra if each.largest]
        columns = list(zip(*curves, strict=True))
        step = max(1, len(columns) // CURVE_POINTS)
        records += [{"x": i + 1, "y": median(columns[i]), "colour": name} for i in range(0, len(columns), step)]
    where = "of all heads" if layer is None else f"of the heads of layer {layer}"
    return _lines(records, f"Singular values, medians {where}", "index", "of the largest")


def draw_distances(found: ModelAudit) -> Any:
    """Draw the effective rank of QK against the distance between query and key, one line per layer (medians)."""
    if not found.heads[0].distances:
        raise InputError("this model has no rotary positions: QK does not depend on the distance")
    records = []
    for layer in found.layers[: MOST_MARKS // 10]:
        columns = zip(*(head.distances for head in layer.heads), strict=True)
        records += [
            {"x": column[0].distance, "y": median(at.effective_rank for at in column), "colour": f"layer {layer.layer}"}
            for column in columns
        ]
    return _lines(records, "Effective rank, medians of layers", "distance", "effective rank", log=True)


def draw_update_ranks(found: LoraAudit) -> Any:
    """Draw the effective rank of each update against its position in the adapter, by kind of matrix."""
    records = [
        {"x": i, "y": round(update.spectrum.effective_rank, 3), "colour": update.name.rpartition(".")[2]}
        for i, update in enumerate(found.updates[:MOST_MARKS])
    ]
    return _lines(records, "Effective rank of the updates", "update", "effective rank", mark="point")


def _lines(records: list[dict[str, Any]], title: str, x: str, y: str, *, log: bool = False, mark: str = "line") -> Any:
    scale = alt.Scale(type="symlog", constant=1) if log else alt.Scale(zero=False)
    chart = alt.Chart().mark_line(point=True) if mark == "line" else alt.Chart().mark_point(filled=True)
    kinds = list(dict.fromkeys(record["colour"] for record in records))
    drawn = chart.encode(
        x=alt.X("x:Q", title=x, scale=scale, axis=alt.Axis(tickMinStep=1, format=",d")),
        y=alt.Y("y:Q", title=y, scale=alt.Scale(zero=True)),
        color=_colours(kinds),
        tooltip=[alt.Tooltip("colour:N", title=""), alt.Tooltip("x:Q", title=x), alt.Tooltip("y:Q", title=y)],
    ).properties(width=440, height=280)
    return titled(drawn, records, title)


def _colours(kinds: list[str]) -> Any:
    """Return one hue each for a few kinds; for more, a sequence of which the legend names the ends."""
    if len(kinds) <= MOST_HUES:
        return alt.Color("colour:N", title=None, sort=kinds)
    ends = alt.Legend(values=[kinds[0], kinds[-1]])
    return alt.Color("colour:O", title=None, sort=kinds, scale=alt.Scale(scheme="viridis"), legend=ends)


def _circuits(circuit: str | None) -> tuple[str, ...]:
    if circuit is not None and circuit not in CIRCUITS:
        raise InputError(f"unknown circuit {circuit[:40]!r}; expected QK or OV")
    return CIRCUITS if circuit is None else (circuit,)
