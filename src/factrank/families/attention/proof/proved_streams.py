r"""Bounds on residual streams: the output of the heads for every pair, and its rounding error.

Given the attention weights $a_h \pm \epsilon_h$ and $o^h[t] = x_t W_V^h W_O^h$, the unembedding reads the stream

$$y = x_q + \sum_h o^h[q] + \sum_h a_h (o^h[k] - o^h[q]),$$

which the layer computes in this form or as $x_q + \sum_h a_h o^h[k] + (1 - a_h) o^h[q]$. A proof needs

- the values y, in float64;
- its *size* $|x_q| + \sum_h \bar o^h[q] + \sum_h (a_h + \epsilon_h)(\bar o^h[k] + \bar o^h[q])$ with
  $\bar o^h[t] = |x_t||W_V^h||W_O^h|$, an upper bound on the sum of the absolute values of all terms in either form;
- its *spread* $\sum_h \epsilon_h (\bar o^h[k] + \bar o^h[q])$, the largest effect of errors of the weights.

Only coordinates that the unembedding reads count: all others are multiplied by 0. Heads with weight exactly 0 write
nothing, so sums over heads are products with a sparse matrix. Nonzero terms are counted along with the sizes, for
`roundings`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int
from scipy.sparse import csr_array

from factrank.certificates import Arithmetic, greatest_unit, integral, most_nonzero
from factrank.families.attention.proof.plain_weights import PlainWeights
from factrank.families.attention.proof.proved_attention import ProvedAttention
from factrank.families.attention.proof.roundings import LayerTerms, PairTerms, layer_terms

Matrix = Float[np.ndarray, "rows columns"] | csr_array
Terms = Float[np.ndarray, "queries 2"]

SPARSE = 0.1
"""Largest fraction of nonzero weights for which products use sparse matrices."""


class Written(NamedTuple):
    """Output of tokens through each head: values o, and sizes from absolute weights; one row per (token, head)."""

    values: Float[np.ndarray, "rows kept"]
    sizes: Float[np.ndarray, "rows kept"]
    terms: Float[np.ndarray, "rows 2"]
    """Number of value coordinates that write, and of coordinates of the stream that they reach."""
    exact: bool
    """Whether every step adds integers that are exact in any summation order."""


class ProvedStreams(NamedTuple):
    """Streams with their bounds, one row per pair."""

    values: Float[np.ndarray, "pairs kept"]
    sizes: Float[np.ndarray, "pairs kept"]
    spreads: Float[np.ndarray, "pairs kept"] | None
    terms: PairTerms
    exact: bool


@dataclass(frozen=True, eq=False)
class Streams:
    """The value path of a layer; terms that depend on queries alone are computed once."""

    weights: PlainWeights
    arithmetic: Arithmetic

    @cached_property
    def kept(self) -> Int[np.ndarray, " kept"]:
        """Return the coordinates that the unembedding reads."""
        return np.flatnonzero(self.weights.unembedding.any(axis=1))

    @cached_property
    def unembedding(self) -> Float[np.ndarray, "kept values"]:
        """Return the nonzero rows of the unembedding."""
        return np.asarray(self.weights.unembedding[self.kept])

    @cached_property
    def direct(self) -> Float[np.ndarray, "queries kept"]:
        """Return x_q on the coordinates that are read."""
        return np.asarray(self.weights.queries[:, self.kept])

    @cached_property
    def queries(self) -> Written:
        """Return the output of queries."""
        return self.written(self.weights.queries)

    @cached_property
    def _w_v(self) -> tuple[Matrix, Matrix]:
        """Return W_V on the coordinates that heads read, heads side by side, and its absolute values."""
        n_heads, _, width = self.weights.w_v.shape
        dense = self.weights.w_v[:, self._read].transpose(1, 0, 2).reshape(-1, n_heads * width)
        if np.count_nonzero(dense) < SPARSE * dense.size:
            return csr_array(dense), csr_array(np.abs(dense))
        return dense, np.abs(dense)

    @cached_property
    def _w_o(self) -> tuple[Float[np.ndarray, "heads d_vo kept"], Float[np.ndarray, "heads d_vo kept"]]:
        """Return W_O on the kept coordinates, and its absolute values."""
        w_o = self.weights.w_o[:, :, self.kept]
        return w_o, np.abs(w_o)

    @cached_property
    def _read(self) -> Int[np.ndarray, " read"]:
        return np.flatnonzero(self.weights.w_v.any(axis=(0, 2)))

    @cached_property
    def integral(self) -> bool:
        """Return whether all weights of the value path are integers, small enough that W_O U is exact too.

        The unembedding may be integers times a power of two.
        """
        whole = all(integral(part) for part in (self.weights.w_v, self._w_o[0], self.direct))
        unembedded = (self._w_o[1] @ np.abs(self.unembedding)).max(initial=0) if whole else np.inf
        return bool(whole and self.unit >= self.arithmetic.least and unembedded <= self.arithmetic.exact * self.unit)

    @cached_property
    def unit(self) -> float:
        """Return the largest power of two of which all entries of the unembedding are multiples."""
        return greatest_unit(self.unembedding)

    def written(self, tokens: Float[np.ndarray, "tokens d_model"]) -> Written:
        """Return the output of tokens through each head, on the kept coordinates."""
        n_heads, width, n_kept = self._w_o[0].shape
        tokens = tokens[:, self._read]
        values, sizes = (
            (x @ w).reshape(-1, n_heads, width).swapaxes(0, 1)
            for x, w in zip((tokens, np.abs(tokens)), self._w_v, strict=True)
        )
        exact = bool(self.integral and integral(tokens) and sizes.max(initial=0) <= self.arithmetic.exact)
        # Exact values can be used directly; otherwise the sizes account for their errors.
        carried = np.abs(values) if exact else sizes
        outputs = values @ self._w_o[0], carried @ self._w_o[1]
        passed_on = (self._w_o[0] != 0).any(axis=2, keepdims=True).swapaxes(1, 2)
        leaves = ((carried != 0) & passed_on).sum(axis=2).T.reshape(-1)
        rows = (len(tokens) * n_heads, n_kept)
        values, sizes = (output.swapaxes(0, 1).reshape(rows) for output in outputs)
        reached = np.minimum((sizes != 0).sum(axis=1), self._most_read)
        return Written(values, sizes, np.column_stack([leaves, reached]).astype(np.float64), exact)

    @cached_property
    def _most_read(self) -> int:
        """Return the largest number of coordinates that one value reads."""
        return most_nonzero(self.unembedding, 0)

    @cached_property
    def _alike(self) -> tuple[Float[np.ndarray, "queries kept"], Float[np.ndarray, "queries kept"], Terms]:
        """Return the terms that are the same for all keys, x_q + sum_h o^h[q]: values, sizes and number of terms."""
        n_queries, n_heads = len(self.direct), len(self.weights.w_v)
        values, sizes, terms = (part.reshape(n_queries, n_heads, -1).sum(axis=1) for part in self.queries[:3])
        return self.direct + values, np.abs(self.direct) + sizes, terms

    def streams(
        self, attention: ProvedAttention, keys: Int[np.ndarray, " pairs"], queries: Int[np.ndarray, " pairs"]
    ) -> ProvedStreams:
        """Return the streams of pairs of a key and a query."""
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
            if not side.terms.any():
                continue
            place = [_of_tokens(part, tokens, n_rows, n_heads) for part in (weights, upper, ones)]
            values += sign * (place[0] @ side.values)
            sizes += place[1] @ side.sizes
            terms += place[2] @ side.terms
            if attention.errors.any():
                errors = _like(upper, attention.errors[rows, upper.indices])
                moved = _of_tokens(errors, tokens, n_rows, n_heads) @ side.sizes
                spreads = moved if spreads is None else spreads + moved
        exact = from_keys.exact and self.queries.exact and not attention.errors.any()
        counted = PairTerms(
            leaves=terms[:, 0],
            reached=terms[:, 1],
            direct=np.minimum((self.direct != 0).sum(axis=1), self._most_read)[queries].astype(np.float64),
            soft=1.0 - attention.saturated,
        )
        return ProvedStreams(values, sizes, spreads, counted, exact)

    @cached_property
    def layer_terms(self) -> LayerTerms:
        """Count the roundings of the value path that are the same for all pairs."""
        return layer_terms(self.weights.w_v, self._w_o[0], self.unembedding)


def _like(pattern: csr_array, data: Float[np.ndarray, " entries"]) -> csr_array:
    return csr_array((data, pattern.indices, pattern.indptr), shape=pattern.shape)


def _of_tokens(by_head: csr_array, tokens: Int[np.ndarray, " pairs"], n_tokens: int, n_heads: int) -> csr_array:
    """Convert pairs x heads to pairs x (tokens, heads): the entries of a pair move to the heads of its token."""
    shift = np.repeat(tokens.astype(np.int64) * n_heads, np.diff(by_head.indptr))
    return csr_array(
        (by_head.data, by_head.indices + shift, by_head.indptr), shape=(by_head.shape[0], n_tokens * n_heads)
    )
