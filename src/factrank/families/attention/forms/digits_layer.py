r"""Digits: a lattice point for every value, w small integers instead of the one large number of the parabola.

With n values in use and w digits of base m, $m^w \ge n$, the place of a value is written with centred digits
$x_v \in \{-\lfloor m/2 \rfloor, \dots, m - 1 - \lfloor m/2 \rfloor\}^w$. A key stores $x_{f(k,q)}$ in the block of
query q (see `block_layers`), the unembedding reads it with $2 x_v$, and the constant adds $s - |x_v|^2$:

$$L[k,q,v] = s + 2\, x_f \cdot x_v - |x_v|^2 = s + |x_f|^2 - |x_v - x_f|^2,$$

a margin of at least 1, because attention is exactly 0 or 1. This is the parabola for w = 1, and binary codes up to a
shift for m = 2. With $h = \lfloor m/2 \rfloor$ and the shift $s = w h^2$, at least 1, the absolute values of all terms
of a logit add up to at most $2 w h^2 + 4h$ (the parabola's argument in every digit; 4h for the 1 that the query itself
writes to the first digit of the output and takes back), so no operation rounds if that is at most $2^p$. Two digits
give 225 values in bfloat16 and 16,769,025 in float32, three digits 2,197 in bfloat16.

d_model = Q w + 1, d_qk = 1, d_vo = w, H = Q: w numbers per fact, for more values than one number can represent. For a
missing entry, the values nearest to 0 win.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float, Int

from factrank.databases import Database
from factrank.families.attention.forms.binary_codes import editing_of, head_per_query, used_queries, used_values
from factrank.families.attention.forms.building import (
    FEWEST_DIGITS,
    BlockPlan,
    QueryGroup,
    block_layer,
    contents_by_value,
    digits_for,
)
from factrank.families.attention.forms.construction import Built, ClosedForm, FormSearch
from factrank.families.attention.layer_shape import LayerShape
from factrank.nn import Precision


def base_for(n_values: int, n_digits: int) -> int:
    """Return the least base m with m^w >= n.

    >>> base_for(225, 2), base_for(226, 2), base_for(1, 2)
    (15, 16, 1)
    """
    base: int = max(int(n_values ** (1 / n_digits)) - 1, 1)
    while base**n_digits < n_values:
        base += 1
    return int(base)


def digits(places: Int[np.ndarray, " n"], base: int, n_digits: int) -> Float[np.ndarray, "n digits"]:
    """Return the centred digits of places, lowest first.

    >>> digits(np.arange(4), 3, 2).astype(int).tolist()
    [[-1, -1], [0, -1], [1, -1], [-1, 0]]
    """
    return np.asarray(places[:, None] // base ** np.arange(n_digits) % base - base // 2, np.float64)


class Digits(ClosedForm):
    """The form `digits`."""

    name = "digits"

    def _limit(self, database: Database, precision: Precision) -> str | None:
        n_values = len(used_values(database))
        return None if digits_for(n_values, precision) else f"{n_values:,} values do not fit into {precision}"

    def shape(self, database: Database, precision: Precision) -> LayerShape:
        """Return d_model = Q w + 1 and one head of width w per query with facts."""
        return self.plan(database, precision).shape

    def _build(self, database: Database, precision: Precision, search: FormSearch) -> Built:
        plan = self.plan(database, precision)
        group = plan.groups[0]
        base = base_for(len(group.values), group.width)
        code = digits(np.arange(len(group.values)), base, group.width)
        contents = contents_by_value(database, plan, [code])
        shift = max(group.width * (base // 2) ** 2, 1)
        layer = block_layer(database, plan, [2 * code], contents, [shift - (code**2).sum(axis=1)], precision)
        editing = {**editing_of(plan, 0), "code": "digits", "base": base, "shift": shift}
        return Built(layer, self.name, editing)

    def plan(self, database: Database, precision: Precision) -> BlockPlan:
        """Return a plan with one group and one class per query."""
        queries, values = used_queries(database), used_values(database)
        group = QueryGroup(tuple(queries.tolist()), values, digits_for(len(values), precision) or FEWEST_DIGITS)
        return BlockPlan((group,), head_per_query(queries, database.n_queries))
