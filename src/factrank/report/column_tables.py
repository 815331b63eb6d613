"""The columns of results as tables of Markdown, from where they are declared."""

from __future__ import annotations

from collections.abc import Sequence

from factrank.experiments import Measure, families
from factrank.experiments.columns import LONG, OF_EVERY_FAMILY, RUN, SEARCHES, SETTINGS
from factrank.report.markdown import cell, table_text


def columns_text() -> str:
    """All declared columns: those of every trial, of each family, of settings, of long tables and of searches."""
    parts: list[tuple[str, Sequence[Measure]]] = [("Measured, whatever was trained", OF_EVERY_FAMILY)]
    parts += [(f"Measured by the family `{name}`", family.measures) for name, family in families().items()]
    parts += [("Settings of trials", SETTINGS), ("How trials ran", RUN)]
    parts += [("Of curves and readings alone", LONG), ("Of searches", SEARCHES)]
    return "\n\n".join(f"## {title}\n\n{_table(columns)}" for title, columns in parts) + "\n"


def _table(columns: Sequence[Measure]) -> str:
    rows = [[f"`{one.name}`", cell(one.label), one.unit, cell(one.meaning)] for one in columns]
    return table_text(["column", "label", "unit", "meaning"], rows)
