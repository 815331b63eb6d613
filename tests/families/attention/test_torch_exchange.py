"""Plain arrays and PyTorch: the same weights bit for bit, the same logits and gradients."""

import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from factrank.errors import InputError
from factrank.families.attention.attention_arrays import model_from_arrays, part_sizes
from factrank.families.attention.attention_layer import AttentionLayer, init_layer, layer_from_arrays
from factrank.families.attention.layer_shape import LayerShape
from factrank.families.attention.pair_transformer import TransformerShape, init_transformer
from factrank.families.attention.torch_exchange import from_torch_state_dict, to_torch_state_dict, torch_module
from factrank.nn.part_arrays import to_arrays

SIZES = (3, 2, 5)
SHAPES = [
    TransformerShape(4, 2, 3, 2, n_layers=layers, mlp_width=width, positions=positions, layer_norm=norm)
    for layers in (1, 3)
    for width in (0, 6)
    for positions in (False, True)
    for norm in (False, True)
]
SPECS = st.tuples(st.tuples(*[st.integers(1, 5)] * 4), st.tuples(*[st.integers(1, 6)] * 3), st.integers(0, 2**32 - 1))
"""Shape, sizes and seed of a layer. Tests make it, not strategies: run-time type checks draw random numbers."""


def layer_of(spec):
    shape, sizes, seed = spec
    return init_layer(LayerShape(*shape), *sizes, key=seed)


def same(one, other):
    """Equal structure, types and bits."""
    assert jax.tree.structure(one) == jax.tree.structure(other)
    for mine, theirs in zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True):
        assert mine.dtype == theirs.dtype
        assert np.asarray(mine).tobytes() == np.asarray(theirs).tobytes()


def torch_or_skip():
    return pytest.importorskip("torch", reason="extra 'torch' is not installed: pip install 'factrank[torch]'")


# ---------------------------------------------------------------- plain arrays


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_the_parts_of_every_transformer_have_the_sizes_that_its_shape_says(shape):
    model = init_transformer(shape, *SIZES, key=0)
    parts = to_arrays(model)
    assert {name: part.shape for name, part in parts.items()} == part_sizes(shape, SIZES)
    assert sum(part.size for name, part in parts.items() if name != "query_rows") == shape.parameters(*SIZES)
    same(model_from_arrays(shape, SIZES, parts), model)


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16"])
def test_a_layer_from_its_own_arrays(dtype):
    with jax.enable_x64(dtype == "float64"):
        layer = init_layer(LayerShape(4, 2, 3, 1), *SIZES, key=0, dtype=dtype)
        same(layer_from_arrays(layer.n_keys, **to_arrays(layer)), layer)
    same(model_from_arrays(layer.shape, SIZES, to_arrays(layer)), layer)
    assert layer.w_q.dtype == dtype


def test_a_model_keeps_no_view_of_the_arrays_it_came_from():
    layer = init_layer(LayerShape(4, 2, 3, 1), *SIZES, key=0)
    parts = {name: part.copy() for name, part in to_arrays(layer).items()}
    model = model_from_arrays(layer.shape, SIZES, parts)
    for part in parts.values():
        part[:] = 7
    same(model, layer)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda parts: parts.pop("final_norm.bias"), "missing 'final_norm.bias', unknown none"),
        (lambda parts: parts.update({"x" * 1000: np.zeros(1)}), "missing none, unknown 'x{60}'"),
        (
            lambda parts: parts.update(unembedding=np.zeros((4, 6))),
            r"bfloat16 of shape \[4, 5\]; got float64 of shape \[4",
        ),
        (
            lambda parts: parts.update(positions=np.zeros((2, 4), np.float16)),
            "positions must be float32, float64 or bfloat16",
        ),
        (lambda parts: parts.update(query_rows=np.zeros(2)), "query_rows must be int32 or int64"),
        (lambda parts: parts.update(query_rows=np.array([3, 5])), "5 embedding rows do not serve"),
        (lambda parts: parts.update(query_rows=np.array([-1, 4])), "5 embedding rows do not serve"),
        (lambda parts: [parts.pop(name) for name in list(parts)[2:]], "parts of 3 layers; got 2 arrays"),
    ],
)
def test_parts_that_do_not_fit_are_named(change, message):
    parts = to_arrays(init_transformer(SHAPES[-1], *SIZES, key=0))
    change(parts)
    with pytest.raises(InputError, match=message):
        model_from_arrays(SHAPES[-1], SIZES, parts)


# ---------------------------------------------------------------- PyTorch


@given(SPECS)
@settings(max_examples=8)
def test_a_state_dict_gives_the_layer_back(spec):
    layer = layer_of(spec)
    torch_or_skip()
    same(from_torch_state_dict(to_torch_state_dict(layer), layer.n_keys), layer)
    module = torch_module(layer)
    assert {name for name, _ in module.named_parameters()} == set(to_arrays(layer))
    same(from_torch_state_dict(module.state_dict(), module.n_keys), layer)


