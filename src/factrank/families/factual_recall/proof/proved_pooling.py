r"""Proved pooling: the weights that a head gives to the tokens of a fact, and how much of them noise can take.

Only the end token attends, so head h gives token t a score $s_t$ that depends on nothing else. For any evaluation order
the error of a computed score is at most $r_t = \gamma_n\,(|x_{end}||W_Q|) \cdot (|x_t||W_K|)/\sqrt{d_{qk}}$ with
n = 2 d + d_qk + 6. Up to a factor common to all tokens of a sequence, computed weights are in

$$\exp\bigl(s_t - \max s \pm \epsilon_t\bigr), \qquad
  \epsilon_t = r_t + 2 \max r\, u + u\,(2\,|s_t - \max s| + 75) - \ln(1 - 16 u),$$

assuming an exponential accurate to 16 u. The model computes weights relative to the largest in the vocabulary, as
numbers from $e^{-75}$ to $e^{75}$, clipped at $e^{-150}$ of the largest; other softmaxes may underflow to 0. The
interval [low, high] contains both, so the proof covers either.

*The tokens of a fact* are its key, its query and the end. Without noise, a token has the fraction $\alpha_t = w_t /
\sum w$ of the weight, and the intervals show that the computed fraction is within $b_t$ of it. A linear function $\phi$
of the vector read, $\phi_0 = \sum_t \alpha_t \phi(x_t)$, changes by at most $\sum_t b_t\,|\phi(x_t) - \phi_0|$, because
the changes of the fractions sum to 0.

*Noise.* With at most n noise tokens v, chosen freely and with repetitions, $\phi$ is at least

$$\phi_0 + \min\Bigl(0,\ \min_v \lambda_v\,(\phi(x_v) - \phi_0)\Bigr), \qquad
  \lambda_v = \frac{n\, w_v}{W + n\, w_v}, \quad W = \textstyle\sum_{t \in fact} w_t,$$

and n copies of a single token attain it. Proof: $\rho$ is at most every mean $(N + \sum_i w_i \phi_i)/(W + \sum_i
w_i)$, $N = W \phi_0$, if and only if $N - \rho W + \sum_i w_i (\phi_i - \rho) \ge 0$ for all choices. The sum is
smallest if every term is, so n copies of one token are the worst choice.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from factrank.certificates import EXPONENTIAL_UNITS, SLACK, Arithmetic
from factrank.families.factual_recall.factual_recall_transformer import HALF_RANGE
from factrank.families.factual_recall.sequence_layout import FactualRecallLayout

LEAST_EXPONENT = -2 * HALF_RANGE
"""The model's weights are at least e to this power times the largest."""

OUR_ERROR = 2.0**-45
"""Bound of our own error in computing fractions in float64."""


class PlainSequence(NamedTuple):
    """Weights of a `FactualRecallTransformer` in float64, which represents every precision exactly."""

    embedding: Float[np.ndarray, "tokens d_model"]
    w_q: Float[np.ndarray, "heads d_model d_qk"]
    w_k: Float[np.ndarray, "heads d_model d_qk"]
    w_v: Float[np.ndarray, "heads d_model d_vo"]
    w_o: Float[np.ndarray, "heads d_vo d_model"]
    w_in: Float[np.ndarray, "d_model width"]
    b_in: Float[np.ndarray, " width"]
    w_out: Float[np.ndarray, "width d_model"]
    unembedding: Float[np.ndarray, "d_model outputs"]


class Pooled(NamedTuple):
    """Weights of one head on the tokens of some facts: the key, the query and the end."""

    shares: Float[np.ndarray, "facts 3"]
    errors: Float[np.ndarray, "facts 3"]
    """The errors b above."""
    most: Float[np.ndarray, "facts 3"]
    """Upper bounds of the computed fractions."""
    weight: Float[np.ndarray, " facts"]
    """Lower bound of the total weight of the fact's tokens."""
    leak: Float[np.ndarray, " facts"]
    """The largest lambda."""


