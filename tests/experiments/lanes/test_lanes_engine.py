"""The lanes engine: a lane computes what the trial would compute alone, and what a plain loop computes."""

import subprocess
import sys
from dataclasses import replace
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import ks_2samp

from factrank.databases.database import Database
from factrank.databases.generators.random_tables import uniform
from factrank.experiments.lanes.optimisers import OPTIMISERS, build_optimiser
from factrank.experiments.specs import TauRecall
from factrank.experiments.specs.data import Given, generated
from factrank.experiments.specs.specification import Options
from factrank.experiments.specs.training_spec import Optimiser
from factrank.experiments.specs.training_spec import Training as AnyTraining
from factrank.experiments.specs.trial import Trial
from factrank.experiments.training import train, train_many
from factrank.families.attention import Hallucinations
from factrank.families.attention.attention_layer import init_layer
from factrank.families.attention.layer_shape import LayerShape
from factrank.families.attention.pair_transformer import TransformerShape
from measured_readouts import require_measures_of_readout

Training = partial(AnyTraining, engine="lanes")
FACTS = generated("uniform", n_keys=8, n_queries=4, n_values=6, seed=1)
SPARSE = generated("uniform", n_keys=8, n_queries=6, n_values=6, n_facts=15, seed=1)
LAYER = LayerShape(d_model=5, n_heads=2, d_qk=2, d_vo=2)


def trials(n, training=None, database=FACTS, model=LAYER, **options):
    return [Trial(database, model, training or Training(epochs=100), seed=seed, **options) for seed in range(n)]


def same_weights(first, second) -> bool:
    pairs = zip(jax.tree.leaves(first.weights), jax.tree.leaves(second.weights), strict=True)
    return all(np.array_equal(a, b, equal_nan=True) for a, b in pairs)


def largest_difference(first, second) -> float:
    pairs = zip(jax.tree.leaves(first.weights), jax.tree.leaves(second.weights), strict=True)
    return max(float(np.abs(a - b).max()) for a, b in pairs)


def plain_loop(trial, n_epochs):
    """Cross-entropy over the facts, one at a time, and Adam as its paper writes it; only the model is shared."""
    database = trial.data.build()
    facts = database.triples.tolist()
    layer = init_layer(trial.model, *database.shape, key=trial.seed, dtype="float64")

    def loss(layer):
        return sum(-jax.nn.log_softmax(layer(key, query))[value] for key, query, value in facts) / len(facts)

    gradient = jax.jit(jax.grad(loss))
    layer = jax.tree.map(np.asarray, layer)  # in JAX, every operation on every shape is a program of its own
    first = second = jax.tree.map(np.zeros_like, layer)
    for t in range(1, n_epochs + 1):
        g = jax.tree.map(np.asarray, gradient(layer))
        first = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, first, g)
        second = jax.tree.map(lambda v, g: 0.999 * v + 0.001 * g**2, second, g)
        layer = jax.tree.map(
            lambda w, m, v, t=t: (
                w - trial.training.learning_rate * (m / (1 - 0.9**t)) / (np.sqrt(v / (1 - 0.999**t)) + 1e-8)
            ),
            layer,
            first,
            second,
        )
    return layer


FEW = generated("uniform", n_keys=4, n_queries=2, n_values=5, seed=1)
FEWER = generated("uniform", n_keys=5, n_queries=4, n_values=5, n_facts=7, seed=1)


@pytest.mark.optimised
@pytest.mark.parametrize("database", [FEW, FEWER], ids=["grid", "facts"])
def test_a_lane_is_a_plain_loop(database):
    (trial,) = trials(1, Training(epochs=20, precision="float64"), database)
    (result,) = train_many([trial])
    with jax.enable_x64(True):
        expected = plain_loop(trial, 20)
        for mine, theirs in zip(jax.tree.leaves(result.weights), jax.tree.leaves(expected), strict=True):
            np.testing.assert_allclose(mine, theirs, rtol=0, atol=1e-10)


@pytest.mark.optimised
@pytest.mark.parametrize("database", [FACTS, SPARSE], ids=["grid", "facts"])
def test_alone_and_among_others_in_float64(database):
    many = trials(32, Training(epochs=100, precision="float64"), database)
    together = train_many(many)
    for place in (0, 13, 31):
        (alone,) = train_many([many[place]])
        assert (alone.width, together[place].width) == (1, 32)
        assert largest_difference(alone, together[place]) < 1e-9


