r"""Bounds of the outputs of a memoriser, valid for every evaluation order.

Let $\tilde x = |e||W_e| + |b| + |p|$ bound an embedded vector entrywise. A score is a sum of products of entries of two
vectors and the weights between them. Under the assumptions of `arithmetic`, with matrices multiplied in any order (one
product at a time) and sums evaluated in any order, its error is at most

$$r_j = \gamma_n\, \tilde x_0\, |W_Q|\, |W_K|^T\, \tilde x_j^T / \sqrt s, \qquad n = 2 d_{in} + 4 d + d_{qk} + 16,$$

where n bounds the number of operations that a term takes part in. On either side, a term may pass through $W_e$ in a
product of weights and then be summed with the d terms of the position in addition to its d_in; the bias is added first
to the position or to the vector. The exponential is assumed accurate to 16 u, and the largest score to be subtracted
first. Then, up to the rounding of their sum, the weights of a head are $\alpha_j e^{\pm 2 \epsilon}$ with

$$\epsilon = \max_j \bigl[ r_j + u\,(|s_j - \max s| + 2 \max r) \bigr] - \ln(1 - 16 u),$$

and they sum to 1. For k tokens and heads that read $v_j = x_j W_V$ and $\bar v = \sum_j \alpha_j v_j$, the error of an
output is therefore at most

$$\sum_h (e^{2 \epsilon} - 1) \sum_j \alpha_j |v_j - \bar v|\, |W_O D|
  + \gamma_m \Bigl( \sum_h e^{2 \epsilon} \sum_j \alpha_j\, \tilde x_j\, |W_V| |W_O| |D| + |c| \Bigr),
  \qquad m = d_{in} + 2 k + 2 d + d_{vo} + H \max(d_{in} + d, d_{vo}) + 20,$$

whether the weights or the pooled values are divided by the sum. A term passes through sums over the coordinates of the
embedding, $W_V$, $W_O$ and D, and over the tokens. Matrices may be multiplied in any order, and the sum over heads may
be separate or part of a sum over coordinates, which then has H times the terms: d_vo per head if heads are
concatenated; d_in and d per head, for pooled vectors and pooled positions, if the matrices behind them are multiplied
first. Each head pools its tokens in a separate sum.

The outputs and spreads above are themselves computed in float64. To cover that, the first sum is multiplied by $e^{2
\epsilon}$ and the vectors read by heads count three times in the second. Positions are the numbers of `sinusoids`,
rounded to the precision of the evaluation, and so are the vectors.

*Underflow.* A result below the smallest normal number $\ell$ may lose $\ell$, and the loss is multiplied by all factors
of the term outside that result. These can be any factors: if $W_e W_K W_Q^T$ is computed first and underflows, the only
remaining factor is the vector, however small $e W_e$ is. Therefore every factor counts as one plus its size, whether
inside or outside the result. With V the largest entry of a vector and |W| the largest entries of weights,

$$S = (1 + V)(1 + d_{in} |W_e|) + |b| + 1, \qquad
  G_s = S^2\, (1 + d |W_Q|)(1 + d |W_K|)(1 + d_{qk}), \qquad
  G_o = S\, (1 + d |W_V|)(1 + H d_{vo} |W_O|)(1 + d |D|)(k + 2) + |c|$$

bound every intermediate result of a score and of an output, and every product of factors outside one; they must not
overflow. A score has at most $(d_{in} + 2)^2 (d + 1)^2 (d_{qk} + 1)$ terms and an output at most
$(d_{in} + 2)(k + 1)(d + 1)^2 (H d_{vo} + 1)$, and a term passes through fewer than 32 results, $32 \le 8 S^2$ and
$32 \le 8 S (k + 2)$. So $8\, \ell\, G$ times the number of terms is added to $r_j$ and to the bound of an output.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int

from factrank.certificates import EXPONENTIAL_UNITS, OUR_BITS, SLACK, Arithmetic
from factrank.families.memoriser.examples import VectorExamples
from factrank.families.memoriser.memoriser import Memoriser, sinusoids

OUR_UNIT = 2.0**-OUR_BITS


class PlainMemoriser(NamedTuple):
    """Weights in float64, which represents every precision exactly; without an embedding, the identity and zeros."""

    embedding: Float[np.ndarray, "d_input d_model"]
    embedding_bias: Float[np.ndarray, " d_model"]
    w_q: Float[np.ndarray, "heads d_model d_qk"]
    w_k: Float[np.ndarray, "heads d_model d_qk"]
    w_v: Float[np.ndarray, "heads d_model d_vo"]
    w_o: Float[np.ndarray, "heads d_vo d_model"]
    decoder: Float[np.ndarray, "d_model outputs"]
    decoder_bias: Float[np.ndarray, " outputs"]
    positions: Float[np.ndarray, "places d_model"]
    divisor: float


class ProvedOutputs(NamedTuple):
    """Outputs in float64, and bounds of their difference from any evaluation."""

    outputs: Float[np.ndarray, "examples outputs"]
    errors: Float[np.ndarray, "examples outputs"]


def plain_memoriser(model: Memoriser, context_size: int, dtype: np.dtype[Any]) -> PlainMemoriser:
    """Return the weights, and the positions of a context of this size as rounded to `dtype`."""
    names = ("embedding", "embedding_bias", "w_q", "w_k", "w_v", "w_o", "decoder", "decoder_bias")
    held = {name: getattr(model, name) for name in names}
    places, d_model = np.zeros((context_size + 1, model.shape.d_model)), model.shape.d_model
    if model.shape.positions:
        places = sinusoids(context_size + 1, d_model).astype(dtype).astype(np.float64)
    if held["embedding"] is None:
        held |= {"embedding": np.eye(d_model), "embedding_bias": np.zeros(d_model)}
    parts = {name: np.asarray(part).astype(np.float64) for name, part in held.items()}
    return PlainMemoriser(**parts, positions=places, divisor=model.shape.score_divisor)


@dataclass(frozen=True, eq=False)
class OutputProver:
    """Bounds of the outputs of a memoriser; vectors must already be rounded to the precision of the evaluation."""

    weights: PlainMemoriser
    arithmetic: Arithmetic

    def obstacle(self, examples: VectorExamples) -> str:
        """Return why the outputs cannot be bounded, or an empty string if they can."""
        parts = [part for part in self.weights if isinstance(part, np.ndarray)]
        if not all(np.isfinite(part).all() for part in parts):
            return "some weights are infinite or not a number"
        with np.errstate(all="ignore"):
            largest = 8 * max(self._growth(largest_vector(examples)))
        if not largest <= self.arithmetic.largest:
            return "some weights or vectors are so large that intermediate results may overflow"
        return ""

    @property
    def cells_per_example(self) -> int:
        """Numbers per example in the largest array."""
        w, n = self.weights, len(self.weights.positions) - 1
        d_model = w.embedding.shape[1]
        widest = max(d_model, w.w_q.shape[2], n * w.w_v.shape[2])
        return int(max(len(w.w_q) * widest, n * d_model, len(w.decoder_bias)))

    def proved(
        self,
        examples: VectorExamples,
        rows: slice | Int[np.ndarray, " n"] = slice(None),
        largest: float | None = None,
    ) -> ProvedOutputs:
        """Return outputs of some examples and their errors; `largest` is the largest entry of any vector, if known."""
        lost = self._lost(largest_vector(examples) if largest is None else largest, examples.context_size)
        contexts = examples.contexts[examples.context_of[rows]].astype(np.float64)
        return self._proved(examples.queries[rows].astype(np.float64), contexts, lost)

    def _proved(
        self,
        queries: Float[np.ndarray, "n d_input"],
        contexts: Float[np.ndarray, "n context d_input"],
        lost: tuple[float, float],
    ) -> ProvedOutputs:
        w, (n, context_size, _) = self.weights, contexts.shape
        asking, asking_sizes = self._embedded(queries, w.positions[0])
        tokens, token_sizes = self._embedded(contexts, w.positions[1:])
        scores = raw_scores(asking, w.w_q, w.w_k, tokens) / w.divisor
        sizes = raw_scores(asking_sizes, np.abs(w.w_q), np.abs(w.w_k), token_sizes) / w.divisor
        weights, error = self._softmax(scores, SLACK * self._score_gamma * sizes + lost[0])
        grown, gamma = np.exp(2 * error)[:, :, None], self._output_gamma(context_size)
        outputs = (weights @ tokens).reshape(n, -1) @ self._values + w.decoder_bias
        read = np.einsum("njd,hde->nhje", tokens, w.w_v)
        strayed = (weights[..., None] * np.abs(read - weights[:, :, None] @ read)).sum(axis=2)
        from_weights = (grown * (grown - 1) * strayed).reshape(n, -1) @ np.abs(self._outward)
        # Three times: for the evaluation, for our outputs, and for our spreads.
        rounding = 3 * (grown * (weights @ token_sizes)).reshape(n, -1) @ self._value_sizes + np.abs(w.decoder_bias)
        return ProvedOutputs(outputs, SLACK * (from_weights + gamma * rounding) + lost[1])

    def _embedded(
        self, vectors: Float[np.ndarray, "*n d_input"], places: Float[np.ndarray, "*places d_model"]
    ) -> tuple[Float[np.ndarray, "*n d_model"], Float[np.ndarray, "*n d_model"]]:
        """Return embedded vectors and the sums of absolute values that bound them."""
        w = self.weights
        sizes = np.abs(vectors) @ np.abs(w.embedding) + np.abs(w.embedding_bias) + np.abs(places)
        return vectors @ w.embedding + w.embedding_bias + places, sizes

    def _softmax(
        self, scores: Float[np.ndarray, "n heads context"], wrong: Float[np.ndarray, "n heads context"]
    ) -> tuple[Float[np.ndarray, "n heads context"], Float[np.ndarray, "n heads"]]:
        """Return the attention weights and epsilon."""
        unit = self.arithmetic.unit + OUR_UNIT
        exponents = scores - scores.max(axis=2, keepdims=True)
        most = wrong.max(axis=2, keepdims=True)
        error = (wrong + unit * (np.abs(exponents) + 2 * most)).max(axis=2) - np.log1p(-EXPONENTIAL_UNITS * unit)
        raised = np.exp(exponents)
        return raised / raised.sum(axis=2, keepdims=True), SLACK * error

    @cached_property
    def _values(self) -> Float[np.ndarray, "features outputs"]:
        """Product of W_V, W_O and D for every head: from features to outputs."""
        w = self.weights
        return np.asarray((w.w_v @ w.w_o @ w.decoder).reshape(-1, w.decoder.shape[1]))

    @cached_property
    def _value_sizes(self) -> Float[np.ndarray, "features outputs"]:
        w = self.weights
        return np.asarray((np.abs(w.w_v) @ np.abs(w.w_o) @ np.abs(w.decoder)).reshape(-1, w.decoder.shape[1]))

    @cached_property
    def _outward(self) -> Float[np.ndarray, "values outputs"]:
        """W_O D of all heads."""
        return np.asarray((self.weights.w_o @ self.weights.decoder).reshape(-1, self.weights.decoder.shape[1]))

    def _output_gamma(self, context_size: int) -> float:
        (d_input, d_model), (heads, d_vo, _) = self.weights.embedding.shape, self.weights.w_o.shape
        over_heads = heads * max(d_input + d_model, d_vo)
        return self._gamma(d_input + 2 * context_size + 2 * d_model + d_vo + over_heads + 20)

    @property
    def _score_gamma(self) -> float:
        d_input, d_model = self.weights.embedding.shape
        return self._gamma(2 * d_input + 4 * d_model + self.weights.w_q.shape[2] + 16)

    @property
    def _values_read(self) -> int:
        """The product H d_vo."""
        return int(np.prod(self.weights.w_o.shape[:2]))

    def _gamma(self, roundings: int) -> float:
        return float(self.arithmetic.gamma(np.array([roundings], np.float64))[0])

    def _growth(self, vector: float) -> tuple[float, float]:
        """Return G for scores and for outputs: bounds of every intermediate result and of all factors outside it.

        Uses products rather than powers: a float product overflows to infinity, but a power raises an error.
        """
        w = self.weights
        side = (1 + vector) * (1 + len(w.embedding) * _most(w.embedding)) + _most(w.embedding_bias) + 1
        d_model, d_qk = w.w_q.shape[1:]
        key = (1 + d_model * _most(w.w_q)) * (1 + d_model * _most(w.w_k)) * (1 + d_qk)
        value = (1 + d_model * _most(w.w_v)) * (1 + self._values_read * _most(w.w_o)) * (1 + d_model * _most(w.decoder))
        return side * side * key, side * value * (1 + len(w.positions)) + _most(w.decoder_bias)

    def _lost(self, vector: float, context_size: int) -> tuple[float, float]:
        """Return the error from underflow of a score and of an output."""
        w, least = self.weights, self.arithmetic.least
        d_input, d_model = w.embedding.shape
        scores, outputs = self._growth(vector)
        by_score = (d_input + 2.0) ** 2 * (d_model + 1.0) ** 2 * (w.w_q.shape[2] + 1)
        by_output = (d_input + 2.0) * (context_size + 1.0) * (d_model + 1.0) ** 2 * (self._values_read + 1.0)
        return 8 * least * by_score * scores, 8 * least * by_output * outputs


def raw_scores(
    asking: Float[np.ndarray, "n d"],
    w_q: Float[np.ndarray, "heads d d_qk"],
    w_k: Float[np.ndarray, "heads d d_qk"],
    tokens: Float[np.ndarray, "n context d"],
) -> Float[np.ndarray, "n heads context"]:
    """Return the scores before division, with the keys folded onto the queries."""
    folded = (asking @ w_q) @ w_k.transpose(0, 2, 1)
    return np.asarray(folded.transpose(1, 0, 2) @ tokens.transpose(0, 2, 1))


def largest_vector(examples: VectorExamples) -> float:
    """Return the largest absolute entry of a vector."""
    return float(max(np.abs(examples.queries).max(), np.abs(examples.contexts).max()))


def _most(weights: Float[np.ndarray, "..."]) -> float:
    return float(np.abs(weights).max())


def leads(proved: ProvedOutputs, labels: Int[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
    """Return the lead of the logit of each label over all others, valid for every evaluation."""
    rows = np.arange(len(labels))
    below = (proved.outputs - proved.errors)[rows, labels]
    others = proved.outputs + proved.errors
    others[rows, labels] = -np.inf
    return np.asarray(below - others.max(axis=1))
