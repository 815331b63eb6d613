"""Sequences: what is sampled, what is asked, and that filling up changes nothing."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from factrank.databases.database import Database
from factrank.databases.generators.registry import generate
from factrank.errors import InputError
from factrank.experiments.specs import Best, Curve, FrequencyGroups, TauRecall
from factrank.experiments.specs.data import Given, generated
from factrank.experiments.specs.training_spec import Optimiser, Training
from factrank.experiments.specs.trial import Trial
from factrank.experiments.training import train_many
from factrank.families.attention import Hallucinations
from factrank.families.factual_recall import FactSequences, PartsAlone, RelationAlone, TestRecall
from factrank.families.factual_recall.factual_recall_shape import FactualRecallOneHotShape, FactualRecallShape
from factrank.families.factual_recall.factual_recall_task import FactualRecallTask
from factrank.families.factual_recall.factual_recall_transformer import FactualRecallOneHot, narrowed
from factrank.families.factual_recall.sequence_batches import sample_facts

FACTS = generated("answer-sets", n_keys=5, n_queries=3, answers_per_query=4, seed=1)
SHAPE = FactualRecallShape(8, 2, 3, 4, mlp_width=6, length=10, copy_groups=2, copy_size=3)
ONE_HOT = FactualRecallOneHotShape(length=10, start_scale=0.5)
BATCHES = Training(batch_size=64)
EVERYTHING = (TauRecall((0.5,)), PartsAlone(), RelationAlone(), FrequencyGroups(2), TestRecall(40))


def task_of(model=SHAPE, training=BATCHES, measures=EVERYTHING, database=None, contexts=3, **shown):
    database = FACTS.build() if database is None else database
    facts = FactSequences(Given(database.fingerprint), contexts=contexts, **shown)
    return FactualRecallTask(Trial(facts, model, training, measures, seed=3), database)


def unfilled(task):
    """The same task on its real sizes."""
    other = FactualRecallTask(task.trial, task.database)
    other.__dict__["padded_layout"] = other.layout
    return other


def data_of(task):
    return jax.tree.map(jnp.asarray, task.data())


# -------------------------------------------------------------------- sampling


def test_what_a_sampled_sequence_holds():
    task = task_of(training=Training(batch_size=4096), key_exponent=1.0, query_exponent=0.5, copy_fraction=0.25)
    layout, database, real = task.padded_layout, task.database, task.layout
    assert (layout.n_keys, layout.n_queries, layout.n_values, layout.n_tokens % 8) == (8, 4, 16, 0)
    sampled = jax.jit(task.batches)(data_of(task), jax.random.key(0), 0)
    batch = jax.tree.map(lambda rows: np.asarray(rows[0]), sampled)
    assert (len(batch.facts.tokens), batch.copies.tokens.shape) == (3072, (2, 512, 10))

    tokens, answers = batch.facts
    subjects = tokens[tokens < layout.n_keys]
    relations = tokens[(tokens >= layout.first_query) & (tokens < layout.first_noise)] - layout.first_query
    noise = tokens[(tokens >= layout.first_noise) & (tokens < layout.end)] - layout.first_noise
    assert (len(subjects), len(relations), len(noise), (tokens == layout.end).sum()) == (3072, 3072, 3072 * 7, 3072)
    table = {(int(k), int(q)): int(v) for k, q, v in database.triples}
    assert [table[pair] for pair in zip(subjects.tolist(), relations.tolist(), strict=True)] == answers.tolist()
    for codes, size, exponent in ((subjects, 5, 1.0), (relations, 3, 0.5), (noise, real.n_noise, 0.0)):
        expected = np.arange(1, size + 1.0) ** -exponent
        shares = np.bincount(codes, minlength=size) / len(codes)
        np.testing.assert_allclose(shares, expected / expected.sum(), atol=0.03)

    for group, (rows, wanted) in enumerate(zip(*batch.copies, strict=True)):
        payloads = np.sort(rows[rows >= layout.first_payload].reshape(512, 2) - layout.first_payload, axis=1)
        assert (payloads // 3 == [0, 1]).all()
        np.testing.assert_array_equal(payloads[:, group] + layout.n_values, wanted)
        assert ((rows == layout.first_cue + group).sum(axis=1) == 1).all()
        in_noise = (rows >= layout.first_noise) & (rows < layout.first_noise + real.n_noise)
        assert (in_noise.sum(axis=1) == 7).all()
        np.testing.assert_allclose(np.bincount(payloads.ravel()) / 512, 1 / 3, atol=0.08)


# -------------------------------------------------------------------- filling up


@pytest.mark.parametrize("model", [SHAPE, replace(ONE_HOT, linear=False)], ids=["transformer", "one-hot"])
def test_padding_changes_nothing(model):
    copying = 0.25 if model is SHAPE else 0.0
    training = Training(batch_size=64, score_scale=2.0, precision="float64")
    filled = task_of(model, training, EVERYTHING if model is SHAPE else (), copy_fraction=copying)
    found = []
    with jax.enable_x64(True), jax.default_matmul_precision("highest"):
        for task in (filled, unfilled(filled)):

            @jax.jit
            def everything(model, data, task=task):
                batch = jax.tree.map(lambda rows: rows[0], task.batches(data, jax.random.key(5), 0))
                numbers = task.measure(model, data) if copying else {}
                return *jax.value_and_grad(task.loss)(model, data, batch), numbers

            found.append(everything(task.init(np.random.default_rng(0)), data_of(task)))
    (loss, gradient, numbers), (expected_loss, expected_gradient, expected) = found
    assert float(loss) == pytest.approx(float(expected_loss), abs=1e-9)
    pairs = zip(jax.tree.leaves(narrowed(gradient, filled.layout)), jax.tree.leaves(expected_gradient), strict=True)
    for one, other in pairs:
        np.testing.assert_allclose(one, other, atol=1e-9)
    assert numbers.keys() == expected.keys()
    for name, number in numbers.items():
        assert float(number) == pytest.approx(float(expected[name]), abs=1e-6), name


# -------------------------------------------------------------------- what is measured, on planted tables


def planted(task, relation_only=False, spoilt=(), noise=0.0):
    """A one-hot model that knows every fact: relations choose their range, subjects their answer in every range.

    A spoilt fact is shown a wrong answer; the first noise token pulls towards another answer by `noise`.
    """
    layout, per_query = task.padded_layout, 4
    values = np.zeros((1, layout.n_tokens, layout.n_outputs), np.float32)
    for key, query, value in task.database.triples:
        values[0, layout.first_query + query, query * per_query : (query + 1) * per_query] = 100
        wrong = query * per_query + (value + 1) % per_query
        if not relation_only:
            values[0, key, wrong if (key, query) in spoilt else value] = 10
    values[0, layout.first_noise, task.database.triples[0, 2]] = -noise
    return FactualRecallOneHot(np.ones((1, layout.n_tokens), np.float32), values, layout, linear=True)


PLANTED = task_of(ONE_HOT, measures=(RelationAlone(),), contexts=4)


@pytest.fixture(scope="module")
def measure():
    compiled = jax.jit(PLANTED.measure)
    return lambda model: PLANTED.exact({k: float(v) for k, v in compiled(model, data_of(PLANTED)).items()})


def test_recall_is_over_all_facts(measure):
    n_facts = len(PLANTED.database)
    whole = measure(planted(PLANTED))
    assert (whole["recall"], whole["recall_sequences"], whole["in_range"]) == (1, 1, 1)
    assert (whole["wrong_in_range"], whole["margin"], whole["median_margin"]) == (0, 10, 10)
    for spoilt in ((0, 0), (2, 1), (4, 2)):
        numbers = measure(planted(PLANTED, spoilt=[spoilt]))
        assert numbers["recall"] == numbers["recall_sequences"] == 1 - 1 / n_facts
        assert (numbers["wrong_in_range"], numbers["margin"]) == (pytest.approx(1 / n_facts), -10)


def test_a_fact_is_right_in_every_context(measure):
    """The first noise token takes the first fact's answer away, and only where it occurs."""
    numbers = measure(planted(PLANTED, noise=200.0))
    n_facts, contexts = len(PLANTED.database), 4
    wrong_sequences = round((1 - numbers["recall_sequences"]) * n_facts * contexts)
    wrong_facts = round((1 - numbers["recall"]) * n_facts)
    assert 0 < wrong_facts <= wrong_sequences
    assert wrong_facts < wrong_sequences or numbers["recall_sequences"] > numbers["recall"]


