r"""Block layers: each key stores one block of numbers per query, heads copy blocks, and codes turn them into logits.

A *group* is a set of queries with one range of values R (all their answers, perhaps more) and one code
$u_v \in \mathbb{R}^w$ for $v \in R$. In the block of query q, a key stores a vector $a_{k,q}$, such as $u_{f(k,q)}$, or
0 if there is no fact. Heads that serve q (see `query_routing`) copy the block of q to the block of the first query of
its group, the *output block*, which the unembedding reads with the group's code. Queries with disjoint ranges may share
a class: their blocks are copied together, and no value reads more than one of them. The constant coordinate of the
group adds a bias $\beta$ on all of R. For every key, exactly,

$$L[k,q,v] = \beta\, [v \in R_q] + \sum_{q' \sim q,\; v \in R_{q'}} a_{k,q'} \cdot u^{q'}_v,$$

where the sum is over the queries of q's class, at most one of which has v in its range: q itself if $v \in R_q$. The
coordinates are the blocks one after another, a constant coordinate per group, and one more if some query has no fact:
it is routed to no head, so all its logits are 0.

Proof. Attention is 1 for the heads of q's class and 0 for the others; those then read the row of q itself, which is 0
in their blocks, because its own coordinate is in the block of q. The direct path reads the row of q in output blocks,
which is 0 (the base of a group has no own coordinate), and in the constants.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float, Int

from factrank.databases import Database
from factrank.families.attention.attention_layer import AttentionLayer
from factrank.families.attention.forms.building.query_routing import Routing, block_routing
from factrank.families.attention.forms.construction import host_layer
from factrank.families.attention.layer_shape import LayerShape
from factrank.nn import Precision, dtype_of

D_QK = 1

WRITTEN_CELLS = 1 << 20
"""Numbers that are written into an embedding at a time."""


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


@runtime_checkable
class Contents(Protocol):
    """Entries of keys for the queries of a group."""

    def write(self, embedding: Float[np.ndarray, "_ _"], starts: Int[np.ndarray, " _"]) -> None:
        """Write the entries into the rows of the keys, given the first coordinate of each query's block."""


