"""Cost of a layer or transformer: multiplications in a forward pass, and numbers kept in memory."""

from __future__ import annotations

from factrank.families.attention.layer_shape import LayerShape
from factrank.families.attention.pair_transformer import TransformerShape

LayerSizes = tuple[int, int, int, int, int, int, int]
"""n_keys, n_queries, n_values, d_model, n_heads, d_qk, d_vo."""


def sizes_of(layer: LayerShape, shape: tuple[int, int, int]) -> LayerSizes:
    """Return the seven sizes of a layer on a database of this shape."""
    return (*shape, layer.d_model, layer.n_heads, layer.d_qk, layer.d_vo)


def products(sizes: LayerSizes, n_facts: int) -> int:
    """Estimate the multiplications in a forward pass: projections, value tables, then the facts."""
    n_keys, n_queries, n_values, d_model, n_heads, d_qk, d_vo = sizes
    n_tokens = n_keys + n_queries
    projections = n_tokens * d_model * n_heads * (2 * d_qk + d_vo)
    tables = n_heads * d_vo * n_values * (d_model + n_tokens) + n_queries * d_model * n_values
    return projections + tables + n_facts * n_heads * (d_qk + n_values)


def forward_products(spec: LayerShape | TransformerShape, shape: tuple[int, int, int], n_facts: int) -> int:
    """Estimate the multiplications in a forward pass through all layers of a model, MLPs included."""
    if isinstance(spec, LayerShape):
        return products(sizes_of(spec, shape), n_facts)
    mlp = 2 * n_facts * spec.d_model * spec.mlp_width
    return spec.n_layers * (products(sizes_of(spec.layer, shape), n_facts) + mlp)


def kept_numbers(spec: LayerShape | TransformerShape, shape: tuple[int, int, int]) -> int:
    """Estimate how many numbers a forward pass keeps in its tables: queries, keys, values and their logits."""
    n_keys, n_queries, n_values = shape
    layer = spec.layer if isinstance(spec, TransformerShape) else spec
    return (n_keys + n_queries) * layer.n_heads * (2 * layer.d_qk + layer.d_vo + n_values)