def test_a_model_that_answers_from_the_relation_alone(measure):
    numbers = measure(planted(PLANTED, relation_only=True))
    assert numbers["loss"] == pytest.approx(np.log(4), abs=1e-5)
    assert numbers["relation_loss"] == pytest.approx(0, abs=1e-5)
    assert (numbers["relation_alone"], numbers["in_range"], numbers["recall"]) == (1, 1, 0)  # ties are wrong
    knows = measure(planted(PLANTED))
    assert knows["relation_alone"] < 0.7
    assert knows["subject_loss"] == pytest.approx(knows["loss"], abs=1e-5)


def test_the_parts_of_a_model_without_an_mlp():
    task = task_of(replace(SHAPE, mlp_width=0, copy_groups=0, copy_size=0))
    numbers = jax.jit(task.measure)(task.init(np.random.default_rng(0)), data_of(task))
    assert float(numbers["recall_attention_alone"]) == float(numbers["recall"])
    assert float(numbers["recall_mlp_alone"]) == 0


# -------------------------------------------------------------------- training


@pytest.mark.optimised
def test_a_lane_is_a_plain_loop():
    """Gradient descent on attention position by position, over the sequences that the trial samples."""
    training = Training(Optimiser("sgd"), 0.5, epochs=4, batch_size=16, precision="float64", score_scale=2.0)
    trials = [Trial(FactSequences(FACTS, key_exponent=1.0), ONE_HOT, training, seed=seed) for seed in (7, 8)]
    tasks = [FactualRecallTask(trial, FACTS.build()) for trial in trials]

    def loss(tables, tokens, answers):
        scores, values = (table[0] for table in tables)
        logits = jnp.einsum("bt,btv->bv", 2.0 * scores[tokens], values[tokens])[:, :12]
        return -jnp.take_along_axis(jax.nn.log_softmax(logits), answers[:, None], axis=1).mean()

    @jax.jit
    def step(tables, data, key):
        batch = tasks[0].batches(data, key, 0)
        gradient = jax.grad(loss)(tables, batch.facts.tokens[0], batch.facts.answers[0])
        return tuple(table - 0.5 * change for table, change in zip(tables, gradient, strict=True))

    for trial, task, result in zip(trials, tasks, train_many(trials), strict=True):
        with jax.enable_x64(True):
            start, data = task.init(np.random.default_rng(trial.seed)), data_of(task)
            tables = jnp.asarray(start.scores), jnp.asarray(start.values)
            for epoch in range(4):
                tables = step(tables, data, jax.random.fold_in(jax.random.key(trial.seed), epoch))
        expected = narrowed(FactualRecallOneHot(*tables, task.padded_layout), task.layout)
        np.testing.assert_allclose(result.weights.scores, 2 * expected.scores, atol=1e-10)
        np.testing.assert_allclose(result.weights.values, expected.values, atol=1e-10)
        assert not np.allclose(expected.values, start.values[:, :1, :1])
        assert (result.metrics["facts"], result.metrics["parameters"]) == (15, ONE_HOT.parameters(5, 3, 12))


