r"""Proofs that a one-layer transformer recalls facts in EVERY noise context, from its weights and the facts alone.

For fact f = (k, q, a) and every other output b, what the model computes for $\ell_a - \ell_b$ is bounded from below,
over all contexts of at most T - 3 noise tokens and all orders of evaluation. `proved_pooling` says how far a linear
function of what a head reads can move. With $V^h_t = x_t W_V^h W_O^h U$, the attention's own logits are linear, and

$$\ell_a - \ell_b \ \ge\ \sum_h \Bigl[\phi^h_0 - \sum_{t \in f} b^h_t\,|\phi^h_t - \phi^h_0|
  + \min\bigl(0, \min_v \lambda^h_v (\phi^h_v - \phi^h_0)\bigr)\Bigr] - \rho_a - \rho_b,
  \qquad \phi^h_t = V^h_{t,a} - V^h_{t,b}.$$

First $\lambda_v$ and $\phi_v$ are replaced by the largest and the least over all noise; facts that this does not settle
are bounded noise token by noise token. With one head the bound is attained, up to rounding, by one noise token T - 3
times; with several each head is granted its own worst noise.

*The MLP.* What unit j of the hidden layer gets is linear too: with $P^h_t = x_t W_V^h W_O^h W_{in}$ it moves by at most
$w_j$, the same sums over heads taken in both directions, plus rounding. A relu moves no further, and a unit that stays
below 0 not at all; so the logit moves by at most $\sum_j \delta_j |(W_{out} U)_j|$ with
$\delta_j = \min(w_j, \max(p_j + w_j, 0))$.

*Rounding.* With the size $\bar z = \sum_h \sum_{t \in f} \alpha^h_t |x_t||W_V^h||W_O^h|$ plus the leak's, and the
hidden units at their largest $\bar p$, logit b is off by at most

$$\rho_b = \gamma_n\,\bigl(\bar z + \bar p\,|W_{out}|\bigr)\,|U_b|
  + \textstyle\sum_j \delta_j |(W_{out}U)_{jb}| + \eta,$$

n = 3 d + d_vo + H max(d, d_vo) + m + 2 T + 16, and $\eta$ for results below the least normal number. A term goes
through sums over the coordinates of $x W_V$, the tokens, $W_O$, $W_{in}$, $W_{out}$ and U; the sum over heads may stand
alone or be part of the one over $W_O$ (heads concatenated), $W_{in}$ or U, which then has H times as many terms.
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
from factrank.families.factual_recall.proved_pooling import PlainSequence, Pooled, Pooling

Codes = Int[np.ndarray, " n"]


class Extremes(NamedTuple):
    """The tables of linear functions of what heads read, with their least and largest rows over all noise tokens."""

    table: Float[np.ndarray, "heads tokens columns"]
    least: Float[np.ndarray, "heads columns"]
    largest: Float[np.ndarray, "heads columns"]


class _Block(NamedTuple):
    """Bounds for some facts, all but what noise takes from the attention's own logits."""

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
        """Of the model."""
        return self.pooling.weights

    @property
    def arithmetic(self) -> Arithmetic:
        """Of the model."""
        return self.pooling.arithmetic

    def margins(self, keys: Codes, queries: Codes, values: Codes) -> Float[np.ndarray, " n"]:
        """The bound for every fact; minus infinity where there is none."""
        layout = self.pooling.layout
        tokens = np.column_stack([keys, layout.first_query + queries, np.full(len(keys), layout.end)])
        with np.errstate(all="ignore"):  # what is not a number proves nothing
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
        """The bound of one fact, with every noise token by itself."""
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
        # The model's sums are e^75 times as large as these weights; other softmaxes weigh the heaviest token with 1.
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
        # What overflows counts also where the unembedding is 0: infinity times 0 is not a number.
        largest = np.maximum((np.abs(logits) + total).max(axis=1), reached.max(axis=1, initial=0.0))
        largest = np.maximum(largest, streams.max(axis=1))
        largest = np.maximum(largest, max(self.pooling.largest_score, self._largest_sum))
        finite = 8 * largest < self.arithmetic.largest
        return _Block(logits, losses * SLACK, radius, finite, everything, means)

    # ---------------------------------------------------------------- tables

    @cached_property
    def roundings(self) -> int:
        """How many roundings a term of a logit undergoes at most."""
        n_heads, d_model, d_vo = self.weights.w_v.shape
        in_sequence, over_heads = 2 * (self.pooling.n_noise + 3), n_heads * max(d_model, d_vo)
        return int(3 * d_model + d_vo + over_heads + self.weights.w_in.shape[1] + in_sequence + 16)

    @cached_property
    def _outward(self) -> Float[np.ndarray, "heads tokens d_model"]:
        """What heads write of each token."""
        return np.asarray(self.weights.embedding @ self.weights.w_v @ self.weights.w_o)

    @cached_property
    def logit_tables(self) -> Extremes:
        """V: the logits that heads write of each token."""
        return self._extremes(self._outward @ self.weights.unembedding)

    @cached_property
    def hidden_tables(self) -> Extremes:
        """P: what heads write of each token into the hidden layer."""
        return self._extremes(self._outward @ self.weights.w_in)

    @cached_property
    def size_tables(self) -> Extremes:
        """The sums of absolute values behind what heads write."""
        w = self.weights
        return self._extremes(np.abs(w.embedding) @ np.abs(w.w_v) @ np.abs(w.w_o))

    @cached_property
    def _largest_sum(self) -> float:
        """No sum of weighted values is larger."""
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
        """The error of results below the least normal number, each times all that may multiply it later."""
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
    """Phi_0 for every column of a table."""
    return np.asarray(np.einsum("nt,ntc->nc", pooled.shares, table[tokens]))


def _moves(
    tables: Extremes,
    head: int,
    tokens: Int[np.ndarray, "n 3"],
    pooled: Pooled,
    mean: Float[np.ndarray, "n columns"],
) -> Float[np.ndarray, "n columns"]:
    """How far each column can be from its mean, in either direction."""
    away = np.abs(tables.table[head][tokens] - mean[:, None])
    farthest = np.maximum(tables.largest[head] - mean, mean - tables.least[head])
    spread = np.asarray(np.einsum("nt,ntc->nc", pooled.errors, away))
    return np.asarray(spread + pooled.leak[:, None] * np.maximum(farthest, 0.0))
