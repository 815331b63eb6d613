r"""MemoriserShape: sizes of a multi-head memoriser, one attention layer that reads a query and its context.

Mahdavi, Liao and Thrampoulidis 2024 (arXiv 2306.02010); the defaults are the values used in their experiments. With
token vectors $x_0$ (the query) and $x_1 \dots x_n$ (the context), after embedding and positions,

$$\alpha^h = \mathrm{softmax}_{j \ge 1}\bigl( x_0 W_Q^h (x_j W_K^h)^T / \sqrt{s} \bigr), \qquad
  \mathrm{outputs} = \Bigl( \sum_h \sum_j \alpha^h_j x_j W_V^h W_O^h \Bigr) D + b, \qquad s = d_\mathrm{model}
  \text{ or } d_\mathrm{qk}.$$
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod, sqrt
from typing import Literal, get_args

from factrank.errors import InputError
from factrank.nn import require_sizes

ScaledBy = Literal["d_model", "d_qk"]

BATCH_SIZE = 256
"""Default number of examples per batch."""


@dataclass(frozen=True)
class MemoriserShape:
    """Sizes of a multi-head memoriser; `d_qk` and `d_vo` are d_h and d_v in the paper.

    Arguments:
        n_heads: Number of heads, H.
        d_model: Dimension of embedded vectors.
        d_qk: Dimension of queries and keys.
        d_vo: Dimension of values.
        embedded: Whether vectors pass through a linear embedding with a bias. If not, they have d_model dimensions.
        positions: Whether sinusoidal positions are added, 0 for the query and 1 to n for the context.
        scaled_by: Size by whose square root scores are divided; the authors divide by sqrt(d_model).

    >>> MemoriserShape(n_heads=20).parameters(d_input=64, n_outputs=100)
    177060
    """

    n_heads: int = 20
    d_model: int = 64
    d_qk: int = 64
    d_vo: int = 1
    embedded: bool = True
    positions: bool = True
    scaled_by: ScaledBy = "d_model"

    def __post_init__(self) -> None:
        require_sizes({name: getattr(self, name) for name in ("n_heads", "d_model", "d_qk", "d_vo")})
        for name in ("embedded", "positions"):
            if not isinstance(getattr(self, name), bool):
                raise InputError(f"{name} must be True or False; got {getattr(self, name)!r}")
        if self.scaled_by not in get_args(ScaledBy):
            raise InputError(f"scaled_by must be one of {', '.join(get_args(ScaledBy))}; got {self.scaled_by!r}")

    @property
    def score_divisor(self) -> float:
        """The divisor of scores, sqrt(s)."""
        return sqrt(self.d_model if self.scaled_by == "d_model" else self.d_qk)

    def part_sizes(self, d_input: int, n_outputs: int) -> dict[str, tuple[int, ...]]:
        """Return the shape of every part, for vectors of `d_input` dimensions."""
        require_sizes({"d_input": d_input, "n_outputs": n_outputs})
        if not self.embedded and d_input != self.d_model:
            raise InputError(
                f"without an embedding, vectors must have d_model = {self.d_model} dimensions; got {d_input}"
            )
        heads, width = self.n_heads, self.d_model
        embedding: dict[str, tuple[int, ...]] = {"embedding": (d_input, width), "embedding_bias": (width,)}
        return (embedding if self.embedded else {}) | {
            "w_q": (heads, width, self.d_qk),
            "w_k": (heads, width, self.d_qk),
            "w_v": (heads, width, self.d_vo),
            "w_o": (heads, self.d_vo, width),
            "decoder": (width, n_outputs),
            "decoder_bias": (n_outputs,),
        }

    def parameters_by_part(self, d_input: int, n_outputs: int) -> dict[str, int]:
        """Return the number of stored scalars of each part."""
        sizes = self.part_sizes(d_input, n_outputs)
        return {name: prod(size) for name, size in sizes.items()}

    def parameters(self, d_input: int, n_outputs: int) -> int:
        """Return the number of stored scalars: (d_in + 1) d + 2 H d (d_qk + d_vo) + (d + 1) outputs."""
        return sum(self.parameters_by_part(d_input, n_outputs).values())
