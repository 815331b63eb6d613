r"""Proved streams: what the heads write for every pair, with a bound for what rounding makes of it.

With the proved attention weights $a_h \pm \epsilon_h$ and $o^h[t] = x_t W_V^h W_O^h$, the unembedding reads the stream

$$y = x_q + \sum_h o^h[q] + \sum_h a_h (o^h[k] - o^h[q]),$$

and the layer computes it so, or as $x_q + \sum_h a_h o^h[k] + (1 - a_h) o^h[q]$. Three things are needed of it:

- the values y, in float64;
- its *size* $|x_q| + \sum_h \bar o^h[q] + \sum_h (a_h + \epsilon_h)(\bar o^h[k] + \bar o^h[q])$ with
  $\bar o^h[t] = |x_t||W_V^h||W_O^h|$, no less than the sum of the absolute values of all terms in either form;
- its *spread* $\sum_h \epsilon_h (\bar o^h[k] + \bar o^h[q])$, how far wrong weights move it.

Only coordinates that the unembedding reads count: in all others the stream is multiplied by 0. Heads whose weight is
exactly 0 write nothing, so the sums over heads are products with a sparse matrix.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int
from scipy.sparse import csr_array

from factrank.constructions.arithmetic import Arithmetic, integral, most_nonzero, powers_of_two, roundings_of_product
from factrank.constructions.plain_weights import PlainWeights
from factrank.constructions.proved_attention import ProvedAttention

Matrix = Float[np.ndarray, "rows columns"] | csr_array
Counts = Float[np.ndarray, " queries"]

SPARSE = 0.1
"""The share of weights that are not 0 up to which products skip the others."""


class Written(NamedTuple):
    """What tokens write through each head: values o, and sizes from absolute weights; one row per (token, head)."""

    values: Float[np.ndarray, "rows kept"]
    sizes: Float[np.ndarray, "rows kept"]
    writes: Float[np.ndarray, " rows"]
    """1 where some size is not 0."""
    exact: bool
    """Whether every step adds integers that no order of summation rounds."""


class ProvedStreams(NamedTuple):
    """One row per pair; `roundings`: what a term undergoes at most up to here."""

    values: Float[np.ndarray, "pairs kept"]
    sizes: Float[np.ndarray, "pairs kept"]
    spreads: Float[np.ndarray, "pairs kept"] | None
    roundings: Float[np.ndarray, " pairs"]
    exact: bool


@dataclass(frozen=True, eq=False)
class Streams:
    """The value path of a layer; what depends on queries alone is computed once."""

    weights: PlainWeights
    arithmetic: Arithmetic

    @cached_property
    def kept(self) -> Int[np.ndarray, " kept"]:
        """The coordinates that the unembedding reads."""
        return np.flatnonzero(self.weights.unembedding.any(axis=1))

    @cached_property
    def unembedding(self) -> Float[np.ndarray, "kept values"]:
        """Its rows that are not 0."""
        return np.asarray(self.weights.unembedding[self.kept])

    @cached_property
    def direct(self) -> Float[np.ndarray, "queries kept"]:
        """x_q where it is read."""
        return np.asarray(self.weights.queries[:, self.kept])

    @cached_property
    def queries(self) -> Written:
        """What queries write."""
        return self.written(self.weights.queries)

    @cached_property
    def _w_v(self) -> tuple[Matrix, Matrix]:
        """W_V on the coordinates that heads read, heads side by side, and its absolute values."""
        n_heads, _, width = self.weights.w_v.shape
        dense = self.weights.w_v[:, self._read].transpose(1, 0, 2).reshape(-1, n_heads * width)
        if np.count_nonzero(dense) < SPARSE * dense.size:
            return csr_array(dense), csr_array(np.abs(dense))
        return dense, np.abs(dense)

    @cached_property
    def _w_o(self) -> tuple[Float[np.ndarray, "heads d_vo kept"], Float[np.ndarray, "heads d_vo kept"]]:
        """W_O on the coordinates that are kept, and its absolute values."""
        w_o = self.weights.w_o[:, :, self.kept]
        return w_o, np.abs(w_o)

    @cached_property
    def _read(self) -> Int[np.ndarray, " read"]:
        return np.flatnonzero(self.weights.w_v.any(axis=(0, 2)))

    @cached_property
    def integral(self) -> bool:
        """Whether all weights of the value path are integers, and so small that W_O U is exact too."""
        whole = all(integral(part) for part in (self.weights.w_v, self._w_o[0], self.unembedding, self.direct))
        unembedded = (self._w_o[1] @ np.abs(self.unembedding)).max(initial=0) if whole else np.inf
        return bool(whole and unembedded <= self.arithmetic.exact)

    def written(self, tokens: Float[np.ndarray, "tokens d_model"]) -> Written:
        """What tokens write through each head, on the coordinates that are kept."""
        n_heads, width, n_kept = self._w_o[0].shape
        tokens = tokens[:, self._read]
        values, sizes = (
            (x @ w).reshape(-1, n_heads, width).swapaxes(0, 1)
            for x, w in zip((tokens, np.abs(tokens)), self._w_v, strict=True)
        )
        exact = bool(self.integral and integral(tokens) and sizes.max(initial=0) <= self.arithmetic.exact)
        # Exact values may be taken as they are; else the errors that they carry go with the sizes.
        outputs = values @ self._w_o[0], (np.abs(values) if exact else sizes) @ self._w_o[1]
        rows = (len(tokens) * n_heads, n_kept)
        values, sizes = (output.swapaxes(0, 1).reshape(rows) for output in outputs)
        return Written(values, sizes, sizes.any(axis=1).astype(np.float64), exact)

    @cached_property
    def _alike(self) -> tuple[Float[np.ndarray, "queries kept"], Float[np.ndarray, "queries kept"], Counts]:
        """What is the same for all keys, x_q + sum_h o^h[q]: values, sizes, and how many terms they have."""
        n_queries, n_heads = len(self.direct), len(self.weights.w_v)
        values, sizes = (part.reshape(n_queries, n_heads, -1) for part in self.queries[:2])
        terms = self.direct.any(axis=1) + sizes.any(axis=2).sum(axis=1)
        return self.direct + values.sum(axis=1), np.abs(self.direct) + sizes.sum(axis=1), terms.astype(np.float64)

    def streams(
        self, attention: ProvedAttention, keys: Int[np.ndarray, " pairs"], queries: Int[np.ndarray, " pairs"]
    ) -> ProvedStreams:
        """The streams of pairs of a key and a query."""
        used, at = np.unique(keys, return_inverse=True)
        n_heads, n_tokens, n_queries = attention.weights.shape[1], len(used), len(self.direct)
        from_keys = self.written(self.weights.keys[used])
        upper = csr_array(attention.weights + attention.errors)
        ones = _like(upper, np.ones(upper.nnz))
        rows = np.repeat(np.arange(len(keys)), np.diff(upper.indptr))
        weights = _like(upper, attention.weights[rows, upper.indices])
        values, sizes, terms = (part[queries] for part in self._alike)
        sides = [(from_keys, at, n_tokens, 1.0), (self.queries, queries, n_queries, -1.0)]
        spreads = None
        for side, tokens, n_rows, sign in sides:
            if not side.writes.any():
                continue
            place = [_of_tokens(part, tokens, n_rows, n_heads) for part in (weights, upper, ones)]
            values += sign * (place[0] @ side.values)
            sizes += place[1] @ side.sizes
            terms += place[2] @ side.writes
            if attention.errors.any():
                errors = _like(upper, attention.errors[rows, upper.indices])
                moved = _of_tokens(errors, tokens, n_rows, n_heads) @ side.sizes
                spreads = moved if spreads is None else spreads + moved
        exact = from_keys.exact and self.queries.exact and not attention.errors.any()
        weighing = np.where(attention.saturated, 0.0, 2.0)  # the product with the weight, and 1 minus it
        roundings = np.maximum(terms - 1, 0) + weighing + self._roundings_of_heads
        return ProvedStreams(values, sizes, spreads, roundings, exact)

    @cached_property
    def _roundings_of_heads(self) -> int:
        """Those of x W_V."""
        return roundings_of_product(most_nonzero(self.weights.w_v, 1), self.weights.w_v)

    def roundings_of_logits(self, streams: ProvedStreams) -> Float[np.ndarray, " pairs"]:
        """What a term of a logit undergoes at most, whether heads are unembedded before they are added or after."""
        w_o, _ = self._w_o
        read = np.minimum(most_nonzero(self.unembedding, 0), (streams.sizes != 0).sum(axis=1))
        after = np.maximum(read - 1, 0) + (0 if powers_of_two(self.unembedding) else 1)
        after = after + roundings_of_product(most_nonzero(w_o, 1), w_o)
        widest = int(w_o.any(axis=2).sum(axis=1).max(initial=0))
        before = max(most_nonzero(w_o, 2) - 1, 0) + max(widest - 1, 0) + 2
        if powers_of_two(w_o):  # then W_O U needs no rounding of products
            before -= 1
        return np.asarray(streams.roundings + np.maximum(after, before))


def _like(pattern: csr_array, data: Float[np.ndarray, " entries"]) -> csr_array:
    """A sparse matrix with the same places."""
    return csr_array((data, pattern.indices, pattern.indptr), shape=pattern.shape)


def _of_tokens(by_head: csr_array, tokens: Int[np.ndarray, " pairs"], n_tokens: int, n_heads: int) -> csr_array:
    """From pairs x heads to pairs x (tokens, heads): the entries of a pair move to the heads of its token."""
    shift = np.repeat(tokens.astype(np.int64) * n_heads, np.diff(by_head.indptr))
    return csr_array(
        (by_head.data, by_head.indices + shift, by_head.indptr), shape=(by_head.shape[0], n_tokens * n_heads)
    )