def test_a_transformer_learns_facts_and_copying():
    shape = replace(SHAPE, d_model=16, n_heads=4, mlp_width=32, d_qk=4)
    facts, training = FactSequences(FACTS, copy_fraction=0.5), Training(learning_rate=0.02, epochs=400, batch_size=128)
    measures = PartsAlone(), FrequencyGroups(3), TestRecall(50), Best(), Curve((0, 300))
    ended = train_many([Trial(facts, shape, training, measures, seed=seed) for seed in range(2)])
    for result in ended:
        assert (result.recall, result.metrics["recall_group_3"]) == (1, 1)
        assert result.metrics["copying"] > 0.9
        assert result.curves["recall"][0] < 0.5
        for name in ("recall", "recall_sequences", "test_recall"):  # the end is not among the recorded epochs
            assert result.metrics[f"best_{name}"] == max(result.curves[name])
        assert result.weights.layout == FactualRecallTask(result.trial, FACTS.build()).layout
        assert result.metrics["parameters"] == shape.counted_parameters
        bits = FACTS.build().bits_by_query
        assert result.metrics["bits_per_parameter"] == pytest.approx(bits / shape.counted_parameters)
    # What was frozen is what was drawn.
    first = FactualRecallTask(ended[0].trial, FACTS.build()).init(np.random.default_rng(0))
    np.testing.assert_array_equal(ended[0].weights.embedding, narrowed(first, ended[0].weights.layout).embedding)


