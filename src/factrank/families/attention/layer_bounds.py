r"""Rank of a layer's tensor: bounds from the shape alone, and numerical flattening ranks of given weights.

In one attention layer without norm and MLP, every query slice is $N_q C + 1_K \otimes m_q$. The rows of C are a basis
of the space that the heads write to (dimension at most c), and $m_q$ is in the row space of U (dimension at most r_U):

$$c = \min(H \min(d_{vo}, d_{model}), d_{model}, V), \qquad r_U = \min(d_{model}, V), \qquad \rho = \min(Q, r_U - c),$$
$$\operatorname{rank} L \le \min(K, Q)\, c + \rho \quad\text{and}\quad \le KQ, KV, QV \quad\text{for all weights.}$$

If there are few tokens, a head has low rank no matter how wide it is: $\sum_k e_k \otimes A^h[k,:] \otimes V^h[k,:]$
and $-\sum_q A^h[:,q] \otimes e_q \otimes V^h[q,:]$ are K + Q terms, and the rest, $1_K$ times the matrix
$x_q U + \sum_h V^h[q,:]$, has rank at most min(Q, r_U). With b = min(d_vo, d_model, V), therefore,

$$\operatorname{rank} L \le H \min(K + Q,\ \min(K, Q)\, b) + \min(Q, r_U) \quad\text{for all weights.}$$

Softmax: generic weights attain the first bound if $K \ge Qc + 1$, for every d_qk. The Qc columns of the N_q and the
constant 1_K are then independent (each logistic function has different poles), and eliminating the key slices that sum
to zero over the keys leaves $m_q$ modulo C. The same argument gives the lower bound $\min(K - 1, Qc) + \rho$ for every
K, and exactly $Qc - 1 + \max(1, \rho)$ at $K = Qc$. Linear and affine attention depend on d_qk through
a = min(d_qk, d_model); with b = min(d_vo, d_model, V),

$$\operatorname{rank} L \le H a b + \min(Q, r_U) \text{ (linear)}, \quad H b (2a + 1) + \min(Q, r_U) \text{ (affine)}.$$

Shared tokens and positions only reduce the number of distinct tokens that values are read from.
"""

from __future__ import annotations

from dataclasses import dataclass

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Float

from factrank.errors import InputError
from factrank.families.attention.attention_layer import AttentionLayer
from factrank.families.attention.layer_shape import LayerShape
from factrank.families.attention.pair_transformer import PairTransformer, TransformerShape
from factrank.nn import require_sizes
from factrank.tensors.bounds import Bound, RankBounds
from factrank.tensors.cp import generic_rank


@dataclass(frozen=True)
class FlatteningRanks:
    """Ranks of the tensor flattened to a matrix of keys, of queries and of values against the rest.

    Computed from a shape, they are upper bounds for all weights. Generic weights attain them under softmax attention
    (proved for key and query by the poles of the logistic function, tested for value). Under linear and affine
    attention, tests below saturation found equality; above saturation they are upper bounds only.
    """

    key: int
    query: int
    value: int


@dataclass(frozen=True, eq=False)
class LayerRankBounds:
    """Bounds on the rank of a layer's tensor, from the shape of the layer.

    Arguments:
        circuit_rank: c, the largest dimension of the space that all heads together write to.
        unembedding_rank: r_U, the largest rank of the unembedding.
        upper: the best upper bound for all weights.
        generic: bounds for weights outside a set of measure zero; `lower` is certified for softmax attention only.
        expected: the rank of generic weights. Certified if `generic` is exact; otherwise, for softmax attention, an
            estimate (the expected rank of a K x Q x c tensor + rho, within 1 of all observed ranks); else None.
        flattenings: see `FlatteningRanks`.
    """

    circuit_rank: int
    unembedding_rank: int
    upper: Bound
    generic: RankBounds
    expected: Bound | None
    flattenings: FlatteningRanks

    @property
    def attained(self) -> bool:
        """Return whether generic weights provably attain `upper`."""
        return self.generic.lower.certified and self.generic.lower.value == self.upper.value


@dataclass(frozen=True)
class NumericalRanks:
    """Ranks of one layer's tensor in float64, counting singular values above `tolerance` times the largest.

    They depend on the tolerance: attention with small scores or d_qk = 1 has full rank but tiny singular values, so
    numerical ranks stay below the bounds of `layer_rank_bounds`.

    Arguments:
        key, query, value: the three flattening ranks.
        substitution: a lower bound on the rank of the tensor: the rank of the key flattening of the tensor minus its
            mean over keys, plus the rank of that mean modulo the span of the values in the difference. It equals the
            upper bound of `layer_rank_bounds` for generic weights and K >= Q c + 1.
        tolerance: relative to the largest singular value.
    """

    key: int
    query: int
    value: int
    substitution: int
    tolerance: float


