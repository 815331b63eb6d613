r"""Associative memories: a map f: [N] -> [M] stored in a matrix or an MLP between fixed random embeddings.

Input x has the embedding $e_x$ and output y the embedding $u_y$, both on the unit sphere of $R^d$. The answer for x is
the output with the largest logit

$$\ell_y(x) = \langle u_y, F(e_x) \rangle, \qquad F(z) = W z \quad\text{or}\quad F(z) = V^T \mathrm{relu}(W z)$$

(Nichani, Lee and Bietti 2025, arXiv 2412.06538, section 3). Vectors are rows here: `weights` is $W^T$, `w_in` is $W^T$
and `w_out` is V. A memory has the interface of a model of facts with a single query, so all readouts accept it.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, cast

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Array, Float, Int

from factrank.families.memory.memory_shape import MemoryShape
from factrank.nn import AnyArray, ShownModel, draw, on_device, require_sizes


class AssociativeMemory(ShownModel, eqx.Module):
    """Base class of memories: the embeddings of inputs (keys) and outputs (values)."""

    inputs: Float[AnyArray, "keys d_model"]
    outputs: Float[AnyArray, "values d_model"]

    @property
    @abstractmethod
    def shape(self) -> MemoryShape:
        """Sizes of the memory, except how it was initialised."""

    @abstractmethod
    def read(self, inputs: Float[Array, "n d_model"]) -> Float[Array, "n d_model"]:
        """Apply F to a batch of input embeddings."""

    @property
    def n_keys(self) -> int:
        """Number of inputs, N."""
        return self.inputs.shape[0]

    @property
    def n_queries(self) -> int:
        """Number of queries, always 1."""
        return 1

    @property
    def n_values(self) -> int:
        """Number of outputs, M."""
        return self.outputs.shape[0]

    @property
    def parameters(self) -> int:
        """Number of stored scalars, including the embeddings."""
        return self.shape.parameters(self.n_keys, self.n_queries, self.n_values)

    @property
    def memory_parameters(self) -> int:
        """Number of stored scalars between the embeddings."""
        return self.shape.memory_parameters

    def logits(
        self,
        keys: Int[Array, " n"],
        queries: Int[Array, " n"] | None = None,  # noqa: ARG002 - always query 0
    ) -> Float[Array, "n values"]:
        """Return the logits of the given inputs; `queries` is ignored because there is only one."""
        memory = on_device(self)
        return memory.read(memory.inputs[keys]) @ memory.outputs.T

    def tensor(self) -> Float[Array, "keys 1 values"]:
        """Return the logits of all inputs."""
        memory = on_device(self)
        return (memory.read(memory.inputs) @ memory.outputs.T)[:, None, :]


class LinearMemory(AssociativeMemory):
    """A linear memory, F(z) = z @ weights."""

    weights: Float[AnyArray, "d_model d_model"]

    @property
    def shape(self) -> MemoryShape:
        """Sizes of the memory."""
        return MemoryShape(self.weights.shape[0])

    def read(self, inputs: Float[Array, "n d_model"]) -> Float[Array, "n d_model"]:
        """Return `inputs @ weights`."""
        return inputs @ self.weights


class MlpMemory(AssociativeMemory):
    """A memory with one hidden layer, F(z) = relu(z @ w_in) @ w_out."""

    w_in: Float[AnyArray, "d_model width"]
    w_out: Float[AnyArray, "width d_model"]

    @property
    def shape(self) -> MemoryShape:
        """Sizes of the memory."""
        return MemoryShape(self.w_in.shape[0], self.w_in.shape[1])

    def read(self, inputs: Float[Array, "n d_model"]) -> Float[Array, "n d_model"]:
        """Return `relu(inputs @ w_in) @ w_out`."""
        return jax.nn.relu(inputs @ self.w_in) @ self.w_out


def draw_memory(
    shape: MemoryShape, n_keys: int, n_values: int, *, rng: np.random.Generator, dtype: str = "float32"
) -> LinearMemory | MlpMemory:
    """Draw a memory with random weights, on the host.

    The random numbers are drawn in the order inputs, outputs, weights. Embeddings are uniform on the unit sphere.

    >>> memory = draw_memory(MemoryShape(d_model=4), n_keys=3, n_values=5, rng=np.random.default_rng(0))
    >>> memory.tensor().shape, memory.parameters
    ((3, 1, 5), 48)
    """
    require_sizes({"n_keys": n_keys, "n_values": n_values})
    d_model, width = shape.d_model, shape.width
    inputs, outputs = (cast("Any", unit_rows(rng, n, d_model).astype(dtype)) for n in (n_keys, n_values))
    if width is None:
        return LinearMemory(inputs, outputs, draw(rng, (d_model, d_model), d_model, dtype))
    w_in = draw(rng, (d_model, width), d_model, dtype)
    return MlpMemory(inputs, outputs, w_in, draw(rng, (width, d_model), width, dtype))


def unit_rows(rng: np.random.Generator, n_rows: int, d_model: int) -> Float[np.ndarray, "n_rows d_model"]:
    """Draw vectors uniformly from the unit sphere, in float64."""
    rows = rng.standard_normal((n_rows, d_model))
    return np.asarray(rows / np.linalg.norm(rows, axis=1, keepdims=True))


def resized(memory: AssociativeMemory, n_keys: int, n_values: int) -> Any:
    """Return the memory on the host with `n_keys` inputs and `n_values` outputs, padded with zero embeddings or cut."""

    def cut_or_padded(rows: Any, size: int) -> Any:
        kept = np.asarray(rows)[:size]
        return np.pad(kept, ((0, size - len(kept)), (0, 0)))

    rows = cut_or_padded(memory.inputs, n_keys), cut_or_padded(memory.outputs, n_values)
    return eqx.tree_at(lambda one: (one.inputs, one.outputs), memory, rows)