def test_alone_and_among_others_in_float32_in_distribution():
    """Two-sample Kolmogorov-Smirnov over 64 seeds: same seeds at two widths, at the level of 1 in 1,000."""
    many = trials(64, Training(epochs=200), model=LayerShape(d_model=3, n_heads=1, d_qk=1, d_vo=1))
    together = [result.recall for result in train_many(many)]
    alone = [train_many([trial])[0].recall for trial in many]
    assert np.std(together) > 0.02
    assert ks_2samp(together, alone).pvalue > 1e-3
    assert abs(np.mean(together) - np.mean(alone)) < 0.02


@pytest.mark.optimised
def test_same_partition_same_bits():
    many = trials(33)  # one bundle of 32, whose program the next test runs too, and one alone
    once, again = train_many(many), train_many(many)
    assert [result.width for result in once] == [32] * 32 + [1]
    for first, second in zip(once, again, strict=True):
        assert same_weights(first, second)
    assert not same_weights(*once[:2])


@pytest.mark.optimised
def test_an_absurd_neighbour_touches_no_other():
    calm = trials(32)
    wild = [*calm[:9], Trial(FACTS, LAYER, Training(epochs=100, learning_rate=1e30), seed=9), *calm[10:]]
    before, after = train_many(calm), train_many(wild)
    assert after[9].status == "diverged"
    assert not np.isfinite(after[9].metrics["loss"])
    for place, (first, second) in enumerate(zip(before, after, strict=True)):
        assert same_weights(first, second) == (place != 9)


def test_learning_rate_decay_scale_and_database_are_per_trial():
    def trial(seed=0, database=FACTS, **training):
        return Trial(database, LAYER, Training(epochs=30, precision="float64", **training), seed=seed)

    other = generated("uniform", n_keys=8, n_queries=4, n_values=6, seed=2)
    fewer = generated("uniform", n_keys=8, n_queries=4, n_values=6, n_facts=20, seed=2)
    mixed = [
        trial(),
        trial(learning_rate=0.1),
        trial(score_scale=3.0),
        trial(database=other),
        trial(database=fewer),
        trial(seed=5),
    ]
    together = train_many(mixed)
    assert {result.width for result in together} == {8}
    for one, result in zip(mixed, together, strict=True):
        assert largest_difference(train_many([one])[0], result) < 1e-10
    assert len({result.metrics["loss"] for result in together}) == len(mixed)


def shared_names(names):
    """A database whose queries are keys too, as many of them as `names` says."""
    queries = [f"k{at}" if at < names else f"q{at}" for at in range(3)]
    return Database.from_facts(
        [(f"k{k}", q, f"v{(k * (at + 2)) % 4}") for k in range(5) for at, q in enumerate(queries)]
    )


def test_transformers_train_in_lanes_also_with_tokens_shared_differently():
    """Two databases with as many shared tokens, but others: their rows differ from lane to lane."""
    first = shared_names(2)
    second = Database.from_facts(
        [(f"k{k}", q, f"v{(k + at) % 4}") for k in range(5) for at, q in enumerate(["k4", "q1", "k2"])]
    )
    shape = TransformerShape(6, 2, 2, 3, n_layers=2, mlp_width=5, positions=True, layer_norm=True, share_tokens=True)
    training = Training(epochs=60, precision="float64", learning_rate=0.02)
    mixed = [Trial(Given(db.fingerprint), shape, training, seed=seed) for seed, db in enumerate([first, second, first])]
    together = train_many(mixed, databases=[first, second])
    assert {result.width for result in together} == {4}
    for trial, result in zip(mixed, together, strict=True):
        (alone,) = train_many([trial], databases=[first, second])
        assert largest_difference(alone, result) < 1e-9
        assert result.metrics["loss"] < 1
    assert not np.array_equal(together[0].weights.query_rows, together[1].weights.query_rows)


def test_dropped_lanes_have_the_weights_they_have_alone():
    training = Training(epochs=120, stop="recall", learning_rate=0.05, precision="float64")
    many = [
        Trial(SPARSE, LAYER, training if seed else replace(training, learning_rate=1e-6), seed=seed)
        for seed in range(16)
    ]
    results = train_many(many)
    assert min(result.width for result in results) < 16
    for trial, result in zip(many, results, strict=True):
        (alone,) = train_many([trial])
        assert alone.epochs == result.epochs
        assert largest_difference(alone, result) < 1e-9


