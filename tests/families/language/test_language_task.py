"""Language models in lanes: against a plain loop, alone and among others, resumed, and what is measured of them."""

from dataclasses import replace
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from factrank import Store, load, save, train, train_many
from factrank.databases import Database
from factrank.databases.generators.people_tables import phonebook
from factrank.errors import InputError
from factrank.experiments.prepared import task_of
from factrank.experiments.specs import Curve, Given, Training, Trial, generated
from factrank.families.language.language_data import InContextRecall, PartsRemoved, Sentences
from factrank.families.language.language_model import draw_language_model, language_model_of
from factrank.families.language.language_shape import LanguageShape
from factrank.families.language.sentences import FactSource
from factrank.families.language.token_sources import mean_loss
from factrank.nn import on_device, to_arrays

BOOK = {"n_people": 6, "digits": 2, "n_names": 3, "n_last": 3}
FACTS = Sentences(
    generated("phonebook", **BOOK, seed=0),
    templates=0,
    recall=InContextRecall(pairs=(1, 2), n_keys=3, n_values=2, sequences=4),
    recall_fraction=0.25,
)
SHAPE = LanguageShape(8, 1, 4, 6, mlp_width=6, context=16)
TRAINING = Training(epochs=5, batch_size=8, learning_rate=0.02, score_scale=1.5)


def trials():
    rates = [(0, 0.02), (1, 0.02), (1, 0.01)]
    trained = [replace(TRAINING, learning_rate=rate) for _, rate in rates]
    measures = Curve((0, 5)), PartsRemoved()
    return [Trial(FACTS, SHAPE, one, measures, seed=seed) for one, (seed, _) in zip(trained, rates, strict=True)]


@pytest.fixture(scope="module")
def results():
    return train_many(trials())


def test_a_lane_is_a_plain_training_loop(results):
    """In-context recall mixed in, scaled scores, Adam step by step."""
    trial = trials()[1]
    task = task_of(trial, trial.source.build())
    data, model = on_device(task.data()), on_device(task.init(np.random.default_rng(1)))
    optimiser = optax.adam(0.02)
    state = optimiser.init(model)

    @jax.jit
    def step(model, state, epoch):
        batch = task.batches(data, jax.random.fold_in(jax.random.key(1), epoch), epoch)
        batch = jax.tree.map(lambda rows: rows[0], batch)

        def loss(model):
            scaled = model.scaled_scores(1.5)
            return 0.75 * mean_loss(scaled, batch["facts"]) + 0.25 * mean_loss(scaled, batch["in_context"])

        updates, later = optimiser.update(jax.grad(loss)(model), state)
        return optax.apply_updates(model, updates), later

    with jax.default_matmul_precision("highest"):
        for epoch in range(5):
            model, state = step(model, state, epoch)
    for name, part in to_arrays(model.scaled_scores(1.5)).items():
        np.testing.assert_allclose(to_arrays(results[1].weights)[name], part, atol=2e-5, err_msg=name)


def test_a_trial_alone_is_the_same_trial_among_others(results):
    (alone,) = train_many([trials()[2]])
    assert (alone.width, results[2].width) == (1, 4)
    for name, part in to_arrays(alone.weights).items():
        np.testing.assert_allclose(to_arrays(results[2].weights)[name], part, atol=2e-5, err_msg=name)
    assert not np.allclose(results[0].weights.w_q, results[1].weights.w_q)


def test_an_interrupted_run_ends_with_the_same_weights(results, tmp_path):
    class Killing:
        def update(self, models_done, n_models, model_epochs, n_model_epochs):
            if model_epochs:
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train_many(trials(), checkpoints=tmp_path, meter=Killing())
    assert [path.suffix for path in tmp_path.iterdir()] == [".safetensors"]
    resumed = train_many(trials(), checkpoints=tmp_path)
    for again, once in zip(resumed, results, strict=True):
        assert again.metrics == once.metrics
        assert again.curves == once.curves
        assert all(map(np.array_equal, jax.tree.leaves(again.weights), jax.tree.leaves(once.weights)))


