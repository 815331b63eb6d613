r"""Excluded: layers that cannot store a table, whatever their weights, with the reason.

**Width 1.** The logits are a number times the unembedding: the largest or the smallest entry of it wins, so the layer
answers with two values at most.

**The information floor.** P weights of b bits make at most $2^{bP}$ layers, and there are $|V|^n$ tables of n facts
with given pairs. If $bP < n \log_2 |V| - 20$, all but a fraction $2^{-20}$ of these tables have no layer.

**Rows of keys.** Fix all weights except the embeddings of the keys. The answers to all queries, the *row* of a key,
depend on its embedding $x \in R^d$ alone. For query q and values v, v', the difference of two logits is
$\sum_h \sigma(s_h(x)) \ell_h(x) + c$ with affine functions $s_h$ and $\ell_h$. Multiplied by all $1 + e^{-s_h} > 0$, it
is a polynomial of degree at most H + 1 in x and in H exponentials of affine functions. The signs of these
$m = |Q||V|(|V| - 1)/2$ functions determine the row. Each component of the intersection of $r \le d$ zero sets has a
point nearest to a generic p: a nondegenerate solution of r equations of degree H + 1 and of Lagrange's d equations of
degree H + 2, in x, r multipliers and rH exponentials. Khovanskii (1980) bounds the number of such solutions by the
first three factors below, and an arrangement of m sets has at most as many cells as all intersections have components
(Warren 1968, Karpinski and Macintyre 1997; Anthony and Bartlett 1999, chapters 7 and 8). So a layer has

$$R \le 2^{dH(dH-1)/2}\,(H + 2)^{2d + dH}\,(d + 1)^{d + 2dH} \sum_{i \le d} \binom{m}{i}$$

different rows, however precise the embeddings are. With S weights apart from the embeddings of keys there are at most
$2^{bS} R^{|K|}$ tables. This excludes narrow layers with more parameters than the floor: $\log_2 R$ grows like
$d \log_2 m$, and a row has $|Q| \log_2 |V|$ bits.

**Ranks exclude nothing else.** The effective rank of every table is at most $\min(|K|, |Q|) + 1$ (the parabola:
logits $2 t v - v^2$), and the rank bound of every layer of width 2 or more is at least that.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, comb, floor, log2

from factrank.families.attention import LayerShape
from factrank.nn import Precision
from factrank.planning.table_sizes import TableSizes

WEIGHT_BITS: dict[Precision, int] = {"float64": 64, "float32": 32, "bfloat16": 16}
EXCLUDED_BITS = 20
"""Counting excludes layers for all but a fraction 2^-20 of the tables of a size."""

WIDEST_COUNTED = 64
"""Rows are counted for layers up to this width; the bound is useless long before."""


@dataclass(frozen=True)
class Exclusion:
    """Why a layer cannot store a table.

    Arguments:
        reason: in words.
        certain: true for every table of the size, not only for all but one in a million.
    """

    reason: str
    certain: bool


def least_parameters(table: TableSizes, precision: Precision, recall: float = 1.0) -> int:
    """Return the information floor: the fewest parameters for all but one in a million tables of this size.

    A table of which a layer recalls all but m of n facts is determined by the layer and a list of these facts, which
    takes m log2 |V| bits and the bits of a set of at most m among n.
    """
    return max(0, ceil((_stored_bits(table, recall) - EXCLUDED_BITS) / WEIGHT_BITS[precision]))


def exclusion(table: TableSizes, shape: LayerShape, precision: Precision, recall: float = 1.0) -> Exclusion | None:
    """Return why this layer cannot recall that fraction of the table; None if nothing is known against it."""
    if recall == 1 and shape.d_model == 1 and table.n_values > 2:
        return Exclusion(
            f"a stream of width 1 only ever answers with two of the {table.n_values:,} values: its logits are a number "
            "times the unembedding, so the largest or the smallest entry wins",
            certain=True,
        )
    if table.is_real:  # counting is a statement about nearly all tables of a size, and this one may be an exception
        return None
    n_parameters, least = shape.parameters(*table.shape), least_parameters(table, precision, recall)
    if n_parameters < least:
        return Exclusion(
            f"{n_parameters:,} parameters of {WEIGHT_BITS[precision]} bits make fewer layers than there are tables of "
            f"this size: all but one in a million of the tables need at least {least:,}",
            certain=False,
        )
    most = layer_bits(table, shape, precision)
    if most < _stored_bits(table, recall) - EXCLUDED_BITS:
        return Exclusion(
            f"in width {shape.d_model} a key has at most 2^{row_bits(table, shape):.0f} different rows of answers, so "
            f"the layer stores at most {most:,.0f} bits, and all but one in a million tables of this size have more",
            certain=False,
        )
    return None


def row_bits(table: TableSizes, shape: LayerShape) -> float:
    """Return log2 of the number of different rows of answers that a key can have, at most, for any embedding.

    >>> sizes = TableSizes.given({"n_facts": 2000, "n_keys": 100, "n_queries": 20, "n_values": 10})
    >>> round(row_bits(sizes, LayerShape(d_model=2, n_heads=1, d_qk=1, d_vo=1)), 1)
    38.6
    """
    width, exponentials = shape.d_model, shape.d_model * shape.n_heads
    signs = table.n_queries * table.n_values * (table.n_values - 1) // 2
    cells = sum(comb(signs, i) for i in range(min(width, signs) + 1))
    powers = (2 * width + exponentials) * log2(shape.n_heads + 2) + (width + 2 * exponentials) * log2(width + 1)
    return exponentials * (exponentials - 1) / 2 + powers + log2(cells)


def layer_bits(table: TableSizes, shape: LayerShape, precision: Precision) -> float:
    """Return log2 of the number of tables that layers of a shape can store, at most."""
    every = float(WEIGHT_BITS[precision] * shape.parameters(*table.shape))
    if shape.d_model > WIDEST_COUNTED:
        return every
    by_rows = WEIGHT_BITS[precision] * shape.parameters(0, *table.shape[1:]) + table.n_keys * row_bits(table, shape)
    return min(every, by_rows)


def _stored_bits(table: TableSizes, recall: float) -> float:
    """Return the bits of the table, less the bits of the facts that may be missing."""
    missing = floor((1 - recall) * table.n_facts + 1e-9)
    fraction = min(missing / table.n_facts, 0.5)
    which = 0.0 if fraction == 0 else -fraction * log2(fraction) - (1 - fraction) * log2(1 - fraction)
    return table.bits - missing * log2(table.n_values) - table.n_facts * which
