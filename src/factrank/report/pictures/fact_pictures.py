"""Pictures of facts in a layer: contributions of its paths, and margins."""

from __future__ import annotations

from typing import Any

import altair as alt
import numpy as np
from jaxtyping import Float

from factrank.databases import Database
from factrank.errors import InputError
from factrank.families.attention.circuits import Attribution, attribute_facts
from factrank.readouts import AnyModel, margins_of, with_facts
from factrank.report.pictures.fact_records import contribution_records, margin_records
from factrank.report.pictures.heat_map import WIDTH, heat_map, titled

COLOURS = alt.Scale(domain=["right", "wrong"], range=["#2a7fb8", "#d1495b"])


def draw_contributions(given: AnyModel, database: Database | None = None) -> Any:
    """Draw facts x paths: the contribution of the direct path and of each head to the margin of each fact."""
    return draw_attribution(attribute_facts(given, database))


def draw_attribution(found: Attribution) -> Any:
    """Draw facts x paths of an attribution."""
    return heat_map(contribution_records(found))


def draw_margins(given: AnyModel, database: Database | None = None) -> Any:
    """Draw the margins of all facts, and the facts with the least."""
    model, facts = with_facts(given, database)
    return _margins(margins_of(model, facts).margins, facts)


def draw_attributed_margins(found: Attribution) -> Any:
    """Draw the margins of an attribution."""
    return _margins(found.margins, found.database)


def _margins(margins: Float[np.ndarray, " facts"], database: Database) -> Any:
    bars, least, notes = margin_records(margins, database)
    if not bars:
        raise InputError(f"there are no margins to draw. {' '.join(notes)}".strip())
    colour = alt.Color("colour:N", title=None, scale=COLOURS)
    ends = [alt.Tooltip("x:Q", title="from", format=".3g"), alt.Tooltip("x2:Q", title="to", format=".3g")]
    histogram = (
        alt.Chart(alt.InlineData(values=bars))
        .mark_bar(stroke="white", strokeWidth=0.5)
        .encode(
            x=alt.X("x:Q", title="margin: logit of the fact minus the largest other", scale=alt.Scale(nice=False)),
            x2="x2:Q",
            y2=alt.datum(0),
            y=alt.Y("y:Q", title="facts"),
            color=colour,
            tooltip=[*ends, alt.Tooltip("y:Q", title="facts")],
        )
        .properties(width=WIDTH, height=170)
    )
    weakest = (
        alt.Chart(alt.InlineData(values=least))
        .mark_bar()
        .encode(
            x=alt.X("x:Q", title="margin"),
            y=alt.Y("row:N", title="facts with the least margin", sort=None, axis=alt.Axis(labelLimit=300)),
            color=colour,
            tooltip=[alt.Tooltip("row:N", title="fact"), alt.Tooltip("x:Q", title="margin")],
        )
        .properties(width=WIDTH)
    )
    return titled(alt.vconcat(histogram, weakest), None, f"Margins of {len(margins):,} facts", notes)