def test_results_are_stored_with_their_columns_and_weights(results, tmp_path):
    store, trial = Store(tmp_path), results[0].trial
    assert Trial.from_dict(trial.to_dict()) == trial
    store.append(results, [], keep_weights=True)
    row = next(row for row in store.trials().to_pylist() if row["hash"] == trial.hash)
    metrics, parameters = results[0].metrics, results[0].weights.parameters
    assert row["parameters"] == parameters
    assert row["facts"] == 12
    assert row["bits"] == pytest.approx(FACTS.build().bits_by_query)
    assert row["bits_per_parameter"] == metrics["recalled_bits"] / parameters
    assert row["stored_bits_per_inner_parameter"] == metrics["stored_bits"] / SHAPE.inner_parameters
    assert (row["data.recall.n_keys"], row["data.recall_fraction"], row["model.d_vo"]) == (3, 0.25, 6)
    assert row["in_context"] == pytest.approx((row["in_context_1"] + row["in_context_2"]) / 2)
    assert {"recall_without_attention_1", "recall_without_mlp_1"} <= row.keys()
    kept = store.weights(trial.hash)
    assert np.array_equal(kept.w_down, results[0].weights.w_down)
    assert results[0].curves["epoch"] == [0, 5]
    assert results[0].curves["stored_bits"][1] == metrics["stored_bits"]


def test_a_model_file_keeps_model_and_facts(results, tmp_path):
    save(tmp_path / "model.safetensors", results[0], FACTS)
    saved = load(tmp_path / "model.safetensors")
    assert saved.spec == SHAPE
    assert saved.data == FACTS.build()
    assert all(map(np.array_equal, jax.tree.leaves(saved.model), jax.tree.leaves(results[0].weights)))
    save(tmp_path / "recall.safetensors", results[0].weights, FACTS.recall)
    assert load(tmp_path / "recall.safetensors").data == FACTS.recall


# -------------------------------------------------------------------- planted models


def planted(shape, n_tokens, **parts):
    """A model of zeros with these parts; gains are 1."""
    zeros = {
        name: np.full(size, float(name.endswith("norm")), np.float32)
        for name, size in shape.part_sizes(n_tokens).items()
    }
    return jax.tree.map(jnp.asarray, language_model_of(shape, zeros | parts))


def test_bits_are_those_of_planted_probabilities():
    """A table of logits in the unembedding: the name is one token, and the answer follows it."""
    facts = [("a", "is", "x"), ("b", "is", "y"), ("c", "is", "x"), ("d", "is", "z")]
    database = Database.from_facts(facts)
    source = FactSource(database, Sentences(Given(database.fingerprint), templates=0), taus=(0.6,))
    n_tokens = source.n_tokens
    assert source.words == ("<blank>", "a", "b", "c", "d", "x", "y", "z")
    table = np.full((n_tokens, n_tokens), -40.0)  # log p of the token (row) after the token (column)
    own = {"a": "x", "b": "y", "c": "z", "d": "z"}  # c is wrong
    right = {"a": 0.7, "b": 0.5, "c": 0.1, "d": 0.9}
    for name, answer in own.items():
        at, rest = source.words.index(name), [word for word in "xyz" if word != answer]
        own_value = next(value for key, _, value in facts if key == name)
        p = {own_value: right[name]}
        for word in "xyz":
            p.setdefault(word, (1 - right[name]) / 2 if own_value == answer else 0.0)
        if own_value != answer:
            p[answer] = 0.8
            p[next(word for word in rest if word != own_value)] = 0.1
        for word, probability in p.items():
            table[source.words.index(word), at] = np.log(probability)
    shape = LanguageShape(n_tokens, 1, 2, 2, tied=False)
    # RMSNorm makes a one-hot vector sqrt(n) times as long.
    model = planted(
        shape,
        n_tokens,
        embedding=np.eye(n_tokens, dtype=np.float32),
        unembedding=(table / np.sqrt(n_tokens)).astype(np.float32),
    )
    found = jax.jit(partial(source.examine, whole=True))(model, on_device(source.arrays()), jax.random.key(0))
    losses = -np.log(list(right.values()))
    assert float(found["value_loss"]) == pytest.approx(losses.mean(), rel=1e-4)
    assert float(found["stored_bits"]) == pytest.approx(4 * np.log2(3) - losses.sum() / np.log(2), rel=1e-4)
    assert float(found["recall"]) == 0.75
    assert float(found["recall_0.6"]) == 0.5
    assert float(found["recalled_bits"]) == pytest.approx(3 * np.log2(3))
    assert float(found["margin"]) == pytest.approx(np.log(0.1 / 0.8), rel=1e-4)


