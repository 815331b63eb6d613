"""`HeadLayout`: how an architecture stores its attention heads; `CheckpointSizes`: how many there are and how wide."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from factrank.checkpoints.configuration import Settings
from factrank.errors import InputError

NormKind = Literal["layer", "rms", "rms + 1"]
"""LayerNorm; RMSNorm; RMSNorm with the gain 1 + w."""
Pairs = Literal["halves", "adjacent"]
"""Which coordinates are rotated together: i and i + n/2, or 2i and 2i + 1."""

WIDTH = ("hidden_size", "n_embd", "n_embed", "d_model")
LAYERS = ("num_hidden_layers", "n_layer", "num_layers")
HEADS = ("num_attention_heads", "n_head")
KV_HEADS = ("num_key_value_heads", "num_kv_heads")


@dataclass(frozen=True)
class CheckpointSizes:
    """Sizes of the attention layers of a model.

    Arguments:
        width: Dimension of the residual stream.
        n_layers: Layers.
        n_heads: Query heads of a layer.
        n_kv_heads: Key and value heads of a layer; query head h reads number h // (n_heads / n_kv_heads).
        d_qk: Dimension of queries and keys.
        d_vo: Dimension of values.
    """

    width: int
    n_layers: int
    n_heads: int
    n_kv_heads: int
    d_qk: int
    d_vo: int

    @property
    def group_size(self) -> int:
        """Query heads that share a key and value head."""
        return self.n_heads // self.n_kv_heads


def one_of(settings: Settings, names: tuple[str, ...], default: int | None = None) -> int:
    """Return the first of these settings that is given."""
    given = [name for name in names if settings.entries.get(name) is not None]
    return settings.size(given[0] if given else names[0], default)


def usual_sizes(settings: Settings) -> CheckpointSizes:
    """Read the sizes of an architecture with the usual settings; `head_dim` need not be width / heads."""
    width, heads = one_of(settings, WIDTH), one_of(settings, HEADS)
    kv_heads = one_of(settings, KV_HEADS, heads)
    if heads % kv_heads:
        raise InputError(f"{settings.place}: {heads} query heads cannot share {kv_heads} key and value heads")
    if settings.entries.get("head_dim") is None and width % heads:
        raise InputError(f"{settings.place}: a width of {width} cannot be divided among {heads} heads")
    d_head = settings.size("head_dim", max(width // heads, 1))
    return CheckpointSizes(width, one_of(settings, LAYERS), heads, kv_heads, d_head, d_head)


def usual_scale(settings: Settings, sizes: CheckpointSizes, _layer: int) -> float:
    """Return 1 / sqrt(query_pre_attn_scalar) (Gemma) or 1 / sqrt(d_qk)."""
    return float(settings.number("query_pre_attn_scalar", float(sizes.d_qk)) ** -0.5)


@dataclass(frozen=True)
class HeadLayout:
    """Names, fused layouts, transposes, norms and scales of an architecture.

    Names of projections and norms are relative to `layer`, and are followed by ".weight" and ".bias".

    Arguments:
        title: Name of the architecture in messages.
        prefixes: What precedes every name, in the order in which it is tried.
        layer: Prefix of a layer, with {} for its number.
        projections: Maps to queries, keys and values, or one fused map.
        output: Map from the heads to the residual stream.
        norm: Norm that attention reads.
        norm_kind: Kind of all norms.
        first_norm: For models that normalise after the residual sum: the norm before the first layer (may be empty).
            `norm` then belongs to the previous layer.
        grouped: Whether a fused map has its rows group by group (the queries, the key and the value of a group), or
            else all queries, all keys and all values.
        transposed: Whether maps are stored as [outputs, inputs].
        head_norms: Norms of the queries and keys of each head.
        after_norm: Norm of the output of attention.
        rotary: Which coordinates are rotated together; None without rotary positions.
        latent: Whether queries, keys and values go through a latent vector (MLA).
        embedding: Embedding of tokens; empty if there are no tokens.
        embedding_norm: Norm of the embeddings; empty if there is none.
        embedding_scaled: Whether embeddings are multiplied by sqrt(width).
        unembedding: Map to logits; the embedding if the checkpoint does not have it.
        final_norm: Norm before the unembedding; empty if there is none.
        sizes: Reads the sizes from the settings.
        scale: Factor of the scores of a layer.
        renamed: Replacements in names that lead to the modules of newer versions of `transformers`, whose files keep
            the old names.
        adapted: Returns the layout for these settings: some choose between variants.
        notes: What is left out of the circuits.
    """

    title: str
    prefixes: tuple[str, ...]
    layer: str
    projections: tuple[str, ...]
    output: str
    norm: str
    norm_kind: NormKind = "rms"
    first_norm: str | None = None
    grouped: bool = False
    transposed: bool = True
    head_norms: tuple[str, str] | None = None
    after_norm: str | None = None
    rotary: Pairs | None = None
    latent: bool = False
    embedding: str = "embed_tokens.weight"
    embedding_norm: str = ""
    embedding_scaled: bool = False
    unembedding: str = "lm_head.weight"
    final_norm: str = "norm"
    sizes: Callable[[Settings], CheckpointSizes] = usual_sizes
    scale: Callable[[Settings, CheckpointSizes, int], float] = usual_scale
    renamed: tuple[tuple[str, str], ...] = ()
    adapted: Callable[[HeadLayout, Settings], HeadLayout] = lambda layout, _: layout
    notes: tuple[str, ...] = ()

    def newer(self, name: str) -> str:
        """Return a name as the modules of newer versions of `transformers` have it."""
        for old, new in self.renamed:
            name = name.replace(old, new)
        return name
