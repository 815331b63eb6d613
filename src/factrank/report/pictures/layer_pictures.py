"""Pictures of a layer: logits, attention, circuits, direct path and singular values."""

from __future__ import annotations

from typing import Any

from factrank.databases import Database
from factrank.readouts import AnyModel
from factrank.report.pictures.heat_map import heat_map
from factrank.report.pictures.layer_records import (
    attention_grid,
    circuits_grid,
    direct_grid,
    layer_singular_records,
    logits_grid,
)
from factrank.report.pictures.table_pictures import singular_chart


def draw_logits(given: AnyModel, query: str | int | None = None, database: Database | None = None) -> Any:
    """Draw the logits of keys and values; a menu chooses the query unless one is given."""
    return heat_map(logits_grid(given, query, database))


def draw_attention(given: AnyModel, database: Database | None = None) -> Any:
    """Draw the attention weights of queries on keys; a menu chooses the head."""
    return heat_map(attention_grid(given, database))


def draw_circuits(given: AnyModel, database: Database | None = None) -> Any:
    """Draw what a head writes if it attends to a token; a menu chooses the head."""
    return heat_map(circuits_grid(given, database))


def draw_direct(given: AnyModel, database: Database | None = None) -> Any:
    """Draw what a query writes by itself."""
    return heat_map(direct_grid(given, database))


def draw_layer_singular_values(given: AnyModel) -> Any:
    """Draw the singular values of the flattenings of the logit tensor."""
    records, notes = layer_singular_records(given)
    return singular_chart(records, "Singular values of the flattenings of the logit tensor", notes, log=True)
