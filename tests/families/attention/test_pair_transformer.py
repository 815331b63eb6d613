"""PairTransformer against each pair run through every block as a context of two tokens; every option, alone, all."""

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from factrank.errors import InputError
from factrank.families.attention.attention_layer import init_layer
from factrank.families.attention.layer_shape import LayerShape
from factrank.families.attention.pair_transformer import TransformerShape, init_transformer, shared_rows
from slow_layers import (
    assert_equals_reference,
    compiled,
    jittered,
    layer_sizes,
    slow_layer_tensor,
    slow_transformer_tensor,
)

SIZES = (4, 3, 5)
ROWS = [4, 1, 3]  # the second and third query are the keys 1 and 3
EVERYTHING = {"n_layers": 3, "mlp_width": 7, "positions": True, "layer_norm": True}
OPTIONS = {
    "none": {},
    "positions": {"positions": True},
    "mlp": {"mlp_width": 7},
    "layer norm": {"layer_norm": True},
    "two layers": {"n_layers": 2},
    "three layers": {"n_layers": 3},
    "linear": {"attention": "linear"},
    "affine": {"attention": "affine"},
    "shared tokens": {"share_tokens": True},
    "two linear layers": {"n_layers": 2, "attention": "linear"},
    "two affine layers": {"n_layers": 2, "attention": "affine"},
    "norm and mlp": {"layer_norm": True, "mlp_width": 3},
    "everything": {**EVERYTHING, "share_tokens": True},
    "everything, linear": {**EVERYTHING, "attention": "linear", "share_tokens": True},
    "everything, affine": {**EVERYTHING, "attention": "affine"},
}
DECOMPOSED = ("none", "positions", "linear", "affine", "shared tokens")


def model_of(options, dtype="float64", sizes=SIZES, shape=(6, 2, 3, 2), seed=0):
    """A model with every weight moved off its initial value."""
    rows = ROWS if options.get("share_tokens") else None
    options = TransformerShape(*shape, **options)
    with jax.enable_x64(dtype == "float64"):
        return jittered(init_transformer(options, *sizes, key=seed, dtype=dtype, query_rows=rows), seed)


@pytest.mark.parametrize("name", OPTIONS)
def test_logits_equal_the_formula(name):
    model = model_of(OPTIONS[name])
    assert_equals_reference(model, slow_transformer_tensor(model), 1e-12)


@pytest.mark.parametrize("name", ["norm and mlp", "affine"])
def test_logits_in_float32(name):
    model = model_of(OPTIONS[name], "float32")
    assert_equals_reference(model, slow_transformer_tensor(model), 2e-5)


@settings(max_examples=3)  # each shape is compiled
@given(layer_sizes(), st.sampled_from(["positions", "layer norm", "everything, affine", "two linear layers"]))
def test_logits_equal_the_formula_for_any_shape(drawn, name):
    shape, sizes, seed = drawn
    model = model_of(OPTIONS[name], sizes=sizes, shape=shape, seed=seed)
    # A layer norm of one coordinate divides 0 by sqrt(1e-5): errors grow by 300 in each.
    assert_equals_reference(model, slow_transformer_tensor(model), 1e-12 if shape[0] > 2 else 1e-8)


def test_without_options_it_is_the_attention_layer():
    """The same weights for the same key, and the same logits."""
    seed = 3
    layer = init_layer(LayerShape(6, 2, 3, 2), *SIZES, key=seed)
    model = init_transformer(TransformerShape(6, 2, 3, 2), *SIZES, key=seed)
    (block,) = model.blocks
    for part in ("w_q", "w_k", "w_v", "w_o"):
        np.testing.assert_array_equal(getattr(block, part), getattr(layer, part))
    np.testing.assert_array_equal(model.embedding, layer.embedding)
    np.testing.assert_array_equal(model.unembedding, layer.unembedding)
    assert_equals_reference(model, slow_layer_tensor(layer), 1e-5)
    assert model.parameters == layer.parameters


def test_options_change_the_logits():
    """No option is silently ignored."""
    tensors = [slow_transformer_tensor(model_of(options)) for options in OPTIONS.values()]
    for i, one in enumerate(tensors):
        assert all(np.abs(one - other).max() > 1e-3 for other in tensors[:i])


