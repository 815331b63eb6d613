r"""Binary codes: one head per query, and a word of signs for every value.

Let $b = \max(1, \lceil \log_2 n \rceil)$ for the n values in use, with distinct words $u_v \in \{-1, 1\}^b$. A key
stores $u_{f(k,q)}$ in the block of query q (see `block_layers`), and the logits of a fact are

$$L[k,q,v] = \beta + u_{f(k,q)} \cdot u_v = \beta + b - 2 \operatorname{dist}(u_{f(k,q)}, u_v)$$

with the Hamming distance of the words. The margin is 2 dist: at least 2, and exactly 2 if two words differ in one sign.
Values that no fact uses have no word and no bias; their logits are 0, which is $2b + 1$ below the fact if
$\beta = b + 1$. Without such values, $\beta = 0$. For a missing entry, all values in use tie.

d_model = Q b + 1, d_qk = 1, d_vo = b, H = Q: about b parameters per fact, at most one bit of the table per parameter.
All weights are integers of size at most 24 (b + 1 for the bias), so a layer in 8-bit integers recalls the same facts.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from jaxtyping import Float, Int

from factrank.databases import Database
from factrank.families.attention.forms.building import BlockPlan, QueryGroup, bits_for, block_layer, contents_by_value
from factrank.families.attention.forms.construction import Built, ClosedForm, FormSearch
from factrank.families.attention.layer_shape import LayerShape
from factrank.nn import Precision


def code_words(places: Int[np.ndarray, " words"], bits: int) -> Float[np.ndarray, "words bits"]:
    """Return the words of b signs at these places: binary digits, lowest first, 1 for a one and -1 for a zero.

    >>> code_words(np.arange(3), 2).astype(int).tolist()
    [[-1, -1], [1, -1], [-1, 1]]
    """
    return 2.0 * (places[:, None] >> np.arange(bits) & 1) - 1.0


def word_bias(plan: BlockPlan, n_values: int) -> int:
    """Return the bias of a range: one more than any word scores elsewhere; 0 if the only range has every value."""
    if len(plan.groups) == 1 and len(plan.groups[0].values) == n_values:
        return 0
    return int(plan.widths.max()) + 1


def built_with_words(database: Database, plan: BlockPlan, precision: Precision, name: str) -> Built:
    """Build the block layer of a plan whose codes are binary words."""
    codes = [code_words(np.arange(len(group.values)), group.width) for group in plan.groups]
    bias = word_bias(plan, database.n_values)
    contents = contents_by_value(database, plan, codes)
    layer = block_layer(database, plan, codes, contents, float(bias), precision)
    return Built(layer, name, editing_of(plan, bias))


def editing_of(plan: BlockPlan, bias: int) -> dict[str, Any]:
    """Return the editing data: group, class and first coordinate per query; range and constant per group.

    The word of a value follows from its place in the range of the group; there are 2^bits words.
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
    """Return the values that occur in facts."""
    return np.flatnonzero(np.bincount(database.triples[:, 2], minlength=database.n_values))


def used_queries(database: Database) -> Int[np.ndarray, " used"]:
    """Return the queries that occur in facts."""
    return np.flatnonzero(np.bincount(database.triples[:, 1], minlength=database.n_queries))


def head_per_query(queries: Int[np.ndarray, " used"], n_queries: int) -> Int[np.ndarray, " queries"]:
    """Return the class of each query if each of the given queries has its own head; -1 for the others."""
    classes = np.full(n_queries, -1)
    classes[queries] = np.arange(len(queries))
    return classes


class BinaryCodes(ClosedForm):
    """The form `binary`."""

    name = "binary"

    def shape(self, database: Database, precision: Precision) -> LayerShape:
        """Return d_model = Q b + 1 and one head of width b per query with facts."""
        return self.plan(database).shape

    def _build(self, database: Database, precision: Precision, search: FormSearch) -> Built:
        return built_with_words(database, self.plan(database), precision, self.name)

    def plan(self, database: Database) -> BlockPlan:
        """Return a plan with one group and one class per query."""
        queries, values = used_queries(database), used_values(database)
        group = QueryGroup(tuple(queries.tolist()), values, bits_for(len(values)))
        return BlockPlan((group,), head_per_query(queries, database.n_queries))
