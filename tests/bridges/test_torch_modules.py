"""Layers as PyTorch modules: the same weights bit for bit, the same logits and gradients, and back."""

import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from factrank.bridges.pytorch import from_torch
from factrank.bridges.tensor_roles import Wiring
from factrank.bridges.torch_modules import to_torch
from factrank.databases.database import Database
from factrank.errors import InputError
from factrank.families.attention.attention_layer import init_layer
from factrank.families.attention.layer_shape import LayerShape
from factrank.families.attention.pair_transformer import TransformerShape, init_transformer
from factrank.families.attention.searching.smallest_certified import construct
from factrank.nn.part_arrays import to_arrays

SPECS = st.tuples(st.tuples(*[st.integers(1, 5)] * 4), st.tuples(*[st.integers(1, 6)] * 3), st.integers(0, 2**32 - 1))
"""Shape, sizes and seed of a layer. Tests make it, not strategies: run-time type checks draw random numbers."""


def layer_of(spec):
    shape, sizes, seed = spec
    return init_layer(LayerShape(*shape), *sizes, key=seed)


def small_layer(dtype="float32"):
    with jax.enable_x64(dtype == "float64"):
        return init_layer(LayerShape(5, 2, 3, 2), 4, 3, 6, key=2, dtype=dtype)


def same(one, other):
    """Equal structure, types and bits."""
    assert jax.tree.structure(one) == jax.tree.structure(other)
    for mine, theirs in zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True):
        assert mine.dtype == theirs.dtype
        assert np.asarray(mine).tobytes() == np.asarray(theirs).tobytes()


@pytest.fixture(scope="module")
def torch():
    return pytest.importorskip("torch", reason="extra 'torch' is not installed: pip install 'factrank[torch]'")


@given(SPECS)
@settings(max_examples=8)
def test_a_module_and_its_state_dict_give_the_layer_back(spec):
    layer = layer_of(spec)
    pytest.importorskip("torch")
    module = to_torch(layer)
    assert {name for name, _ in module.named_parameters()} == set(to_arrays(layer))
    same(from_torch(module), layer)
    same(from_torch({name: tensor.numpy() for name, tensor in module.state_dict().items()}), layer)


@given(SPECS)
@settings(max_examples=4)
def test_torch_computes_the_same_logits(spec):
    layer = layer_of(spec)
    torch = pytest.importorskip("torch")
    keys, queries = (codes.ravel() for codes in np.indices((layer.n_keys, layer.n_queries)))
    with jax.default_matmul_precision("highest"):
        ours = np.asarray(layer.logits(jnp.asarray(keys), jnp.asarray(queries)))
    theirs = to_torch(layer)(torch.from_numpy(keys), torch.from_numpy(queries)).detach().numpy()
    scale = max(1.0, float(np.abs(ours).max()))
    assert np.abs(ours - theirs).max() <= 1e-5 * scale


def test_torch_computes_the_same_in_double_precision(torch):
    with jax.enable_x64(True):
        layer = init_layer(LayerShape(7, 3, 2, 4), 6, 5, 8, key=1, dtype="float64")
        tensor = np.asarray(layer.tensor())
    keys, queries = (torch.from_numpy(codes.ravel()) for codes in np.indices((6, 5)))
    module = to_torch(layer)
    logits = module(keys, queries).detach().numpy().reshape(6, 5, 8)
    np.testing.assert_allclose(logits, tensor, rtol=0, atol=1e-12)
    same(from_torch(module.state_dict()), layer)


def test_a_loss_has_the_same_gradients(torch):
    layer = small_layer()
    keys, queries = (codes.ravel() for codes in np.indices((4, 3)))
    values = np.random.default_rng(0).integers(6, size=12)

    def loss(layer):
        logits = layer.logits(jnp.asarray(keys), jnp.asarray(queries))
        return -jnp.take_along_axis(jax.nn.log_softmax(logits), jnp.asarray(values)[:, None], axis=1).mean()

    with jax.default_matmul_precision("highest"):
        ours = to_arrays(jax.grad(loss)(layer))
    module = to_torch(layer)
    logits = module(torch.from_numpy(keys), torch.from_numpy(queries))
    torch.nn.functional.cross_entropy(logits, torch.from_numpy(values)).backward()
    for name, parameter in module.named_parameters():
        np.testing.assert_allclose(parameter.grad.numpy(), ours[name], rtol=0, atol=1e-5, err_msg=name)


