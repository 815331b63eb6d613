r"""Associative memories: f: [N] -> [M] stored in one matrix, or in an MLP, between fixed random embeddings.

Input x has the embedding $e_x$, output y the embedding $u_y$, both on the unit sphere of $R^d$. The memory answers x
with the largest of the logits

$$\ell_y(x) = \langle u_y, F(e_x) \rangle, \qquad F(z) = W z \quad\text{or}\quad F(z) = V^T \mathrm{relu}(W z)$$

(Nichani, Lee and Bietti 2025, arXiv 2412.06538, section 3). Vectors are rows here: `weights` is $W^T$, `w_in` is $W^T$
and `w_out` is V. A memory is a model of facts with one query, so that readouts take it as any other.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, cast

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Array, Float, Int

from factrank.families.memory.memory_shape import MemoryShape
from factrank.nn import AnyArray, draw, on_device, require_sizes


class AssociativeMemory(eqx.Module):
    """The embeddings; what lies between them is linear or an MLP. Keys are the inputs, values the outputs."""

    inputs: Float[AnyArray, "keys d_model"]
    outputs: Float[AnyArray, "values d_model"]

    @property
    @abstractmethod
    def shape(self) -> MemoryShape:
        """The sizes of the memory; how it started is not known to it."""

    @abstractmethod
    def read(self, inputs: Float[Array, "n d_model"]) -> Float[Array, "n d_model"]:
        """F of these embeddings, one row each."""

    @property
    def n_keys(self) -> int:
        """N, the number of inputs."""
        return self.inputs.shape[0]

    @property
    def n_queries(self) -> int:
        """One: a memory is asked one thing of each input."""
        return 1

    @property
    def n_values(self) -> int:
        """M, the number of outputs to choose from."""
        return self.outputs.shape[0]

    @property
    def parameters(self) -> int:
        """All stored scalars."""
        return self.shape.parameters(self.n_keys, self.n_queries, self.n_values)

    @property
    def memory_parameters(self) -> int:
        """The scalars between the embeddings."""
        return self.shape.memory_parameters

    def logits(
        self,
        keys: Int[Array, " n"],
        queries: Int[Array, " n"] | None = None,  # noqa: ARG002 - there is one query
    ) -> Float[Array, "n values"]:
        """The logits of a list of inputs; the query is always the same one and is not read."""
        memory = on_device(self)
        return memory.read(memory.inputs[keys]) @ memory.outputs.T

    def tensor(self) -> Float[Array, "keys 1 values"]:
        """The logits of every input."""
        memory = on_device(self)
        return (memory.read(memory.inputs) @ memory.outputs.T)[:, None, :]


class LinearMemory(AssociativeMemory):
    """F(z) = z @ weights."""

    weights: Float[AnyArray, "d_model d_model"]

    @property
    def shape(self) -> MemoryShape:
        """The sizes of the memory."""
        return MemoryShape(self.weights.shape[0])

    def read(self, inputs: Float[Array, "n d_model"]) -> Float[Array, "n d_model"]:
        """F of these embeddings."""
        return inputs @ self.weights


class MlpMemory(AssociativeMemory):
    """F(z) = relu(z @ w_in) @ w_out."""

    w_in: Float[AnyArray, "d_model width"]
    w_out: Float[AnyArray, "width d_model"]

    @property
    def shape(self) -> MemoryShape:
        """The sizes of the memory."""
        return MemoryShape(self.w_in.shape[0], self.w_in.shape[1])

    def read(self, inputs: Float[Array, "n d_model"]) -> Float[Array, "n d_model"]:
        """F of these embeddings."""
        return jax.nn.relu(inputs @ self.w_in) @ self.w_out


def draw_memory(
    shape: MemoryShape, n_keys: int, n_values: int, *, rng: np.random.Generator, dtype: str = "float32"
) -> LinearMemory | MlpMemory:
    """The same with weights that stay on the host; inputs are drawn first, then outputs, then weights."""
    require_sizes({"n_keys": n_keys, "n_values": n_values})
    d_model, width = shape.d_model, shape.width
    inputs, outputs = (cast("Any", unit_rows(rng, n, d_model).astype(dtype)) for n in (n_keys, n_values))
    if width is None:
        return LinearMemory(inputs, outputs, draw(rng, (d_model, d_model), d_model, dtype))
    w_in = draw(rng, (d_model, width), d_model, dtype)
    return MlpMemory(inputs, outputs, w_in, draw(rng, (width, d_model), width, dtype))


def unit_rows(rng: np.random.Generator, n_rows: int, d_model: int) -> Float[np.ndarray, "n_rows d_model"]:
    """Vectors drawn uniformly from the unit sphere, in float64."""
    rows = rng.standard_normal((n_rows, d_model))
    return np.asarray(rows / np.linalg.norm(rows, axis=1, keepdims=True))


def filled_up(memory: AssociativeMemory, n_keys: int, n_values: int) -> Any:
    """The memory on the host with embeddings of 0 added up to these numbers of inputs and outputs."""
    return _resized(memory, n_keys, n_values)


def cut_down(memory: AssociativeMemory, n_keys: int, n_values: int) -> Any:
    """The memory with its first inputs and outputs only: the inverse of `filled_up`."""
    return _resized(memory, n_keys, n_values)


def _resized(memory: AssociativeMemory, n_keys: int, n_values: int) -> Any:
    def resized(rows: Any, size: int) -> Any:
        kept = np.asarray(rows)[:size]
        return np.pad(kept, ((0, size - len(kept)), (0, 0)))

    rows = resized(memory.inputs, n_keys), resized(memory.outputs, n_values)
    return eqx.tree_at(lambda one: (one.inputs, one.outputs), memory, rows)
