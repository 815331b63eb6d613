r"""A table of facts in the weights of one layer: which facts each head recalls, and its circuits on the table's tokens.

A fact is recalled by a path if its value has the largest logit among the values of the table; ties are wrong. On the
table, QK is the matrix of scores of its queries and keys at distance 1, and OV the matrix of what its keys write, minus
the mean over the values, which no answer depends on. Ranks count singular values above 32 units of rounding of the
stored weights, relative to the largest.

The tensor L of the layer's path has a rank of at most `rank_at_most`, from the sizes of the layer and the table alone
(`layer_rank_bounds`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Bool, Float
from threadpoolctl import threadpool_limits

from factrank.auditing.circuit_spectra import Spectrum, reduced, spectrum
from factrank.auditing.head_audits import attention_bits, most_facts
from factrank.auditing.token_circuits import TokenHead, blocks, token_circuits
from factrank.auditing.token_names import TokenTable
from factrank.checkpoints.heads import AttentionModel, Rounded
from factrank.databases import Database

UNITS = 32
"""Units of rounding, relative to the largest singular value, that do not count as rank."""


@dataclass(frozen=True)
class TableCircuits:
    """QK and OV of a head on the tokens of a table."""

    qk: Spectrum
    ov: Spectrum

    def to_dict(self) -> dict[str, Any]:
        """Return plain data."""
        return {
            f"{name}_{measure}": getattr(found, measure)
            for name, found in (("qk", self.qk), ("ov", self.ov))
            for measure in ("rank", "tolerance", "effective_rank")
        }


@dataclass(frozen=True, eq=False)
class TableRecall:
    """What one layer's path recalls of a table.

    Arguments:
        layer: Number of the layer.
        right: Whether each fact is recalled by each head alone, by the whole path, and by the direct path.
        circuits: Circuits of each head on the table.
        most_facts: Most facts of a table with that many values, by the information in the layer's attention.
        rank_at_most: Upper bound on the rank of the path's tensor, from sizes alone.
    """

    layer: int
    right: Bool[np.ndarray, "facts heads_and_2"]
    circuits: tuple[TableCircuits, ...]
    most_facts: int
    rank_at_most: int

    @property
    def heads(self) -> tuple[float, ...]:
        """Fraction of the facts that each head alone recalls."""
        return tuple(self.right[:, :-2].mean(axis=0).tolist())

    @property
    def whole(self) -> float:
        """Fraction of the facts that all heads and the direct path recall together."""
        return float(self.right[:, -2].mean())

    @property
    def direct(self) -> float:
        """Fraction of the facts that the direct path alone recalls, which does not read the key."""
        return float(self.right[:, -1].mean())

    def to_dict(self) -> dict[str, Any]:
        """Return plain data."""
        return {
            "layer": self.layer,
            "heads": self.heads,
            "whole": self.whole,
            "direct": self.direct,
            "circuits": [each.to_dict() for each in self.circuits],
            "most_facts": self.most_facts,
            "rank_at_most": self.rank_at_most,
        }


def table_recall(model: AttentionModel, layer: int, table: TokenTable, numbers: Mapping[str, int]) -> TableRecall:
    """Return what a layer's path recalls of a table of facts.

    Arguments:
        model: Checkpoint.
        layer: Number of the layer.
        table: Facts whose keys, queries and values are single tokens.
        numbers: Number of each token.
    """
    from factrank.families.attention import LayerShape, layer_rank_bounds  # noqa: PLC0415 - loads JAX

    database = table.database
    with threadpool_limits(1, "blas"):
        found = token_circuits(model, layer, *table.numbers(numbers))
        heads = [found.head(head) for head in range(found.n_heads)]
        right = [_right(heads, found.direct, facts) for facts in _blocks_of_facts(database)]
        unit = max(model.tensor(name).unit for name in model.attention_names(layer))
        circuits = tuple(_on_table(head, UNITS * unit) for head in heads)
    n_values, sizes = database.n_values, model.sizes
    most = most_facts(attention_bits(model, layer), n_values)
    shape = LayerShape(d_model=sizes.width, n_heads=sizes.n_heads, d_qk=sizes.d_qk, d_vo=sizes.d_vo)
    bound = layer_rank_bounds(shape, *database.shape).upper.value
    return TableRecall(layer, np.concatenate(right), circuits, most, bound)


def _blocks_of_facts(database: Database) -> Iterator[np.ndarray]:
    return (database.triples[block] for block in blocks(database.n_facts, 4 * database.n_values))


def _right(
    heads: list[TokenHead], direct: Float[np.ndarray, "queries values"], facts: np.ndarray
) -> Bool[np.ndarray, "facts heads_and_2"]:
    """Return which facts each head, the whole path and the direct path recall."""
    keys, queries, values = facts.T
    by_query = direct[queries]
    whole, columns = by_query.copy(), []
    for head in heads:
        logits = head.logits_of(keys, queries)
        whole += logits
        columns.append(_recalled(logits, values))
    return np.stack([*columns, _recalled(whole, values), _recalled(by_query, values)], axis=1)


def _recalled(logits: Float[np.ndarray, "facts values"], values: np.ndarray) -> Bool[np.ndarray, " facts"]:
    at = np.arange(len(values))
    own, others = logits[at, values], logits.copy()
    others[at, values] = -np.inf
    return np.asarray(own > others.max(axis=1))


def _on_table(head: TokenHead, tolerance: float) -> TableCircuits:
    written = head.written - head.written.mean(axis=1, keepdims=True)
    asked, offered, read, values = (
        reduced(Rounded.exact(part[None]))[0] for part in (head.asked, head.offered, head.read, written.T)
    )
    fraction = min(tolerance, 0.5)
    return TableCircuits(
        spectrum(asked, offered, tolerance=fraction),
        spectrum(read, values, tolerance=fraction),
    )
