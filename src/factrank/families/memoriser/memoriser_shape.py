r"""MemoriserShape: the sizes of a multi-head memoriser, one attention layer that reads a query and its context.

Mahdavi, Liao and Thrampoulidis 2024 (arXiv 2306.02010); the defaults are those of the authors' experiments. With token
vectors $x_0$ (the query) and $x_1 \dots x_n$ (the context), embedded and given positions,

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
MemoriserStart = Literal["random", "solved"]

BATCH_SIZE = 256
"""Examples of a batch where a trial does not say how many."""


@dataclass(frozen=True)
class MemoriserShape:
    """The sizes of a multi-head memoriser; the paper's d_h is `d_qk`, its d_v is `d_vo`.

    `embedded`: token vectors go through a linear embedding with a bias; else they are read as they are, and have
    d_model dimensions. `positions`: sinusoidal ones are added, 0 for the query and 1 to n for the context. Scores are
    divided by the square root of the size that `scaled_by` names; the authors divide by that of d_model. `start`:
    drawn weights, or values by the closed form over drawn queries and keys; a trial without epochs measures that.

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
    start: MemoriserStart = "random"

    def __post_init__(self) -> None:
        require_sizes({name: getattr(self, name) for name in ("n_heads", "d_model", "d_qk", "d_vo")})
        for name in ("embedded", "positions"):
            if not isinstance(getattr(self, name), bool):
                raise InputError(f"{name} must be True or False; got {getattr(self, name)!r}")
        for name, kind in (("scaled_by", ScaledBy), ("start", MemoriserStart)):
            if getattr(self, name) not in get_args(kind):
                raise InputError(f"{name} must be one of {', '.join(get_args(kind))}; got {getattr(self, name)!r}")

    @property
    def score_divisor(self) -> float:
        """What scores are divided by."""
        return sqrt(self.d_model if self.scaled_by == "d_model" else self.d_qk)

    def part_sizes(self, d_input: int, n_outputs: int) -> dict[str, tuple[int, ...]]:
        """The size of every part, for vectors of `d_input` dimensions."""
        require_sizes({"d_input": d_input, "n_outputs": n_outputs})
        if not self.embedded and d_input != self.d_model:
            raise InputError(f"without an embedding vectors have d_model = {self.d_model} dimensions; got {d_input}")
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
        """Stored scalars of each part."""
        sizes = self.part_sizes(d_input, n_outputs)
        return {name: prod(size) for name, size in sizes.items()}

    def parameters(self, d_input: int, n_outputs: int) -> int:
        """All stored scalars: (d_in + 1) d + 2 H d (d_qk + d_vo) + (d + 1) outputs."""
        return sum(self.parameters_by_part(d_input, n_outputs).values())
