r"""`AttentionFactors`: the circuits of one attention layer, head by head, as factors.

With the input x of attention as a row vector, extended by a 1 if there are biases, head h with the key and value head g
has

$$\text{score} = s\, x W_Q^h M_t (y W_K^g)^T, \qquad \text{output} = y W_V^g W_O^h,$$

where $M_t$ is the rotation at distance t (the identity without rotary positions). QK is $s W_Q M_t W_K^T$ and OV is
$W_V W_O$. Folding the norm multiplies the rows of W_Q, W_K and W_V by its gains, adds its shift to the biases,
subtracts the column means if it is a LayerNorm (its output has mean 0), and multiplies the columns of W_O by the gains
of a norm after attention.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from factrank.checkpoints.heads.head_layout import CheckpointSizes, HeadLayout, NormKind
from factrank.checkpoints.heads.rotary import Rotation
from factrank.checkpoints.heads.rounded import Rounded, joined
from factrank.checkpoints.readers import StoredTensor


@dataclass(frozen=True, eq=False)
class AttentionFactors:
    """Factors of the heads of one layer.

    Arguments:
        layer: Number of the layer, from 0.
        query: W_Q [heads, inputs, d_qk]; inputs = width + 1 if `has_bias`.
        key: W_K [kv heads, inputs, d_qk].
        value: W_V [kv heads, inputs, d_vo].
        output: W_O [heads, d_vo, width].
        output_bias: What the layer adds to every output, or None.
        scale: s.
        rotation: Rotary positions, or None.
        has_bias: Whether the last row of W_Q, W_K and W_V belongs to a constant 1.
        kinds: Stored types of the weights.
        notes: What the circuits leave out.
    """

    layer: int
    query: Rounded
    key: Rounded
    value: Rounded
    output: Rounded
    output_bias: Float[np.ndarray, " width"] | None
    scale: float
    rotation: Rotation | None
    has_bias: bool
    kinds: tuple[str, ...]
    notes: tuple[str, ...] = ()

    @property
    def n_heads(self) -> int:
        """Query heads."""
        return len(self.query.values)

    @property
    def group_size(self) -> int:
        """Query heads that share a key and value head."""
        return self.n_heads // len(self.key.values)


@dataclass(frozen=True)
class StoredNorm:
    """Gain and shift of a norm."""

    kind: NormKind
    weight: StoredTensor
    bias: StoredTensor | None

    @property
    def gain(self) -> Rounded:
        """The gain; 1 + w for "rms + 1"."""
        stored = Rounded.read(self.weight)
        return stored.plus_one() if self.kind == "rms + 1" else stored


@dataclass(frozen=True, eq=False)
class Projections:
    """W_Q, W_K and W_V [heads, width, d], and their biases [heads, 1, d] or None."""

    weights: tuple[Rounded, Rounded, Rounded]
    biases: tuple[Rounded | None, Rounded | None, Rounded | None]

    def folded(self, norm: StoredNorm) -> Projections:
        """Return the projections of the normalised input before gain and shift."""
        gain, shift = norm.gain.reshape(-1, 1), norm.bias and Rounded.read(norm.bias).reshape(1, -1)
        weights, biases = [], []
        for weight, bias in zip(self.weights, self.biases, strict=True):
            scaled = weight * gain
            weights.append(scaled.centred() if norm.kind == "layer" else scaled)
            shifted = shift @ weight if shift else None
            biases.append(shifted + bias if shifted and bias else shifted or bias)
        return Projections((weights[0], weights[1], weights[2]), (biases[0], biases[1], biases[2]))

    def with_head_gains(self, query: Rounded, key: Rounded) -> Projections:
        """Multiply the coordinates of queries and keys by gains."""
        gains = (query, key, None)
        weights = tuple(w * g if g else w for w, g in zip(self.weights, gains, strict=True))
        biases = tuple(b * g if b and g else b for b, g in zip(self.biases, gains, strict=True))
        return Projections(weights, biases)  # type: ignore[arg-type]

    @property
    def has_bias(self) -> bool:
        """Whether any of them has a bias."""
        return any(bias is not None for bias in self.biases)

    def extended(self) -> tuple[Rounded, Rounded, Rounded]:
        """Return the weights with the biases as one more row, if there are any."""
        if not self.has_bias:
            return self.weights
        rows = [
            joined([weight, bias or Rounded.exact(np.zeros_like(weight.values[:, :1]))], axis=1)
            for weight, bias in zip(self.weights, self.biases, strict=True)
        ]
        return rows[0], rows[1], rows[2]


def split_rows(rows: Rounded, layout: HeadLayout, sizes: CheckpointSizes) -> tuple[Rounded, Rounded, Rounded]:
    """Split the rows [outputs, inputs] of a fused map into heads [heads, d, inputs] of queries, keys and values.

    A group has its query heads, then its keys, then its values; if the map is not grouped, all heads are one group.
    """
    groups = sizes.n_kv_heads if layout.grouped else 1
    n_queries, n_keys = sizes.n_heads // groups, sizes.n_kv_heads // groups
    blocks = rows.reshape(groups, n_queries + 2 * n_keys, sizes.d_qk, -1)
    cuts = ((0, n_queries), (n_queries, n_queries + n_keys), (n_queries + n_keys, n_queries + 2 * n_keys))
    parts = [blocks[:, start:stop].reshape(-1, sizes.d_qk, rows.values.shape[-1]) for start, stop in cuts]
    return parts[0], parts[1], parts[2]


def latent_projections(
    query: Rounded, key_value: Rounded, down: Rounded, down_bias: Rounded | None, nope: int, sizes: CheckpointSizes
) -> Projections:
    r"""Return the projections of multi-head latent attention (MLA).

    The latent vector is $c = x D_c$ and the shared rotary key is $x D_r$. Head h has the keys $(c K^h, x D_r)$ and the
    values $c V^h$.

    Arguments:
        query: W_Q [heads, width or width + 1, d_qk]; the last row is a bias if `down_bias` is given.
        key_value: K and V [heads, nope + d_vo, latent], with the gain of the latent norm.
        down: D [latent + rotary, width].
        down_bias: Bias of D [latent + rotary], or None.
        nope: Coordinates of a key that are not rotated.
        sizes: Sizes.
    """
    n_latent = key_value.values.shape[-1]
    extended = down.T if down_bias is None else joined([down.T, down_bias.reshape(1, -1)], axis=0)
    latent, shared = extended[:, :n_latent], extended[:, n_latent:]
    rows = [latent @ key_value[head].T for head in range(sizes.n_heads)]
    keys = [joined([row[:, :nope], shared], axis=1) for row in rows]
    key, value = stacked(keys), stacked([row[:, nope:] for row in rows])
    if down_bias is None:
        return Projections((query, key, value), (None, None, None))
    cut = sizes.width
    parts = (query, key, value)
    return Projections(
        (parts[0][:, :cut], parts[1][:, :cut], parts[2][:, :cut]),
        (parts[0][:, cut:], parts[1][:, cut:], parts[2][:, cut:]),
    )


def stacked(parts: list[Rounded]) -> Rounded:
    """Stack along a new first axis."""
    return Rounded(np.stack([part.values for part in parts]), np.stack([part.error for part in parts]))
