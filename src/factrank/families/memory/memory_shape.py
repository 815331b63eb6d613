"""MemoryShape: the sizes of an associative memory."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from factrank.errors import InputError
from factrank.nn import require_sizes

ZERO = "zero"
"""Start with the matrix that stores the facts set to 0."""


@dataclass(frozen=True)
class MemoryShape:
    r"""Sizes of an associative memory $f: [N] \to [M]$ with embeddings on the unit sphere of $R^d$.

    The memory answers x with $\arg\max_y \langle u_y, F(e_x) \rangle$ (Nichani, Lee and Bietti 2025, arXiv 2412.06538).

    Arguments:
        d_model: Dimension d of the embeddings.
        width: Number of hidden units of $F(z) = V^T \mathrm{relu}(W z)$, without biases. If None, $F(z) = W z$.
        trained_embeddings: Whether the embeddings are trained; they are fixed by default.

    >>> MemoryShape(d_model=16).parameters(100, 1, 100), MemoryShape(d_model=16, width=32).memory_parameters
    (3456, 1024)
    """

    d_model: int
    width: int | None = None
    trained_embeddings: bool = False

    def __post_init__(self) -> None:
        require_sizes({"d_model": self.d_model})
        if self.width is not None:
            require_sizes({"width": self.width})
        if not isinstance(self.trained_embeddings, bool):
            raise InputError(f"trained_embeddings must be True or False; got {self.trained_embeddings!r}")

    @property
    def memory_parameters(self) -> int:
        """Number of scalars that store the facts, as counted in the paper: d^2, or 2 m d with m hidden units."""
        return self.d_model**2 if self.width is None else 2 * self.width * self.d_model

    def part_sizes(self, n_keys: int, n_queries: int, n_values: int) -> dict[str, tuple[int, ...]]:
        """Return the shape of every part, for N = `n_keys` inputs and M = `n_values` outputs."""
        require_sizes({"n_keys": n_keys, "n_queries": n_queries, "n_values": n_values}, least=0)
        d_model, width = self.d_model, self.width
        embeddings = {"inputs": (n_keys, d_model), "outputs": (n_values, d_model)}
        if width is None:
            return {**embeddings, "weights": (d_model, d_model)}
        return {**embeddings, "w_in": (d_model, width), "w_out": (width, d_model)}

    def parameters_by_part(self, n_keys: int, n_queries: int, n_values: int) -> dict[str, int]:
        """Return the number of stored scalars of each part."""
        return {name: prod(size) for name, size in self.part_sizes(n_keys, n_queries, n_values).items()}

    def parameters(self, n_keys: int, n_queries: int, n_values: int) -> int:
        """Return the number of stored scalars: (N + M) d + d^2, or (N + M) d + 2 m d."""
        return sum(self.parameters_by_part(n_keys, n_queries, n_values).values())
