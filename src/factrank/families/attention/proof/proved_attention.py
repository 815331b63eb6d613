r"""Bounds on attention weights: the weight of every head on the key of a pair, and its rounding error.

The score $s = (x_q W_Q)\cdot(x_k W_K)/\sqrt{d_{qk}} - (x_q W_Q)\cdot(x_q W_K)/\sqrt{d_{qk}}$ is computed with error at
most r. If a term undergoes n roundings,

$$r = \gamma_n \bigl(|x_q||W_Q|\bigr)\cdot\bigl(|x_k||W_K| + |x_q||W_K|\bigr)/\sqrt{d_{qk}},$$

and r = 0 if every step adds integers (times a power of two) that are exact in any summation order. If |s| - r reaches
saturation, the computed weight is exactly 0 or 1, and so is 1 minus it. Otherwise its distance from $\sigma(s)$ is at
most

$$\epsilon = r \min\bigl(1/4,\ e^{-\max(|s| - r,\, 0)}\bigr) + 4u,$$

because $\sigma'(t) \le \min(1/4, e^{-|t|})$.

Roundings: all in $x W_Q$ and $x W_K$; one sum over the coordinates of a head for both tokens, 2 d_qk terms with one
product each; and four for the scale, which a program may split between queries and keys, $d_{qk}^{-1/4}$ each (as
PyTorch's attention does). The scale is therefore exact only if $d_{qk}^{-1/4}$ is a power of two.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int
from scipy.special import expit

from factrank.certificates import LOGISTIC_UNITS, Arithmetic, integral, most_nonzero, roundings_of_product
from factrank.families.attention.proof.plain_weights import PlainWeights

Projected = Float[np.ndarray, "tokens heads d_qk"]


class ProvedAttention(NamedTuple):
    """Attention weight on the key and its error, for every pair and head; error 0 means exactly 0 or 1."""

    weights: Float[np.ndarray, "pairs heads"]
    errors: Float[np.ndarray, "pairs heads"]

    @property
    def saturated(self) -> Bool[np.ndarray, " pairs"]:
        """Return whether every head of the pair is saturated."""
        return np.asarray(~self.errors.any(axis=1))


class Side(NamedTuple):
    """Tokens times W_Q or W_K: values, sums of absolute values, and whether every summation order is exact."""

    values: Projected
    sizes: Projected
    exact: Bool[np.ndarray, "tokens heads d_qk"]


@dataclass(frozen=True, eq=False)
class ProvedScores:
    """Scores of a layer; terms that depend on queries alone are computed once."""

    weights: PlainWeights
    arithmetic: Arithmetic

    @cached_property
    def queries(self) -> Side:
        """Return x_q W_Q."""
        return self._side(self.weights.queries, self.weights.w_q)

    @cached_property
    def query_keys(self) -> Side:
        """Return x_q W_K."""
        return self._side(self.weights.queries, self.weights.w_k)

    @cached_property
    def scale(self) -> float:
        """Return 1 / sqrt(d_qk)."""
        return float(self.weights.w_q.shape[2] ** -0.5)

    @cached_property
    def roundings(self) -> int:
        """Return the largest number of roundings of a term of a score."""
        w = self.weights
        by_queries = min(most_nonzero(w.w_q, 1), most_nonzero(w.queries, 1))
        by_keys = min(most_nonzero(w.w_k, 1), max(most_nonzero(w.queries, 1), most_nonzero(w.keys, 1)))
        scaling = 0 if self._scale_is_exact else 4
        terms = 2 * int(w.w_q.shape[2])
        return roundings_of_product(by_queries, w.w_q) + roundings_of_product(by_keys, w.w_k) + scaling + terms

    @cached_property
    def underflow(self) -> float:
        """Bound the error of subnormal results: one per operation, times all factors applied to it."""
        w = self.weights
        d_model, d_qk = w.w_q.shape[1:]
        token = 1 + max(np.abs(w.keys).max(), np.abs(w.queries).max())
        factors = token**2 * (1 + d_model * np.abs(w.w_q).max()) * (1 + d_model * np.abs(w.w_k).max())
        return float(self.arithmetic.least * 8 * d_qk * (d_model + 1) * factors)

    def attention(self, keys: Int[np.ndarray, " pairs"], queries: Int[np.ndarray, " pairs"]) -> ProvedAttention:
        """Return the attention weights of pairs of a key and a query."""
        used, at = np.unique(keys, return_inverse=True)
        key_side = self._side(self.weights.keys[used], self.weights.w_k)
        if not key_side.sizes.any():  # the scores depend on the query alone
            of_query = self._weigh(self._scores(Side(*(part[:1] for part in key_side)), None, None))
            return ProvedAttention(*(part[queries] for part in of_query))
        return self._weigh(self._scores(key_side, at, queries))

    def _scores(
        self, key_side: Side, at: Int[np.ndarray, " pairs"] | None, queries: Int[np.ndarray, " pairs"] | None
    ) -> tuple[Float[np.ndarray, "pairs heads"], Float[np.ndarray, "pairs heads"]]:
        """Return the scores and their errors r; for every query if no pairs are given."""
        rows = slice(None) if queries is None else queries
        q, at_query = (Side(*(part[rows] for part in side)) for side in (self.queries, self.query_keys))
        at_key = key_side if at is None else Side(*(part[at] for part in key_side))
        score = self.scale * ((q.values * at_key.values).sum(axis=2) - (q.values * at_query.values).sum(axis=2))
        size = self.scale * (q.sizes * (at_key.sizes + at_query.sizes)).sum(axis=2)
        error = self.arithmetic.gamma(np.full(1, float(self.roundings))) * size + self.underflow
        if self._scale_is_exact:
            exact = (q.exact & at_key.exact & at_query.exact).all(axis=2)
            total = (np.abs(q.values) * (np.abs(at_key.values) + np.abs(at_query.values))).sum(axis=2)
            error[exact & (total <= self.arithmetic.exact)] = 0.0
        return score, error

    def _weigh(
        self, scores: tuple[Float[np.ndarray, "pairs heads"], Float[np.ndarray, "pairs heads"]]
    ) -> ProvedAttention:
        score, error = scores
        away = np.abs(score) - error
        slope = np.minimum(0.25, np.exp(-np.maximum(away, 0.0)))
        wrong = error * slope + LOGISTIC_UNITS * (self.arithmetic.unit + 2.0**-53)
        saturated = away >= self.arithmetic.saturation
        weights = np.where(saturated, (score > 0).astype(np.float64), expit(score))
        return ProvedAttention(weights, np.where(saturated, 0.0, wrong))

    @cached_property
    def _scale_is_exact(self) -> bool:
        """Return whether d_qk is a power of 16."""
        return float(np.frexp(self.scale**0.5)[0]) == 0.5

    def _side(
        self, tokens: Float[np.ndarray, "tokens d_model"], weights: Float[np.ndarray, "heads d_model d_qk"]
    ) -> Side:
        n_heads, _, width = weights.shape
        used = (weights != 0).any(axis=(0, 2))  # products of the other coordinates are exactly 0
        tokens, weights = tokens[:, used], weights[:, used].transpose(1, 0, 2).reshape(-1, n_heads * width)
        size = (len(tokens), n_heads, width)
        values, sizes = (tokens @ weights).reshape(size), (np.abs(tokens) @ np.abs(weights)).reshape(size)
        whole = integral(tokens) and integral(weights)
        return Side(values, sizes, (sizes <= self.arithmetic.exact) & whole)