@dataclass(frozen=True, eq=False)
class Pooling:
    """The attention of a model in sequences with at most `n_noise` noise tokens."""

    weights: PlainSequence
    layout: FactualRecallLayout
    arithmetic: Arithmetic
    n_noise: int

    @cached_property
    def _scores(self) -> tuple[Float[np.ndarray, "heads tokens"], Float[np.ndarray, "heads tokens"]]:
        """Scores, and sums of absolute values that bound their rounding errors."""
        w, end = self.weights, self.layout.end
        asked = np.einsum("d,hde->he", w.embedding[end], w.w_q)
        sizes = np.einsum("d,hde->he", np.abs(w.embedding[end]), np.abs(w.w_q))
        scale = w.w_q.shape[2] ** -0.5
        by_token = np.einsum("hde,he->hd", w.w_k, asked) @ w.embedding.T
        return scale * by_token, scale * np.einsum("hde,he->hd", np.abs(w.w_k), sizes) @ np.abs(w.embedding).T

    @property
    def largest_score(self) -> float:
        """Upper bound of every intermediate result of a score."""
        return float(self._scores[1].max()) * float(self.weights.w_q.shape[2])

    @cached_property
    def _intervals(self) -> tuple[Float[np.ndarray, "heads tokens"], ...]:
        """Lower bounds, values and upper bounds of the weights, relative to the largest."""
        w, unit = self.weights, self.arithmetic.unit
        scores, sizes = self._scores
        d_model, d_qk = w.w_q.shape[1:]
        gamma = float(self.arithmetic.gamma(np.full(1, 2.0 * d_model + d_qk + 6))[0])
        growth = (1 + np.abs(w.embedding).max()) ** 2 * (1 + d_model * np.abs(w.w_q).max())
        lost = self.arithmetic.least * 8 * d_qk * (d_model + 1) * growth * (1 + d_model * np.abs(w.w_k).max())
        wrong = gamma * sizes + lost
        exponents = scores - scores.max(axis=1, keepdims=True)
        most = wrong.max(axis=1, keepdims=True)
        subtracted = 2 * np.abs(exponents) + 4 * most + HALF_RANGE
        error = SLACK * (wrong + unit * subtracted - np.log1p(-EXPONENTIAL_UNITS * unit)) + OUR_ERROR
        lower, upper = exponents - error, exponents + error
        floor = LEAST_EXPONENT + SLACK * (most - np.log1p(-EXPONENTIAL_UNITS * unit)) + OUR_ERROR
        low = np.where(lower > LEAST_EXPONENT, np.exp(np.maximum(lower, LEAST_EXPONENT)), 0.0)
        return low, np.exp(exponents), np.exp(np.maximum(upper, floor))

    @cached_property
    def noise(self) -> Float[np.ndarray, "heads noise"]:
        """Upper bounds of the weights of noise tokens."""
        return self._intervals[2][:, self.layout.first_noise : self.layout.end]

    def pooled(self, head: int, tokens: Int[np.ndarray, "facts 3"]) -> Pooled:
        """Return the weights of a head on the tokens of facts."""
        low, middle, high = (part[head][tokens] for part in self._intervals)
        shares = middle / middle.sum(axis=1, keepdims=True)
        most = high / (high + low.sum(axis=1, keepdims=True) - low)
        least = low / (low + high.sum(axis=1, keepdims=True) - high)
        errors = SLACK * np.maximum(most - shares, shares - least) + OUR_ERROR
        weight = low.sum(axis=1) / SLACK
        return Pooled(shares, errors, most * SLACK, weight, self._leak(self.noise[head].max(keepdims=True), weight))

    def leaks(self, head: int, weight: Float[np.ndarray, " facts"]) -> Float[np.ndarray, "facts noise"]:
        """Return lambda of every noise token."""
        return self._leak(self.noise[head], weight[:, None])

    def _leak(
        self, noise: Float[np.ndarray, "*noise"], weight: Float[np.ndarray, "*facts"]
    ) -> Float[np.ndarray, "*both"]:
        if self.n_noise == 0:
            return np.zeros(np.broadcast_shapes(np.shape(noise), np.shape(weight)))
        return np.asarray(SLACK * self.n_noise * noise / (weight + self.n_noise * noise))