def test_weight_decay_is_decoupled():
    """A database of one value has no gradient, so that only the decay is left."""
    database = Database.from_facts([("k", "q", "v")])
    training = Training(epochs=7, learning_rate=0.1, weight_decay=0.5, precision="float64")
    result = train(database, LAYER, training)
    start = init_layer(LAYER, 1, 1, 1, key=0, dtype="float64")
    np.testing.assert_allclose(result.weights.w_q, np.asarray(start.w_q) * (1 - 0.05) ** 7, rtol=1e-6)


def test_score_scale_is_taken_into_the_layer():
    database = FACTS.build()
    result = train(database, LAYER, Training(epochs=0, score_scale=2.5))
    start = init_layer(LAYER, *database.shape, key=0)
    np.testing.assert_allclose(result.model.tensor(), start.scaled_scores(2.5).tensor(), atol=1e-6)


def test_frozen_parts_stay():
    training = Training(epochs=5, frozen=("embedding", "w_q"))
    result = train(FACTS.build(), LAYER, training)
    start = init_layer(LAYER, 8, 4, 6, key=0)
    for part in ("embedding", "w_q", "w_k", "w_v", "w_o", "unembedding"):
        unchanged = np.array_equal(getattr(result.weights, part), getattr(start, part))
        assert unchanged == (part in training.frozen)


def test_frozen_parts_of_a_transformer():
    shape = TransformerShape(5, 1, 2, 2, n_layers=2, mlp_width=4)
    result = train(FACTS.build(), shape, Training(epochs=5, frozen=("blocks.1.mlp", "w_q")))
    start = train(FACTS.build(), shape, Training(epochs=0))
    assert np.array_equal(result.weights.blocks[1].mlp.w_in, start.weights.blocks[1].mlp.w_in)
    assert np.array_equal(result.weights.blocks[0].w_q, start.weights.blocks[0].w_q)
    assert not np.array_equal(result.weights.blocks[0].mlp.w_in, start.weights.blocks[0].mlp.w_in)


@pytest.mark.parametrize("name", OPTIMISERS)
def test_every_optimiser_takes_a_rate_per_lane_and_goes_down(name):
    def distance_after(rate):
        optimiser = build_optimiser(Optimiser(name), rate)
        weights = jnp.linspace(1.0, 2.0, 6).reshape(2, 3)
        state = optimiser.init(weights)
        for _ in range(5):
            updates, state = optimiser.update(2 * weights, state, weights)
            weights = weights + updates
        return (weights**2).sum()

    none, little, more = jax.jit(jax.vmap(distance_after))(jnp.array([0.0, 1e-3, 2e-3]))
    assert more < little < none


def test_another_optimiser_trains():
    before, after = (train(FACTS.build(), LAYER, Training(Optimiser("lion"), epochs=n)) for n in (0, 40))
    assert after.metrics["loss"] < before.metrics["loss"]


def test_options_reach_the_optimiser():
    plain, heavy = (
        train(FACTS.build(), LAYER, Training(Optimiser("sgd", Options.of(options)), 0.1, epochs=3))
        for options in ({}, {"momentum": 0.9})
    )
    assert not same_weights(plain, heavy)


def test_batches_pass_over_every_fact():
    """One epoch of sgd in batches of 5 over 15 facts with a tiny step is 3 full-batch steps, to first order."""
    small = Optimiser("sgd")
    batched = train(SPARSE.build(), LAYER, Training(small, 1e-6, epochs=1, batch_size=5, precision="float64"))
    full = train(SPARSE.build(), LAYER, Training(small, 3e-6, epochs=1, precision="float64"))
    start = train(SPARSE.build(), LAYER, Training(epochs=0, precision="float64"))
    step = largest_difference(full, start)
    assert largest_difference(batched, full) < 1e-4 * step


def test_a_batch_larger_than_the_facts_is_all_of_them():
    small = Optimiser("sgd")
    large, full = (
        train(SPARSE.build(), LAYER, Training(small, 0.1, epochs=3, batch_size=size, precision="float64"))
        for size in (99, None)
    )
    assert largest_difference(large, full) < 1e-12


def test_batches_that_do_not_divide_the_facts():
    result = train(SPARSE.build(), LAYER, Training(learning_rate=0.03, epochs=300, batch_size=4))
    assert result.recall == 1