def test_the_test_set_is_a_fixed_sample_of_sequences():
    """Its recall is that of the model on sequences that are drawn once, by the frequencies of training."""
    for key_exponent in (0.0, 1.0):
        task = unfilled(task_of(measures=(TestRecall(120),), key_exponent=key_exponent))
        data, model = data_of(task), task.init(np.random.default_rng(4))
        key = jax.random.fold_in(jax.random.key(task.trial.seed), np.uint32(2**32 - 1))
        tokens, answers = sample_facts(
            task.padded_layout,
            data,
            jax.random.fold_in(key, np.uint32(2**32 - 2)),
            (120, 10),
            uniform=not key_exponent,
        )
        ended = np.roll(np.asarray(tokens), -3, axis=1)  # the end token, from which the answer is read, comes last
        given = [int(model(sentence).argmax()) for sentence in ended]
        found = task.exact({name: float(value) for name, value in jax.jit(task.check)(model, data).items()})
        assert found["test_recall"] == np.mean(given == np.asarray(answers)) > 0


def test_databases_of_one_padded_size_share_a_signature():
    sizes = [{"n_keys": keys, "n_queries": 3, "answers_per_query": 4, "seed": 0} for keys in (5, 7, 8, 9)]
    signatures = [task_of(database=generate("answer-sets", **size)).signature for size in sizes]
    assert signatures[0] == signatures[1] == signatures[2] != signatures[3]


def test_what_is_refused():
    several = Database.from_facts([("a", "q", "x"), ("a", "q", "y")], multi=True)
    for options, complaint in (
        ({"database": several}, "functional"),
        ({"measures": (Hallucinations(),)}, "a FactualRecallShape has no measure Hallucinations"),
        ({"model": ONE_HOT, "measures": (PartsAlone(),)}, "one-hot embeddings has no MLP; leave out PartsAlone"),
        ({"copy_fraction": 0.5, "model": replace(SHAPE, copy_groups=0, copy_size=0)}, "copy"),
        ({"copy_fraction": 1.0, "training": Training(batch_size=1)}, "too small for a copying sequence of each"),
        ({"copy_fraction": 1.5}, "copy_fraction must be between 0 and 1; got 1.5"),
        ({"contexts": 0}, "contexts must be"),
        ({"measures": (FrequencyGroups(1000),)}, "cannot split .* facts into 1000 groups"),
    ):
        with pytest.raises(InputError, match=complaint):
            task_of(**options)


def test_sequences_at_their_defaults_are_the_facts():
    plain = Trial(FACTS, SHAPE)
    shown = Trial(FactSequences(FACTS), SHAPE)
    assert (shown, shown.hash, shown.data) == (plain, plain.hash, FACTS)
    database = FACTS.build()
    assert FactualRecallTask(shown, database).signature == FactualRecallTask(plain, database).signature
    for option, value in (("key_exponent", 1.0), ("query_exponent", 0.5), ("copy_fraction", 0.25), ("contexts", 5)):
        changed = Trial(FactSequences(FACTS, **{option: value}), SHAPE)
        assert Trial.from_dict(changed.to_dict()) == changed
        assert (changed.source, changed.hash == plain.hash) == (FACTS, False)
        assert FactualRecallTask(changed, database).signature != FactualRecallTask(plain, database).signature
