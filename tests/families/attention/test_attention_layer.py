"""AttentionLayer against loops written from the formula: logits, tensor, parts, gradients."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings

from factrank.errors import InputError
from factrank.families.attention.attention_layer import AttentionLayer, init_layer, layer_from_arrays
from factrank.families.attention.layer_shape import LayerShape
from slow_layers import arrays, assert_equals_reference, compiled, layer_sizes, slow_layer_tensor, softmax

PARTS = ("embedding", "w_q", "w_k", "w_v", "w_o", "unembedding")
# d_model, heads, d_qk, d_vo; keys, queries, values. The last two read the residual stream before they unembed it.
SHAPES = [
    ((6, 1, 3, 2), (5, 4, 7)),
    ((5, 3, 1, 4), (4, 3, 6)),
    ((3, 2, 4, 5), (6, 2, 2)),
    ((4, 8, 2, 2), (5, 3, 9)),
    ((1, 3, 2, 2), (3, 2, 5)),
]


def layer_of(shape, sizes, seed=0, dtype="float64"):
    with jax.enable_x64(True):
        return init_layer(LayerShape(*shape), *sizes, key=seed, dtype=dtype)


def both_ways(layer):
    parts = layer.parts()
    return parts, parts.total(), parts.by_head(), layer.tensor()


def uses_the_stream(shape, sizes):
    d_model, n_heads = shape[:2]
    return n_heads * sizes[2] > n_heads * d_model + d_model * sizes[2]


@pytest.mark.parametrize(("shape", "sizes"), SHAPES)
def test_logits_equal_the_formula(shape, sizes):
    layer = layer_of(shape, sizes)
    assert layer.embedding.dtype == np.float64
    assert_equals_reference(layer, slow_layer_tensor(layer), 1e-12)


@pytest.mark.optimised
@pytest.mark.parametrize(("shape", "sizes"), [SHAPES[1], SHAPES[3]])
def test_logits_in_float32(shape, sizes):
    layer = layer_of(shape, sizes, dtype="float32")
    assert layer.embedding.dtype == np.float32
    assert_equals_reference(layer, slow_layer_tensor(layer), 1e-5)


def test_both_orders_of_unembedding_are_tested():
    assert [uses_the_stream(*pair) for pair in SHAPES] == [False, False, False, True, True]


@settings(max_examples=4)  # each shape is compiled
@given(layer_sizes())
def test_logits_equal_the_formula_for_any_shape(drawn):
    shape, sizes, seed = drawn
    layer = layer_of(shape, sizes, seed)
    assert_equals_reference(layer, slow_layer_tensor(layer), 1e-12)


@pytest.mark.parametrize(("shape", "sizes"), SHAPES)
def test_parts_add_up_to_the_tensor(shape, sizes):
    """direct [Q, V], attention [H, K, Q, 2], circuits [H, tokens, V], each from its definition, and their sum."""
    layer = layer_of(shape, sizes, seed=1)
    with jax.enable_x64(True), jax.default_matmul_precision("highest"):
        parts, total, by_head, tensor = compiled(both_ways)(layer)
    direct, attention, circuits = (np.asarray(part) for part in parts)
    by_head = np.asarray(by_head)
    (n_keys, n_queries, n_values), n_heads = sizes, shape[1]
    assert direct.shape == (n_queries, n_values)
    assert attention.shape == (n_heads, n_keys, n_queries, 2)
    assert circuits.shape == (n_heads, n_keys + n_queries, n_values)

    x, w_q, w_k, w_v, w_o, unembedding = arrays(layer, PARTS)
    total_by_hand = np.zeros(sizes)
    for k in range(n_keys):
        for q in range(n_queries):
            total_by_hand[k, q] = direct[q]
            for h in range(n_heads):
                x_q = x[n_keys + q]
                scores = np.array([(x_q @ w_q[h]) @ (seen @ w_k[h]) for seen in (x[k], x_q)]) / np.sqrt(shape[2])
                np.testing.assert_allclose(attention[h, k, q], softmax(scores), atol=1e-12)
                added = attention[h, k, q, 0] * circuits[h, k] + attention[h, k, q, 1] * circuits[h, n_keys + q]
                np.testing.assert_allclose(by_head[h, k, q], added, atol=1e-12)
                total_by_hand[k, q] += added
    np.testing.assert_allclose(direct, x[n_keys:] @ unembedding, atol=1e-12)
    for h in range(n_heads):
        np.testing.assert_allclose(circuits[h], x @ w_v[h] @ w_o[h] @ unembedding, atol=1e-11)
    np.testing.assert_allclose(total_by_hand, np.asarray(tensor), atol=1e-11)
    np.testing.assert_allclose(np.asarray(total), np.asarray(tensor), atol=1e-11)


@pytest.mark.parametrize(("shape", "sizes"), SHAPES[1:4:2])
def test_parts_add_up_in_float32(shape, sizes):
    layer = layer_of(shape, sizes, seed=2, dtype="float32")
    with jax.default_matmul_precision("highest"):
        _, total, _, tensor = compiled(both_ways)(layer)
        np.testing.assert_allclose(total, tensor, rtol=1e-6, atol=1e-6 * float(abs(tensor).max()))


@pytest.mark.parametrize("scale", [0.0, -1.0, 30.0])
def test_scaled_scores(scale):
    layer = layer_of(*SHAPES[1])
    with jax.enable_x64(True):
        scaled = layer.scaled_scores(scale)
    assert_equals_reference(scaled, slow_layer_tensor(layer, scale), 1e-12)


def test_large_scores_overflow_nowhere():
    """Saturated attention is exactly 0 or 1: each logit is a sum of whole circuits."""
    with jax.default_matmul_precision("highest"):
        layer = layer_of(*SHAPES[1], dtype="float32").scaled_scores(1e6)
        parts, _, _, tensor = compiled(both_ways)(layer)
    attention = np.asarray(parts.attention)
    assert np.isfinite(tensor).all()
    assert set(np.unique(attention)) == {0.0, 1.0}
    np.testing.assert_array_equal(attention.sum(axis=-1), 1.0)


@pytest.mark.parametrize(("shape", "sizes"), [SHAPES[1], SHAPES[3]])
@pytest.mark.parametrize("route", ["logits", "tensor"])
def test_gradients_equal_finite_differences(shape, sizes, route):
    """Of the cross-entropy, in every direction of every part, by central differences of the fast layer in float64."""
    rng = np.random.default_rng(0)
    keys, queries = (rng.integers(0, size, 12) for size in sizes[:2])
    values = rng.integers(0, sizes[2], 12)

    def loss(layer):
        logits = layer.logits(keys, queries) if route == "logits" else layer.tensor()[keys, queries]
        return -jax.nn.log_softmax(logits)[jnp.arange(12), values].mean()

    with jax.enable_x64(True), jax.default_matmul_precision("highest"):
        keys, queries = jnp.asarray(keys), jnp.asarray(queries)
        layer = layer_of(shape, sizes)
        gradient, fast = compiled(jax.grad(loss))(layer), compiled(loss)
        for part in PARTS:
            weights, slope = getattr(layer, part), np.asarray(getattr(gradient, part))
            for at in rng.permutation(weights.size)[:6]:
                index = np.unravel_index(at, weights.shape)
                shifted = [
                    float(fast(eqx.tree_at(lambda layer, part=part: getattr(layer, part), layer, moved)))
                    for moved in (weights.at[index].add(1e-5), weights.at[index].add(-1e-5))
                ]
                assert slope[index] == pytest.approx((shifted[0] - shifted[1]) / 2e-5, rel=1e-6, abs=1e-9)


def test_initial_weights_have_variance_one_over_fan_in():
    shape, sizes = LayerShape(d_model=32, n_heads=4, d_qk=16, d_vo=8), (100, 100, 50)
    layer = init_layer(shape, *sizes, key=0)
    fan_in = {"embedding": 1, "w_q": 32, "w_k": 32, "w_v": 32, "w_o": 4 * 8, "unembedding": 32}
    for part, count in fan_in.items():
        weights = np.asarray(getattr(layer, part))
        assert weights.var() * count == pytest.approx(1, rel=6 * np.sqrt(2 / weights.size))
        assert abs(weights.mean()) * np.sqrt(count) < 5 / np.sqrt(weights.size)


def test_one_key_gives_one_layer():
    """The same weights up to rounding in either precision; another key, other weights."""
    narrow, wide, other = layer_of(*SHAPES[0], 3, "float32"), layer_of(*SHAPES[0], 3), layer_of(*SHAPES[0], 4)
    for part in PARTS:
        np.testing.assert_array_equal(getattr(narrow, part), np.asarray(getattr(wide, part)).astype(np.float32))
        assert not np.any(np.asarray(getattr(wide, part)) == np.asarray(getattr(other, part)))
    from_jax = [init_layer(LayerShape(*SHAPES[0][0]), *SHAPES[0][1], key=jax.random.key(5)) for _ in range(2)]
    np.testing.assert_array_equal(from_jax[0].w_o, from_jax[1].w_o)


def test_plain_numbers_are_keys_and_queries():
    layer = layer_of(*SHAPES[0], dtype="float32")
    with jax.default_matmul_precision("highest"):
        np.testing.assert_allclose(layer(4, 3), slow_layer_tensor(layer)[4, 3], rtol=1e-5, atol=1e-5)


# ---------------------------------------------------------------- from arrays


def parts_of(layer):
    return {part: np.asarray(getattr(layer, part)) for part in PARTS}


def test_arrays_round_trip():
    layer = layer_of(*SHAPES[1], dtype="float32")
    again = layer_from_arrays(layer.n_keys, **parts_of(layer))
    assert isinstance(again, AttentionLayer)
    as_lists = {part: array.tolist() for part, array in parts_of(layer).items()}
    for copy in (again, layer_from_arrays(layer.n_keys, **as_lists)):
        assert (copy.n_keys, copy.shape) == (layer.n_keys, layer.shape)
        for part in PARTS:
            np.testing.assert_array_equal(getattr(copy, part), getattr(layer, part))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda parts: parts.pop("w_o"), r"missing \['w_o'\], unknown \[\]"),
        (lambda parts: parts.update(bias=np.zeros(3)), r"missing \[\], unknown \['bias'\]"),
        (lambda parts: parts.update(w_q=parts["w_q"][0]), "w_q must be 3-dimensional and real; got float32"),
        (lambda parts: parts.update(embedding=parts["embedding"][0]), "embedding must be 2-dimensional and real"),
        (
            lambda parts: parts.update(w_v=parts["w_v"].astype(np.int32)),
            "w_v must be 3-dimensional and real; got int32",
        ),
        (lambda parts: parts.update(w_k=parts["w_k"][:1]), r"w_k must have shape \[3, 5, 1\] to match the other parts"),
        (lambda parts: parts.update(w_o=parts["w_v"]), r"w_o must have shape \[3, 4, 5\].*got \[3, 5, 4\]"),
        (lambda parts: parts.update(unembedding=parts["unembedding"].T), r"unembedding must have shape \[5, "),
    ],
)
def test_arrays_that_do_not_fit(change, message):
    parts = parts_of(layer_of(*SHAPES[1], dtype="float32"))
    change(parts)
    with pytest.raises(InputError, match=message):
        layer_from_arrays(4, **parts)


@pytest.mark.parametrize("n_keys", [0, 7, -1, True])
def test_n_keys_lies_among_the_rows(n_keys):
    parts = parts_of(layer_of(*SHAPES[1], dtype="float32"))
    with pytest.raises(InputError, match="n_keys must be between 1 and 6"):
        layer_from_arrays(n_keys, **parts)


def test_codes_outside_the_vocabularies_are_errors():
    layer = init_layer(LayerShape(3, 1, 1, 1), 4, 2, 3, key=0)
    for key, query in ((4, 0), (-1, 0), (0, 2)):
        with pytest.raises(InputError, match="must be a code from 0 to"):
            layer(key, query)
