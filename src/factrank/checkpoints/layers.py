r"""Layers of ViT, BERT and GPT-2 in NumPy and float64: layer norm, attention, linear maps and activations.

The output of an attention head at position i is $\sum_j \mathrm{softmax}_j(q_i \cdot k_j / \sqrt{d_h})\, v_j$, over all
j or, if attention is causal, over j <= i.
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
"""Embedded tokens; with positions (and everything else before the first layer, such as BERT's layer norm); after the
first attention layer and its residual connection; after the whole first block."""

Tokens = Float[np.ndarray, "examples tokens width"]
Weights = Mapping[str, Float[np.ndarray, "..."]]


@dataclass(frozen=True)
class Part:
    """Shape of a weight, and its standard deviation before training (0 for weights that start constant)."""

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


def norm_parts(name: str, width: int) -> dict[str, Part]:
    """Return the weights of a layer norm."""
    return {f"{name}.weight": Part((width,), start=1.0), f"{name}.bias": Part((width,))}


def require_activation(name: str) -> None:
    """Raise `InputError` if an activation function is unknown."""
    if name not in ACTIVATIONS:
        raise InputError(f"unknown activation {name[:40]!r}; expected one of {', '.join(ACTIVATIONS)}")


def linear(
    x: Float[np.ndarray, "*batch inputs"], weights: Weights, name: str, *, transposed: bool = True
) -> Float[np.ndarray, "*batch outputs"]:
    """Return x W^T + b, or x W + b if W is not `transposed`; b may be missing."""
    weight = weights[f"{name}.weight"]
    bias = weights.get(f"{name}.bias")
    mapped = x @ (weight.T if transposed else weight)
    return mapped if bias is None else mapped + bias


def layer_norm(
    x: Float[np.ndarray, "*batch width"], weights: Weights, name: str, epsilon: float
) -> Float[np.ndarray, "*batch width"]:
    """Normalise each vector to mean 0 and variance 1, then scale and shift it."""
    centred = x - x.mean(axis=-1, keepdims=True)
    variance = (centred**2).mean(axis=-1, keepdims=True)
    normed = centred / np.sqrt(variance + epsilon)
    return np.asarray(normed * weights[f"{name}.weight"] + weights[f"{name}.bias"])


def attention(
    queries: Tokens, keys: Tokens, values: Tokens, n_heads: int, *, causal: bool = False
) -> Float[np.ndarray, "examples tokens width"]:
    """Return the concatenated head outputs, one example at a time because the weights of all may be very large."""
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
    """Raise `InputError` unless the number of heads divides the width."""
    if width % n_heads:
        raise InputError(f"a width of {width} cannot be divided among {n_heads} heads")
