"""FactualRecallTransformer: counts times a table are attention that goes position by position."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from factrank.errors import InputError
from factrank.families.factual_recall.factual_recall_shape import FactualRecallOneHotShape, FactualRecallShape
from factrank.families.factual_recall.factual_recall_transformer import (
    FactualRecallOneHot,
    FactualRecallTransformer,
    draw_factual_recall,
    init_factual_recall,
    narrowed,
    widened,
)
from factrank.families.factual_recall.sequence_layout import FactualRecallLayout, count_tokens

SIZES = 5, 3, 6
COPYING = FactualRecallShape(6, 2, 3, 4, mlp_width=5, length=9, copy_groups=2, copy_size=3)
PLAIN = FactualRecallShape(6, 2, 3, 4, length=9)
LINEAR = FactualRecallShape(6, 2, 3, 4, mlp_width=5, length=9, linear=True)


def slow_logits(model, sequence):
    """Every position is embedded and projected, the last one attends; NumPy in float64."""
    parts = {name: np.asarray(getattr(model, name), np.float64) for name in model.__dataclass_fields__ if name in PARTS}
    x = parts["embedding"][sequence]
    z = np.zeros(x.shape[1])
    for w_q, w_k, w_v, w_o in zip(*(parts[name] for name in ("w_q", "w_k", "w_v", "w_o")), strict=True):
        scores = np.array([(x[-1] @ w_q) @ (row @ w_k) for row in x]) / np.sqrt(w_q.shape[1])
        weights = scores if model.linear else np.exp(scores - scores.max()) / np.exp(scores - scores.max()).sum()
        z += sum(weight * (row @ w_v) for weight, row in zip(weights, x, strict=True)) @ w_o
    z = z + np.maximum(z @ parts["w_in"] + parts["b_in"], 0) @ parts["w_out"]
    return z @ parts["unembedding"]


@jax.jit
def logits_of(model, sequences):
    return jax.vmap(model)(sequences)


PARTS = ("embedding", "w_q", "w_k", "w_v", "w_o", "w_in", "b_in", "w_out", "unembedding")


def slow_one_hot(model, sequence):
    scores, values = np.asarray(model.scores, np.float64), np.asarray(model.values, np.float64)
    logits = np.zeros(values.shape[2])
    for score, value in zip(scores, values, strict=True):
        weights = score[sequence] if model.linear else np.exp(score[sequence]) / np.exp(score[sequence]).sum()
        logits += weights @ value[sequence]
    return logits


def some_sequences(layout, n=6, length=9):
    """Tokens at random, repeated ones among them, and two readers: the end and, where there is one, a cue."""
    rng = np.random.default_rng(3)
    sequences = rng.integers(layout.n_tokens, size=(n, length), dtype=np.int32)
    sequences[:, 1] = sequences[:, 0]
    sequences[:, -1] = layout.end
    if layout.copy_groups:
        sequences[1::2, -1] = layout.first_cue + 1
    return sequences


@pytest.mark.parametrize("shape", [COPYING, PLAIN, LINEAR], ids=["softmax, MLP and cues", "attention", "linear"])
def test_counts_are_attention_position_by_position(shape):
    model = init_factual_recall(shape, *SIZES, key=1)
    biased = jax.tree.map(lambda leaf: leaf + 0.1, model)  # so that b_in is not 0
    sequences = some_sequences(model.layout)
    with jax.default_matmul_precision("highest"):
        found = logits_of(biased, sequences)
    expected = [slow_logits(biased, sequence) for sequence in sequences]
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("linear", [True, False])
def test_one_hot_embeddings_make_tables(linear):
    model = init_factual_recall(FactualRecallOneHotShape(n_heads=2, linear=linear, start_scale=1.0), *SIZES, key=1)
    sequences = some_sequences(model.layout)
    expected = [slow_one_hot(model, sequence) for sequence in sequences]
    np.testing.assert_allclose(logits_of(model, sequences), expected, rtol=1e-4, atol=1e-5)


def test_the_order_of_the_tokens_does_not_matter_but_for_the_last():
    model = init_factual_recall(COPYING, *SIZES, key=1)
    sequence = some_sequences(model.layout)[0]
    shuffled = np.append(np.random.default_rng(0).permutation(sequence[:-1]), sequence[-1])
    found = logits_of(model, np.stack([sequence, shuffled] * 3))
    np.testing.assert_array_equal(found[0], found[1])


def test_gradients_are_those_of_attention_by_positions():
    with jax.enable_x64(True):
        model = init_factual_recall(COPYING, *SIZES, key=2, dtype="float64")
        tokens = jnp.asarray(some_sequences(model.layout))
        tokens = tokens.at[:, -1].set(model.layout.end)

        def by_positions(model):
            x = model.embedding[tokens]
            keys, values = (jnp.einsum("btd,hde->bhte", x, w) for w in (model.w_k, model.w_v))
            asking = jnp.einsum("bd,hde->bhe", x[:, -1], model.w_q) / jnp.sqrt(3)
            weights = jax.nn.softmax(jnp.einsum("bhe,bhte->bht", asking, keys))
            z = jnp.einsum("bht,bhte,hed->bd", weights, values, model.w_o)
            z = z + jax.nn.relu(z @ model.w_in + model.b_in) @ model.w_out
            return (jax.nn.log_softmax(z @ model.unembedding) ** 2).sum()

        def by_counts(model):
            counts = count_tokens(tokens, model.layout.n_tokens)
            return (jax.nn.log_softmax(model.logits(counts)) ** 2).sum()

        expected, found = jax.jit(jax.grad(by_positions))(model), jax.jit(jax.grad(by_counts))(model)
        for one, other in zip(jax.tree.leaves(expected), jax.tree.leaves(found), strict=True):
            np.testing.assert_allclose(other, one, rtol=1e-6, atol=1e-9)


@pytest.mark.optimised
def test_scores_far_apart():
    """A sequence far below the largest score of the vocabulary attends as it should, and has finite gradients."""
    rng = np.random.default_rng(0)
    scores = np.concatenate([np.zeros((2, 1)), -140 + rng.normal(size=(2, 8))], axis=1).astype(np.float32)
    layout = FactualRecallLayout(5, 1, 4, 2)
    model = FactualRecallOneHot(scores, rng.normal(size=(2, 9, 4)).astype(np.float32), layout, linear=False)
    sequences = np.array([[1, 2, 3, 8], [0, 5, 6, 8], [5, 5, 7, 8]], np.int32)  # the second has the largest

    def loss(model):
        return (jax.nn.log_softmax(logits_of(model, sequences)) ** 2).sum()

    with jax.default_matmul_precision("highest"):
        expected = [slow_one_hot(model, sequence) for sequence in sequences]
        np.testing.assert_allclose(logits_of(model, sequences), expected, rtol=1e-4, atol=1e-4)
        gradient = jax.grad(loss)(model)
        lifted = FactualRecallOneHot(scores + np.where(np.arange(9) > 0, 140, 0).astype(np.float32), *model_rest(model))
        expected = jax.grad(loss)(lifted)
    # In the sequences without the largest token the distance to it does not matter.
    for token in (1, 2, 3, 7):
        np.testing.assert_allclose(gradient.scores[:, token], expected.scores[:, token], rtol=1e-3, atol=1e-5)
        np.testing.assert_allclose(gradient.values[:, token], expected.values[:, token], rtol=1e-3, atol=1e-5)
    assert np.abs(gradient.scores[:, 1:4]).min() > 1e-4


def model_rest(model):
    return model.values, model.layout, model.linear


def test_saturated_attention_chooses_one_token():
    model = init_factual_recall(PLAIN, *SIZES, key=1).scaled_scores(1e4)
    sequences = some_sequences(model.layout)
    sequences[:, :2] = np.asarray(model.scores()).argmax(axis=1)
    expected = [slow_logits(model, sequence) for sequence in sequences]
    np.testing.assert_allclose(logits_of(model, sequences), expected, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("shape", [COPYING, FactualRecallOneHotShape(n_heads=2, start_scale=1.0, linear=False)])
def test_filled_up_and_narrowed_again(shape):
    model = draw_factual_recall(shape, SIZES, rng=np.random.default_rng(0))
    wide = widened(model, FactualRecallLayout(8, 4, 8, 15, model.layout.copy_groups, model.layout.copy_size))
    tokens, outputs = model.layout.token_places(wide.layout), model.layout.output_places(wide.layout)
    sequences = some_sequences(model.layout)
    logits = np.asarray(logits_of(wide, tokens[sequences].astype(np.int32)))
    np.testing.assert_allclose(logits[:, outputs], logits_of(model, sequences), rtol=1e-5, atol=1e-6)
    assert not np.delete(logits, outputs, axis=1).any()
    again = narrowed(wide, model.layout)
    assert again.layout == model.layout
    for one, other in zip(jax.tree.leaves(model), jax.tree.leaves(again), strict=True):
        np.testing.assert_array_equal(one, other)


def test_where_models_start():
    shape = FactualRecallShape(64, 3, 4, 16, mlp_width=100)
    model = draw_factual_recall(shape, (50, 50, 100), rng=np.random.default_rng(0))
    assert isinstance(model, FactualRecallTransformer)
    spreads = {"embedding": 64, "w_q": 4, "w_k": 4, "w_v": 16, "w_o": 64, "w_in": 64, "w_out": 100, "unembedding": 64}
    for name, variance in spreads.items():
        assert np.std(getattr(model, name)) * np.sqrt(variance) == pytest.approx(1, abs=0.05)
    assert model.parameters == shape.parameters(50, 50, 100)
    alike = draw_factual_recall(FactualRecallOneHotShape(start_scale=0.25), SIZES, rng=np.random.default_rng(0))
    assert isinstance(alike, FactualRecallOneHot)
    assert (alike.scores == 0.25).all()
    assert (alike.values == 0.25).all()
    assert alike.parameters == FactualRecallOneHotShape().parameters(*SIZES)


def test_a_head_has_a_size():
    for sizes in ((8, 2, 0, 4), (8, 2, 4, 0), (8, 0, 4, 4), (0, 2, 4, 4)):
        with pytest.raises(InputError, match="at least 1"):
            FactualRecallShape(*sizes)
