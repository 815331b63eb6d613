r"""Binary codes: one head per query, every value a word of signs.

With $b = \max(1, \lceil \log_2 n \rceil)$ for the n values in use and distinct words $u_v \in \{-1, 1\}^b$, a key holds
$u_{f(k,q)}$ in the block of query q (see `blocks`), and the logits of a fact are

$$L[k,q,v] = \beta + u_{f(k,q)} \cdot u_v = \beta + b - 2 \operatorname{dist}(u_{f(k,q)}, u_v)$$

with the Hamming distance of the words: the margin is 2 dist, so at least 2, exactly 2 where two words differ in one
sign.
Values that no fact uses have no word and no bias, so their logits are 0, which $\beta = b + 1$ leaves behind by
$2b + 1$; without such values $\beta = 0$. Where the database says nothing all values in use tie.

d_model = Q b + 1, d_qk = 1, d_vo = b, H = Q: about b parameters per fact, at most one bit of the table per parameter.
Every weight is an integer of size at most 24 (b + 1 for the bias), so a layer in 8-bit integers recalls as much.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from jaxtyping import Float, Int

from factrank.databases import Database
from factrank.families.attention.forms.building import BlockPlan, QueryGroup, block_layer, contents_by_value
from factrank.families.attention.forms.construction import Built, FormSearch, require_held, table_refusal
from factrank.families.attention.layer_shape import LayerShape
from factrank.nn import Precision


def bits_for(n_values: int) -> int:
    """The length of words for n values, b = max(1, ceil(log2 n)).

    >>> [bits_for(n) for n in (1, 2, 3, 4, 5, 500)]
    [1, 1, 2, 2, 3, 9]
    """
    return max(1, (n_values - 1).bit_length())


def code_words(n_words: int, bits: int) -> Float[np.ndarray, "words bits"]:
    """The first words of b signs: the binary digits of 0, 1, 2, ..., lowest first, 1 for a one and -1 for a zero.

    >>> code_words(3, 2).astype(int).tolist()
    [[-1, -1], [1, -1], [-1, 1]]
    """
    digits = np.arange(n_words)[:, None] >> np.arange(bits) & 1
    return 2.0 * digits - 1.0


def word_bias(plan: BlockPlan, n_values: int) -> int:
    """The bias of a range: one more than any word scores elsewhere; 0 where every value is in the only range."""
    if len(plan.groups) == 1 and len(plan.groups[0].values) == n_values:
        return 0
    return int(plan.widths.max()) + 1


def built_with_words(database: Database, plan: BlockPlan, precision: Precision, name: str) -> Built:
    """The block layer of a plan whose codes are binary words."""
    codes = [code_words(len(group.values), group.width) for group in plan.groups]
    bias = word_bias(plan, database.n_values)
    contents = contents_by_value(database, plan, codes)
    layer = block_layer(database, plan, codes, contents, float(bias), precision)
    return Built(layer, name, editing_of(plan, bias))


def editing_of(plan: BlockPlan, bias: int) -> dict[str, Any]:
    """What edits need: for each query its group, class and first coordinate; for each group its range and constant.

    The word of a value is that of its place in the range of the group; 2^bits words exist.
    """
    groups = [
        {
            "bits": group.width,
            "values": group.values.tolist(),
            "output": int(plan.starts[group.queries[0]]),
            "constant": int(plan.constants[group.queries[0]]),
        }
        for group in plan.groups
    ]
    by_query = {"group": plan.group_of.tolist(), "class": plan.classes.tolist(), "start": plan.starts.tolist()}
    return {"code": "binary words", "bias": bias, "groups": groups, "queries": by_query}


def used_values(database: Database) -> Int[np.ndarray, " used"]:
    """The values that some fact has."""
    return np.flatnonzero(np.bincount(database.triples[:, 2], minlength=database.n_values))


def used_queries(database: Database) -> Int[np.ndarray, " used"]:
    """The queries that have some fact."""
    return np.flatnonzero(np.bincount(database.triples[:, 1], minlength=database.n_queries))


class BinaryCodes:
    """The construction `binary`."""

    name = "binary"
    estimated = False

    def refusal(self, database: Database, precision: Precision) -> str | None:
        """Only tables without facts or with several values in a fiber."""
        return table_refusal(database)

    def shape(self, database: Database, precision: Precision) -> LayerShape:
        """d_model = Q b + 1, one head of width b per query that has facts."""
        return self.plan(database).shape

    def build(self, database: Database, precision: Precision, search: FormSearch) -> Built:
        """The layer; nothing is left to search."""
        require_held(self, database, precision)
        return built_with_words(database, self.plan(database), precision, self.name)

    def plan(self, database: Database) -> BlockPlan:
        """One group, one class per query."""
        queries, values = used_queries(database), used_values(database)
        classes = np.full(database.n_queries, -1)
        classes[queries] = np.arange(len(queries))
        return BlockPlan((QueryGroup(tuple(queries.tolist()), values, bits_for(len(values))),), classes)
