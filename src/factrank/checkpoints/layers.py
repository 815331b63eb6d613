r"""The layers that ViT, BERT and GPT-2 share, in NumPy and float64: layer norm, attention, the two maps of an MLP.

Attention of a head from position i: $\sum_j \mathrm{softmax}_j(q_i \cdot k_j / \sqrt{d_h})\, v_j$, over all j or, where
it is causal, over j <= i.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
from jaxtyping import Float
from scipy.special import erf, softmax

from factrank.errors import InputError

TokenStage = Literal["embedding", "positions", "attention", "block"]
STAGES: tuple[TokenStage, ...] = ("embedding", "positions", "attention", "block")
"""Tokens as they are embedded; with positions (and what else is added, and normed, before the first layer); after the
first attention layer with its residual path; after the whole first block, with its MLP."""

Tokens = Float[np.ndarray, "examples tokens width"]
Weights = Mapping[str, Float[np.ndarray, "..."]]


@dataclass(frozen=True)
class Part:
    """A weight of a family: its shape, and how the family draws it at random (0 where it starts constant)."""

    shape: tuple[int, ...]
    std: float = 0.0
    start: float = 0.0


def _gelu(x: Float[np.ndarray, "*shape"]) -> Float[np.ndarray, "*shape"]:
    return np.asarray(x * (1 + erf(x / np.sqrt(2))) / 2)


def _gelu_tanh(x: Float[np.ndarray, "*shape"]) -> Float[np.ndarray, "*shape"]:
    return np.asarray(x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3))) / 2)


def _relu(x: Float[np.ndarray, "*shape"]) -> Float[np.ndarray, "*shape"]:
    return np.asarray(np.maximum(x, 0.0))


ACTIVATIONS: dict[str, Callable[[Float[np.ndarray, "..."]], Float[np.ndarray, "..."]]] = {
    "gelu": _gelu,
    "gelu_new": _gelu_tanh,
    "gelu_pytorch_tanh": _gelu_tanh,
    "relu": _relu,
}


def require_activation(name: str) -> str:
    """The name of an activation that is known here."""
    if name not in ACTIVATIONS:
        raise InputError(f"the activation {name[:40]!r} is not known; there are {', '.join(ACTIVATIONS)}")
    return name


def linear(
    x: Float[np.ndarray, "*batch inputs"], weights: Weights, name: str, *, transposed: bool = True
) -> Float[np.ndarray, "*batch outputs"]:
    """The map `name`: x W^T + b as PyTorch stores it, or x W + b where it is not transposed; b may be absent."""
    weight = weights[f"{name}.weight"]
    bias = weights.get(f"{name}.bias")
    mapped = x @ (weight.T if transposed else weight)
    return mapped if bias is None else mapped + bias


def layer_norm(
    x: Float[np.ndarray, "*batch width"], weights: Weights, name: str, epsilon: float
) -> Float[np.ndarray, "*batch width"]:
    """Each vector less its mean, over its standard deviation, then scaled and shifted."""
    centred = x - x.mean(axis=-1, keepdims=True)
    variance = (centred**2).mean(axis=-1, keepdims=True)
    normed = centred / np.sqrt(variance + epsilon)
    return np.asarray(normed * weights[f"{name}.weight"] + weights[f"{name}.bias"])


def attention(
    queries: Tokens, keys: Tokens, values: Tokens, n_heads: int, *, causal: bool = False
) -> Float[np.ndarray, "examples tokens width"]:
    """All heads side by side; example by example, for the weights of all at once may be very many."""
    n = queries.shape[1]
    hidden = np.triu(np.full((n, n), -np.inf), 1) if causal else 0.0
    pooled = np.empty_like(queries)
    for i in range(len(queries)):
        q, k, v = (_heads(rows[i], n_heads) for rows in (queries, keys, values))
        weights = softmax(q @ k.swapaxes(1, 2) / np.sqrt(q.shape[2]) + hidden, axis=-1)
        pooled[i] = (weights @ v).swapaxes(0, 1).reshape(n, -1)
    return pooled


def _heads(rows: Float[np.ndarray, "tokens width"], n_heads: int) -> Float[np.ndarray, "heads tokens part"]:
    return rows.reshape(len(rows), n_heads, -1).swapaxes(0, 1)


def require_heads(width: int, n_heads: int) -> None:
    """Heads divide the width among them."""
    if width % n_heads:
        raise InputError(f"a width of {width} cannot be divided among {n_heads} heads")