@dataclass(frozen=True, eq=False)
class StoredWords:
    """One word for each (key, query) with a fact, by its number."""

    keys: Int[np.ndarray, " fibers"]
    queries: Int[np.ndarray, " fibers"]
    words: Float[np.ndarray, "_ _"]
    word_of: Int[np.ndarray, " fibers"]

    def write(self, embedding: Float[np.ndarray, "_ _"], starts: Int[np.ndarray, " _"]) -> None:
        """Write the word of each fiber; in pieces, which need little memory."""
        within = np.arange(self.words.shape[1])
        step = max(WRITTEN_CELLS // max(len(within), 1), 1)
        for start in range(0, len(self.keys), step):
            part = slice(start, start + step)
            columns = starts[self.queries[part]][:, None] + within
            embedding[self.keys[part][:, None], columns] = self.words[self.word_of[part]]


@dataclass(frozen=True, eq=False)
class StoredMarks:
    """A one for each fact, at the place of its value in the range; all other entries are 0."""

    keys: Int[np.ndarray, " facts"]
    queries: Int[np.ndarray, " facts"]
    places: Int[np.ndarray, " facts"]

    def write(self, embedding: Float[np.ndarray, "_ _"], starts: Int[np.ndarray, " _"]) -> None:
        """Write the ones."""
        embedding[self.keys, starts[self.queries] + self.places] = 1


@dataclass(frozen=True, eq=False)
class BlockPlan:
    """Position of everything in a block layer.

    Arguments:
        groups: every query with a fact is in one of them.
        classes: the class of each query; queries of one class have disjoint ranges. -1 for a query without facts.
    """

    groups: tuple[QueryGroup, ...]
    classes: Int[np.ndarray, " queries"]

    @cached_property
    def group_of(self) -> Int[np.ndarray, " queries"]:
        """Return the group of each query; -1 for a query without facts."""
        found = np.full(len(self.classes), -1)
        for number, group in enumerate(self.groups):
            found[list(group.queries)] = number
        return found

    @cached_property
    def widths(self) -> Int[np.ndarray, " queries"]:
        """Return the width of each query's block."""
        return np.asarray(np.array([*(group.width for group in self.groups), 0])[self.group_of])

    @cached_property
    def starts(self) -> Int[np.ndarray, " queries"]:
        """Return the first coordinate of each query's block."""
        return np.asarray(np.cumsum(self.widths) - self.widths)

    @property
    def constants(self) -> Int[np.ndarray, " queries"]:
        """Return the constant coordinate of each query; queries without facts share the last."""
        group = np.where(self.group_of < 0, len(self.groups), self.group_of)
        return group + int(self.widths.sum())

    @property
    def n_classes(self) -> int:
        """Return the number of classes, which is the number of heads before wide ones are split."""
        return int(self.classes.max(initial=-1)) + 1

    @cached_property
    def shape(self) -> LayerShape:
        """Return the shape of the layer; wide heads are split to minimise the parameters of heads."""
        d_model = int(self.widths.sum()) + len(self.groups) + int((self.classes < 0).any())
        copied = np.bincount(self.classes[self.classes >= 0], weights=self.widths[self.classes >= 0]).astype(int)
        d_vo = best_width(copied)
        return LayerShape(d_model, int(np.ceil(copied / d_vo).sum()), D_QK, d_vo)

    def parameters(self, database: Database) -> int:
        """Return the number of stored scalars of the layer."""
        return self.shape.parameters(*database.shape)


def best_width(copied: Int[np.ndarray, " classes"]) -> int:
    """Return the head width w that minimises sum_g ceil(copied_g / w) (d_qk + w), the largest if several do.

    >>> best_width(np.array([6, 6, 3])), best_width(np.array([12]))
    (3, 12)
    """
    candidates = np.arange(1, copied.max() + 1)
    n_heads = np.ceil(copied[:, None] / candidates).sum(axis=0)
    cost = n_heads * (D_QK + candidates)
    return int(candidates[::-1][cost[::-1].argmin()])


def contents_by_value(
    database: Database, plan: BlockPlan, codes: Sequence[Float[np.ndarray, "_ _"]]
) -> list[StoredWords]:
    """Return the code word of each fact's value as the entry of its key, for functional databases."""
    keys, queries, values = database.triples.T
    contents = []
    for number, group in enumerate(plan.groups):
        mine = np.flatnonzero(plan.group_of[queries] == number)
        place = np.zeros(database.n_values, dtype=np.int64)
        place[group.values] = np.arange(len(group.values))
        contents.append(StoredWords(keys[mine], queries[mine], codes[number], place[values[mine]]))
    return contents


class RoutedQueries(NamedTuple):
    """The routing of queries, and the coordinates that are constant for the queries of each group."""

    routing: Routing
    constants: Sequence[Sequence[int]]


def own_coordinates(plan: BlockPlan, precision: Precision) -> RoutedQueries:
    """Route queries by one constant coordinate per group, and a coordinate of their block for all but the first."""
    first = np.zeros(len(plan.classes), dtype=bool)
    first[[group.queries[0] for group in plan.groups]] = True
    own = np.where(first | (plan.classes < 0), -1, plan.starts)
    routing = block_routing(plan.classes, plan.constants, own, plan.shape.d_model, precision)
    return RoutedQueries(routing, [[int(plan.constants[group.queries[0]])] for group in plan.groups])


def block_layer(
    database: Database,
    plan: BlockPlan,
    codes: Sequence[Float[np.ndarray, "_ _"]],
    contents: Sequence[Contents],
    bias: float | Sequence[Float[np.ndarray, " _"]],
    precision: Precision,
    rows: RoutedQueries | None = None,
) -> AttentionLayer:
    """Build the layer of a plan.

    Arguments:
        database: the facts.
        plan: the position of everything.
        codes: the code words of each group.
        contents: the entries of keys for each group.
        bias: added to the logits of a range: one number, or one per value of each group.
        precision: type of the weights.
        rows: the rows of the queries; `own_coordinates` if not given.
    """
    dtype = dtype_of(precision)
    routing, constants = rows or own_coordinates(plan, precision)
    d_model = routing.tokens.shape[1]
    embedding = np.zeros((database.n_keys + database.n_queries, d_model), dtype)
    embedding[database.n_keys :] = routing.tokens
    unembedding = np.zeros((d_model, database.n_values), dtype)
    biases = [bias] * len(plan.groups) if isinstance(bias, float) else bias
    for group, code, content, added, constant in zip(plan.groups, codes, contents, biases, constants, strict=True):
        content.write(embedding, plan.starts)
        output = plan.starts[group.queries[0]]
        unembedding[output : output + group.width, group.values] = code.T
        unembedding[np.array(constant)[:, None], group.values] = added
    heads, w_v, w_o = _copying_heads(plan, d_model, dtype)
    parts = {"w_q": routing.w_q[heads], "w_k": routing.w_k[heads], "w_v": w_v, "w_o": w_o}
    return host_layer(database.n_keys, precision, {"embedding": embedding, **parts, "unembedding": unembedding})


def _copying_heads(
    plan: BlockPlan, d_model: int, dtype: np.dtype
) -> tuple[Int[np.ndarray, " heads"], Float[np.ndarray, "heads d_model d_vo"], Float[np.ndarray, "heads d_vo d_model"]]:
    """Return the class of each head, and the 0/1 weights that copy blocks to the output blocks of their groups."""
    shape = plan.shape
    w_v = np.zeros((shape.n_heads, d_model, shape.d_vo), dtype)
    w_o = np.zeros((shape.n_heads, shape.d_vo, d_model), dtype)
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
