r"""Shared heads: queries with disjoint ranges share a head, and every query has words of its own length.

Query q has the range $V_q$ and words of $b_q = \max(1, \lceil \log_2 |V_q| \rceil)$ signs (see `binary_codes`).
Queries with pairwise disjoint ranges form a class and share one head of width $\sum b_q$ (see `block_layers`), so the
number of heads is the number of colours of the range-overlap graph. With the bias $\beta = \max b + 1$ on the range,

in range: $L[k,q,v] = \beta + b_q - 2 \operatorname{dist}$, margin at least 2, exactly 2 if two words differ in one
sign; out of range: at most max b, so the margin is at least $\beta + b_q - \max b \ge 2$.

For a missing entry, the range ties at $\beta$, above all other values.

Queries with the same range share words and a constant coordinate: d_model = $\sum_q b_q$ + number of ranges.
Overlapping ranges may be merged if the words get no longer, which saves a coordinate and may cost a head; with all of
them merged, this is `binary_codes`. The search returns the plan with the fewest parameters.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from jaxtyping import Int

from factrank.databases import Database
from factrank.families.attention.forms.binary_codes import built_with_words, used_queries, used_values
from factrank.families.attention.forms.building import BlockPlan, QueryGroup, bits_for, coloured, overlap_graph
from factrank.families.attention.forms.construction import Built, ClosedForm, FormSearch
from factrank.families.attention.layer_shape import LayerShape
from factrank.nn import Precision
from factrank.tensors.core import run_starts

Widths = Callable[[Sequence[int], int], int]
"""Maps the queries of a group and the size of its range to the width of its blocks."""

MOST_COMPARED = 300_000_000
"""Comparisons of values above which ranges are not merged pair by pair."""


def ranges_of(database: Database) -> dict[int, Int[np.ndarray, " range"]]:
    """Return the sorted values of each query with facts."""
    pairs = np.sort(database.triples[:, 1].astype(np.int64) * database.n_values + database.triples[:, 2])
    pairs = pairs[run_starts(pairs)]  # several times faster than np.unique for millions of facts
    queries, values = np.divmod(pairs, database.n_values)
    used = used_queries(database)
    ends = np.searchsorted(queries, used[1:])
    return dict(zip(used.tolist(), np.split(values, ends), strict=True))


Grouping = Sequence[tuple[Sequence[int], Int[np.ndarray, " _"]]]
"""The queries of each group, and their common range."""


def grouped_by_range(database: Database) -> Grouping:
    """Group the queries with facts by range."""
    groups: dict[bytes, list[int]] = {}
    ranges = ranges_of(database)
    for query, values in ranges.items():
        groups.setdefault(values.tobytes(), []).append(query)
    return [(queries, ranges[queries[0]]) for queries in groups.values()]


def word_width(_queries: Sequence[int], size: int) -> int:
    """Return the length of binary words."""
    return bits_for(size)


def best_plan(database: Database, search: FormSearch, width: Widths = word_width) -> BlockPlan:
    """Return the plan with the fewest parameters: ranges separate, overlapping ones merged, or all merged."""
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
    """Return the plan of these groups, with the fewest classes that the search finds."""
    groups = tuple(QueryGroup(tuple(queries), values, width(queries, len(values))) for queries, values in grouping)
    ranges, sizes = [group.values for group in groups], [len(group.queries) for group in groups]
    overlaps, clique = overlap_graph(ranges, sizes, database.n_values)
    colours = coloured(overlaps, clique, search.seconds, np.random.default_rng(search.seed))
    classes = np.full(database.n_queries, -1)
    classes[[query for group in groups for query in group.queries]] = colours
    return BlockPlan(groups, classes)


def _merged(grouping: Grouping, n_values: int, width: Widths) -> Grouping:
    """Merge groups, largest ranges first, if their ranges overlap and no block gets wider."""
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


class SharedHeads(ClosedForm):
    """The form `shared-heads`."""

    name = "shared-heads"
    estimated = True
    """A longer search may find a smaller grouping than `shape` assumes, never a larger one."""

    def shape(self, database: Database, precision: Precision) -> LayerShape:
        """Return the shape that needs no search."""
        return best_plan(database, FormSearch(seconds=0.0)).shape

    def _build(self, database: Database, precision: Precision, search: FormSearch) -> Built:
        return built_with_words(database, best_plan(database, search), precision, self.name)
