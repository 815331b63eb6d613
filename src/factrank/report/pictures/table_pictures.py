"""Pictures of databases and of the bounds on their ranks."""

from __future__ import annotations

from typing import Any

import altair as alt

from factrank.databases import Database
from factrank.errors import InputError
from factrank.report.charts import sizes_chart
from factrank.report.pictures.grid import Record
from factrank.report.pictures.heat_map import WIDTH, heat_map, titled
from factrank.report.pictures.table_records import singular_records, slices_grid, table_grid
from factrank.tensors import Measurement
from factrank.tensors.bounds import RankBounds

HEIGHT = 280


def draw_table(database: Database) -> Any:
    """Draw keys and queries with values as colours."""
    return heat_map(table_grid(database))


def draw_slices(database: Database, query: str | None = None) -> Any:
    """Draw the slices of the fact tensor; a menu chooses the query unless one is given."""
    return heat_map(slices_grid(database, query))


def draw_singular_values(database: Database) -> Any:
    """Draw the singular values of the three flattenings."""
    records, notes = singular_records(database)
    if not records:
        raise InputError(" ".join(notes) or "a database without facts has no singular values")
    return singular_chart(records, "Singular values of the flattenings of the fact tensor", notes)


def singular_chart(records: list[Record], title: str, notes: tuple[str, ...] = (), *, log: bool = False) -> Any:
    """Draw singular values by their index, one line per flattening."""
    scale = alt.Scale(type="log") if log else alt.Scale(zero=True)
    chart = (
        alt.Chart()
        .mark_line(point=alt.OverlayMarkDef(size=22))
        .encode(
            x=alt.X("x:Q", title="index", axis=alt.Axis(tickMinStep=1, format="d")),
            y=alt.Y("y:Q", title="singular value", scale=scale),
            color=alt.Color("colour:N", title="flattening by"),
            tooltip=[
                alt.Tooltip("colour:N", title="flattening by"),
                alt.Tooltip("x:Q", title="index"),
                alt.Tooltip("y:Q", title="singular value"),
            ],
        )
        .properties(width=WIDTH, height=HEIGHT)
    )
    return titled(chart, records, title, notes)


def draw_ranks(measurement: Measurement) -> Any:
    """Draw the number of facts and the brackets of the three ranks."""
    return sizes_chart([("table", measurement)])


def draw_tried(bounds: RankBounds) -> Any:
    """Draw all bounds that were computed, by method; the rank is between the best of both kinds."""
    chart = (
        alt.Chart()
        .mark_point(filled=True, size=70, opacity=1)
        .encode(
            x=alt.X("x:Q", title="bound", axis=alt.Axis(tickMinStep=1, format=",d"), scale=alt.Scale(zero=False)),
            y=alt.Y("row:N", title="method", sort=None, axis=alt.Axis(labelLimit=320)),
            color=alt.Color("colour:N", title=None),
            shape=alt.Shape("colour:N", title=None),
            tooltip=[
                alt.Tooltip("row:N", title="method"),
                alt.Tooltip("colour:N", title="kind"),
                alt.Tooltip("x:Q", title="bound"),
            ],
        )
        .properties(width=WIDTH)
    )
    return titled(chart, tried_records(bounds), f"Bounds that were computed: the rank is {bounds.bracket}")


def tried_records(bounds: RankBounds) -> list[Record]:
    """Return the computed bounds with their kind, lower or upper."""
    tried = bounds.tried or (bounds.lower, bounds.upper)
    best = next((at for at, bound in enumerate(tried) if bound is bounds.upper), len(tried))

    def is_upper(at: int, value: int) -> bool:
        """No lower bound exceeds the best, no upper bound is below it; if both meet, lower bounds were listed first."""
        return at >= best if value == bounds.lower.value == bounds.upper.value else value >= bounds.upper.value

    return [
        {"row": bound.method, "x": bound.value, "colour": "at most" if is_upper(at, bound.value) else "at least"}
        for at, bound in enumerate(tried)
    ]
