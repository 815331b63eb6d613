r"""LanguageShape: sizes of a small decoder, a causal language model with independent query-key and value-output widths.

$$x \leftarrow x + \sum_h \mathrm{softmax}\Bigl(\frac{R(\bar x W_Q^h)\,R(\bar x W_K^h)^T}{\sqrt{d_{qk}}}\Bigr) \bar x
  W_V^h W_O^h, \qquad x \leftarrow x + \bigl(\mathrm{silu}(\bar x W_{gate}) \odot \bar x W_{up}\bigr) W_{down}, \qquad
  \mathrm{logits} = \bar x\, U^T$$

in every layer, with $\bar x = g \odot x / \mathrm{rms}(x)$, R the rotation of rotary positions, and U the embedding if
it is tied. Without a bias anywhere; with $d_{qk} = d_{vo}$ and an MLP this is the architecture of Llama.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Literal, get_args

from factrank.errors import InputError
from factrank.experiments.specs import as_floats, require_flags
from factrank.nn import require_sizes

Positions = Literal["rope", "learned"]

BATCH_SIZE = 256
"""Default number of sequences per batch."""

EMBEDDINGS = ("embedding", "positions", "unembedding")
"""Parts that the *inner* parameters leave out."""


@dataclass(frozen=True)
class LanguageShape:
    """Sizes of a small decoder.

    Arguments:
        d_model: Dimension of the residual stream.
        n_heads: Number of heads per layer, H.
        d_qk: Dimension of queries and keys; even if positions are rotary.
        d_vo: Dimension of values.
        n_layers: Number of layers, L.
        mlp_width: Number of hidden units of each SwiGLU MLP, 0 for no MLP.
        positions: "rope" rotates queries and keys, "learned" adds a trained vector to each embedding.
        tied: Whether the unembedding is the embedding.
        context: Largest number of tokens that the model can read.
        rope_base: Base of the wavelengths of rotary positions.

    >>> LanguageShape(d_model=64, n_heads=4, d_qk=8, d_vo=24, n_layers=2).parameters(n_tokens=100)
    39360
    """

    d_model: int
    n_heads: int
    d_qk: int
    d_vo: int
    n_layers: int = 1
    mlp_width: int = 0
    positions: Positions = "rope"
    tied: bool = True
    context: int = 256
    rope_base: float = 10_000.0

    def __post_init__(self) -> None:
        names = "d_model", "n_heads", "d_qk", "d_vo", "n_layers", "context"
        require_sizes({name: getattr(self, name) for name in names})
        require_sizes({"mlp_width": self.mlp_width}, least=0)
        require_flags(self, "tied")
        as_floats(self, "rope_base")
        if self.positions not in get_args(Positions):
            raise InputError(f"positions must be one of {', '.join(get_args(Positions))}; got {self.positions!r}")
        if self.positions == "rope" and self.d_qk % 2:
            raise InputError(f"d_qk must be even with rotary positions, which rotate pairs; got {self.d_qk}")
        if self.rope_base <= 1:
            raise InputError(f"rope_base must be above 1; got {self.rope_base}")

    def part_sizes(self, n_tokens: int) -> dict[str, tuple[int, ...]]:
        """Return the shape of every part, for a vocabulary of `n_tokens`."""
        require_sizes({"n_tokens": n_tokens})
        layers, heads, d_model, width = self.n_layers, self.n_heads, self.d_model, self.mlp_width
        mlp: dict[str, tuple[int, ...]] = {
            "mlp_norm": (layers, d_model),
            "w_gate": (layers, d_model, width),
            "w_up": (layers, d_model, width),
            "w_down": (layers, width, d_model),
        }
        return {
            "embedding": (n_tokens, d_model),
            **({"positions": (self.context, d_model)} if self.positions == "learned" else {}),
            "attention_norm": (layers, d_model),
            "w_q": (layers, heads, d_model, self.d_qk),
            "w_k": (layers, heads, d_model, self.d_qk),
            "w_v": (layers, heads, d_model, self.d_vo),
            "w_o": (layers, heads, self.d_vo, d_model),
            **(mlp if width else {}),
            "final_norm": (d_model,),
            **({} if self.tied else {"unembedding": (n_tokens, d_model)}),
        }

    def parameters_by_part(self, n_tokens: int) -> dict[str, int]:
        """Return the number of stored scalars of each part."""
        return {name: prod(size) for name, size in self.part_sizes(n_tokens).items()}

    def parameters(self, n_tokens: int) -> int:
        """Return the number of stored scalars."""
        return sum(self.parameters_by_part(n_tokens).values())

    @property
    def inner_parameters(self) -> int:
        """Number of stored scalars without embeddings, positions and unembedding."""
        return sum(size for name, size in self.parameters_by_part(1).items() if name not in EMBEDDINGS)
