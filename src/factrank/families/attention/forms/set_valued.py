r"""Set-valued: tables in which a (key, query) may have several values, all of which must rank above the others.

Queries with the same range share a code (see `block_layers`). Let n be the size of the range and m the largest number
of values in a fiber. The entry of a key for a set S, and the code of a value, are one of

- *circle* (m < n/2): $u_v = (\cos j t_v, \sin j t_v)_{j \le m}$ with $t_v = 2 \pi v / n$, and the coefficients of
  $r_0 - \prod_{s \in S} (2 - 2 \cos(t - t_s))$ (see `tensors.set_codes`): width 2m. The logits tie at $r_0$ on S, with
  $2 \le r_0 \le \binom{2m}{m}$, and the margin is the least $\prod_s 4 \sin^2((t_v - t_s)/2)$ over v outside S;
- *indicator*: $u_v = e_v$ and $1_S$: width n, integers, margin 1;
- *words* of signs (m = 1), as in `binary_codes`: width about log2 n, integers, margin 2.

The narrowest code that survives rounding is used. The circle does if m is at most 53 (beyond that its coefficients,
which reach $4^m$, are lost even in float64) and its margin exceeds four times

$$\gamma_{2m+6} \Bigl(\sum_j \max(1, |a_j|) + \beta\Bigr), \qquad \gamma_i = \frac{i u}{1 - i u},$$

with unit roundoff u, coefficients a and the bias $\beta$ of the range. This bounds the error of a logit under any
evaluation order (both factors rounded, the copy of a coefficient added to and subtracted from a 1, 2m + 1 terms), twice
for a difference, and twice again as a safety factor. Sets of neighbours on the circle are the hardest: a single range
with such sets allows 116 values for m = 2 and 48 for m = 3 in float32, 9 for m = 1 in bfloat16. Larger ranges use the
indicator or, for m = 1, the words.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from math import ceil

import numpy as np
from jaxtyping import Float, Int

from factrank.databases import Database
from factrank.families.attention.forms.binary_codes import code_words
from factrank.families.attention.forms.building import (
    BlockPlan,
    Contents,
    StoredMarks,
    StoredWords,
    bits_for,
    block_layer,
)
from factrank.families.attention.forms.construction import Built, ClosedForm, FormSearch
from factrank.families.attention.forms.shared_heads import grouped_by_range, plan_of
from factrank.families.attention.layer_shape import LayerShape
from factrank.nn import SIGNIFICAND, Precision
from factrank.tensors.codes import ReadoutCode, set_code, set_margin

Sets = list[tuple[int, ...]]

SAFETY = 4.0
"""The margin must exceed the error bound by this factor."""

LARGEST_SET = 53
"""Largest number of values in a fiber for which the circle is tried."""


@dataclass(frozen=True, eq=False)
class _Fibers:
    """Fibers of queries that share a range: places in the range, and where the places of each fiber start."""

    facts: Int[np.ndarray, "facts 3"]
    places: Int[np.ndarray, " facts"]
    starts: Int[np.ndarray, " fibers"]

    @cached_property
    def sizes(self) -> Int[np.ndarray, " fibers"]:
        return np.diff(self.starts, append=len(self.places))

    @property
    def least(self) -> int:
        return int(self.sizes.min())

    @property
    def most(self) -> int:
        return int(self.sizes.max())

    @cached_property
    def numbered(self) -> tuple[Sets, Int[np.ndarray, " fibers"]]:
        """The distinct sets of places, and the number of each fiber's set; takes seconds for a million fibers."""
        numbers: dict[tuple[int, ...], int] = {}
        places, bounds = self.places.tolist(), [*self.starts.tolist(), len(self.places)]
        set_of = [numbers.setdefault(tuple(places[start:end]), len(numbers)) for start, end in pairwise(bounds)]
        return list(numbers), np.array(set_of)

    @property
    def sets(self) -> Sets:
        return self.numbered[0]

    def contents(self, words: Float[np.ndarray, "sets width"]) -> Contents:
        """Return the word of each fiber's set."""
        keys, queries, _ = self.facts[self.starts].T
        return StoredWords(keys, queries, words, self.numbered[1])

    def marks(self) -> Contents:
        """Return the indicator of each fiber's set."""
        keys, queries, _ = self.facts.T
        return StoredMarks(keys, queries, self.places)


@dataclass(frozen=True, eq=False)
class _Design:
    """Plan, fibers and circle of each range; the circle is None if the code is exact (words or indicators)."""

    plan: BlockPlan
    fibers: tuple[_Fibers, ...]
    circles: tuple[ReadoutCode | None, ...]


class SetValued(ClosedForm):
    """The form `set-valued`."""

    name, functional = "set-valued", False

    def shape(self, database: Database, precision: Precision) -> LayerShape:
        """Return the shape; only circles must be computed to know whether they survive rounding."""
        return _designed(database, precision, FormSearch(seconds=0.0)).plan.shape

    def _build(self, database: Database, precision: Precision, search: FormSearch) -> Built:
        design = _designed(database, precision, FormSearch(seconds=0.0, seed=search.seed))
        codes, contents = [], []
        for group, found, circle in zip(design.plan.groups, design.fibers, design.circles, strict=True):
            n_values = len(group.values)
            if circle is not None:
                codes.append(circle.right)
                contents.append(found.contents(circle.left))
            elif found.most == 1:
                codes.append(code_words(np.arange(n_values), bits_for(n_values)))
                contents.append(found.contents(codes[-1][[places[0] for places in found.sets]]))
            else:
                codes.append(np.eye(n_values))
                contents.append(found.marks())
        bias = float(_bias(design, database.n_values))
        return Built(block_layer(database, design.plan, codes, contents, bias, precision), self.name)


