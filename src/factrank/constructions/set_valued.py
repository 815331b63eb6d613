r"""Set-valued: tables where a (key, query) may have several values, all of which must stand above the others.

Queries with the same range share a code (see `blocks`); n is the size of the range and m the most values of a fiber.
What a key holds for a set S, and the code of a value, are one of

- *circle* (m < n/2): $u_v = (\cos j t_v, \sin j t_v)_{j \le m}$ with $t_v = 2 \pi v / n$, and the coefficients of
  $r_0 - \prod_{s \in S} (2 - 2 \cos(t - t_s))$ (see `tensors.set_codes`): width 2m. The logits tie at $r_0$ on S, with
  $2 \le r_0 \le \binom{2m}{m}$, and the margin is the least $\prod_s 4 \sin^2((t_v - t_s)/2)$ over v outside S;
- *indicator*: $u_v = e_v$ and $1_S$: width n, integers, margin 1;
- *words* of signs (m = 1): those of `binary_codes`, width about log2 n, integers, margin 2.

The narrowest is taken that survives rounding. The circle does where its margin exceeds four times

$$\gamma_{2m+6} \Bigl(\sum_j \max(1, |a_j|) + \beta\Bigr), \qquad \gamma_i = \frac{i u}{1 - i u},$$

with the unit roundoff u, the coefficients a and the bias $\beta$ of the range: a bound of the error of a logit in any
order of evaluation (both factors rounded, the copy of a coefficient added to and taken from a 1, 2m + 1 terms), twice
for a difference, and twice that for good measure. Sets of neighbours on the circle cost most: a single range with such
sets holds 116 values for m = 2 and 48 for m = 3 in float32, 9 for m = 1 in bfloat16. Beyond that it is the indicator
or, for m = 1, the words.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from math import ceil
from typing import Literal

import numpy as np
from jaxtyping import Float, Int

from factrank.constructions.binary_codes import bits_for, code_words
from factrank.constructions.blocks import Contents, Plan, block_layer
from factrank.constructions.construction import SIGNIFICAND, Built, Precision, Search, require_held, table_refusal
from factrank.constructions.shared_heads import grouped_by_range, plan_of
from factrank.databases import Database
from factrank.models import LayerShape
from factrank.tensors.set_codes import set_code

CodeKind = Literal["circle", "indicator", "words"]
Sets = list[tuple[int, ...]]

SAFETY = 4.0
"""How often the bound of the error must fit into the margin."""


@dataclass(frozen=True, eq=False)
class _Fibers:
    """The fibers of some queries that share a range: which sets of places in the range occur, and where."""

    keys: Int[np.ndarray, " fibers"]
    queries: Int[np.ndarray, " fibers"]
    sets: Sets
    set_of: Int[np.ndarray, " fibers"]

    @property
    def most(self) -> int:
        """The largest number of values of a fiber."""
        return max(map(len, self.sets))


@dataclass(frozen=True, eq=False)
class _Code:
    """The code of a range: a word for each value, a row for each set, and the largest logit that it gives."""

    words: Float[np.ndarray, "range width"]
    rows: Float[np.ndarray, "sets width"]
    top: float


class SetValued:
    """The construction `set-valued`."""

    name = "set-valued"
    estimated = False

    def refusal(self, database: Database, precision: Precision) -> str | None:
        """Only tables without facts."""
        return table_refusal(database, functional=False)

    def shape(self, database: Database, precision: Precision) -> LayerShape:
        """The shape; it takes the codes of all sets that occur to know which of them survive rounding."""
        return _designed(database, precision, Search(seconds=0.0))[0].shape

    def build(self, database: Database, precision: Precision, search: Search) -> Built:
        """The layer; to edit it is to rebuild it."""
        require_held(self, database, precision)
        plan, codes, contents, bias = _designed(database, precision, Search(seconds=0.0, seed=search.seed))
        words = [code.words for code in codes]
        return Built(block_layer(database, plan, words, contents, float(bias), precision), self.name)


def _designed(
    database: Database, precision: Precision, search: Search
) -> tuple[Plan, list[_Code], list[Contents], int]:
    grouping = grouped_by_range(database)
    fibers = [_fibers(database, list(queries), values) for queries, values in grouping]
    alone = len(grouping) == 1 and len(grouping[0][1]) == database.n_values
    most_bias = (
        0 if alone else max(_bias(len(values), found) for (_, values), found in zip(grouping, fibers, strict=True))
    )
    codes = [
        _code(found, len(values), most_bias, precision) for (_, values), found in zip(grouping, fibers, strict=True)
    ]
    widths = {tuple(queries): code.words.shape[1] for (queries, _), code in zip(grouping, codes, strict=True)}
    plan = plan_of(database, grouping, search, lambda queries, _: widths[tuple(queries)])
    bias = 0 if alone else 1 + ceil(max(code.top for code in codes))
    contents = [
        Contents(found.keys, found.queries, code.rows[found.set_of]) for found, code in zip(fibers, codes, strict=True)
    ]
    return plan, codes, contents, bias


def _fibers(database: Database, queries: list[int], values: Int[np.ndarray, " range"]) -> _Fibers:
    """The fibers of these queries, from triples that are sorted by key, query and value."""
    wanted = np.zeros(database.n_queries, dtype=bool)
    wanted[queries] = True
    triples = database.triples[wanted[database.triples[:, 1]]]
    starts = np.flatnonzero(np.append(True, np.any(triples[1:, :2] != triples[:-1, :2], axis=1)))
    places = np.searchsorted(values, triples[:, 2]).tolist()
    numbers: dict[tuple[int, ...], int] = {}
    bounds = [*starts.tolist(), len(places)]
    set_of = [numbers.setdefault(tuple(places[start:end]), len(numbers)) for start, end in pairwise(bounds)]
    return _Fibers(triples[starts, 0], triples[starts, 1], list(numbers), np.array(set_of))


def _code(fibers: _Fibers, n_values: int, bias: int, precision: Precision) -> _Code:
    """The narrowest code that survives rounding."""
    n_words = bits_for(n_values)
    if fibers.most == 1 and n_words <= 2:
        return _exact_code(fibers.sets, n_values, "words")
    if 2 * fibers.most < n_values:
        circle = set_code(fibers.sets, n_values)
        if circle.margin > SAFETY * _error(circle.left, fibers.most, bias, precision):
            # The logits on a set are r_0: every row's product with the word of its first value.
            first = circle.right[[places[0] for places in fibers.sets]]
            return _Code(circle.right, circle.left, float((circle.left * first).sum(axis=1).max()))
    return _exact_code(fibers.sets, n_values, "words" if fibers.most == 1 else "indicator")


def _exact_code(sets: Sets, n_values: int, kind: CodeKind) -> _Code:
    if kind == "words":
        words = code_words(n_values, bits_for(n_values))
        return _Code(words, words[[places[0] for places in sets]], float(words.shape[1]))
    rows = np.zeros((len(sets), n_values))
    for row, places in enumerate(sets):
        rows[row, list(places)] = 1.0
    return _Code(np.eye(n_values), rows, 1.0)


def _error(rows: Float[np.ndarray, "sets width"], most: int, bias: int, precision: Precision) -> float:
    """A bound of the error of any logit of the circle."""
    rounding = (2 * most + 6) * 2.0 ** -SIGNIFICAND[precision]
    sizes = np.maximum(np.abs(rows), 1.0).sum(axis=1)
    return float("inf") if rounding >= 1 else rounding / (1 - rounding) * (float(sizes.max()) + bias)


def _bias(n_values: int, fibers: _Fibers) -> int:
    """More than any logit of any of the codes."""
    circle = 4**fibers.most if 2 * fibers.most < n_values else 1
    return 1 + max(circle, bits_for(n_values))