def layer_rank_bounds(
    shape: LayerShape | TransformerShape, n_keys: int, n_queries: int, n_values: int, n_shared: int = 0
) -> LayerRankBounds:
    """Bound the rank of the tensor of one attention layer without norm and MLP.

    Arguments:
        shape: the sizes of the layer.
        n_keys: K.
        n_queries: Q.
        n_values: V.
        n_shared: number of queries that share an embedding row with a key.

    >>> bounds = layer_rank_bounds(LayerShape(d_model=16, n_heads=4, d_qk=4, d_vo=2), 60, 4, 20)
    >>> bounds.upper.value, bounds.attained, bounds.flattenings.key
    (36, True, 33)
    """
    sizes = _Sizes.of(shape, (n_keys, n_queries, n_values), n_shared)
    flattenings = _flattenings(sizes)
    for_all = _upper_bounds(sizes)
    proved = sizes.kind == "softmax"
    lower = [
        Bound(flattenings.key, "key flattening", certified=proved),
        Bound(flattenings.query, "query flattening", certified=proved),
    ]
    if proved:
        peeled = min(sizes.K - 1, sizes.Q * sizes.c) + sizes.rho
        lower.append(Bound(peeled, "substitution of key slices: min(K - 1, Q c) + min(Q, r_U - c)"))
    generic = RankBounds.best_of(lower, for_all + _upper_bounds_of_generic_weights(sizes), ())
    return LayerRankBounds(
        circuit_rank=sizes.c,
        unembedding_rank=sizes.r_u,
        upper=min(for_all, key=lambda bound: bound.value),
        generic=generic,
        expected=_expected(sizes, generic),
        flattenings=flattenings,
    )


def flattening_ranks_of(layer: AttentionLayer | PairTransformer, tolerance: float = 1e-10) -> NumericalRanks:
    """Compute the numerical ranks of a layer's tensor in float64.

    >>> from factrank import LayerShape, init_layer
    >>> flattening_ranks_of(init_layer(LayerShape(d_model=8, n_heads=2, d_qk=2, d_vo=2), 20, 5, 10, key=0))
    NumericalRanks(key=20, query=5, value=8, substitution=23, tolerance=1e-10)
    """
    if not 0 < tolerance < 1:
        raise InputError(f"tolerance must be between 0 and 1, both excluded; got {tolerance}")
    with jax.enable_x64(True), jax.default_matmul_precision("highest"):
        wide = jax.tree.map(lambda leaf: leaf.astype("float64") if eqx.is_inexact_array(leaf) else leaf, layer)
        tensor = np.asarray(eqx.filter_jit(type(layer).tensor)(wide))
    flattenings = [
        np.linalg.svd(np.moveaxis(tensor, axis, 0).reshape(size, -1), compute_uv=False)
        for axis, size in enumerate(tensor.shape)
    ]
    key, query, value = (int((spectrum > tolerance * spectrum[0]).sum()) for spectrum in flattenings)
    least = tolerance * max(spectrum[0] for spectrum in flattenings)
    return NumericalRanks(key, query, value, _substitution_bound(tensor, float(least)), tolerance)


def _substitution_bound(tensor: Float[np.ndarray, "keys queries values"], least: float) -> int:
    mean = tensor.mean(axis=0)
    centred = tensor - mean
    by_key = np.linalg.svd(centred.reshape(len(tensor), -1), compute_uv=False)
    _, spectrum, values = np.linalg.svd(centred.reshape(-1, tensor.shape[2]), full_matrices=False)
    reached = values[spectrum > least]
    rest = np.linalg.svd(mean - mean @ reached.T @ reached, compute_uv=False)
    return int((by_key > least).sum() + (rest > least).sum())


@dataclass(frozen=True)
class _Sizes:
    """The letters of the formulas. `spread` is the dimension of all x_k - x_q; `separate` means no shared tokens."""

    K: int
    Q: int
    V: int
    H: int
    d: int
    a: int
    b: int
    kind: str
    spread: int
    separate: bool

    @classmethod
    def of(cls, shape: LayerShape | TransformerShape, vocabulary: tuple[int, int, int], n_shared: int) -> _Sizes:
        require_sizes(dict(zip(("n_keys", "n_queries", "n_values"), vocabulary, strict=True)))
        require_sizes({"n_shared": n_shared}, least=0)
        n_keys, n_queries, n_values = vocabulary
        kind, positions, may_share = "softmax", False, False
        if isinstance(shape, TransformerShape):
            if shape.n_layers > 1 or shape.layer_norm or shape.mlp_width:
                raise InputError(f"rank bounds need a single layer without layer norm and MLP; got {shape}")
            kind, positions, may_share = shape.attention, shape.positions, shape.share_tokens
        if n_shared > (min(n_keys, n_queries) if may_share else 0):
            limit = "min(n_keys, n_queries)" if may_share else "0 without share_tokens"
            raise InputError(f"n_shared must be at most {limit}; got {n_shared}")
        # Positions distinguish a shared token used as key from the same token used as query: one more dimension.
        spread = n_keys + n_queries - 1 - n_shared + (1 if positions and n_shared else 0)
        d = shape.d_model
        a, b = min(shape.d_qk, d), min(shape.d_vo, d, n_values)
        return cls(*vocabulary, shape.n_heads, d, a, b, kind, min(spread, d), n_shared == 0)

    @property
    def c(self) -> int:
        return min(self.H * self.b, self.r_u)

    @property
    def r_u(self) -> int:
        return min(self.d, self.V)

    @property
    def tokens(self) -> int:
        """Return the terms of a head, one per token; queries add none if self weights do not depend on the key."""
        return self.K if self.kind == "linear" else self.K + self.Q

    @property
    def rho(self) -> int:
        return min(self.Q, self.r_u - self.c)