def _designed(database: Database, precision: Precision, search: FormSearch) -> _Design:
    grouping = grouped_by_range(database)
    fibers = tuple(_fibers(database, list(queries), values) for queries, values in grouping)
    circles = _circles(fibers, [len(values) for _, values in grouping], database.n_values, precision)
    widths = {
        tuple(queries): _exact_width(found, len(values)) if circle is None else circle.right.shape[1]
        for (queries, values), found, circle in zip(grouping, fibers, circles, strict=True)
    }
    plan = plan_of(database, grouping, search, lambda queries, _: widths[tuple(queries)])
    return _Design(plan, fibers, circles)


def _fibers(database: Database, queries: list[int], values: Int[np.ndarray, " range"]) -> _Fibers:
    wanted = np.zeros(database.n_queries, dtype=bool)
    wanted[queries] = True
    triples = database.triples[wanted[database.triples[:, 1]]]
    starts = np.flatnonzero(np.append(True, np.any(triples[1:, :2] != triples[:-1, :2], axis=1)))
    return _Fibers(triples, np.searchsorted(values, triples[:, 2]), starts)


def _circles(
    fibers: Sequence[_Fibers], sizes: Sequence[int], n_values: int, precision: Precision
) -> tuple[ReadoutCode | None, ...]:
    """Return the circles of ranges of these sizes that survive rounding.

    First each with the bias that it needs itself, then all with the largest remaining bias.
    """

    def bias(found: _Fibers, size: int, *, on_circle: bool) -> int:
        return 0 if _unbiased(sizes, n_values) else 1 + max(4**found.most if on_circle else 1, bits_for(size))

    pairs = list(zip(fibers, sizes, strict=True))
    circles = [
        _circle(found, size, bias(found, size, on_circle=True), precision) if _may_be_circle(found, size) else None
        for found, size in pairs
    ]
    largest = max(
        bias(found, size, on_circle=circle is not None) for (found, size), circle in zip(pairs, circles, strict=True)
    )
    return tuple(circle if circle is not None and _survives(circle, largest, precision) else None for circle in circles)


def _unbiased(sizes: Sequence[int], n_values: int) -> bool:
    """Return whether a single range has all values and so needs no bias."""
    return list(sizes) == [n_values]


def _may_be_circle(fibers: _Fibers, n_values: int) -> bool:
    return 2 * fibers.most < _exact_width(fibers, n_values) and fibers.most <= LARGEST_SET


def _circle(fibers: _Fibers, n_values: int, bias: int, precision: Precision) -> ReadoutCode | None:
    needed = SAFETY * _error(2.0 * fibers.most, fibers.most, bias, precision)  # for any coefficients
    if _margin_at_most(fibers.least, n_values) <= needed or set_margin(fibers.sets, n_values) <= needed:
        return None
    circle = set_code(fibers.sets, n_values)
    return circle if _survives(circle, bias, precision) else None


def _margin_at_most(size: int, n_values: int) -> float:
    """Bound the margin of a set from above: a value next to it has one factor 4 sin^2(pi/n), others at most 4."""
    return float(4.0**size * np.sin(np.pi / n_values) ** 2)


def _survives(circle: ReadoutCode, bias: int, precision: Precision) -> bool:
    sizes = np.maximum(np.abs(circle.left), 1.0).sum(axis=1)
    return circle.margin > SAFETY * _error(float(sizes.max()), circle.right.shape[1] // 2, bias, precision)


def _error(sizes: float, most: int, bias: int, precision: Precision) -> float:
    """Bound the error of any logit of a circle whose coefficients have these sizes together."""
    rounding = (2 * most + 6) * 2.0 ** -SIGNIFICAND[precision]
    return float("inf") if rounding >= 1 else rounding / (1 - rounding) * (sizes + bias)


def _exact_width(fibers: _Fibers, n_values: int) -> int:
    """Return the width of the integer code: words of signs for single values, else indicators."""
    return bits_for(n_values) if fibers.most == 1 else n_values


def _bias(design: _Design, n_values: int) -> int:
    """Return more than any logit of any of the codes."""
    if _unbiased([len(group.values) for group in design.plan.groups], n_values):
        return 0
    tops = [
        _top(circle, found.sets) if circle is not None else group.width if found.most == 1 else 1.0
        for group, found, circle in zip(design.plan.groups, design.fibers, design.circles, strict=True)
    ]
    return 1 + ceil(max(tops))


def _top(circle: ReadoutCode, sets: Sets) -> float:
    """Return the largest logit of a circle, r_0: every row's product with the word of its first value."""
    first = circle.right[[places[0] for places in sets]]
    return float((circle.left * first).sum(axis=1).max())
