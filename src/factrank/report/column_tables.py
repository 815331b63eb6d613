"""Markdown tables of the result columns, generated from their declarations."""

from __future__ import annotations

from collections.abc import Sequence

from factrank.experiments import families
from factrank.experiments.columns import LONG, OF_EVERY_FAMILY, RUN, SEARCHES, SETTINGS, columns_of
from factrank.experiments.specs import ResultColumn
from factrank.report.markdown import cell, table_text


def columns_text() -> str:
    """Return tables of all declared columns: of every trial, each family, settings, long tables and searches."""
    parts: list[tuple[str, Sequence[ResultColumn]]] = [("Measured, whatever was trained", OF_EVERY_FAMILY)]
    parts += [(f"Measured by the family `{name}`", columns_of(family)) for name, family in families().items()]
    parts += [("Settings of trials", SETTINGS), ("How trials ran", RUN)]
    parts += [("Of curves and readings alone", LONG), ("Of searches", SEARCHES)]
    return "\n\n".join(f"## {title}\n\n{_table(columns)}" for title, columns in parts) + "\n"


def _table(columns: Sequence[ResultColumn]) -> str:
    rows = [[f"`{one.name}`", cell(one.label), one.unit, cell(one.meaning)] for one in columns]
    return table_text(["column", "label", "unit", "meaning"], rows)
