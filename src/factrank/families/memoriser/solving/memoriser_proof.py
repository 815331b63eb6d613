r"""Bounds of what a memoriser answers, for every order of evaluation.

With $\tilde x = |e||W_e| + |b| + |p|$ the sizes of an embedded vector, a score is a sum of products of entries of two
vectors and the weights between them. Under the assumptions of `arithmetic`, with matrices multiplied in any order, it
is off by at most

$$r_j = \gamma_n\, \tilde x_0\, |W_Q|\, |W_K|^T\, \tilde x_j^T / \sqrt s, \qquad n = 2 d_{in} + 4 d + d_{qk} + 16,$$

in whatever order it is added and whichever matrices are multiplied first, one product after another: a term takes part
in so many operations at most. On either side it may go through $W_e$ in a product of weights, and then be added up with
the d terms of the place beside its d_in; the bias is added to the place, or to the vector, first. The exponential is
taken to be right up to 16 u and the largest score to be subtracted first. Then the weights of a head are, but for the
rounding of their sum, $\alpha_j e^{\pm 2 \epsilon}$ with

$$\epsilon = \max_j \bigl[ r_j + u\,(|s_j - \max s| + 2 \max r) \bigr] - \ln(1 - 16 u),$$

and add up to 1. So for k tokens, in heads that read $v_j = x_j W_V$ and $\bar v = \sum_j \alpha_j v_j$, whether the sum
divides the weights or what they pool, an output is off by at most

$$\sum_h (e^{2 \epsilon} - 1) \sum_j \alpha_j |v_j - \bar v|\, |W_O D|
  + \gamma_m \Bigl( \sum_h e^{2 \epsilon} \sum_j \alpha_j\, \tilde x_j\, |W_V| |W_O| |D| + |c| \Bigr),
  \qquad m = d_{in} + 2 k + 2 d + d_{vo} + H \max(d_{in} + d, d_{vo}) + 20.$$

A term goes through sums over the coordinates of the embedding, $W_V$, $W_O$ and D and over the tokens; matrices may be
multiplied in any order, and the sum over heads may stand alone or be part of a sum over coordinates, which then has H
times as many terms: d_vo each where heads are concatenated; d_in and d each, for pooled vectors and pooled places,
where the matrices behind them are formed first. Each head pools its tokens in a sum of its own.

Outputs and spreads are themselves computed, in float64: for that the first sum is taken $e^{2 \epsilon}$ times and what
heads read in the second thrice. Positions are the numbers of `sinusoids`, rounded to the precision of the evaluation;
so are the vectors.

*Underflow.* A result below the least normal number $\ell$ may lose $\ell$, and the loss is multiplied by all factors of
the term that are not in that result. These can be any: where $W_e W_K W_Q^T$ is formed first, and vanishes, what is
left is the vector alone, however small $e W_e$ is. So every factor counts with one more than its size, whether in the
result or outside of it. With V the largest entry of a vector and |W| those of weights,

$$S = (1 + V)(1 + d_{in} |W_e|) + |b| + 1, \qquad
  G_s = S^2\, (1 + d |W_Q|)(1 + d |W_K|)(1 + d_{qk}), \qquad
  G_o = S\, (1 + d |W_V|)(1 + H d_{vo} |W_O|)(1 + d |D|)(k + 2) + |c|$$

are above every intermediate result of a score and of an output, for which they must not overflow, and above all that
multiplies one. A score has no more terms than $(d_{in} + 2)^2 (d + 1)^2 (d_{qk} + 1)$ and an output no more than
$(d_{in} + 2)(k + 1)(d + 1)^2 (H d_{vo} + 1)$, and a term goes through fewer than 32 results, $32 \le 8 S^2$ and
$32 \le 8 S (k + 2)$. So $8\, \ell\, G$ times the terms is added to $r_j$ and to the bound of an output.
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
    """The weights in float64, which holds every precision exactly; without an embedding, the identity and zeros."""

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
    """Outputs in float64, and how far from them any evaluation can be."""

    outputs: Float[np.ndarray, "examples outputs"]
    errors: Float[np.ndarray, "examples outputs"]


def plain_memoriser(model: Memoriser, context_size: int, dtype: np.dtype[Any]) -> PlainMemoriser:
    """The weights, and the positions of so long a context as an evaluation in `dtype` has them."""
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
    """Outputs of a memoriser and their errors; vectors are those of the evaluation."""

    weights: PlainMemoriser
    arithmetic: Arithmetic

    def obstacle(self, examples: VectorExamples) -> str:
        """What keeps outputs from being bounded; empty where nothing does."""
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
        """The outputs of some examples; the largest entry of a vector of any example may be given."""
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
        # Thrice: for the evaluation, for ours of the outputs, and for ours of what strayed.
        rounding = 3 * (grown * (weights @ token_sizes)).reshape(n, -1) @ self._value_sizes + np.abs(w.decoder_bias)
        return ProvedOutputs(outputs, SLACK * (from_weights + gamma * rounding) + lost[1])

    def _embedded(
        self, vectors: Float[np.ndarray, "*n d_input"], places: Float[np.ndarray, "*places d_model"]
    ) -> tuple[Float[np.ndarray, "*n d_model"], Float[np.ndarray, "*n d_model"]]:
        """Embedded vectors, and the sums of absolute values behind them."""
        w = self.weights
        sizes = np.abs(vectors) @ np.abs(w.embedding) + np.abs(w.embedding_bias) + np.abs(places)
        return vectors @ w.embedding + w.embedding_bias + places, sizes

    def _softmax(
        self, scores: Float[np.ndarray, "n heads context"], wrong: Float[np.ndarray, "n heads context"]
    ) -> tuple[Float[np.ndarray, "n heads context"], Float[np.ndarray, "n heads"]]:
        """The weights, and epsilon."""
        unit = self.arithmetic.unit + OUR_UNIT
        exponents = scores - scores.max(axis=2, keepdims=True)
        most = wrong.max(axis=2, keepdims=True)
        error = (wrong + unit * (np.abs(exponents) + 2 * most)).max(axis=2) - np.log1p(-EXPONENTIAL_UNITS * unit)
        raised = np.exp(exponents)
        return raised / raised.sum(axis=2, keepdims=True), SLACK * error

    @cached_property
    def _values(self) -> Float[np.ndarray, "features outputs"]:
        """What the outputs gain by what every head reads."""
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
        """H d_vo."""
        return int(np.prod(self.weights.w_o.shape[:2]))

    def _gamma(self, roundings: int) -> float:
        return float(self.arithmetic.gamma(np.array([roundings], np.float64))[0])

    def _growth(self, vector: float) -> tuple[float, float]:
        """G of a score and of an output: more than any intermediate result, and than all that multiplies one.

        Python's floats become infinite by a product, while a power raises.
        """
        w = self.weights
        side = (1 + vector) * (1 + len(w.embedding) * _most(w.embedding)) + _most(w.embedding_bias) + 1
        d_model, d_qk = w.w_q.shape[1:]
        key = (1 + d_model * _most(w.w_q)) * (1 + d_model * _most(w.w_k)) * (1 + d_qk)
        value = (1 + d_model * _most(w.w_v)) * (1 + self._values_read * _most(w.w_o)) * (1 + d_model * _most(w.decoder))
        return side * side * key, side * value * (1 + len(w.positions)) + _most(w.decoder_bias)

    def _lost(self, vector: float, context_size: int) -> tuple[float, float]:
        """The error of results below the least normal number, of a score and of an output."""
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
    """Scores before they are divided: the keys are folded onto the queries."""
    folded = (asking @ w_q) @ w_k.transpose(0, 2, 1)
    return np.asarray(folded.transpose(1, 0, 2) @ tokens.transpose(0, 2, 1))


def largest_vector(examples: VectorExamples) -> float:
    """The largest entry of a vector, in size."""
    return float(max(np.abs(examples.queries).max(), np.abs(examples.contexts).max()))


def _most(weights: Float[np.ndarray, "..."]) -> float:
    return float(np.abs(weights).max())


def leads(proved: ProvedOutputs, labels: Int[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
    """How far the logit of each label is above the others in every evaluation."""
    rows = np.arange(len(labels))
    below = (proved.outputs - proved.errors)[rows, labels]
    others = proved.outputs + proved.errors
    others[rows, labels] = -np.inf
    return np.asarray(below - others.max(axis=1))
