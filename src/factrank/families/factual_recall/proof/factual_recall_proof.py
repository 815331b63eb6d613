r"""Proofs that a one-layer transformer recalls facts in EVERY noise context, based only on its weights and the facts.

For a fact f = (k, q, a) and every other output b, the computed difference $\ell_a - \ell_b$ is bounded from below, over
all contexts of at most T - 3 noise tokens and all evaluation orders. `proved_pooling` bounds the change of a linear
function of the vector that a head reads. With $V^h_t = x_t W_V^h W_O^h U$, the logits of the attention are linear, and

$$\ell_a - \ell_b \ \ge\ \sum_h \Bigl[\phi^h_0 - \sum_{t \in f} b^h_t\,|\phi^h_t - \phi^h_0|
  + \min\bigl(0, \min_v \lambda^h_v (\phi^h_v - \phi^h_0)\bigr)\Bigr] - \rho_a - \rho_b,
  \qquad \phi^h_t = V^h_{t,a} - V^h_{t,b}.$$

A first pass replaces $\lambda_v$ and $\phi_v$ by their extremes over all noise; facts not decided by it are bounded for
each noise token separately. With one head the bound is attained, up to rounding, by T - 3 copies of one noise token.
With several heads, each head is assumed to meet its own worst noise.

*The MLP.* The input of hidden unit j is linear too: with $P^h_t = x_t W_V^h W_O^h W_{in}$ it changes by at most $w_j$,
the same sums over heads in both directions, plus rounding. A relu does not increase a change, and a unit that remains
below 0 does not change. Therefore a logit changes by at most $\sum_j \delta_j |(W_{out} U)_j|$ with
$\delta_j = \min(w_j, \max(p_j + w_j, 0))$.

*Rounding.* Let $\bar z = \sum_h \sum_{t \in f} \alpha^h_t |x_t||W_V^h||W_O^h|$ plus the contribution of the leak, and
let $\bar p$ be the hidden units at their largest. The error of logit b is at most

$$\rho_b = \gamma_n\,\bigl(\bar z + \bar p\,|W_{out}|\bigr)\,|U_b|
  + \textstyle\sum_j \delta_j |(W_{out}U)_{jb}| + \eta,$$

with n = 3 d + d_vo + H max(d, d_vo) + m + 2 T + 16, and $\eta$ for underflow. A term passes through sums over the
coordinates of $x W_V$, the tokens, $W_O$, $W_{in}$, $W_{out}$ and U. The sum over heads may be separate or part of the
sum over $W_O$ (concatenated heads), $W_{in}$ or U, which then has H times the terms.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import exp, inf
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from factrank.certificates import SLACK, Arithmetic
from factrank.families.factual_recall.factual_recall_transformer import HALF_RANGE
from factrank.families.factual_recall.proof.proved_pooling import PlainSequence, Pooled, Pooling

Codes = Int[np.ndarray, " n"]


class Extremes(NamedTuple):
    """Tables of linear functions of the vectors that heads read, with their extremes over all noise tokens."""

    table: Float[np.ndarray, "heads tokens columns"]
    least: Float[np.ndarray, "heads columns"]
    largest: Float[np.ndarray, "heads columns"]


class _Block(NamedTuple):
    """Bounds for some facts, except for the effect of noise on the logits of the attention."""

    logits: Float[np.ndarray, "n outputs"]
    losses: Float[np.ndarray, "n outputs"]
    radius: Float[np.ndarray, "n outputs"]
    finite: Bool[np.ndarray, " n"]
    pooled: list[Pooled]
    means: list[Float[np.ndarray, "n outputs"]]


@dataclass(frozen=True, eq=False)
class FactualRecallProver:
    """Lower bounds of the margins of facts in all noise contexts."""

    pooling: Pooling

    @property
    def weights(self) -> PlainSequence:
        """Weights of the model."""
        return self.pooling.weights

    @property
    def arithmetic(self) -> Arithmetic:
        """Arithmetic of the model."""
        return self.pooling.arithmetic

    def margins(self, keys: Codes, queries: Codes, values: Codes) -> Float[np.ndarray, " n"]:
        """Return the bound of every fact; minus infinity if there is none."""
        layout = self.pooling.layout
        tokens = np.column_stack([keys, layout.first_query + queries, np.full(len(keys), layout.end)])
        with np.errstate(all="ignore"):  # NaN proves nothing
            found = self._bounds(tokens, values)
        return np.where(np.isnan(found), -inf, found)

    def _bounds(self, tokens: Int[np.ndarray, "n 3"], values: Codes) -> Float[np.ndarray, " n"]:
        block = self._block(tokens, values)
        rows = np.arange(len(values))
        settled = block.logits - block.radius
        leads = settled[rows, values][:, None] - (block.logits + block.radius) - block.losses
        leads[rows, values] = inf
        rough = leads.copy()
        for head, (pooled, mean) in enumerate(zip(block.pooled, block.means, strict=True)):
            farthest = self.logit_tables.least[head][values][:, None] - self.logit_tables.largest[head]
            rough -= pooled.leak[:, None] * np.maximum(mean[rows, values][:, None] - mean - farthest, 0.0) * SLACK
        bounds = np.where(block.finite, rough.min(axis=1), -inf)
        for row in np.flatnonzero(~(bounds > 0) & (leads.min(axis=1) > 0) & block.finite):
            bounds[row] = max(bounds[row], self._by_token(block, int(row), int(values[row]), leads[row]))
        return np.asarray(bounds)

    def _by_token(self, block: _Block, row: int, value: int, leads: Float[np.ndarray, " outputs"]) -> float:
        """Return the bound of one fact, taken over the noise tokens one at a time."""
        noise = slice(self.pooling.layout.first_noise, self.pooling.layout.end)
        leads = leads.copy()
        for head, (pooled, means) in enumerate(zip(block.pooled, block.means, strict=True)):
            away = self.logit_tables.table[head][noise] - means[row]
            taken = self.pooling.leaks(head, pooled.weight[row : row + 1])[0][:, None] * (away[:, value, None] - away)
            leads += np.minimum(taken.min(axis=0), 0.0) * SLACK
        return float(leads.min())

    def _block(self, tokens: Int[np.ndarray, "n 3"], values: Codes) -> _Block:
        w, rows = self.weights, np.arange(len(values))
        n_outputs, width = w.unembedding.shape[1], w.w_in.shape[1]
        logits, losses = np.zeros((len(rows), n_outputs)), np.zeros((len(rows), n_outputs))
        hidden, moves = np.tile(w.b_in, (len(rows), 1)), np.zeros((len(rows), width))
        sizes, lightest = np.zeros((len(rows), w.embedding.shape[1])), np.ones(len(rows))
        everything, means = [], []
        for head in range(len(w.w_q)):
            pooled = self.pooling.pooled(head, tokens)
            table = self.logit_tables.table[head]
            mean = _mean(table, tokens, pooled)
            for at in range(tokens.shape[1]):
                away = table[tokens[:, at]] - mean
                losses += pooled.errors[:, at, None] * np.abs(away[rows, values][:, None] - away)
            inner = _mean(self.hidden_tables.table[head], tokens, pooled)
            moves += _moves(self.hidden_tables, head, tokens, pooled, inner)
            sizes += np.einsum("nt,ntd->nd", pooled.most, self.size_tables.table[head][tokens])
            sizes += pooled.leak[:, None] * self.size_tables.largest[head]
            logits, hidden = logits + mean, hidden + inner
            lightest = np.minimum(lightest, pooled.weight)
            everything.append(pooled)
            means.append(mean)
        # The model's sums are e^75 times these weights; other softmaxes give the heaviest token weight 1.
        lost = self._lost * (1 + exp(-HALF_RANGE) / lightest[:, None])
        gamma = float(self.arithmetic.gamma(np.full(1, float(self.roundings)))[0])
        reached = sizes @ np.abs(w.w_in) + np.abs(w.b_in)
        wrong = SLACK * (moves + gamma * reached) + lost
        moved = np.minimum(wrong, np.maximum(hidden + wrong, 0.0))
        active = np.maximum(hidden, 0.0)
        logits = logits + active @ self._out_tables
        streams = sizes + (active + moved) @ np.abs(w.w_out)
        total = streams @ np.abs(w.unembedding)
        radius = SLACK * (gamma * total + moved @ np.abs(self._out_tables)) + lost
        # Overflow counts even if the unembedding is 0: infinity times 0 is NaN.
        largest = np.maximum((np.abs(logits) + total).max(axis=1), reached.max(axis=1, initial=0.0))
        largest = np.maximum(largest, streams.max(axis=1))
        largest = np.maximum(largest, max(self.pooling.largest_score, self._largest_sum))
        finite = 8 * largest < self.arithmetic.largest
        return _Block(logits, losses * SLACK, radius, finite, everything, means)

    # ---------------------------------------------------------------- tables

    @cached_property
    def roundings(self) -> int:
        """Largest number of roundings of a term of a logit."""
        n_heads, d_model, d_vo = self.weights.w_v.shape
        in_sequence, over_heads = 2 * (self.pooling.n_noise + 3), n_heads * max(d_model, d_vo)
        return int(3 * d_model + d_vo + over_heads + self.weights.w_in.shape[1] + in_sequence + 16)

    @cached_property
    def _outward(self) -> Float[np.ndarray, "heads tokens d_model"]:
        """Vectors that heads write for each token."""
        return np.asarray(self.weights.embedding @ self.weights.w_v @ self.weights.w_o)

    @cached_property
    def logit_tables(self) -> Extremes:
        """The table V: the logits that heads write for each token."""
        return self._extremes(self._outward @ self.weights.unembedding)

    @cached_property
    def hidden_tables(self) -> Extremes:
        """The table P: the inputs of the hidden layer that heads write for each token."""
        return self._extremes(self._outward @ self.weights.w_in)

    @cached_property
    def size_tables(self) -> Extremes:
        """Sums of absolute values that bound the vectors that heads write."""
        w = self.weights
        return self._extremes(np.abs(w.embedding) @ np.abs(w.w_v) @ np.abs(w.w_o))

    @cached_property
    def _largest_sum(self) -> float:
        """Upper bound of every sum of weighted values."""
        values = float((np.abs(self.weights.embedding) @ np.abs(self.weights.w_v)).max())
        return exp(HALF_RANGE) * (self.pooling.n_noise + 3) * (values + 1)

    @cached_property
    def _out_tables(self) -> Float[np.ndarray, "width outputs"]:
        return np.asarray(self.weights.w_out @ self.weights.unembedding)

    def _extremes(self, table: Float[np.ndarray, "heads tokens columns"]) -> Extremes:
        noise = table[:, self.pooling.layout.first_noise : self.pooling.layout.end]
        return Extremes(table, noise.min(axis=1), noise.max(axis=1))

    @cached_property
    def _lost(self) -> float:
        """Bound of the error from underflow, times all factors that may multiply it later."""
        w = self.weights
        n_heads, d_model, d_vo = w.w_v.shape
        width = w.w_in.shape[1]
        operations = 16.0 * (self.pooling.n_noise + 3) * (d_model + 1) ** 2 * (n_heads * d_vo + 1) * (width + 1)
        factors = 1 + np.abs(w.embedding).max()
        for part, terms in ((w.w_v, d_model), (w.w_o, n_heads * d_vo), (w.w_in, d_model), (w.w_out, width)):
            factors *= 1 + terms * np.abs(part).max(initial=0.0)
        return float(self.arithmetic.least * operations * factors * (1 + d_model * np.abs(w.unembedding).max()))


def _mean(
    table: Float[np.ndarray, "tokens columns"], tokens: Int[np.ndarray, "n 3"], pooled: Pooled
) -> Float[np.ndarray, "n columns"]:
    """Return phi_0 for every column of a table."""
    return np.asarray(np.einsum("nt,ntc->nc", pooled.shares, table[tokens]))


def _moves(
    tables: Extremes,
    head: int,
    tokens: Int[np.ndarray, "n 3"],
    pooled: Pooled,
    mean: Float[np.ndarray, "n columns"],
) -> Float[np.ndarray, "n columns"]:
    """Return the largest change of each column from its mean, in either direction."""
    away = np.abs(tables.table[head][tokens] - mean[:, None])
    farthest = np.maximum(tables.largest[head] - mean, mean - tables.least[head])
    spread = np.asarray(np.einsum("nt,ntc->nc", pooled.errors, away))
    return np.asarray(spread + pooled.leak[:, None] * np.maximum(farthest, 0.0))
