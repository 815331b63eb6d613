"""ViT: patches of an image, mapped to vectors, behind a [CLS] token; positions; a layer norm before attention and MLP.

The names are those of Hugging Face checkpoints, less the prefix `vit.`. The query is [CLS], the same vector for every
image until attention has mixed it with the patches.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from jaxtyping import Num

from factrank.checkpoints.configuration import Settings
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

LAYER = "encoder.layer.0"


@dataclass(frozen=True)
class Vit:
    """The sizes of the first layer of a ViT."""

    width: int
    n_heads: int
    mlp_width: int
    image_size: int
    patch_size: int
    channels: int
    epsilon: float = 1e-12
    activation: str = "gelu"
    std: float = 0.02
    query_key_value_bias: bool = True

    title: ClassVar[str] = "ViT"
    prefix: ClassVar[str] = "vit."
    query_position: ClassVar[int] = 0
    reads: ClassVar[str] = "images"
    padding: ClassVar[int | None] = None

    @classmethod
    def of(cls, settings: Settings) -> Vit:
        """The sizes that a `config.json` says."""
        vit = cls(
            width=settings.size("hidden_size"),
            n_heads=settings.size("num_attention_heads"),
            mlp_width=settings.size("intermediate_size"),
            image_size=settings.size("image_size"),
            patch_size=settings.size("patch_size"),
            channels=settings.size("num_channels", 3),
            epsilon=settings.number("layer_norm_eps", 1e-12),
            activation=require_activation(settings.text("hidden_act", "gelu")),
            std=settings.number("initializer_range", 0.02),
            query_key_value_bias=settings.truth("qkv_bias", True),
        )
        require_heads(vit.width, vit.n_heads)
        if vit.image_size % vit.patch_size:
            raise InputError(f"{settings.place}: patches of {vit.patch_size} do not divide images of {vit.image_size}")
        return vit

    @property
    def positions(self) -> int:
        """[CLS] and the patches."""
        return (self.image_size // self.patch_size) ** 2 + 1

    def parts(self) -> Mapping[str, Part]:
        """Every weight that is needed, and how it is drawn."""
        d, m, p = self.width, self.mlp_width, self.patch_size
        parts = {
            "embeddings.cls_token": Part((1, 1, d), self.std),
            "embeddings.position_embeddings": Part((1, self.positions, d), self.std),
            "embeddings.patch_embeddings.projection.weight": Part((d, self.channels, p, p), self.std),
            "embeddings.patch_embeddings.projection.bias": Part((d,)),
        }
        for name, shape in (
            ("attention.attention.query", (d, d)),
            ("attention.attention.key", (d, d)),
            ("attention.attention.value", (d, d)),
            ("attention.output.dense", (d, d)),
            ("intermediate.dense", (m, d)),
            ("output.dense", (d, m)),
        ):
            parts[f"{LAYER}.{name}.weight"] = Part(shape, self.std)
            if self.query_key_value_bias or not name.startswith("attention.attention"):
                parts[f"{LAYER}.{name}.bias"] = Part(shape[:1])
        for name in (f"{LAYER}.layernorm_before", f"{LAYER}.layernorm_after"):
            parts[f"{name}.weight"], parts[f"{name}.bias"] = Part((d,), start=1.0), Part((d,))
        return parts

    def tokens(self, weights: Weights, inputs: Num[np.ndarray, "b c h w"], stage: TokenStage) -> Tokens:
        """The token vectors of each image [channels, rows, columns] at a stage."""
        expected = (self.channels, self.image_size, self.image_size)
        if inputs.shape[1:] != expected:
            raise InputError(f"expected images of shape {expected}: channels, rows, columns; got {inputs.shape[1:]}")
        patches = self._patches(np.asarray(inputs, dtype=np.float64))
        projection = weights["embeddings.patch_embeddings.projection.weight"].reshape(self.width, -1)
        mapped = patches @ projection.T + weights["embeddings.patch_embeddings.projection.bias"]
        first = np.broadcast_to(weights["embeddings.cls_token"], (len(mapped), 1, self.width))
        x: Tokens = np.concatenate([first, mapped], axis=1)
        if stage == "embedding":
            return x
        x = x + weights["embeddings.position_embeddings"]
        if stage == "positions":
            return x
        normed = layer_norm(x, weights, f"{LAYER}.layernorm_before", self.epsilon)
        q, k, v = (linear(normed, weights, f"{LAYER}.attention.attention.{name}") for name in ("query", "key", "value"))
        x = x + linear(attention(q, k, v, self.n_heads), weights, f"{LAYER}.attention.output.dense")
        if stage == "attention":
            return x
        normed = layer_norm(x, weights, f"{LAYER}.layernorm_after", self.epsilon)
        inner = ACTIVATIONS[self.activation](linear(normed, weights, f"{LAYER}.intermediate.dense"))
        end: Tokens = x + linear(inner, weights, f"{LAYER}.output.dense")
        return end

    def _patches(self, images: Num[np.ndarray, "b c h w"]) -> Num[np.ndarray, "b patches pixels"]:
        """The pixels of each patch, channel by channel, patches in the order of reading."""
        b, c, h, _ = images.shape
        p, side = self.patch_size, h // self.patch_size
        squares = images.reshape(b, c, side, p, side, p).transpose(0, 2, 4, 1, 3, 5)
        return np.asarray(squares.reshape(b, side * side, c * p * p))