def test_an_easy_database_is_memorised_and_an_impossible_one_is_not():
    easy = train(uniform(10, 5, 8, 20, seed=0), LayerShape(12, 2, 4, 6), Training(epochs=1000))
    assert (easy.recall, easy.recall_tau) == (1, 1)
    assert easy.metrics["margin"] > 0
    # A layer with d_model 1 has logits x u_v: its argmax takes at most two values.
    impossible = train(uniform(20, 10, 20, seed=0), LayerShape(1, 1, 1, 1), Training(epochs=1000))
    assert impossible.recall < 0.3


def test_multi_valued_fibers_are_right_when_all_values_lead():
    database = Database.from_facts([("a", "q", "x"), ("a", "q", "y"), ("b", "q", "z"), ("b", "p", "x")], multi=True)
    result = train(database, LayerShape(6, 1, 3, 3), Training(epochs=400))
    assert result.recall == 1
    assert result.recall_tau == 0.5  # two values share the probability of their fiber


@pytest.mark.parametrize("precision", ["float32", "tf32", "float64"])
def test_precision_decides_the_format(precision):
    result = train(FACTS.build(), LAYER, Training(epochs=2, precision=precision))
    assert result.weights.embedding.dtype == ("float64" if precision == "float64" else "float32")
    assert not jax.config.jax_enable_x64


def test_measures_agree_with_the_readout():
    taus = (0.9, 0.6)
    result = train(SPARSE.build(), LAYER, Training(epochs=150), measures=(TauRecall(taus), Hallucinations()))
    require_measures_of_readout(result, SPARSE.build(), taus)


def test_database_by_fingerprint():
    database = uniform(5, 3, 4, seed=0)
    by_name = Trial(Given(database.fingerprint), LAYER, Training(epochs=3))
    generated_one = Trial(generated("uniform", n_keys=5, n_queries=3, n_values=4, seed=0), LAYER, Training(epochs=3))
    assert same_weights(*(train_many([trial], databases=[database])[0] for trial in (by_name, generated_one)))


def test_several_devices_share_the_lanes():
    """Two host devices, 16 lanes on each, against one device: the same numbers."""
    code = """
import os, sys
os.environ["XLA_FLAGS"] += f" --xla_force_host_platform_device_count={sys.argv[1]}"
os.environ["JAX_PLATFORMS"] = "cpu"
import jax
from factrank import Training, Trial, generated, train_many
from factrank import LayerShape
assert len(jax.local_devices()) == int(sys.argv[1])
facts = generated("uniform", n_keys=8, n_queries=4, n_values=6, seed=1)
training = Training(epochs=60, precision="float64", stop="recall", learning_rate=0.05, engine="lanes")
trials = [Trial(facts, LayerShape(5, 2, 2, 2), training, seed=seed) for seed in range(30)]
for result in train_many(trials):
    print(f"{result.metrics['loss']:.9f} {result.recall} {result.epochs}")
"""
    runs = [
        subprocess.run([sys.executable, "-c", code, n], capture_output=True, text=True, check=True).stdout for n in "12"
    ]
    assert runs[0] == runs[1]
    assert len(set(runs[0].splitlines())) == 30


def test_gradients_against_finite_differences():
    """The step of sgd with learning rate 1 is minus the gradient."""
    database, training = SPARSE.build(), Training(Optimiser("sgd"), 1.0, epochs=1, precision="float64")
    start, after = train(database, LAYER, Training(epochs=0, precision="float64")), train(database, LAYER, training)
    with jax.enable_x64(True):
        keys, queries, values = jnp.asarray(database.triples).T

        def loss(layer):
            return -jnp.take_along_axis(jax.nn.log_softmax(layer.logits(keys, queries)), values[:, None], 1).mean()

        rng = np.random.default_rng(0)
        direction = jax.tree.map(lambda leaf: rng.standard_normal(leaf.shape), start.weights)
        ahead, behind = (jax.tree.map(lambda w, d, h=h: w + h * d, start.weights, direction) for h in (1e-5, -1e-5))
        slope = float(loss(ahead) - loss(behind)) / 2e-5
        step = jax.tree.map(lambda new, old, d: float(((old - new) * d).sum()), after.weights, start.weights, direction)
    assert sum(jax.tree.leaves(step)) == pytest.approx(slope, rel=1e-7)