def test_training_the_module_leaves_the_layers_alone(torch):
    layer = small_layer()
    before = {name: part.copy() for name, part in to_arrays(layer).items()}
    module = to_torch(layer)
    taken = from_torch(module)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.add_(1)
    for untouched in (layer, taken):
        assert all((part == before[name]).all() for name, part in to_arrays(untouched).items())
    fresh = to_torch(layer)
    fresh.load_state_dict(module.state_dict())
    assert all((part == before[name] + 1).all() for name, part in to_arrays(from_torch(fresh)).items())


@pytest.mark.parametrize("dtype", ["float64", "bfloat16"])
def test_every_precision_goes_to_torch_and_comes_back(dtype, torch):
    layer = small_layer(dtype)
    module = to_torch(layer)
    assert module.w_q.dtype == getattr(torch, dtype)
    same(from_torch(module), layer)


def test_a_changed_state_dict_is_refused(torch):
    state = dict(to_torch(small_layer()).state_dict())
    with pytest.raises(InputError, match="w_k must have shape"):
        from_torch(state | {"w_k": state["w_v"]})
    with pytest.raises(InputError, match="'w_q' must be a tensor or an array; got list"):
        from_torch(state | {"w_q": [1.0]})
    with pytest.raises(InputError, match="n_keys must be between 1 and 6"):
        from_torch(state | {"n_keys": torch.tensor(7)})
    with pytest.raises(InputError, match="n_keys must be one integer; got float32"):
        from_torch(state | {"n_keys": torch.tensor(4.0)})
    with pytest.raises(InputError, match="'w_q' contains NaN"):
        from_torch(state | {"w_q": state["w_q"] * float("nan")})
    with pytest.raises(InputError, match="one precision"):
        from_torch(state | {"w_q": state["w_q"].double()})


def test_only_layers_become_modules():
    with pytest.raises(InputError, match="only an AttentionLayer can become a torch module; got a PairTransformer"):
        to_torch(init_transformer(TransformerShape(4, 1, 2, 2, positions=True), 2, 2, 2, key=0))


def test_without_torch_the_error_says_how_to_get_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(InputError, match=r"pip install 'factrank\[torch\]'"):
        to_torch(init_layer(LayerShape(2, 1, 1, 1), 1, 1, 1, key=0))


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_a_bias_outside_the_state_dict_is_found(torch, precision):
    """Rounding of large terms must not hide it: both forward passes are compared in float64."""
    database = Database.from_facts([(f"k{i}", "q", f"v{i}") for i in range(40)])
    parts = to_torch(construct(database, only=["parabola"]))

    class Biased(torch.nn.Module):
        def __init__(self, bias):
            super().__init__()
            for name, part in parts.named_parameters():
                setattr(self, name, torch.nn.Parameter(part.detach().to(getattr(torch, precision))))
            self.register_buffer("bias", bias * (torch.arange(40) % 2), persistent=False)

        def forward(self, ids):
            x = self.embedding[ids]
            last = x[:, -1]
            q, k = torch.einsum("nd,hde->nhe", last, self.w_q), torch.einsum("npd,hde->nhpe", x, self.w_k)
            weights = (torch.einsum("nhe,nhpe->nhp", q, k) / self.w_q.shape[-1] ** 0.5).softmax(-1)
            read = torch.einsum("nhp,npd,hde->nhe", weights, x, self.w_v)
            return (last + torch.einsum("nhe,hed->nd", read, self.w_o)) @ self.unembedding + self.bias

    wiring = Wiring(layout="matrix")
    assert from_torch(Biased(0.0), database, wiring=wiring).n_keys == 40
    with pytest.raises(InputError, match="the module's own forward pass differ: by 2 "):
        from_torch(Biased(2.0), database, wiring=wiring)


@pytest.mark.usefixtures("torch")
def test_a_module_with_our_parts_must_have_our_logits():
    database = Database.from_facts([("Oslo", "country", "Norway"), ("Lima", "country", "Peru")])
    module = to_torch(construct(database))

    class Negated(type(module)):
        def forward(self, keys, queries):
            return -super().forward(keys, queries)

    negated = Negated(2, {name: part.detach() for name, part in module.named_parameters()})
    with pytest.raises(InputError, match="computes something else"):
        from_torch(negated, database)
