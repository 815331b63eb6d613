"""Training in bfloat16: float32 weights and optimiser, forward and backward pass with the model rounded to bfloat16."""

from functools import partial

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest

from factrank.experiments.specs.data import generated
from factrank.experiments.specs.training_spec import Optimiser
from factrank.experiments.specs.training_spec import Training as AnyTraining
from factrank.experiments.specs.trial import Trial
from factrank.experiments.training import train_many
from factrank.families.attention.attention_layer import init_layer
from factrank.families.attention.layer_shape import LayerShape
from factrank.families.attention.pair_transformer import TransformerShape
from factrank.readouts.reading import rounded_to
from factrank.readouts.recall_report import margins_of

Training = partial(AnyTraining, engine="lanes")
GRID = generated("uniform", n_keys=5, n_queries=3, n_values=4, seed=1)
FACTS = generated("uniform", n_keys=6, n_queries=4, n_values=4, n_facts=9, seed=1)
LAYER = LayerShape(d_model=5, n_heads=2, d_qk=2, d_vo=2)


def leaves(layer):
    return [np.asarray(leaf) for leaf in jax.tree.leaves(layer)]


@jax.jit
def slow_gradient(layer):
    """The gradient of the mean cross-entropy of the layer rounded to bfloat16; only the mean is in float32."""
    keys, queries, values = jnp.asarray(GRID.build().triples.T)

    def loss(layer):
        short = jax.tree.map(lambda leaf: leaf.astype(jnp.bfloat16), layer)
        logits = short.logits(keys, queries)
        terms = jax.nn.logsumexp(logits, axis=1) - logits[jnp.arange(len(keys)), values]
        assert terms.dtype == jnp.bfloat16
        return terms.astype(jnp.float32).mean()

    return jax.grad(loss)(layer)


@pytest.mark.optimised
def test_a_step_follows_the_gradient_of_the_rounded_layer():
    training = partial(Training, epochs=1, optimiser=Optimiser("sgd"), learning_rate=1.0)
    (short,), (exact,) = (
        train_many([Trial(GRID, LAYER, training(precision=precision), seed=3)]) for precision in ("bfloat16", "float32")
    )
    start = init_layer(LAYER, *GRID.build().shape, key=3)
    for before, after, in_float32, gradient in zip(
        *map(leaves, (start, short.weights, exact.weights, slow_gradient(start))), strict=True
    ):
        assert after.dtype == np.float32
        assert np.linalg.norm(before - after - gradient) < 0.03 * np.linalg.norm(gradient) + 1e-6
        assert 1e-5 < np.linalg.norm(after - in_float32) < 0.05  # 8 bits: the steps differ, but not by much


def test_adam_keeps_its_state_and_the_weights_in_float32():
    (result,) = train_many([Trial(GRID, LAYER, Training(epochs=6, precision="bfloat16"), seed=3)])
    layer = init_layer(LAYER, *GRID.build().shape, key=3)
    first = second = jax.tree.map(jnp.zeros_like, layer)
    for t in range(1, 7):
        g = slow_gradient(layer)
        first = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, first, g)
        second = jax.tree.map(lambda v, g: 0.999 * v + 0.001 * g**2, second, g)
        layer = jax.tree.map(
            lambda w, m, v, t=t: w - 0.01 * (m / (1 - 0.9**t)) / (jnp.sqrt(v / (1 - 0.999**t)) + 1e-8),
            layer,
            first,
            second,
        )
    for mine, slow in zip(leaves(result.weights), leaves(layer), strict=True):
        assert np.abs(mine - slow).mean() < 0.002  # of steps that add up to 0.06
        assert (mine.astype(ml_dtypes.bfloat16).astype(np.float32) != mine).mean() > 0.9


def test_measures_are_of_the_rounded_model():
    model = TransformerShape(d_model=5, n_heads=2, d_qk=2, d_vo=2, mlp_width=4)
    training = Training(epochs=150, learning_rate=0.05, precision="bfloat16", score_scale=1.5)
    (result,) = train_many([Trial(FACTS, model, training, seed=3)])
    facts = margins_of(rounded_to(result.weights, "bfloat16"), FACTS.build())
    assert result.metrics["recall"] == (facts.margins > 0).mean() > 0.5
    assert result.metrics["loss"] == pytest.approx(-np.log(facts.probabilities).mean(), rel=0.1, abs=0.02)
