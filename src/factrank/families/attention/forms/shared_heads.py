r"""Shared heads: queries whose ranges are disjoint share a head, and every query has words of its own length.

Query q answers in the range $V_q$ with words of $b_q = \max(1, \lceil \log_2 |V_q| \rceil)$ signs (see `binary_codes`).
Queries with pairwise disjoint ranges form a class and share one head of width $\sum b_q$ (see `blocks`), so that the
number of heads is the number of colours of the range-overlap graph. With the bias $\beta = \max b + 1$ on the range,

in range: $L[k,q,v] = \beta + b_q - 2 \operatorname{dist}$, margin at least 2, exactly 2 where two words differ in one
sign; out of range: at most max b, so that the margin is at least $\beta + b_q - \max b \ge 2$.

Where the database says nothing the range ties at $\beta$, above all else.

Queries with the same range share words and a constant coordinate: d_model = $\sum_q b_q$ + number of ranges. Ranges
that overlap may be taken together where the words get no longer, which saves a coordinate and may cost a head; with all
of them in one this is `binary_codes`. The search takes what has the fewest parameters.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from jaxtyping import Int

from factrank.databases import Database
from factrank.families.attention.forms.binary_codes import bits_for, built_with_words, used_queries, used_values
from factrank.families.attention.forms.building import BlockPlan, QueryGroup, coloured, overlap_graph
from factrank.families.attention.forms.construction import Built, FormSearch, require_held, table_refusal
from factrank.families.attention.layer_shape import LayerShape
from factrank.nn import Precision

Widths = Callable[[Sequence[int], int], int]
"""From the queries of a group and the size of its range to the width of its blocks."""

MOST_COMPARED = 300_000_000
"""Comparisons of values beyond which ranges are not taken together pair by pair."""


def ranges_of(database: Database) -> dict[int, Int[np.ndarray, " range"]]:
    """The values of each query that has facts, sorted."""
    pairs = np.unique(database.triples[:, 1].astype(np.int64) * database.n_values + database.triples[:, 2])
    queries, values = np.divmod(pairs, database.n_values)
    used = used_queries(database)
    ends = np.searchsorted(queries, used[1:])
    return dict(zip(used.tolist(), np.split(values, ends), strict=True))


Grouping = Sequence[tuple[Sequence[int], Int[np.ndarray, " _"]]]
"""Queries and their common range, for each group."""


def grouped_by_range(database: Database) -> Grouping:
    """The queries that have facts, those with the same range together."""
    groups: dict[bytes, list[int]] = {}
    ranges = ranges_of(database)
    for query, values in ranges.items():
        groups.setdefault(values.tobytes(), []).append(query)
    return [(queries, ranges[queries[0]]) for queries in groups.values()]


def word_width(_queries: Sequence[int], size: int) -> int:
    """The length of binary words."""
    return bits_for(size)


def best_plan(database: Database, search: FormSearch, width: Widths = word_width) -> BlockPlan:
    """The plan with the fewest parameters: ranges apart, overlapping ones together, or all in one."""
    apart = grouped_by_range(database)
    groupings = [apart]
    if len(apart) > 1 and len(apart) ** 2 * database.n_values <= MOST_COMPARED:
        groupings.append(_merged(apart, database.n_values, width))
    if len(apart) > 1:
        groupings.append([(used_queries(database).tolist(), used_values(database))])
    share = FormSearch(search.seconds / len(groupings), search.seed)
    plans = [plan_of(database, grouping, share, width) for grouping in groupings]
    return min(plans, key=lambda plan: plan.parameters(database))


def plan_of(database: Database, grouping: Grouping, search: FormSearch, width: Widths = word_width) -> BlockPlan:
    """The plan of these groups, with as few classes as the search finds."""
    groups = tuple(QueryGroup(tuple(queries), values, width(queries, len(values))) for queries, values in grouping)
    ranges, sizes = [group.values for group in groups], [len(group.queries) for group in groups]
    overlaps, clique = overlap_graph(ranges, sizes, database.n_values)
    colours = coloured(overlaps, clique, search.seconds, np.random.default_rng(search.seed))
    classes = np.full(database.n_queries, -1)
    classes[[query for group in groups for query in group.queries]] = colours
    return BlockPlan(groups, classes)


def _merged(grouping: Grouping, n_values: int, width: Widths) -> Grouping:
    """Groups taken together, the largest ranges first, where ranges overlap and no block gets wider."""
    members: list[list[int]] = []
    ranges = np.zeros((len(grouping), n_values), dtype=bool)
    for queries, values in sorted(grouping, key=lambda group: -len(group[1])):
        mine = np.zeros(n_values, dtype=bool)
        mine[values] = True
        common = (ranges[: len(members)] & mine).sum(axis=1)
        sizes = ranges[: len(members)].sum(axis=1)
        for home in np.argsort(-common, kind="stable").tolist():
            joined = width([*members[home], *queries], int(sizes[home]) + len(values) - int(common[home]))
            if common[home] and joined <= min(width(members[home], int(sizes[home])), width(queries, len(values))):
                members[home].extend(queries)
                ranges[home] |= mine
                break
        else:
            ranges[len(members)] = mine
            members.append(list(queries))
    return [(queries, np.flatnonzero(row)) for queries, row in zip(members, ranges, strict=False)]


class SharedHeads:
    """The construction `shared-heads`."""

    name = "shared-heads"
    estimated = True
    """A longer search may find a smaller grouping than `shape` counts with, never a larger one."""

    def refusal(self, database: Database, precision: Precision) -> str | None:
        """Only tables without facts or with several values in a fiber."""
        return table_refusal(database)

    def shape(self, database: Database, precision: Precision) -> LayerShape:
        """The shape that needs no search."""
        return best_plan(database, FormSearch(seconds=0.0)).shape

    def build(self, database: Database, precision: Precision, search: FormSearch) -> Built:
        """The layer of the best plan."""
        require_held(self, database, precision)
        return built_with_words(database, best_plan(database, search), precision, self.name)
