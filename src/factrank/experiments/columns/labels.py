"""Labels of columns, and of arithmetic on columns, for people to read."""

from __future__ import annotations

import re

from factrank.experiments.columns.declared_columns import LONG, RUN, SEARCHES, SETTINGS
from factrank.experiments.columns.measured import measure_of
from factrank.experiments.statistics import columns_in
from factrank.foreign_text import shown_name

_OTHER = {column.name: column for column in (*SETTINGS, *RUN, *LONG)}
_SEARCHES = {column.name: column for column in SEARCHES}


def label(column: str, data: str = "trials") -> str:
    """Return the label of a column, or of arithmetic on columns; `data` is the name of its table.

    >>> label("model.d_vo"), label("recall_0.95"), label("model.d_model + model.d_vo")
    ('value-output width d_vo', 'recall at confidence 0.95', 'd_model + d_vo')
    >>> label("upper"), label("upper", "searches"), label("facts", "searches")
    ('least upper bound of the rank', 'next size tried, which does not hold', 'facts held')
    """
    declared = (_SEARCHES.get(column) if data == "searches" else None) or _OTHER.get(column) or measure_of(column)
    if declared is not None and declared.label:
        begins = declared.name.removesuffix("*")
        if column == begins or "*" not in declared.name:
            return declared.label
        if "*" in declared.label and re.fullmatch(r"0\.\d+", column.removeprefix(begins)):
            return declared.label.replace("*", column.removeprefix(begins))
    if re.search(r" [-+*/] |^-|\b(log|sqrt)\(", column):
        for name in sorted(set(columns_in(column)), key=len, reverse=True):
            column = column.replace(name, _last(name))
        return shown_name(column, None)
    return shown_name(_last(column))


def short_label(column: str) -> str:
    """Return a shorter label, for places with little room.

    >>> short_label("model.d_vo"), short_label("data.n_queries"), short_label("recall_0.95")
    ('d_vo', 'queries', 'recall at confidence 0.95')
    """
    text = label(column)
    return _last(column) if re.fullmatch(r".* d_\w+", text) and " " not in column else text


def _last(column: str) -> str:
    """Shorten a dotted name to its last part, with spaces except in symbols such as d_vo."""
    name = column.rsplit(".", 1)[-1] if re.fullmatch(r"[A-Za-z_][\w.]*", column) else column
    return name if re.fullmatch(r"[dn]_\w{1,6}", name) else name.replace("_", " ")
