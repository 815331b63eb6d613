r"""Block layers: each key holds one block of numbers per query, heads copy blocks, and codes turn them into logits.

A *group* is a set of queries with one range of values R (all that they answer, perhaps more) and one code
$u_v \in \mathbb{R}^w$ for $v \in R$. A key holds in the block of query q a vector $a_{k,q}$, such as $u_{f(k,q)}$;
where there is no fact it is 0. Heads that serve q (see `routing`) copy the block of q to the block of the first query
of its group, the *output block*, which the unembedding reads with the group's code. Queries whose ranges are disjoint
may share a class: their blocks are copied together, and no value hears more than one of them. The constant coordinate
of the group adds a bias $\beta$ to all of R. So for every key, exactly,

$$L[k,q,v] = \beta\, [v \in R_q] + \sum_{q' \sim q,\; v \in R_{q'}} a_{k,q'} \cdot u^{q'}_v,$$

the sum over the queries of q's class, of which at most one has v in its range, for $v \in R_q$ q itself. The
coordinates are the blocks, one after the other, a constant coordinate per group, and one more where some query has no
fact: it is routed to no head, so that all its logits are 0.

Proof. Attention is 1 for the heads of q's class and 0 for the others; those then read the row of q itself, which is 0
in their blocks, since its own coordinate lies in the block of q. The direct path reads the row of q in output blocks,
where it is 0 (the base of a group has no own coordinate), and in the constants.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Float, Int

from factrank.databases import Database
from factrank.families.attention.attention_layer import AttentionLayer
from factrank.families.attention.forms.building.query_routing import block_routing
from factrank.families.attention.forms.construction import host_layer
from factrank.families.attention.layer_shape import LayerShape
from factrank.nn import Precision, dtype_of

D_QK = 1


@dataclass(frozen=True, eq=False)
class QueryGroup:
    """Queries with one range and one code.

    Arguments:
        queries: their codes; the block of the first is the output block.
        values: the range, in the order of the code words.
        width: numbers in a code word.
    """

    queries: tuple[int, ...]
    values: Int[np.ndarray, " range"]
    width: int


@dataclass(frozen=True, eq=False)
class Contents:
    """What keys hold for the queries of a group: one row per (key, query) with a fact."""

    keys: Int[np.ndarray, " fibers"]
    queries: Int[np.ndarray, " fibers"]
    rows: Float[np.ndarray, "fibers width"]


@dataclass(frozen=True, eq=False)
class BlockPlan:
    """Where everything lies in a block layer.

    Arguments:
        groups: every query that has a fact is in one of them.
        classes: the class of each query; queries of one class have disjoint ranges. -1 for a query without facts.
    """

    groups: tuple[QueryGroup, ...]
    classes: Int[np.ndarray, " queries"]

    @cached_property
    def group_of(self) -> Int[np.ndarray, " queries"]:
        """The group of each query, -1 without facts."""
        found = np.full(len(self.classes), -1)
        for number, group in enumerate(self.groups):
            found[list(group.queries)] = number
        return found

    @cached_property
    def widths(self) -> Int[np.ndarray, " queries"]:
        """The width of each query's block."""
        return np.asarray(np.array([*(group.width for group in self.groups), 0])[self.group_of])

    @cached_property
    def starts(self) -> Int[np.ndarray, " queries"]:
        """The first coordinate of each query's block."""
        return np.asarray(np.cumsum(self.widths) - self.widths)

    @property
    def constants(self) -> Int[np.ndarray, " queries"]:
        """The constant coordinate of each query; queries without facts share the last."""
        group = np.where(self.group_of < 0, len(self.groups), self.group_of)
        return group + int(self.widths.sum())

    @property
    def n_classes(self) -> int:
        """Number of classes: of heads, before wide ones are split."""
        return int(self.classes.max(initial=-1)) + 1

    @cached_property
    def shape(self) -> LayerShape:
        """The shape of the layer: wide heads are split so that the heads have as few parameters as possible."""
        d_model = int(self.widths.sum()) + len(self.groups) + int((self.classes < 0).any())
        copied = np.bincount(self.classes[self.classes >= 0], weights=self.widths[self.classes >= 0]).astype(int)
        d_vo = best_width(copied)
        return LayerShape(d_model, int(np.ceil(copied / d_vo).sum()), D_QK, d_vo)

    def parameters(self, database: Database) -> int:
        """All stored scalars of the layer."""
        return self.shape.parameters(*database.shape)


