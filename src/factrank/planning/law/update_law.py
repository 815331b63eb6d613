r"""The law of low-rank updates: how much W_V and W_O of rank R store in a layer whose other weights are frozen.

$$\mathrm{recall} = S(I / C_U;\, s), \qquad C_U = c\, \bigl(H \min(d, |K| + |Q| - 1) \min(R, |V|)\bigr)^{a}\,
  d^{\beta} R^{\gamma} H^{\delta} |V|^{\epsilon}$$

The product in brackets counts the numbers that an update can set freely: H min(d, |K| + |Q| - 1) features of a pair,
which the frozen attention computes, times the width of the answer.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from factrank.planning.atlas import AtlasRows
from factrank.planning.law.fitting import OUTLIER
from factrank.planning.law.law import columns_of_rows, held_fraction


@dataclass(frozen=True)
class UpdateLaw:
    """Constants of the law: the sharpness s, and log c with the exponents a, beta, gamma, delta, epsilon."""

    sharpness: float
    weights: tuple[float, ...]

    def capacity(self, sizes: Any) -> Any:
        """Return the bits that updates store.

        Arguments:
            sizes: columns d_model, n_heads, rank, n_keys, n_queries, n_values.
        """
        return np.exp(_features(sizes) @ np.array(self.weights))

    @property
    def rank_exponent(self) -> float:
        """Return the power of the rank that the bits grow like, for ranks up to the number of values."""
        return self.weights[1] + self.weights[3]

    def recall(self, sizes: Any, bits: Any) -> Any:
        """Return the expected recall of a trained update."""
        return held_fraction(np.log(bits) - np.log(self.capacity(sizes)), self.sharpness)


def _features(sizes: Any) -> Any:
    d_model, n_heads, rank, n_keys, n_queries, n_values = (np.asarray(column, dtype=float) for column in sizes)
    free = n_heads * np.minimum(d_model, n_keys + n_queries - 1) * np.minimum(rank, n_values)
    logs = [np.log(one) for one in (free, d_model, rank, n_heads, n_values)]
    return np.stack([np.ones_like(logs[0]), *logs], axis=-1)


def sizes_of_updates(rows: AtlasRows) -> Any:
    """Return the columns that the law of updates reads."""
    return [rows[name] for name in ("d_model", "n_heads", "d_vo", "n_keys", "n_queries", "n_values")]


def fit_updates(rows: AtlasRows) -> UpdateLaw:
    """Return the law that fits these updates best."""
    from scipy.optimize import least_squares  # noqa: PLC0415 - only fits need it

    read, bits = _features(sizes_of_updates(rows)), columns_of_rows(rows)["bits"]
    recall = rows["right"] / rows["n_facts"]

    def errors(numbers: Any) -> Any:
        return held_fraction(np.log(bits) - read @ numbers[1:], float(np.exp(numbers[0]))) - recall

    first = [2.0, 0.7, 0.9, *[0.0] * (read.shape[1] - 2)]
    found = least_squares(errors, first, loss="soft_l1", f_scale=OUTLIER)
    return UpdateLaw(float(np.exp(found.x[0])), tuple(found.x[1:].tolist()))
