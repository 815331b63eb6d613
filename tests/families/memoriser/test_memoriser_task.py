"""Training memorisers: steps against a slow model, what is measured against NumPy, lanes of different sizes."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from factrank.errors import InputError
from factrank.experiments.specs import Curve, FrequencyGroups, TauRecall
from factrank.experiments.specs.data import Given
from factrank.experiments.specs.training_spec import Optimiser, Training
from factrank.experiments.specs.trial import Trial
from factrank.experiments.training import train_many
from factrank.families.memoriser import Saturation, Tolerance
from factrank.families.memoriser.examples.example_batches import ExampleLayout
from factrank.families.memoriser.examples.example_vectors import stored
from factrank.families.memoriser.examples.examples import RandomExamples, VectorExamples
from factrank.families.memoriser.memoriser import draw_memoriser
from factrank.families.memoriser.memoriser_measures import BLOCK, MemoriserExamination
from factrank.families.memoriser.memoriser_shape import MemoriserShape
from factrank.families.memoriser.memoriser_task import MemoriserTask
from slow_memoriser import slow_read

SHAPE = MemoriserShape(n_heads=3, d_model=6, d_qk=4)
SGD = Training(optimiser=Optimiser("sgd"), learning_rate=0.1, epochs=3, batch_size=8, precision="float64")
CLASSES = RandomExamples(20, 4, 5, n_classes=7, seed=3)
MANY = replace(CLASSES, n_examples=BLOCK + 9, n_contexts=3)
REAL = RandomExamples(11, 4, 5, n_contexts=1, seed=3)
TAUS, SATURATION, TOLERANCE = TauRecall((0.15, 0.2)), Saturation(0.3), Tolerance(0.3)
MEASURES = TAUS, SATURATION, TOLERANCE


def trial_of(examples, shape=SHAPE, training=SGD, measures=MEASURES, **more):
    spec = Given(examples.fingerprint) if isinstance(examples, VectorExamples) else examples
    return Trial(spec, shape, training, measures=measures, **more)


def losses(model, queries, contexts, labels):
    """The losses by attention from all positions, the outputs, and the attention weights."""
    attention, outputs = slow_read(model, queries, contexts)
    if jnp.issubdtype(labels.dtype, jnp.floating):
        return (outputs[:, 0] - labels) ** 2, outputs, attention
    return -jnp.log(jax.nn.softmax(outputs)[jnp.arange(len(labels)), labels]), outputs, attention


all_losses = jax.jit(losses)
slopes_of = jax.jit(jax.grad(lambda model, *examples: losses(model, *examples)[0].mean()))


def vectors_of(examples, numbers):
    """Queries, contexts and labels in float64."""
    known = stored(examples)
    queries, contexts = known.queries[numbers], known.contexts[known.context_of[numbers]]
    return queries.astype(np.float64), contexts.astype(np.float64), known.labels[numbers]


def expected_numbers(model, examples):
    """Everything that is measured, in NumPy from the outputs of the slow model and its attention."""
    numbers = np.arange(examples.n_examples)
    vectors = vectors_of(examples, numbers)
    with jax.enable_x64(True):
        loss, outputs, attention = map(np.array, all_losses(model, *vectors))
    saturated, labels = attention.max(axis=-1) > SATURATION.threshold, vectors[2]
    found = {
        "loss": loss.mean(),
        "saturated": saturated.mean(),
        "saturated_least": saturated.mean(axis=0).min(),
        "saturated_most": saturated.mean(axis=0).max(),
        "saturated_any": saturated.any(axis=1).mean(),
    }
    if examples.n_classes is None:
        errors = np.abs(outputs[:, 0] - labels)
        right, explained = (errors <= TOLERANCE.error).mean(), 1 - loss.mean() / labels.var()
        return found | {"recall": right, "max_error": errors.max(), "explained": explained}
    own = outputs[numbers, labels].copy()
    outputs[numbers, labels] = -np.inf
    margins = own - outputs.max(axis=1)
    shares = {f"recall_{tau}": (np.exp(-loss) >= tau).mean() for tau in TAUS.taus}
    return found | shares | {"recall": (margins > 0).mean(), "margin": margins.min()}


@pytest.fixture(scope="module")
def trained():
    """Lanes of different numbers of examples and contexts side by side, and real labels."""
    before = *MEASURES, Curve((0,))
    return train_many([trial_of(CLASSES, measures=before), trial_of(MANY, seed=1, measures=before), trial_of(REAL)])


def test_steps_are_those_of_gradient_descent_on_the_examples_of_each_pass(trained):
    for result, examples in zip(trained, (CLASSES, MANY, REAL), strict=True):
        data = MemoriserTask(result.trial, examples).data()
        sizes, rng = (examples.d_input, examples.n_outputs), np.random.default_rng(result.trial.seed)
        model = draw_memoriser(SHAPE, *sizes, rng=rng, dtype="float64")
        assert (trained[0].width, trained[1].width) == (2, 2)
        with jax.enable_x64(True):
            for epoch in range(3):
                order, place = divmod(8 * epoch + np.arange(8), examples.n_examples)
                numbers = (data["multipliers"][order] * place + data["offsets"][order]) % examples.n_examples
                slopes = slopes_of(model, *vectors_of(examples, numbers))
                model = jax.tree.map(lambda weight, slope: np.asarray(weight - 0.1 * slope), model, slopes)
        for ours, theirs in zip(jax.tree.leaves(result.weights), jax.tree.leaves(model), strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-10)


def test_what_is_measured_is_that_of_the_formulas(trained):
    for result, examples in zip(trained, (CLASSES, MANY, REAL), strict=True):
        expected = expected_numbers(result.weights, examples)
        for name, number in expected.items():
            assert result.metrics[name] == pytest.approx(number, rel=1e-6, abs=1e-9), name
        assert 0 < expected["saturated_least"] < expected["saturated"] < expected["saturated_any"]
        assert 0 < expected["recall"] < 1
        held = expected["recall" if examples.n_classes else "explained"]
        further = {"examples": examples.n_examples, "memorised_examples": examples.n_examples * held, "bound": 10.0}
        further["parameters"] = SHAPE.parameters(5, examples.n_outputs)
        for name, number in further.items():
            assert result.metrics[name] == pytest.approx(number), name
        assert ("bits" in result.metrics) == (examples.n_classes is not None)
    # Shared, H (n - 1) + 1; three contexts fill all dimensions; the decoder's bias is one more feature.
    assert [result.metrics["rank"] for result in trained] == [19, 19, 10]
    assert trained[0].metrics["bits_per_parameter"] == pytest.approx(
        trained[0].recall * 20 * np.log2(7) / trained[0].metrics["parameters"]
    )
    start = draw_memoriser(SHAPE, 5, 7, rng=np.random.default_rng(1), dtype="float64")
    assert trained[1].curves["loss"] == pytest.approx([expected_numbers(start, MANY)["loss"]])


def test_given_examples_train_as_random_ones_do_and_a_lane_alone_as_among_others(trained):
    given = stored(CLASSES)
    [alone] = train_many([trial_of(given)], databases=[given])
    for ours, theirs in zip(jax.tree.leaves(alone.weights), jax.tree.leaves(trained[0].weights), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-10)
    same = {name: number for name, number in trained[0].metrics.items() if np.isfinite(number)}
    assert alone.metrics == pytest.approx(same)


def test_a_memoriser_learns_its_examples_stops_and_hands_out_its_score_scale():
    training = Training(learning_rate=0.02, epochs=400, stop="recall", check_every=50, score_scale=2.0, frozen=("w_v",))
    examples = RandomExamples(12, 4, 6, n_classes=3)
    [result] = train_many([trial_of(examples, SHAPE, replace(training, batch_size=12), (TauRecall((0.5,)),))])
    assert (result.status, result.recall) == ("stopped", 1.0)
    known = stored(examples)
    answers = np.asarray(jax.jit(slow_read)(result.weights, known.queries, known.contexts)[1]).argmax(axis=1)
    assert (answers == known.labels).all()
    start = draw_memoriser(SHAPE, 6, 3, rng=np.random.default_rng(0))
    np.testing.assert_array_equal(result.weights.w_v, start.w_v)


def test_a_solved_start_fits_as_many_examples_as_its_rank_and_no_more():
    untrained = replace(SGD, epochs=0)
    sizes = [trial_of(replace(REAL, n_examples=n), training=untrained, start="solved") for n in (10, 11)]
    fitted, missed, drawn = train_many([*sizes, trial_of(REAL, training=untrained)])
    assert [result.metrics["rank"] for result in (fitted, missed, drawn)] == [10, 10, 10]
    assert (fitted.metrics["max_error"], fitted.metrics["explained"]) == pytest.approx((0, 1), abs=1e-6)
    assert drawn.metrics["explained"] < missed.metrics["explained"] < 1 - 1e-4
    assert missed.metrics["max_error"] > 1e-3


def test_of_what_is_not_a_number_no_example_is_right():
    task = MemoriserTask(trial_of(CLASSES), CLASSES)
    measure = jax.jit(MemoriserExamination((0.95,), None, 0.01, ExampleLayout.of(CLASSES)).measure)
    with jax.enable_x64(True):
        model = jax.tree.map(lambda part: np.full_like(part, np.nan), task.init(np.random.default_rng(0)))
        numbers = measure(model, task.data())
    assert np.isnan([float(numbers[name]) for name in ("loss", "margin")]).all()
    assert float(numbers["recall"]) == 0


def test_of_equal_labels_nothing_is_explained():
    rng, label = np.random.default_rng(0), 0.1
    equal = VectorExamples.of(rng.random((1001, 5)), rng.random((4, 5)), np.full(1001, label))
    assert np.var(equal.labels) > 0  # by rounding
    task = MemoriserTask(trial_of(equal), equal)
    data = task.data()
    assert data["label_variance"] == 0
    model = task.init(rng)
    totals = {"loss": jnp.ones(()), "recall": jnp.ones((), jnp.int32), "max_error": jnp.ones(())}
    examination = MemoriserExamination((0.95,), None, 0.01, ExampleLayout.of(equal))
    numbers = {name: float(number) for name, number in examination._numbers(model, data, totals).items()}
    assert np.isnan(numbers["explained"])
    assert np.isnan(task.finish(model, numbers)[1]["memorised_examples"])
    two = replace(equal, labels=np.arange(1001) % 2 / 1.0)
    assert MemoriserTask(trial_of(two), two).data()["label_variance"] == pytest.approx(0.25, rel=1e-5)


def test_lanes_share_a_program_unless_the_computation_differs():
    def signature(examples, measures=MEASURES, start="drawn"):
        return MemoriserTask(trial_of(examples, measures=measures, start=start), examples).signature

    assert signature(CLASSES) == signature(MANY) == signature(replace(CLASSES, seed=4), start="solved")
    others = [signature(replace(CLASSES, n_contexts=1)), signature(replace(CLASSES, n_classes=None))]
    others += [signature(stored(CLASSES)), signature(CLASSES, measures=()), signature(REAL)]
    assert len({signature(CLASSES), *others}) == 6


@pytest.mark.parametrize(
    ("examples", "options", "message"),
    [
        (replace(CLASSES, n_examples=2**20 + 1), {}, "at most 1,048,576 examples; got 1,048,577"),
        (CLASSES, {"training": replace(SGD, epochs=2**28)}, "must be below 2,147,483,648; got 268,435,456 x 8"),
        (REAL, {"training": replace(SGD, stop="recall_tau")}, "real labels have no probabilities"),
        (CLASSES, {"training": replace(SGD, score_scale=2.0), "start": "solved"}, "requires score_scale 1"),
        (CLASSES, {"shape": replace(SHAPE, embedded=False)}, "vectors must have d_model = 6 dimensions; got 5"),
        (CLASSES, {"start": "logistic"}, "start of a MemoriserShape must be one of drawn, solved; got 'logistic'"),
        (CLASSES, {"measures": (FrequencyGroups(2),)}, "a MemoriserShape has no measure FrequencyGroups"),
    ],
)
def test_what_cannot_be_trained_is_refused(examples, options, message):
    with pytest.raises(InputError, match=message):
        MemoriserTask(trial_of(examples, **options), examples)