def best_width(copied: Int[np.ndarray, " classes"]) -> int:
    """The head width w that makes sum_g ceil(copied_g / w) (d_qk + w) least, the largest such.

    >>> best_width(np.array([6, 6, 3])), best_width(np.array([12]))
    (3, 12)
    """
    candidates = np.arange(1, copied.max() + 1)
    n_heads = np.ceil(copied[:, None] / candidates).sum(axis=0)
    cost = n_heads * (D_QK + candidates)
    return int(candidates[::-1][cost[::-1].argmin()])


def contents_by_value(database: Database, plan: BlockPlan, codes: Sequence[Float[np.ndarray, "_ _"]]) -> list[Contents]:
    """Keys hold the code word of their value: for functional databases."""
    keys, queries, values = database.triples.T
    contents = []
    for number, group in enumerate(plan.groups):
        mine = np.flatnonzero(plan.group_of[queries] == number)
        place = np.zeros(database.n_values, dtype=np.int64)
        place[group.values] = np.arange(len(group.values))
        contents.append(Contents(keys[mine], queries[mine], codes[number][place[values[mine]]]))
    return contents


def block_layer(
    database: Database,
    plan: BlockPlan,
    codes: Sequence[Float[np.ndarray, "_ _"]],
    contents: Sequence[Contents],
    bias: float,
    precision: Precision,
) -> AttentionLayer:
    """The layer of a plan: `codes` and `contents` of each group, in the order of the groups."""
    shape, dtype = plan.shape, dtype_of(precision)
    first = np.zeros(len(plan.classes), dtype=bool)
    first[[group.queries[0] for group in plan.groups]] = True
    own = np.where(first | (plan.classes < 0), -1, plan.starts)
    routing = block_routing(plan.classes, plan.constants, own, shape.d_model, precision)
    embedding = np.zeros((database.n_keys + database.n_queries, shape.d_model), dtype)
    embedding[database.n_keys :] = routing.tokens
    unembedding = np.zeros((shape.d_model, database.n_values), dtype)
    for group, code, content in zip(plan.groups, codes, contents, strict=True):
        columns = plan.starts[content.queries][:, None] + np.arange(group.width)
        embedding[content.keys[:, None], columns] = content.rows
        output = plan.starts[group.queries[0]]
        unembedding[output : output + group.width, group.values] = code.T
        unembedding[plan.constants[group.queries[0]], group.values] = bias
    heads, w_v, w_o = _copying_heads(plan, dtype)
    parts = {"w_q": routing.w_q[heads], "w_k": routing.w_k[heads], "w_v": w_v, "w_o": w_o}
    return host_layer(database.n_keys, precision, {"embedding": embedding, **parts, "unembedding": unembedding})


def _copying_heads(
    plan: BlockPlan, dtype: np.dtype
) -> tuple[Int[np.ndarray, " heads"], Float[np.ndarray, "heads d_model d_vo"], Float[np.ndarray, "heads d_vo d_model"]]:
    """The class of each head, and the 0/1 weights that copy blocks to the output blocks of their groups."""
    shape = plan.shape
    w_v = np.zeros((shape.n_heads, shape.d_model, shape.d_vo), dtype)
    w_o = np.zeros((shape.n_heads, shape.d_vo, shape.d_model), dtype)
    classes, head = np.empty(shape.n_heads, dtype=np.int64), 0
    for number in range(plan.n_classes):
        queries = np.flatnonzero(plan.classes == number)
        outputs = [plan.starts[plan.groups[plan.group_of[q]].queries[0]] for q in queries]
        within = [np.arange(plan.widths[q]) for q in queries]
        source = np.concatenate([plan.starts[q] + steps for q, steps in zip(queries, within, strict=True)])
        target = np.concatenate([output + steps for output, steps in zip(outputs, within, strict=True)])
        for start in range(0, len(source), shape.d_vo):
            part = slice(start, start + shape.d_vo)
            steps = np.arange(len(source[part]))
            w_v[head, source[part], steps] = 1
            w_o[head, steps, target[part]] = 1
            classes[head] = number
            head += 1
    return classes, w_v, w_o
