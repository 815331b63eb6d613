r"""The linear problem of a memoriser with fixed attention: features computed on a device, and their SVD.

The features of an example are the vectors read by the H heads, $z^h = \sum_j \alpha^h_j x_j$, and a constant 1. The fit
to labels y is the minimum-norm solution of the regularised least-squares problem,

$$\sum_{s_k > \epsilon s_1} \frac{s_k}{s_k^2 + \lambda s_1^2}\, v_k u_k^T y, \qquad
  \epsilon = \max(N, Hd + 1)\, 2^{-52}.$$

One singular value decomposition in float64, on a GPU if JAX has one, gives the rank, the condition number and the
solution for any $\lambda$. A QR decomposition would take a quarter of the time but give neither rank nor condition
number.
"""

from __future__ import annotations

from math import inf
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from factrank.certificates import row_blocks
from factrank.families.memoriser.examples import VectorExamples
from factrank.families.memoriser.memoriser import Memoriser, sinusoids
from factrank.families.memoriser.solving.memoriser_certificate import BLOCK_STEP
from factrank.nn import on_device


class LinearFit(NamedTuple):
    """Solution of the linear problem, and properties of its singular values."""

    solution: Float[np.ndarray, " features"]
    rank: int
    """Number of singular values above epsilon times the largest."""
    condition: float
    """Ratio of the largest singular value to the last one that is positive in theory."""
    residual: float
    """Norm of the residual relative to the norm of the labels."""


def features_of(model: Memoriser, examples: VectorExamples, dtype: np.dtype[Any]) -> Float[Array, "examples features"]:
    """Return the vectors read by the heads for every example, and a constant 1, on the device."""
    n, d_model, heads = examples.context_size, model.shape.d_model, model.shape.n_heads
    places = sinusoids(n + 1, d_model).astype(dtype).astype(np.float64)[1:] * model.shape.positions
    cells, placed = heads * (n + d_model) + n * d_model, on_device(model)
    parts = []
    for kept, rows in row_blocks(examples.n_examples, cells, BLOCK_STEP):
        queries, contexts = examples.queries[rows], examples.contexts[examples.context_of[rows]]
        parts.append(_read(placed, jnp.asarray(places), jnp.asarray(queries), jnp.asarray(contexts))[: len(kept)])
    return jnp.concatenate(parts)


@eqx.filter_jit
def _read(
    model: Memoriser,
    places: Float[Array, "context d_model"],
    queries: Float[Array, "n d_input"],
    contexts: Float[Array, "n context d_input"],
) -> Float[Array, "n features"]:
    weights = model.attention(queries, contexts)
    tokens = contexts
    if model.embedding is not None and model.embedding_bias is not None:
        tokens = contexts @ model.embedding + model.embedding_bias
    read = jnp.einsum("bhn,bnd->bhd", weights, tokens + places).reshape(len(queries), -1)
    return jnp.concatenate([read, jnp.ones((len(queries), 1))], axis=1)


def fitted(
    features: Float[Array, "examples features"], labels: Float[np.ndarray, " examples"], ridge: float, predicted: int
) -> LinearFit:
    """Return the minimum-norm regularised solution, by SVD."""
    least = max(features.shape) * float(np.finfo(np.float64).eps)
    solution, values, rest = map(np.asarray, _least_squares(features, *map(jnp.asarray, (labels, ridge, least))))
    last, norm = float(values[predicted - 1]), float(np.linalg.norm(labels))
    return LinearFit(
        solution=solution,
        rank=int((values > least * values[0]).sum()),
        condition=float(values[0]) / last if last > 0 else inf,
        residual=float(rest) / norm if norm > 0 else float(rest),
    )


@jax.jit
def _least_squares(
    features: Float[Array, "examples features"],
    labels: Float[Array, " examples"],
    ridge: Float[Array, ""],
    least: Float[Array, ""],
) -> tuple[Float[Array, " features"], Float[Array, " values"], Float[Array, ""]]:
    left, values, right = jnp.linalg.svd(features, full_matrices=False)
    kept = values > least * values[0]
    scales = jnp.where(kept, values / jnp.where(kept, values**2 + ridge * values[0] ** 2, 1.0), 0.0)
    solution = (scales * (labels @ left)) @ right
    return solution, values, jnp.linalg.norm(features @ solution - labels)