def test_hand_set_weights_solve_associative_recall():
    """The first layer copies the token before, the second looks for the key among these copies."""
    spec = InContextRecall(pairs=(1, 3), n_keys=4, n_values=3, length=20, sequences=32)
    n_tokens, context = 8, 20
    shape = LanguageShape(
        2 * n_tokens + context, 1, context, n_tokens, 2, positions="learned", tied=False, context=context
    )
    token, place, before = (slice(0, 8), slice(8, 28), slice(28, 36))
    embedding, positions = np.zeros((n_tokens, 36)), np.zeros((context, 36))
    embedding[:, token], positions[:, place] = np.eye(8), np.eye(20)
    w_q, w_k, w_v, w_o = (np.zeros((2, 1, 36, width)) for width in (20, 20, 8, 0))
    w_o = np.zeros((2, 1, 8, 36))
    w_q[0, 0, place], w_k[0, 0, place] = 20 * np.eye(20, k=-1), np.eye(20)  # place t looks at place t - 1
    w_q[1, 0, token, :8], w_k[1, 0, before, :8] = 20 * np.eye(8), np.eye(8)
    w_k[1, 0, before, 0] = 0  # the blank is no key
    w_v[:, 0, token] = np.eye(8)
    w_o[0, 0, :, before] = np.eye(8)
    w_o[1, 0, :, token] = 9 * np.eye(8)
    unembedding = np.zeros((n_tokens, 36))
    unembedding[5:, token] = np.eye(8)[5:]  # only values are said
    parts = {"embedding": embedding, "positions": positions, "unembedding": unembedding}
    parts |= {"w_q": w_q, "w_k": w_k, "w_v": w_v, "w_o": w_o}
    model = planted(shape, n_tokens, **{name: part.astype(np.float32) for name, part in parts.items()})
    task = task_of(Trial(spec, shape), spec)
    data = on_device(task.data())
    measure = jax.jit(task.measure)
    found = task.exact({name: float(number) for name, number in measure(model, data).items()})
    assert (found["in_context_1"], found["in_context_3"], found["in_context"]) == (1, 1, 1)
    blind = model.scaled_scores(0.0)  # without attention patterns it can only guess
    assert float(measure(blind, data)["in_context_3"]) < 0.9


# -------------------------------------------------------------------- refusals


@pytest.mark.parametrize(
    ("data", "shape", "training", "message"),
    [
        (FACTS, replace(SHAPE, context=7), TRAINING, "sequences have 8 tokens; the model reads 7, its context"),
        (FACTS, SHAPE, Training(batch_size=1), "a batch of 1 is too small"),
        (FACTS.recall, SHAPE, Training(stop="recall"), "there are no facts to recall"),
        (FACTS.facts, SHAPE, Training(stop="in_context"), "there is no in-context recall"),
    ],
)
def test_what_cannot_be_trained_is_refused(data, shape, training, message):
    trial = Trial(data, shape, training)
    with pytest.raises(InputError, match=message):
        task_of(trial, trial.source.build())


def test_bfloat16_keeps_float32_weights():
    spec = InContextRecall("induction", pairs=(2,), n_keys=2, sequences=4)
    found = train(spec, LanguageShape(4, 1, 2, 2), Training(epochs=1, batch_size=2, precision="bfloat16"))
    assert {leaf.dtype.name for leaf in jax.tree.leaves(found.weights)} == {"float32"}
    assert found.metrics["in_context"] in {0, 0.25, 0.5, 0.75, 1}


def test_float64_is_float64_throughout():
    """JAX would warn of an int64 token among int32 ones."""
    result = train(FACTS, SHAPE, replace(TRAINING, precision="float64"))
    assert {leaf.dtype.name for leaf in jax.tree.leaves(result.weights)} == {"float64"}
    assert np.isfinite(result.metrics["loss"])


def test_draws_depend_on_the_seed_alone():
    first, second = (draw_language_model(SHAPE, 5, rng=np.random.default_rng(seed)) for seed in (0, 1))
    assert not np.array_equal(first.embedding, second.embedding)
    assert phonebook(**BOOK, seed=0) == FACTS.build()


@pytest.mark.parametrize("names", [("a b", "a  b"), (" ", "c")])
def test_names_that_blanks_do_not_tell_apart_stay_whole(names):
    database = Database.from_facts([(name, "q", f"v{i}") for i, name in enumerate(names)])
    source = FactSource(database, Sentences(Given(database.fingerprint), templates=0))
    assert set(names) <= set(source.words)
