"""Memoriser: weights multiplied with one another first give what the authors' attention from all positions gives."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from factrank.errors import InputError
from factrank.families.memoriser.memoriser import draw_memoriser, init_memoriser, sinusoids
from factrank.families.memoriser.memoriser_shape import MemoriserShape
from slow_memoriser import slow_read

FEW, MANY = 1, 40
"""Of few examples the weights are multiplied with the vectors, of many first with one another."""
WIDE = {"n_heads": 2, "d_model": 6, "d_qk": 5}
PLAIN = MemoriserShape(**WIDE)
CASES = [
    (PLAIN, MANY, True, 9),
    (MemoriserShape(n_heads=2, d_model=6, d_qk=1, d_vo=2, scaled_by="d_qk"), FEW, True, 6),
    (MemoriserShape(**WIDE, d_vo=2, positions=False), MANY, False, 6),
    (MemoriserShape(**WIDE, embedded=False), FEW, False, 6),
    (MemoriserShape(**WIDE, embedded=False, positions=False), MANY, True, 6),
]
"""The shape, how many examples, whether each has a context of its own, and the dimensions of the vectors."""


def some_model(shape, d_input=6, n_outputs=4, dtype="float64"):
    return draw_memoriser(shape, d_input, n_outputs, rng=np.random.default_rng(1), dtype=dtype)


def both(model, queries, contexts, slopes):
    """Attention, outputs and the gradient of their weighted sum by every weight: ours, and from the formulas."""

    def weighted(read, model):
        found = read(model)
        return sum((one * slope).sum() for one, slope in zip(found, slopes, strict=True)), found

    ours = partial(weighted, lambda model: model.read(queries, contexts))
    theirs = partial(weighted, lambda model: slow_read(model, queries, contexts))
    return [jax.grad(one, has_aux=True)(model) for one in (ours, theirs)]


@pytest.mark.parametrize(("shape", "batch", "own", "d_input"), CASES)
def test_outputs_attention_and_gradients_are_those_of_attention_from_all_positions(shape, batch, own, d_input):
    rng = np.random.default_rng(0)
    size = (batch, 4, d_input) if own else (4, d_input)
    with jax.enable_x64(True), jax.default_matmul_precision("highest"):
        queries, contexts = jnp.asarray(rng.random((batch, d_input))), jnp.asarray(rng.random(size))
        slopes = jnp.asarray(rng.random((batch, 2, 4))), jnp.asarray(rng.random((batch, 4)))
        model = some_model(shape, d_input)
        ours, theirs = jax.jit(both)(model, queries, contexts, slopes)
    for mine, yours in zip(jax.tree.leaves(ours), jax.tree.leaves(theirs), strict=True):
        np.testing.assert_allclose(mine, yours, rtol=0, atol=1e-12)


@jax.jit
def some_outputs(model, queries, contexts):
    return model.attention(queries, contexts), model.outputs(queries, contexts)


def test_a_model_on_the_host_answers_one_example_and_knows_its_sizes():
    rng, model = np.random.default_rng(0), some_model(PLAIN, 9, 1, "float32")
    query, context = rng.random(9, np.float32), rng.random((4, 9), np.float32)
    _, outputs = some_outputs(model, query[None], context[None])
    np.testing.assert_allclose(model(query, context), outputs[0], atol=1e-5)
    assert (model.d_input, model.n_outputs) == (9, 1)
    assert model.parameters == PLAIN.parameters(9, 1)


def test_a_call_computes_in_the_precision_of_the_weights():
    rng, model = np.random.default_rng(0), some_model(PLAIN, 9, 1)
    query, context = rng.random(9), rng.random((4, 9))
    found = model(query, context)
    with jax.enable_x64(True):
        expected = jax.jit(slow_read)(model, query[None], context)[1][0]
    assert found.dtype == np.float64
    np.testing.assert_allclose(np.asarray(found), np.asarray(expected), rtol=0, atol=1e-13)


def test_scaled_scores_are_those_of_a_sharper_softmax_and_bfloat16_computes_in_bfloat16():
    rng, model = np.random.default_rng(0), some_model(PLAIN, dtype="float32")
    queries, contexts = (jnp.asarray(rng.random(size, np.float32)) for size in ((MANY, 6), (MANY, 4, 6)))
    weights, outputs = some_outputs(model, queries, contexts)
    sharper, _ = some_outputs(model.scaled_scores(3.0), queries, contexts)
    powers = np.asarray(weights, np.float64) ** 3
    np.testing.assert_allclose(sharper, powers / powers.sum(axis=-1, keepdims=True), atol=1e-6)
    _, rounded = some_outputs(jax.tree.map(lambda leaf: leaf.astype(jnp.bfloat16), model), queries, contexts)
    assert rounded.dtype == jnp.bfloat16
    np.testing.assert_allclose(np.asarray(rounded, np.float32), outputs, atol=0.05)


def test_weights_start_with_the_limits_of_the_authors():
    shape = MemoriserShape(n_heads=30, d_model=20, d_qk=40, d_vo=2)
    model = init_memoriser(shape, 50, 10, key=3)
    limits = {
        "embedding": 50**-0.5,
        "embedding_bias": 50**-0.5,
        "w_q": (6 / 60) ** 0.5,
        "w_k": (6 / 60) ** 0.5,
        "w_v": (6 / 22) ** 0.5,
        "w_o": (6 / 80) ** 0.5,
        "decoder": 20**-0.5,
        "decoder_bias": 20**-0.5,
    }
    for name, limit in limits.items():
        part = np.asarray(getattr(model, name)) / limit
        assert abs(part).max() <= 1 + 1e-6
        assert part.size < 100 or part.std() == pytest.approx(3**-0.5, rel=0.1)
    assert not np.array_equal(model.w_q, model.w_k)


def test_positions_of_an_odd_size_end_with_a_sine():
    assert sinusoids(3, 5)[2].tolist() == pytest.approx(
        [np.sin(2), np.cos(2), np.sin(2 * 10000**-0.4), np.cos(2 * 10000**-0.4), np.sin(2 * 10000**-0.8)]
    )


def test_without_an_embedding_vectors_have_the_size_of_the_model():
    with pytest.raises(InputError, match="without an embedding, vectors must have d_model = 6"):
        some_model(MemoriserShape(**WIDE, embedded=False), 7)
