"""GPT-2: words + positions; a layer norm before attention and before the MLP; each token sees those before it.

The names are those of Hugging Face checkpoints, less the prefix `transformer.`; maps are stored [inputs, outputs]. The
query is the last token, the only one that sees its whole context.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from jaxtyping import Integer

from factrank.checkpoints.configuration import Settings, require_ids
from factrank.checkpoints.layers import (
    ACTIVATIONS,
    Part,
    Tokens,
    TokenStage,
    Weights,
    attention,
    layer_norm,
    linear,
    require_activation,
    require_heads,
)
from factrank.errors import InputError


@dataclass(frozen=True)
class Gpt2:
    """The sizes of the first layer of a GPT-2."""

    width: int
    n_heads: int
    mlp_width: int
    vocabulary: int
    positions: int
    n_layers: int = 1
    epsilon: float = 1e-5
    activation: str = "gelu_new"
    std: float = 0.02

    title: ClassVar[str] = "GPT-2"
    prefix: ClassVar[str] = "transformer."
    query_position: ClassVar[int] = -1
    reads: ClassVar[str] = "ids"
    padding: ClassVar[int | None] = None

    @classmethod
    def of(cls, settings: Settings) -> Gpt2:
        """The sizes that a `config.json` says."""
        if not settings.truth("scale_attn_weights", True):
            raise InputError(f"{settings.place}: scale_attn_weights false is not known; expected true")
        width = settings.size("n_embd")
        gpt2 = cls(
            width=width,
            n_heads=settings.size("n_head"),
            mlp_width=settings.size("n_inner", 4 * width),
            vocabulary=settings.size("vocab_size"),
            positions=settings.size("n_positions"),
            n_layers=settings.size("n_layer", 1),
            epsilon=settings.number("layer_norm_epsilon", 1e-5),
            activation=require_activation(settings.text("activation_function", "gelu_new")),
            std=settings.number("initializer_range", 0.02),
        )
        require_heads(gpt2.width, gpt2.n_heads)
        return gpt2

    def parts(self) -> Mapping[str, Part]:
        """Every weight that is needed, and how it is drawn; what ends a residual path starts smaller."""
        d, m = self.width, self.mlp_width
        small = self.std / np.sqrt(2 * self.n_layers)
        parts = {
            "wte.weight": Part((self.vocabulary, d), self.std),
            "wpe.weight": Part((self.positions, d), self.std),
        }
        for name, shape, std in (
            ("attn.c_attn", (d, 3 * d), self.std),
            ("attn.c_proj", (d, d), small),
            ("mlp.c_fc", (d, m), self.std),
            ("mlp.c_proj", (m, d), small),
        ):
            parts[f"h.0.{name}.weight"], parts[f"h.0.{name}.bias"] = Part(shape, float(std)), Part(shape[1:])
        for name in ("h.0.ln_1", "h.0.ln_2"):
            parts[f"{name}.weight"], parts[f"{name}.bias"] = Part((d,), start=1.0), Part((d,))
        return parts

    def tokens(self, weights: Weights, inputs: Integer[np.ndarray, "examples tokens"], stage: TokenStage) -> Tokens:
        """The token vectors of each example at a stage."""
        require_ids(inputs, self.vocabulary, self.positions)
        words: Tokens = weights["wte.weight"][inputs]
        if stage == "embedding":
            return words
        x: Tokens = words + weights["wpe.weight"][: inputs.shape[1]]
        if stage == "positions":
            return x
        normed = layer_norm(x, weights, "h.0.ln_1", self.epsilon)
        q, k, v = np.split(linear(normed, weights, "h.0.attn.c_attn", transposed=False), 3, axis=-1)
        mixed = attention(q, k, v, self.n_heads, causal=True)
        x = x + linear(mixed, weights, "h.0.attn.c_proj", transposed=False)
        if stage == "attention":
            return x
        normed = layer_norm(x, weights, "h.0.ln_2", self.epsilon)
        inner = ACTIVATIONS[self.activation](linear(normed, weights, "h.0.mlp.c_fc", transposed=False))
        end: Tokens = x + linear(inner, weights, "h.0.mlp.c_proj", transposed=False)
        return end