def _upper_bounds(s: _Sizes) -> list[Bound]:
    """Return the bounds for all weights. They increase with c and r_U, so the maxima of both can be substituted."""
    bounds = [
        Bound(min(s.K, s.Q) * s.c + s.rho, "min(K, Q) c + min(Q, r_U - c)"),
        Bound(s.K * s.Q, "K Q"),
        Bound(s.K * s.V, "K V"),
        Bound(s.Q * s.V, "Q V"),
        Bound(s.H * min(s.tokens, min(s.K, s.Q) * s.b) + min(s.Q, s.r_u), "H min(K + Q, min(K, Q) d_vo) + min(Q, r_U)"),
    ]
    if s.kind == "linear":
        bounds.append(Bound(s.H * s.a * s.b + min(s.Q, s.r_u), "H d_qk d_vo + min(Q, r_U)"))
    if s.kind == "affine":
        bounds.append(Bound(s.H * s.b * (2 * s.a + 1) + min(s.Q, s.r_u), "H d_vo (2 d_qk + 1) + min(Q, r_U)"))
    return bounds


def _upper_bounds_of_generic_weights(s: _Sizes) -> list[Bound]:
    """Return the bound at K = Q c, where the constant 1_K is a combination of the columns of all N_q: one term less.

    The slices are Y C + <Lambda, Y> M' for all Q x c matrices Y, where M' = [m_q] modulo C has rank rho. The hyperplane
    <Lambda, Y> = 0 has a basis of Q c - 1 matrices of rank one, and modulo it the last slice has rank max(1, rho), with
    a column of M' that Lambda does not annihilate. Proved for separate tokens.
    """
    if s.kind == "softmax" and s.Q * s.c == s.K and s.separate:
        return [Bound(s.Q * s.c - 1 + max(1, s.rho), "Q c - 1 + max(1, rho) at K = Q c")]
    return []


def _flattenings(s: _Sizes) -> FlatteningRanks:
    """Compute the largest flattening ranks.

    Key: min(K, Q c + [c < r_U]), the columns of the N_q, and 1_K if m_q leaves the space C. Linear: at most the
    H a b products of a key and a value coordinate of x_k, and 1; affine: also the H (a + b) coordinates themselves;
    both at most all monomials of x_k.
    Query: min(Q, K c + r_U - c) by the same argument; linear at most H a + r_U, affine at most H (a b + a + 1) + r_U.
    Value: min(K Q, r_U, H min(b, s) + Q), where s is the dimension of all x_k - x_q, at most K + Q - 1: heads with
    weights A and 1 - A read only these. Linear heads read the K tokens x_k in addition to a term of q alone.
    """
    key = s.Q * s.c + (s.c < s.r_u)
    query = s.K * s.c + s.r_u - s.c
    value = s.H * min(s.b, s.spread) + s.Q
    quadratic = min(s.H * s.a * s.b, s.d * (s.d + 1) // 2)
    if s.kind == "linear":
        key, query = min(key, quadratic + 1), min(query, s.H * s.a + s.r_u)
        value = s.H * min(s.b, s.K) + s.Q
    if s.kind == "affine":
        key = min(key, quadratic + min(s.H * (s.a + s.b), s.d) + 1)
        query = min(query, s.H * (s.a * s.b + s.a + 1) + s.r_u)
    return FlatteningRanks(min(s.K, key), min(s.Q, query), min(s.K * s.Q, s.r_u, value))


def _expected(s: _Sizes, generic: RankBounds) -> Bound | None:
    if generic.exact and generic.lower.certified:
        return Bound(generic.upper.value, generic.upper.method)
    if s.kind != "softmax":
        return None
    estimate = _expected_rank(s.K, s.Q, s.c) + s.rho
    inside = min(max(estimate, generic.lower.value), generic.upper.value)
    return Bound(inside, "expected rank of a K x Q x c tensor + min(Q, r_U - c)", certified=False)


def _expected_rank(*sizes: int) -> int:
    """Return the expected rank of a generic tensor: min(a, bc) if a is large, one more for odd 3 x n x n."""
    c, b, a = sorted(sizes)
    if a > (b - 1) * (c - 1) + 1:
        return min(a, b * c)
    return generic_rank((a, b, c)) + (c == 3 and a == b and a % 2 == 1)
