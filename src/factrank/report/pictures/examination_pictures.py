"""Pictures of an examination: the pictures of its parts."""

from __future__ import annotations

from typing import Any

from factrank.bridges import Examination
from factrank.errors import InputError
from factrank.report.pictures.fact_pictures import draw_attribution, draw_margins
from factrank.report.pictures.layer_pictures import draw_attention, draw_logits
from factrank.report.pictures.result_pictures import draw_queries


def draw_examined_contributions(found: Examination) -> Any:
    """Draw facts x paths: the contribution of each path to the margin of each fact."""
    if found.attribution is None:
        raise InputError("the logits of this model are not a sum of paths; draw its margins or its queries")
    return draw_attribution(found.attribution)


def draw_examined_margins(found: Examination) -> Any:
    """Draw the margins of all facts, and the facts with the least."""
    return draw_margins(found.model, found.database)


def draw_examined_queries(found: Examination) -> Any:
    """Draw the recall of each query, the worst first."""
    return draw_queries(found.recall)


def draw_examined_attention(found: Examination) -> Any:
    """Draw the attention weights of queries on keys; a menu chooses the head."""
    return draw_attention(found.model, found.database)


def draw_examined_logits(found: Examination, query: str | int | None = None) -> Any:
    """Draw the logits of keys and values; a menu chooses the query unless one is given."""
    return draw_logits(found.model, query, found.database)
