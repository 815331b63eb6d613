"""The first block of ViT, BERT and GPT-2: its weights in Hugging Face checkpoints, and its forward pass.

All three add attention and an MLP to a residual stream. They differ in the embedding, in the position of the layer
norms and in the names of the weights (`Layout`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from jaxtyping import Num

from factrank.checkpoints.configuration import Settings
from factrank.checkpoints.embeddings import PatchEmbedding, WordEmbedding
from factrank.checkpoints.layers import (
    ACTIVATIONS,
    Part,
    Tokens,
    TokenStage,
    Weights,
    attention,
    layer_norm,
    linear,
    norm_parts,
    require_activation,
    require_heads,
)
from factrank.errors import InputError


@dataclass(frozen=True)
class Layout:
    """Names of the weights of a block, and how the block is wired.

    Arguments:
        title: Name of the architecture in messages.
        prefix: Prefix of the weights in some checkpoints.
        heads: The maps to queries, keys and values, or a single map to all three.
        mixed: The output map of attention.
        inner: The first map of the MLP.
        outer: The second map of the MLP.
        norms: The layer norms of attention and of the MLP.
        norm_first: Whether norms are applied to the inputs of attention and MLP, or else to the residual sums.
        causal: Whether a token attends only to itself and earlier tokens.
        transposed: Whether maps are stored as [outputs, inputs].
        query_position: Position of the query: [CLS], or the last token, which sees the whole context.
        reads: Input of the model: "ids" or "images".
    """

    title: str
    prefix: str
    heads: tuple[str, ...]
    mixed: str
    inner: str
    outer: str
    norms: tuple[str, str]
    norm_first: bool = True
    causal: bool = False
    transposed: bool = True
    query_position: int = 0
    reads: str = "ids"


def _encoder(title: str, heads: str, norms: tuple[str, str], **wiring: Any) -> Layout:
    layer = "encoder.layer.0"
    return Layout(
        title,
        f"{title.lower()}.",
        heads=tuple(f"{layer}.attention.{heads}.{name}" for name in ("query", "key", "value")),
        mixed=f"{layer}.attention.output.dense",
        inner=f"{layer}.intermediate.dense",
        outer=f"{layer}.output.dense",
        norms=(f"{layer}.{norms[0]}", f"{layer}.{norms[1]}"),
        **wiring,
    )


FAMILIES: Mapping[str, Layout] = {
    "vit": _encoder("ViT", "attention", ("layernorm_before", "layernorm_after"), reads="images"),
    "bert": _encoder("BERT", "self", ("attention.output.LayerNorm", "output.LayerNorm"), norm_first=False),
    "gpt2": Layout(
        "GPT-2",
        "transformer.",
        heads=("h.0.attn.c_attn",),
        mixed="h.0.attn.c_proj",
        inner="h.0.mlp.c_fc",
        outer="h.0.mlp.c_proj",
        norms=("h.0.ln_1", "h.0.ln_2"),
        causal=True,
        transposed=False,
        query_position=-1,
    ),
}


@dataclass(frozen=True)
class Architecture:
    """Sizes of the first block of a model.

    Arguments:
        layout: Names of the weights and wiring.
        embedding: Embedding of words or patches.
        width: Dimension of the residual stream.
        n_heads: Number of attention heads.
        mlp_width: Hidden units of the MLP.
        epsilon: Added to the variance in layer norms.
        activation: Activation function of the MLP.
        std: Standard deviation of weights before training.
        n_layers: If given, maps that write to the residual stream start smaller by sqrt(2 n_layers).
        heads_bias: Whether the maps to queries, keys and values have a bias.
    """

    layout: Layout
    embedding: WordEmbedding | PatchEmbedding
    width: int
    n_heads: int
    mlp_width: int
    epsilon: float
    activation: str
    std: float
    n_layers: int | None = None
    heads_bias: bool = True

    def parts(self) -> Mapping[str, Part]:
        """Return every weight that the first block needs."""
        d, m, names = self.width, self.mlp_width, self.layout
        residual = self.std if self.n_layers is None else float(self.std / np.sqrt(2 * self.n_layers))
        maps = [(name, d, 3 * d // len(names.heads), self.std) for name in names.heads]
        maps += [(names.mixed, d, d, residual), (names.inner, d, m, self.std), (names.outer, m, d, residual)]
        parts = self.embedding.parts(d, self.std)
        for name, n_inputs, n_outputs, std in maps:
            parts[f"{name}.weight"] = Part((n_outputs, n_inputs) if names.transposed else (n_inputs, n_outputs), std)
            if self.heads_bias or name not in names.heads:
                parts[f"{name}.bias"] = Part((n_outputs,))
        return parts | norm_parts(names.norms[0], d) | norm_parts(names.norms[1], d)

    def tokens(self, weights: Weights, inputs: Num[np.ndarray, "..."], stage: TokenStage) -> Tokens:
        """Return the token vectors of each example at a stage."""
        embedded, x = self.embedding.embed(weights, inputs, self.epsilon)
        if stage in ("embedding", "positions"):
            return embedded if stage == "embedding" else x
        names = self.layout
        mapped = partial(linear, weights=weights, transposed=names.transposed)

        def attend(x: Tokens) -> Tokens:
            heads = [mapped(x, name=name) for name in names.heads]
            queries, keys, values = heads if len(heads) == 3 else np.split(heads[0], 3, axis=-1)
            return mapped(attention(queries, keys, values, self.n_heads, causal=names.causal), name=names.mixed)

        def mlp(x: Tokens) -> Tokens:
            return mapped(ACTIVATIONS[self.activation](mapped(x, name=names.inner)), name=names.outer)

        x = self._residual(x, attend, weights, names.norms[0])
        return x if stage == "attention" else self._residual(x, mlp, weights, names.norms[1])

    def _residual(self, x: Tokens, update: Callable[[Tokens], Tokens], weights: Weights, norm: str) -> Tokens:
        if self.layout.norm_first:
            return np.asarray(x + update(layer_norm(x, weights, norm, self.epsilon)))
        return layer_norm(x + update(x), weights, norm, self.epsilon)


def architecture_of(settings: Settings) -> Architecture:
    """Read the architecture and its sizes from a `config.json`; raise `InputError` if they are not supported."""
    kind = settings.text("model_type", "")
    if kind not in FAMILIES:
        raise InputError(f"{settings.place}: unknown model_type {kind[:40]!r}; expected one of {', '.join(FAMILIES)}")
    gpt2 = kind == "gpt2"
    width = settings.size("n_embd" if gpt2 else "hidden_size")
    architecture = Architecture(
        FAMILIES[kind],
        PatchEmbedding.of(settings) if kind == "vit" else WordEmbedding.of(settings, kind),
        width,
        n_heads=settings.size("n_head" if gpt2 else "num_attention_heads"),
        mlp_width=settings.size("n_inner", 4 * width) if gpt2 else settings.size("intermediate_size"),
        epsilon=settings.number("layer_norm_epsilon", 1e-5) if gpt2 else settings.number("layer_norm_eps", 1e-12),
        activation=settings.text("activation_function", "gelu_new") if gpt2 else settings.text("hidden_act", "gelu"),
        std=settings.number("initializer_range", 0.02),
        n_layers=settings.size("n_layer", 1) if gpt2 else None,
        heads_bias=settings.truth("qkv_bias", True) if kind == "vit" else True,
    )
    require_heads(architecture.width, architecture.n_heads)
    require_activation(architecture.activation)
    _require_supported(settings, kind)
    return architecture


def _require_supported(settings: Settings, kind: str) -> None:
    if kind == "gpt2" and not settings.truth("scale_attn_weights", True):
        raise InputError(f"{settings.place}: scale_attn_weights false is not supported; expected true")
    if kind == "bert":
        positions = settings.text("position_embedding_type", "absolute")
        if positions != "absolute":
            raise InputError(
                f"{settings.place}: position_embedding_type {positions!r} is not supported; expected 'absolute'"
            )
        if settings.truth("is_decoder", False):
            raise InputError(f"{settings.place}: is_decoder true hides tokens from [CLS]; expected false")
