"""Proved: layers in closed form that store every functional table of given sizes, in each precision.

`construct` builds layers of exactly these sizes if every query and value is in use, and smaller ones if not. The proof
for the layer of one table is its certificate.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import get_args

from factrank.families.attention import LayerShape
from factrank.families.attention.forms.building import (
    bits_for,
    digits_for,
    label_choices,
    most_points,
    most_values,
)
from factrank.nn import Precision
from factrank.planning.table_sizes import TableSizes

OWN_WRITTEN = 2
"""Entry that a query with its own coordinate writes to the output (`Parabola.labels`)."""


@dataclass(frozen=True)
class ProvedLayer:
    """A closed form that stores the table."""

    form: str
    precision: Precision
    shape: LayerShape
    parameters: int


def proved_layers(table: TableSizes) -> list[ProvedLayer]:
    """Return the closed forms for tables of these sizes, in every precision, fewest parameters first.

    >>> sizes = TableSizes.given({"n_facts": 2e6, "n_keys": 2e5, "n_queries": 10, "n_values": 5000})
    >>> [(one.form, one.precision, one.parameters) for one in proved_layers(sizes)][0]
    ('parabola', 'float64', 2255550)
    """
    found = []
    for precision in get_args(Precision):
        for form, shape in _shapes(table, precision):
            found.append(ProvedLayer(form, precision, shape, shape.parameters(*table.shape)))
    order = list(get_args(Precision))
    return sorted(found, key=lambda one: (one.parameters, order.index(one.precision)))


def _shapes(table: TableSizes, precision: Precision) -> list[tuple[str, LayerShape]]:
    n_queries, n_values = table.n_queries, table.n_values
    shapes = []
    if n_values <= most_values(label_choices(n_queries, precision, OWN_WRITTEN)):
        shapes.append(("parabola", LayerShape(n_queries + 1, n_queries, 1, 1)))
    if n_values <= most_points(precision):
        shapes.append(("circle", LayerShape(2 * n_queries + 1, n_queries, 1, 2)))
    width = digits_for(n_values, precision)
    if width is not None:
        shapes.append(("digits", LayerShape(width * n_queries + 1, n_queries, 1, width)))
    word = bits_for(n_values)
    return [*shapes, ("binary", LayerShape(word * n_queries + 1, n_queries, 1, word))]
