r"""Digits: every value a point of a lattice, w small integers where the parabola takes one large number.

With n values in use and w digits of base m, $m^w \ge n$, the place of a value is written with centred digits
$x_v \in \{-\lfloor m/2 \rfloor, \dots, m - 1 - \lfloor m/2 \rfloor\}^w$. A key holds $x_{f(k,q)}$ in the block of
query q (see `blocks`), the unembedding reads it with $2 x_v$, and the constant adds $s - |x_v|^2$:

$$L[k,q,v] = s + 2\, x_f \cdot x_v - |x_v|^2 = s + |x_f|^2 - |x_v - x_f|^2,$$

a margin of at least 1, as attention is exactly 0 or 1. It is the parabola for w = 1, and up to a shift binary codes for
m = 2. With $h = \lfloor m/2 \rfloor$ and the shift $s = w h^2$, at least 1, the absolute values of all terms of a
logit add up to at most $2 w h^2 + 4h$ (the parabola's argument in every digit; 4h for the 1 that the query itself
writes to the first digit of the output and takes back), so nothing is ever rounded while that is at most $2^p$. Two
digits hold 225 values in bfloat16 and 16,769,025 in float32, three digits 2,197 in bfloat16.

d_model = Q w + 1, d_qk = 1, d_vo = w, H = Q: w numbers per fact, for more values than one number holds.
Where the database says nothing the values nearest to 0 win.
"""

from __future__ import annotations

from dataclasses import replace
from math import isqrt
from typing import Any, cast

import numpy as np
from jaxtyping import Float, Int

from factrank.databases import Database
from factrank.families.attention.forms.binary_codes import editing_of, used_queries, used_values
from factrank.families.attention.forms.building import BlockPlan, Contents, QueryGroup, block_layer
from factrank.families.attention.forms.construction import Built, FormSearch, require_held, table_refusal
from factrank.families.attention.layer_shape import LayerShape
from factrank.nn import SIGNIFICAND, Precision, dtype_of

FEWEST_DIGITS = 2


def largest_digit(n_digits: int, precision: Precision) -> int:
    """The largest h with 2 w h^2 + 4 h <= 2^p.

    >>> [2 * largest_digit(w, "bfloat16") + 1 for w in (1, 2, 3)], 2 * largest_digit(2, "float32") + 1
    ([21, 15, 13], 4095)
    """
    return (isqrt(4 + 2 * n_digits * 2 ** SIGNIFICAND[precision]) - 2) // (2 * n_digits)


def digits_for(n_values: int, precision: Precision) -> int | None:
    """The least number of digits, two or more, that holds so many values; None where base 3 is too large.

    >>> [digits_for(n, "bfloat16") for n in (225, 226, 2197, 2198)]
    [2, 3, 3, 4]
    """
    n_digits = FEWEST_DIGITS
    while (h := largest_digit(n_digits, precision)) > 0:
        if (2 * h + 1) ** n_digits >= n_values:
            return n_digits
        n_digits += 1
    return None


def base_for(n_values: int, n_digits: int) -> int:
    """The least base m with m^w >= n.

    >>> base_for(225, 2), base_for(226, 2), base_for(1, 2)
    (15, 16, 1)
    """
    base: int = max(int(n_values ** (1 / n_digits)) - 1, 1)
    while base**n_digits < n_values:
        base += 1
    return int(base)


def digits(places: Int[np.ndarray, " n"], base: int, n_digits: int) -> Float[np.ndarray, "n digits"]:
    """The centred digits of places, the lowest first.

    >>> digits(np.arange(4), 3, 2).astype(int).tolist()
    [[-1, -1], [0, -1], [1, -1], [-1, 0]]
    """
    return np.asarray(places[:, None] // base ** np.arange(n_digits) % base - base // 2, np.float64)


class Digits:
    """The construction `digits`."""

    name = "digits"
    estimated = False

    def refusal(self, database: Database, precision: Precision) -> str | None:
        """Only tables without facts or with several values in a fiber, and more values than digits can write."""
        reason = table_refusal(database)
        if reason is not None:
            return reason
        n_values = len(used_values(database))
        return None if digits_for(n_values, precision) else f"{n_values:,} values do not fit into {precision}"

    def shape(self, database: Database, precision: Precision) -> LayerShape:
        """d_model = Q w + 1, one head of width w per query that has facts."""
        return self.plan(database, precision).shape

    def build(self, database: Database, precision: Precision, search: FormSearch) -> Built:
        """The layer; nothing is left to search."""
        require_held(self, database, precision)
        plan = self.plan(database, precision)
        group = plan.groups[0]
        base = base_for(len(group.values), group.width)
        code = digits(np.arange(len(group.values)), base, group.width)
        place = np.zeros(database.n_values, dtype=np.int64)
        place[group.values] = np.arange(len(group.values))
        keys, queries, values = database.triples.T
        layer = block_layer(database, plan, [2 * code], [Contents(keys, queries, code[place[values]])], 0.0, precision)
        unembedding = cast("Any", np.array(layer.unembedding))
        shift = max(group.width * (base // 2) ** 2, 1)
        biases = shift - (code**2).sum(axis=1)
        unembedding[plan.constants[group.queries[0]], group.values] = biases.astype(dtype_of(precision))
        editing = {**editing_of(plan, 0), "code": "digits", "base": base, "shift": shift}
        return Built(replace(layer, unembedding=unembedding), self.name, editing)

    def plan(self, database: Database, precision: Precision) -> BlockPlan:
        """One group, one class per query."""
        queries, values = used_queries(database), used_values(database)
        classes = np.full(database.n_queries, -1)
        classes[queries] = np.arange(len(queries))
        width = digits_for(len(values), precision) or FEWEST_DIGITS
        return BlockPlan((QueryGroup(tuple(queries.tolist()), values, width),), classes)
