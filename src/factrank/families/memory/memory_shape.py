"""MemoryShape: the sizes of an associative memory, and the weights it starts from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from factrank.errors import InputError
from factrank.nn import require_sizes

Start = Literal["random", "zero", "outer product", "least squares", "two-sided", "logistic"]
"""The weights before training: drawn, 0, or one of four closed forms, which are memories by themselves."""


@dataclass(frozen=True)
class MemoryShape:
    r"""The sizes of an associative memory $f: [N] \to [M]$ with embeddings on the unit sphere of $R^d$.

    Without a `width` it is linear, $F(z) = W z$; else $F(z) = V^T \mathrm{relu}(W z)$ with so many hidden units and no
    bias. An input x is answered by $\arg\max_y \langle u_y, F(e_x) \rangle$ (Nichani, Lee and Bietti 2025, arXiv
    2412.06538). Embeddings are fixed unless `trained_embeddings`. `start` says what the weights are before training;
    in a trial without epochs that is the memory that is measured.

    >>> MemoryShape(d_model=16).parameters(100, 1, 100), MemoryShape(d_model=16, width=32).memory_parameters
    (3456, 1024)
    """

    d_model: int
    width: int | None = None
    start: Start = "random"
    trained_embeddings: bool = False

    def __post_init__(self) -> None:
        require_sizes({"d_model": self.d_model})
        if self.width is not None:
            require_sizes({"width": self.width})
        if self.start not in get_args(Start):
            raise InputError(f"start must be one of {', '.join(get_args(Start))}; got {self.start!r}")
        if not isinstance(self.trained_embeddings, bool):
            raise InputError(f"trained_embeddings must be True or False; got {self.trained_embeddings!r}")

    @property
    def memory_parameters(self) -> int:
        """The scalars that store the facts, as the paper counts them: d^2, or 2 m d with m hidden units."""
        return self.d_model**2 if self.width is None else 2 * self.width * self.d_model

    def parameters_by_part(self, n_keys: int, n_queries: int, n_values: int) -> dict[str, int]:
        """Stored scalars of each part, for N = `n_keys` inputs and M = `n_values` outputs; the query is not read."""
        require_sizes({"n_keys": n_keys, "n_queries": n_queries, "n_values": n_values}, least=0)
        embeddings = {"inputs": n_keys * self.d_model, "outputs": n_values * self.d_model}
        if self.width is None:
            return {**embeddings, "weights": self.d_model**2}
        return {**embeddings, "w_in": self.d_model * self.width, "w_out": self.width * self.d_model}

    def parameters(self, n_keys: int, n_queries: int, n_values: int) -> int:
        """All stored scalars: (N + M) d + d^2, or (N + M) d + 2 m d."""
        return sum(self.parameters_by_part(n_keys, n_queries, n_values).values())