@given(SPECS)
@settings(max_examples=8)
def test_torch_computes_the_same_logits(spec):
    layer = layer_of(spec)
    torch = torch_or_skip()
    keys, queries = (codes.ravel() for codes in np.indices((layer.n_keys, layer.n_queries)))
    with jax.default_matmul_precision("highest"):
        ours = np.asarray(layer.logits(jnp.asarray(keys), jnp.asarray(queries)))
    theirs = torch_module(layer)(torch.from_numpy(keys), torch.from_numpy(queries)).detach().numpy()
    scale = max(1.0, float(np.abs(ours).max()))
    assert np.abs(ours - theirs).max() <= 1e-5 * scale


def test_torch_computes_the_same_in_double_precision():
    torch = torch_or_skip()
    with jax.enable_x64(True):
        layer = init_layer(LayerShape(7, 3, 2, 4), 6, 5, 8, key=1, dtype="float64")
        tensor = np.asarray(layer.tensor())
    keys, queries = (torch.from_numpy(codes.ravel()) for codes in np.indices((6, 5)))
    module = torch_module(layer)
    logits = module(keys, queries).detach().numpy().reshape(6, 5, 8)
    np.testing.assert_allclose(logits, tensor, rtol=0, atol=1e-12)
    same(from_torch_state_dict(module.state_dict(), 6), layer)


def test_a_loss_has_the_same_gradients():
    torch = torch_or_skip()
    layer = init_layer(LayerShape(5, 2, 3, 2), 4, 3, 6, key=2)
    keys, queries = (codes.ravel() for codes in np.indices((4, 3)))
    values = np.random.default_rng(0).integers(6, size=12)

    def loss(layer):
        logits = layer.logits(jnp.asarray(keys), jnp.asarray(queries))
        return -jnp.take_along_axis(jax.nn.log_softmax(logits), jnp.asarray(values)[:, None], axis=1).mean()

    with jax.default_matmul_precision("highest"):
        ours = to_arrays(jax.grad(loss)(layer))
    module = torch_module(layer)
    logits = module(torch.from_numpy(keys), torch.from_numpy(queries))
    torch.nn.functional.cross_entropy(logits, torch.from_numpy(values)).backward()
    for name, parameter in module.named_parameters():
        np.testing.assert_allclose(parameter.grad.numpy(), ours[name], rtol=0, atol=1e-5, err_msg=name)


def test_training_the_module_leaves_the_layers_alone():
    torch = torch_or_skip()
    layer = init_layer(LayerShape(5, 2, 3, 2), 4, 3, 6, key=2)
    before = {name: part.copy() for name, part in to_arrays(layer).items()}
    module = torch_module(layer)
    taken = from_torch_state_dict(module.state_dict(), 4)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.add_(1)
    for untouched in (layer, taken):
        assert all((part == before[name]).all() for name, part in to_arrays(untouched).items())
    fresh = torch_module(layer)
    fresh.load_state_dict(module.state_dict())
    assert all(
        (part == before[name] + 1).all()
        for name, part in to_arrays(from_torch_state_dict(fresh.state_dict(), 4)).items()
    )


def test_a_state_dict_that_is_none_of_ours_is_refused():
    torch_or_skip()
    layer = init_layer(LayerShape(5, 2, 3, 2), 4, 3, 6, key=2)
    state = to_torch_state_dict(layer)
    with pytest.raises(InputError, match="missing \\['embedding'\\], unknown \\['embed'\\]"):
        from_torch_state_dict({"embed" if name == "embedding" else name: part for name, part in state.items()}, 4)
    with pytest.raises(InputError, match="w_k must have shape"):
        from_torch_state_dict(state | {"w_k": state["w_v"]}, 4)
    with pytest.raises(InputError, match="w_q must be a torch tensor; got list"):
        from_torch_state_dict(state | {"w_q": [1.0]}, 4)
    with pytest.raises(InputError, match="n_keys must lie between 1 and 6"):
        from_torch_state_dict(state, 7)


def test_bfloat16_goes_to_torch_and_comes_back():
    torch = torch_or_skip()
    layer = init_layer(LayerShape(5, 2, 3, 2), 4, 3, 6, key=2)
    coarse = {name: part.to(torch.bfloat16) for name, part in to_torch_state_dict(layer).items()}
    taken = from_torch_state_dict(coarse, 4)
    assert isinstance(taken, AttentionLayer)
    same(taken, init_layer(LayerShape(5, 2, 3, 2), 4, 3, 6, key=2, dtype="bfloat16"))
    assert all((part == coarse[name].float().numpy()).all() for name, part in to_arrays(taken).items())
    assert all(torch.equal(part, coarse[name]) for name, part in to_torch_state_dict(taken).items())


def test_without_torch_the_error_says_how_to_get_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    layer = init_layer(LayerShape(2, 1, 1, 1), 1, 1, 1, key=0)
    for call in (to_torch_state_dict, lambda layer: from_torch_state_dict({}, 1)):
        with pytest.raises(InputError, match=r"pip install 'factrank\[torch\]'"):
            call(layer)
