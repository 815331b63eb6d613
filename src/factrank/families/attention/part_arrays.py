"""Parts: the weights of a model as plain arrays by name, and back.

The name of a part is its path in the model: `w_q` of an `AttentionLayer`, `blocks.0.mlp.w_in` of a `PairTransformer`.
Its size follows from the shape of the model and the sizes of the three vocabularies or, for a memoriser, of vectors and
outputs. Parts of memories and of models of sequences are in `reader_parts`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import overload

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Shaped

from factrank.errors import InputError
from factrank.families.attention.attention_layer import REAL, AttentionLayer
from factrank.families.attention.layer_shape import LayerShape
from factrank.families.attention.pair_transformer import Block, Mlp, Norm, PairTransformer, TransformerShape
from factrank.families.factual_recall.factual_recall_shape import FactualRecallOneHotShape, FactualRecallShape
from factrank.families.memoriser.memoriser import Memoriser, memoriser_of
from factrank.families.memoriser.memoriser_shape import MemoriserShape
from factrank.families.memory.memory_shape import MemoryShape
from factrank.families.reader_parts import Reader, ReaderShape, reader_from_arrays, reader_part_sizes
from factrank.nn.sizes import require_sizes

AnyLayer = AttentionLayer | PairTransformer
AnyModel = AnyLayer | Reader | Memoriser
PartArrays = dict[str, Shaped[np.ndarray, "..."]]
WHOLE = ("int32", "int64")
QUERY_ROWS = "query_rows"
SHOWN_PARTS, SHOWN_LETTERS = 5, 60


def to_arrays(model: AnyModel) -> PartArrays:
    """The parts by name, as NumPy arrays of the model's own precision.

    >>> model = AttentionLayer(*(jnp.ones([1] * n) for n in (2, 3, 3, 3, 3, 2)), n_keys=1)
    >>> sorted(to_arrays(model))
    ['embedding', 'unembedding', 'w_k', 'w_o', 'w_q', 'w_v']
    """
    leaves, _ = jax.tree_util.tree_flatten_with_path(model)
    return {jax.tree_util.keystr(path, simple=True, separator="."): np.asarray(leaf) for path, leaf in leaves}


@overload
def model_from_arrays(
    shape: LayerShape | TransformerShape, sizes: tuple[int, int, int], parts: Mapping[str, Shaped[np.ndarray, "..."]]
) -> AnyLayer: ...
@overload
def model_from_arrays(
    shape: LayerShape | TransformerShape | ReaderShape,
    sizes: tuple[int, int, int],
    parts: Mapping[str, Shaped[np.ndarray, "..."]],
) -> AnyModel: ...
def model_from_arrays(
    shape: LayerShape | TransformerShape | ReaderShape,
    sizes: tuple[int, int, int],
    parts: Mapping[str, Shaped[np.ndarray, "..."]],
) -> AnyModel:
    """The model of this shape for (n_keys, n_queries, n_values), with an `InputError` where a part does not fit.

    float64 parts stay float64. JAX computes with them in 64 bits only inside `with jax.enable_x64(True):`; outside it
    warns and computes in 32.
    """
    require_parts(shape, sizes, parts)
    with jax.enable_x64(True):  # else 64-bit parts would silently become 32-bit ones
        arrays = {name: jnp.array(part) for name, part in parts.items()}
    if isinstance(shape, MemoryShape | FactualRecallShape | FactualRecallOneHotShape):
        return reader_from_arrays(shape, sizes, arrays)
    if isinstance(shape, LayerShape):
        return AttentionLayer(n_keys=sizes[0], **arrays)
    return PairTransformer(
        embedding=arrays["embedding"],
        query_rows=arrays[QUERY_ROWS],
        positions=arrays.get("positions"),
        blocks=tuple(_block(shape, arrays, f"blocks.{layer}.") for layer in range(shape.n_layers)),
        final_norm=_norm(shape, arrays, "final_norm."),
        unembedding=arrays["unembedding"],
        n_keys=sizes[0],
        shape=shape,
    )


def memoriser_from_arrays(
    shape: MemoriserShape, sizes: tuple[int, int], parts: Mapping[str, Shaped[np.ndarray, "..."]]
) -> Memoriser:
    """The same for a memoriser; its sizes are (d_input, n_outputs)."""
    _require_same(shape.part_sizes(*sizes), parts)
    with jax.enable_x64(True):
        return memoriser_of(shape, {name: jnp.array(part) for name, part in parts.items()})


def part_sizes(
    shape: LayerShape | TransformerShape, sizes: tuple[int, int, int], n_tokens: int
) -> dict[str, tuple[int, ...]]:
    """The size of every part of a model of this shape, with `n_tokens` embedding rows."""
    _, n_queries, n_values = sizes
    d_model = shape.d_model
    expected: dict[str, tuple[int, ...]] = {"embedding": (n_tokens, d_model), "unembedding": (d_model, n_values)}
    if isinstance(shape, LayerShape):
        return expected | _head_sizes(shape)
    norm, width = {"scale": (d_model,), "bias": (d_model,)}, shape.mlp_width
    mlp = {"w_in": (d_model, width), "b_in": (width,), "w_out": (width, d_model), "b_out": (d_model,)}
    block = dict(_head_sizes(shape.layer))
    if shape.layer_norm:
        block |= _under("attention_norm", norm)
    if shape.mlp_width:
        block |= _under("mlp", mlp) | (_under("mlp_norm", norm) if shape.layer_norm else {})
    for layer in range(shape.n_layers):
        expected |= _under(f"blocks.{layer}", block)
    expected |= {QUERY_ROWS: (n_queries,)}
    expected |= {"positions": (2, d_model)} if shape.positions else {}
    return expected | (_under("final_norm", norm) if shape.layer_norm else {})


def require_parts(
    shape: LayerShape | TransformerShape | ReaderShape,
    sizes: tuple[int, int, int],
    parts: Mapping[str, Shaped[np.ndarray, "..."]],
) -> None:
    """Raise an `InputError` that names the first part that is missing, unknown, or of the wrong size or type."""
    n_keys, n_queries, n_values = sizes
    require_sizes({"n_keys": n_keys, "n_queries": n_queries, "n_values": n_values})
    if isinstance(shape, MemoryShape | FactualRecallShape | FactualRecallOneHotShape):
        _require_same(reader_part_sizes(shape, sizes), parts)
        return
    n_layers = 1 if isinstance(shape, LayerShape) else shape.n_layers
    if n_layers > len(parts):  # before a list of billions of layers is made
        raise InputError(f"expected the parts of {n_layers} layers; got {len(parts)} arrays in all")
    shared = isinstance(shape, TransformerShape) and shape.share_tokens and np.ndim(parts.get("embedding", 0)) == 2
    n_tokens = len(parts["embedding"]) if shared else n_keys + n_queries
    _require_same(part_sizes(shape, sizes, n_tokens), parts)
    if isinstance(shape, TransformerShape):
        _require_rows(parts[QUERY_ROWS], n_tokens, n_keys)


def _require_same(expected: Mapping[str, tuple[int, ...]], parts: Mapping[str, Shaped[np.ndarray, "..."]]) -> None:
    missing, unknown = sorted(expected.keys() - parts.keys()), sorted(parts.keys() - expected.keys())
    if missing or unknown:
        raise InputError(f"expected other parts: missing {_few(missing)}, unknown {_few(unknown)}")
    for name, part in parts.items():
        types = WHOLE if name == QUERY_ROWS else REAL
        if part.shape != expected[name] or part.dtype.name not in types:
            wanted = f"{', '.join(types[:-1])} or {types[-1]} of shape {list(expected[name])}"
            raise InputError(f"{name} must be {wanted}; got {part.dtype} of shape {list(part.shape)}")


def _require_rows(rows: Shaped[np.ndarray, " queries"], n_tokens: int, n_keys: int) -> None:
    if n_tokens < n_keys or rows.min() < 0 or rows.max() >= n_tokens:
        raise InputError(f"{n_tokens} embedding rows do not serve {n_keys} keys and the rows named in {QUERY_ROWS}")


def _head_sizes(shape: LayerShape) -> dict[str, tuple[int, ...]]:
    query_key, n_heads = (shape.n_heads, shape.d_model, shape.d_qk), shape.n_heads
    value, output = (n_heads, shape.d_model, shape.d_vo), (n_heads, shape.d_vo, shape.d_model)
    return {"w_q": query_key, "w_k": query_key, "w_v": value, "w_o": output}


def _under(prefix: str, sizes: Mapping[str, tuple[int, ...]]) -> dict[str, tuple[int, ...]]:
    return {f"{prefix}.{name}": size for name, size in sizes.items()}


def _block(shape: TransformerShape, arrays: dict[str, Array], prefix: str) -> Block:
    mlp = [arrays[f"{prefix}mlp.{name}"] for name in ("w_in", "b_in", "w_out", "b_out") if shape.mlp_width]
    return Block(
        w_q=arrays[f"{prefix}w_q"],
        w_k=arrays[f"{prefix}w_k"],
        w_v=arrays[f"{prefix}w_v"],
        w_o=arrays[f"{prefix}w_o"],
        attention_norm=_norm(shape, arrays, f"{prefix}attention_norm."),
        mlp_norm=_norm(shape, arrays, f"{prefix}mlp_norm.") if mlp else None,
        mlp=Mlp(*mlp) if mlp else None,
        attention=shape.attention,
    )


def _norm(shape: TransformerShape, arrays: dict[str, Array], prefix: str) -> Norm | None:
    return Norm(arrays[f"{prefix}scale"], arrays[f"{prefix}bias"]) if shape.layer_norm else None


def _few(names: list[str]) -> str:
    """The first few names, long ones cut short: they may come from anybody's file."""
    shown = [repr(name[:SHOWN_LETTERS]) for name in names[:SHOWN_PARTS]]
    return ", ".join(shown + (["..."] if len(names) > SHOWN_PARTS else [])) or "none"
