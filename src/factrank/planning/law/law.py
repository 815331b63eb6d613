r"""The law: two capacities, of all parameters and of the heads, and the fraction of the facts that fits into both.

$$\mathrm{recall} = S(I / C_P;\, s_P)\; S(I / C_H;\, s_H), \qquad S(x; s) = (1 + x^s)^{-1/s}$$

$$C_P = c_P\, P^{a}\, \kappa_P\, (\mathrm{epochs}/2000)^{g}, \qquad
  C_H = c_H\, H^{\alpha} d_{vo}^{\beta} |K|^{\gamma} |Q|^{\delta} |V|^{\epsilon}\, \kappa_H$$

with I the bits of the table, P all parameters, H the heads. S is about 1 if the table is smaller than the capacity C,
and about C / I if it is larger. $\kappa$ depends on the kind of table; it is 1 if all queries draw from the
same values.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from factrank.planning.atlas import TABLE_KINDS, AtlasRows, row_parameters

LayerColumns = Mapping[str, Any]
"""Arrays: bits, kind (a place in LAW_KINDS), parameters, n_heads, d_vo, n_keys, n_queries, n_values, epochs."""

LAW_KINDS = TABLE_KINDS[:7]
"""Kinds of tables in the law; in the first, all queries draw from the same values."""

OWN_VALUES = ("disjoint", "structured", "sample")
"""Kinds whose queries have their own values; their bits are counted by query."""

USUAL_EPOCHS = 2000
"""Epochs of most layers of the atlas."""

CONSTANTS = (
    "per_parameter",
    "size",
    "sharpness",
    "growth",
    "per_head",
    "heads",
    "d_vo",
    "keys",
    "queries",
    "values",
    "head_sharpness",
    "head_growth",
)


@dataclass(frozen=True)
class CapacityLaw:
    """Constants of the formula, and by kind of table log kappa for the parameters and for the heads."""

    constants: Mapping[str, float]
    kinds: Mapping[str, tuple[float, float]]

    def loads(self, layers: LayerColumns) -> tuple[Any, Any]:
        """Return log(bits / capacity) for the capacity of all parameters and of the heads."""
        c, log = self.constants, {name: np.log(layers[name]) for name in layers if name != "kind"}
        kappa = np.array([self.kinds[name] for name in LAW_KINDS])[np.asarray(layers["kind"])]
        longer = log["epochs"] - np.log(USUAL_EPOCHS)
        whole = np.log(c["per_parameter"]) + c["size"] * log["parameters"] + kappa[..., 0] + c["growth"] * longer
        widths = c["heads"] * log["n_heads"] + c["d_vo"] * log["d_vo"]
        table = c["keys"] * log["n_keys"] + c["queries"] * log["n_queries"] + c["values"] * log["n_values"]
        heads = np.log(c["per_head"]) + widths + table + kappa[..., 1] + c["head_growth"] * longer
        return log["bits"] - whole, log["bits"] - heads

    def recall(self, layers: LayerColumns) -> Any:
        """Return the expected recall of trained layers."""
        whole, heads = self.loads(layers)
        return held_fraction(whole, self.constants["sharpness"]) * held_fraction(
            heads, self.constants["head_sharpness"]
        )


def held_fraction(log_load: Any, sharpness: float) -> Any:
    """Return S of the law, from the logarithm of the load."""
    return np.exp(-np.logaddexp(0, sharpness * log_load) / sharpness)


def zipf_entropy(n_values: int, exponent: float) -> float:
    """Return the bits of a value drawn with probabilities proportional to rank^-exponent."""
    weights = np.arange(1.0, n_values + 1.0) ** -exponent
    shares = weights / weights.sum()
    return float(-(shares * np.log2(shares)).sum())


def columns_of_rows(rows: AtlasRows) -> dict[str, Any]:
    """Return rows of the atlas as the law reads them; unknown kinds count as the most similar one."""
    names = [TABLE_KINDS[kind] for kind in range(len(TABLE_KINDS))]
    alike = {"bijections": "uniform", "sample": "disjoint"}
    places = np.array([LAW_KINDS.index(alike.get(name, name)) for name in names])
    kind, n_facts = np.asarray(rows["kind"]), np.asarray(rows["n_facts"], dtype=float)
    bits = n_facts * np.log2(rows["n_values"])
    own = np.isin(kind, [TABLE_KINDS.index(name) for name in OWN_VALUES])
    bits = np.where(own, np.maximum(rows["bits_by_query"], 1), bits)
    for place in np.flatnonzero(kind == TABLE_KINDS.index("zipf")):
        bits[place] = n_facts[place] * zipf_entropy(int(rows["n_values"][place]), float(rows["exponent"][place]))
    sizes = {name: np.asarray(rows[name], dtype=float) for name in ("n_heads", "d_vo", "n_keys", "n_queries")}
    rest = {"n_values": np.asarray(rows["n_values"], dtype=float), "epochs": np.asarray(rows["epochs"], dtype=float)}
    return {"bits": bits, "kind": places[kind], "parameters": row_parameters(rows).astype(float), **sizes, **rest}
