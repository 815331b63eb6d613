"""BERT: words + positions + the first type of segment, normed; a layer norm after each residual sum; no mask.

The names are those of Hugging Face checkpoints, less the prefix `bert.`. A context begins with [CLS], the query.
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

LAYER = "encoder.layer.0"


@dataclass(frozen=True)
class Bert:
    """The sizes of the first layer of a BERT."""

    width: int
    n_heads: int
    mlp_width: int
    vocabulary: int
    positions: int
    segments: int = 2
    epsilon: float = 1e-12
    activation: str = "gelu"
    std: float = 0.02
    padding: int | None = 0

    title: ClassVar[str] = "BERT"
    prefix: ClassVar[str] = "bert."
    query_position: ClassVar[int] = 0
    reads: ClassVar[str] = "ids"

    @classmethod
    def of(cls, settings: Settings) -> Bert:
        """The sizes that a `config.json` says."""
        kind = settings.text("position_embedding_type", "absolute")
        if kind != "absolute":
            raise InputError(f"{settings.place}: position_embedding_type {kind!r} is not known; expected 'absolute'")
        if settings.truth("is_decoder", False):
            raise InputError(f"{settings.place}: is_decoder true hides tokens from [CLS]; expected false")
        bert = cls(
            width=settings.size("hidden_size"),
            n_heads=settings.size("num_attention_heads"),
            mlp_width=settings.size("intermediate_size"),
            vocabulary=settings.size("vocab_size"),
            positions=settings.size("max_position_embeddings"),
            segments=settings.size("type_vocab_size", 2),
            epsilon=settings.number("layer_norm_eps", 1e-12),
            activation=require_activation(settings.text("hidden_act", "gelu")),
            std=settings.number("initializer_range", 0.02),
            padding=settings.whole("pad_token_id", 0),
        )
        require_heads(bert.width, bert.n_heads)
        if bert.padding is not None and bert.padding >= bert.vocabulary:
            raise InputError(
                f"{settings.place}: expected pad_token_id to be within the vocabulary of {bert.vocabulary} tokens; "
                f"got {bert.padding}"
            )
        return bert

    def parts(self) -> Mapping[str, Part]:
        """Every weight that is needed, and how it is drawn."""
        d, m = self.width, self.mlp_width
        parts = {
            "embeddings.word_embeddings.weight": Part((self.vocabulary, d), self.std),
            "embeddings.position_embeddings.weight": Part((self.positions, d), self.std),
            "embeddings.token_type_embeddings.weight": Part((self.segments, d), self.std),
        }
        for name, shape in (
            ("attention.self.query", (d, d)),
            ("attention.self.key", (d, d)),
            ("attention.self.value", (d, d)),
            ("attention.output.dense", (d, d)),
            ("intermediate.dense", (m, d)),
            ("output.dense", (d, m)),
        ):
            parts[f"{LAYER}.{name}.weight"] = Part(shape, self.std)
            parts[f"{LAYER}.{name}.bias"] = Part(shape[:1])
        for name in ("embeddings.LayerNorm", f"{LAYER}.attention.output.LayerNorm", f"{LAYER}.output.LayerNorm"):
            parts[f"{name}.weight"], parts[f"{name}.bias"] = Part((d,), start=1.0), Part((d,))
        return parts

    def tokens(self, weights: Weights, inputs: Integer[np.ndarray, "examples tokens"], stage: TokenStage) -> Tokens:
        """The token vectors of each example at a stage."""
        require_ids(inputs, self.vocabulary, self.positions)
        words: Tokens = weights["embeddings.word_embeddings.weight"][inputs]
        if stage == "embedding":
            return words
        places = weights["embeddings.position_embeddings.weight"][: inputs.shape[1]]
        segment = weights["embeddings.token_type_embeddings.weight"][0]
        x = layer_norm(words + places + segment, weights, "embeddings.LayerNorm", self.epsilon)
        if stage == "positions":
            return x
        q, k, v = (linear(x, weights, f"{LAYER}.attention.self.{name}") for name in ("query", "key", "value"))
        mixed = linear(attention(q, k, v, self.n_heads), weights, f"{LAYER}.attention.output.dense")
        x = layer_norm(x + mixed, weights, f"{LAYER}.attention.output.LayerNorm", self.epsilon)
        if stage == "attention":
            return x
        inner = ACTIVATIONS[self.activation](linear(x, weights, f"{LAYER}.intermediate.dense"))
        return layer_norm(
            x + linear(inner, weights, f"{LAYER}.output.dense"), weights, f"{LAYER}.output.LayerNorm", self.epsilon
        )
