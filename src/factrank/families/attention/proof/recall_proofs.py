r"""Prove recall from the weights and the facts alone, independently of how the layer was made.

For a fact (k, q, f) and every value v outside the fiber, the computed $L[k,q,f] - L[k,q,v]$ is bounded from below under
the assumptions of `arithmetic`. A positive bound for every fact proves that all facts are recalled by every evaluation
in the layer's precision that forms one product after another, under any summation order: heads concatenated, one by
one, or unembedded before they are added. `proved_attention` and `proved_streams` provide the attention weights and the
streams y with size $\bar y$ and spread $\rho$; the logits are y U.

*Exact integers.* If attention is saturated, the weights of the value path are integers, those of U times a power of two
$2^j$, and $\bar y\,|U| \le 2^{p + j}$, no operation rounds, and the bound is the margin itself, computed exactly in
float64.

*Running error bound.* Otherwise, if a term undergoes n roundings (counted by `roundings`),

$$L[k,q,f] - L[k,q,v] \ge y \cdot (U_f - U_v) - \gamma_n\, \bar y \cdot (|U_f| + |U_v|)
  - \rho \cdot |U_f - U_v| - 2\eta,$$

where η covers subnormal results. A first pass replaces $|U_v|$ by the largest entry of each row, which takes one number
per fact; only facts that this does not settle are bounded value by value. The spread is multiplied by the difference of
the columns because all logits of a pair share the error of the attention weights.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import inf
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from factrank.certificates import ARITHMETIC, Arithmetic, LogitIntervals, MarginBounds, precision_of
from factrank.families.attention.pair_transformer import AnyLayer
from factrank.families.attention.proof.plain_weights import PlainWeights, plain_weights, why_not_plain
from factrank.families.attention.proof.proved_attention import ProvedScores
from factrank.families.attention.proof.proved_streams import ProvedStreams, Streams
from factrank.families.attention.proof.roundings import roundings_of_logits

BLOCK_CELLS = 2**21
"""Size of the largest array of a block."""

MOST_SHARED = 16
"""Upper limit on the expected number of facts per key when blocks are cut: some blocks have more keys than others."""


class FactBlock(NamedTuple):
    """Some facts: key, query, value and all values of the fiber of each."""

    keys: Int[np.ndarray, " n"]
    queries: Int[np.ndarray, " n"]
    values: Int[np.ndarray, " n"]
    fibers: Int[np.ndarray, "n m"]


def why_no_bounds(layer: AnyLayer) -> str:
    """Return why the margins of a layer cannot be bounded; an empty string if they can."""
    obstacle = why_not_plain(layer)
    if obstacle is not None:
        return obstacle
    weights = plain_weights(layer)
    if not all(np.isfinite(part).all() for part in weights):
        return "some weights are infinite or not a number"
    if not _stays_finite(weights, ARITHMETIC[precision_of(layer)]):
        return "some weights are so large that intermediate results may overflow"
    return ""


def bounds_of(layer: AnyLayer) -> LayerBounds:
    """Return the bounds of a layer for which `why_no_bounds` returns an empty string."""
    weights, arithmetic = plain_weights(layer), ARITHMETIC[precision_of(layer)]
    return LayerBounds(ProvedScores(weights, arithmetic), Streams(weights, arithmetic), arithmetic)


def _stays_finite(weights: PlainWeights, arithmetic: Arithmetic) -> bool:
    """Return whether no intermediate result can overflow, from the largest sums of absolute values."""
    tokens = max(np.abs(weights.keys).max(), np.abs(weights.queries).max()) + 1
    w_q, w_k, w_v, w_o, unembedding = (np.abs(part) for part in weights[2:])
    sums = [float(part.sum(axis=1).max()) + 1 for part in (w_q, w_k, w_v)]
    written = float(w_o.sum(axis=(0, 1)).max()) + 1
    logits = tokens * sums[2] * written * (float(unembedding.sum(axis=0).max()) + 1)
    scores = tokens**2 * sums[0] * sums[1] * w_q.shape[2]
    return bool(8 * max(logits, scores) < arithmetic.largest)


@dataclass(frozen=True, eq=False)
class LayerBounds:
    """Lower bounds on the margins of blocks of facts."""

    scores: ProvedScores
    streams: Streams
    arithmetic: Arithmetic

    def cells_per_fact(self, facts_per_key: float) -> int:
        """Return the numbers per fact in the largest array; the output of a key is computed once per key."""
        n_heads, _, d_qk = self.scores.weights.w_q.shape
        written = n_heads * max(len(self.unembedding), self.scores.weights.w_v.shape[2])
        return int(
            max(self.unembedding.shape[1], n_heads * d_qk * 2, written / max(min(facts_per_key, MOST_SHARED), 1))
        )

    @property
    def operations_per_fact(self) -> int:
        """Return the multiplications per fact in matrix products, if no two facts share a key."""
        n_heads, d_model, d_vo = self.scores.weights.w_v.shape
        n_kept, n_values = self.unembedding.shape
        return int(n_kept * n_values + n_heads * d_vo * (d_model + n_kept))

    @property
    def unembedding(self) -> Float[np.ndarray, "kept values"]:
        """Return the unembedding on the kept coordinates."""
        return self.streams.unembedding

    @cached_property
    def largest(self) -> Float[np.ndarray, " kept"]:
        """Return the largest absolute entry of each row of the unembedding."""
        return np.asarray(np.abs(self.unembedding).max(axis=1, initial=0.0))

    @cached_property
    def underflow(self) -> float:
        """Bound the error of subnormal results of the value path, each times all factors applied to it."""
        w = self.streams.weights
        n_heads, d_model, d_vo = w.w_v.shape
        operations = 8.0 * (n_heads + 1) * (d_vo + 1) * (d_model + 1) * 2
        factors = 1 + max(np.abs(w.keys).max(), np.abs(w.queries).max())
        for part in (w.w_v, w.w_o, w.unembedding):
            factors *= 1 + np.abs(part).max() * part.shape[-1 if part is w.w_o else -2]
        return float(self.arithmetic.least * operations * factors)

    def bounds(self, block: FactBlock) -> MarginBounds:
        """Return a lower bound on the margin of each fact, and whether the bounds are exact integers."""
        attention = self.scores.attention(block.keys, block.queries)
        streams = self.streams.streams(attention, block.keys, block.queries)
        logits = streams.values @ self.unembedding
        every = np.arange(len(logits))
        own = logits[every, block.values]
        logits[every[:, None], block.fibers] = -inf
        margins = own - logits.max(axis=1)
        if streams.exact and self._is_exact(streams):
            return MarginBounds(margins, exact=True)
        gamma = self.arithmetic.gamma(roundings_of_logits(streams.terms, self.streams.layer_terms))
        radius = gamma * (streams.sizes @ self.largest) + self.underflow
        if streams.spreads is not None:
            radius = radius + streams.spreads @ self.largest * (1 + gamma)
        bounds = np.where(np.isposinf(margins), inf, margins - 2 * radius)
        unsettled = np.flatnonzero((bounds < margins / 2) & (margins > 0))
        step = max(BLOCK_CELLS // self.unembedding.shape[1], 1)
        for start in range(0, len(unsettled), step):
            rows = unsettled[start : start + step]
            bounds[rows] = np.maximum(bounds[rows], self._bounds_by_value(block, streams, gamma, rows))
        return MarginBounds(bounds)

    def intervals(self, keys: Int[np.ndarray, " n"], queries: Int[np.ndarray, " n"]) -> LogitIntervals:
        """Return the logits of pairs in every evaluation."""
        streams = self.streams.streams(self.scores.attention(keys, queries), keys, queries)
        logits, sizes = streams.values @ self.unembedding, np.abs(self.unembedding)
        if streams.exact and self._is_exact(streams):
            return LogitIntervals(logits, np.zeros_like(logits))
        gamma = self.arithmetic.gamma(roundings_of_logits(streams.terms, self.streams.layer_terms))[:, None]
        radii = gamma * (streams.sizes @ sizes) + self.underflow
        if streams.spreads is not None:
            radii += (1 + gamma) * (streams.spreads @ sizes)
        return LogitIntervals(logits, radii)

    def _is_exact(self, streams: ProvedStreams) -> bool:
        limit = self.arithmetic.exact
        if streams.sizes.max(initial=0.0) > limit:
            return False
        whole = np.abs(self.unembedding) / self.streams.unit
        large = streams.sizes[streams.sizes @ (self.largest / self.streams.unit) > limit]
        step = max(BLOCK_CELLS // self.unembedding.shape[1], 1)
        parts = (large[start : start + step] for start in range(0, len(large), step))
        return all((part @ whole).max() <= limit for part in parts)

    def _bounds_by_value(
        self, block: FactBlock, streams: ProvedStreams, gamma: Float[np.ndarray, " n"], rows: Int[np.ndarray, " some"]
    ) -> Float[np.ndarray, " some"]:
        """Return the least of the bounds above over every value outside the fiber."""
        unembedding, values, every = self.unembedding, block.values[rows], np.arange(len(rows))
        logits = streams.values[rows] @ unembedding
        errors = gamma[rows, None] * (streams.sizes[rows] @ np.abs(unembedding)) + self.underflow
        leads = (logits - errors)[every, values][:, None] - (logits + errors)
        if streams.spreads is not None:
            spreads = streams.spreads[rows] * (1 + gamma[rows, None])
            for at in np.flatnonzero(spreads.any(axis=0)):
                leads -= spreads[:, at, None] * np.abs(unembedding[at, values][:, None] - unembedding[at])
        leads[every[:, None], block.fibers[rows]] = inf
        return np.asarray(leads.min(axis=1))