@pytest.mark.parametrize("name", DECOMPOSED)
def test_parts_add_up_to_the_tensor(name):
    model = model_of(OPTIONS[name])
    with jax.enable_x64(True), jax.default_matmul_precision("highest"):
        parts, total = compiled(lambda model: (model.parts(), model.parts().total()))(model)
    assert [part.shape for part in parts] == [(3, 5), (2, 4, 3, 2), (2, 7, 5)]
    np.testing.assert_allclose(np.asarray(total), slow_transformer_tensor(model), rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"n_layers": 2}, "several layers"),
        ({"layer_norm": True}, "layer norm"),
        ({"mlp_width": 2}, "an MLP"),
        (EVERYTHING, "several layers and layer norm and an MLP"),
    ],
)
def test_parts_refuse_where_there_are_none(options, why):
    with pytest.raises(InputError, match=f"no circuits: {why}$"):
        model_of(options).parts()


@pytest.mark.parametrize(
    ("name", "scale"), [("norm and mlp", 0.0), ("two linear layers", 2.5), ("two affine layers", -1.0)]
)
def test_scaled_scores(name, scale):
    model = model_of(OPTIONS[name])
    with jax.enable_x64(True):
        scaled = model.scaled_scores(scale)
    assert_equals_reference(scaled, slow_transformer_tensor(model, scale), 1e-12)


@pytest.mark.parametrize("name", OPTIONS)
def test_parameters_are_the_stored_scalars(name):
    options = OPTIONS[name]
    model = model_of(options, "float32")
    n_shared = 2 if options.get("share_tokens") else 0
    stored = sum(leaf.size for leaf in jax.tree.leaves(model) if leaf.dtype == np.float32)
    by_part = model.shape.parameters_by_part(*SIZES, n_shared)
    assert model.parameters == stored == sum(by_part.values()) == model.shape.parameters(*SIZES, n_shared)
    assert by_part["embedding"] == model.embedding.size == (7 - n_shared) * 6
    assert by_part["w_o"] == sum(block.w_o.size for block in model.blocks)
    assert by_part["mlp"] == sum(leaf.size for block in model.blocks for leaf in jax.tree.leaves(block.mlp))
    norms = [model.final_norm, *[norm for block in model.blocks for norm in (block.attention_norm, block.mlp_norm)]]
    assert by_part["norms"] == sum(leaf.size for leaf in jax.tree.leaves(norms))


def test_shared_tokens_read_one_row():
    """A query that is a key sees its own row at both positions: attention between equal tokens is even."""
    model = model_of({"share_tokens": True})
    with jax.enable_x64(True):
        attention = np.asarray(compiled(lambda model: model.parts().attention)(model))
    np.testing.assert_allclose(attention[:, 1, 1], 0.5, atol=1e-12)
    np.testing.assert_allclose(attention[:, 3, 2], 0.5, atol=1e-12)
    assert np.abs(attention[:, 1, 0, 0] - 0.5).min() > 1e-3


@given(st.lists(st.sampled_from("abcdef"), min_size=1, unique=True), st.lists(st.sampled_from("defgh"), min_size=1))
def test_shared_rows(keys, queries):
    rows = shared_rows(tuple(keys), tuple(queries))
    own = [name for name in dict.fromkeys(queries) if name not in keys]
    assert [[*keys, *own][row] for row in rows] == queries
    assert max(rows) < len(keys) + len(own)


def test_mistakes_are_named():
    shape = TransformerShape(6, 2, 3, 2)
    with pytest.raises(InputError, match="n_layers must be an integer of at least 1; got 0"):
        TransformerShape(6, 2, 3, 2, n_layers=0)
    with pytest.raises(InputError, match="mlp_width must be an integer of at least 0; got -1"):
        TransformerShape(6, 2, 3, 2, mlp_width=-1)
    with pytest.raises(InputError, match="query_rows requires share_tokens"):
        init_transformer(shape, *SIZES, key=0, query_rows=ROWS)
    with pytest.raises(InputError, match="query_rows requires share_tokens"):
        init_transformer(TransformerShape(6, 2, 3, 2, share_tokens=True), *SIZES, key=0)
    for rows in ([0, 1], [0, 7, 1], [-1, 0, 1]):
        with pytest.raises(InputError, match=r"query_rows must be 3 integers from 0 to 6; got \["):
            init_transformer(TransformerShape(6, 2, 3, 2, share_tokens=True), *SIZES, key=0, query_rows=rows)
