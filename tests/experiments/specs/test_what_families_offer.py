"""What families offer: a trial asks for that and nothing else, and says so before anything is trained."""

from dataclasses import MISSING, fields

import numpy as np
import pytest

from factrank.databases.generators.answer_set_tables import answer_sets
from factrank.databases.generators.association_tables import associations
from factrank.errors import InputError
from factrank.experiments.prepared import engine_for
from factrank.experiments.prepared import task_of as make_task
from factrank.experiments.registry import EVERY_STOP, families, family_of, stop_names
from factrank.experiments.specs import DRAWN, EVERY_MEASURE, Given, TauRecall, Training, Trial
from factrank.families.attention.fused.fused_engine import refusal
from factrank.families.attention.layer_shape import LayerShape
from factrank.families.attention.pair_transformer import TransformerShape
from factrank.families.factual_recall import FactSequences, PartsAlone
from factrank.families.factual_recall.factual_recall_shape import FactualRecallOneHotShape, FactualRecallShape
from factrank.families.language import LanguageShape, Sentences
from factrank.families.memoriser import Tolerance
from factrank.families.memoriser.examples.examples import VectorExamples
from factrank.families.memoriser.memoriser_shape import MemoriserShape
from factrank.families.memory.memory_shape import MemoryShape

ASSOCIATIONS, ANSWERS = associations(6, 6, seed=0), answer_sets(4, 2, 3, seed=0)
EXAMPLES = VectorExamples.of(np.eye(4), np.eye(4), np.arange(4))
MODELS = {
    "layer": (LayerShape(4, 1, 2, 2), ANSWERS),
    "transformer": (TransformerShape(4, 1, 2, 2), ANSWERS),
    "memory": (MemoryShape(4), ASSOCIATIONS),
    "sequence": (FactualRecallShape(4, 1, 2, 2, copy_groups=2, copy_size=2), ANSWERS),
    "one_hot": (FactualRecallOneHotShape(), ANSWERS),
    "memoriser": (MemoriserShape(1, 4, 2), EXAMPLES),
    "language": (LanguageShape(4, 1, 2, 2), ANSWERS),
}
OPTIONS = {"groups": 2, "residual": 0.1, "sequences": 10, "threshold": 0.9, "subsets": 10, "epochs": (0,)}
"""A value of each option of a measure that has no default."""

OF_FAMILIES = [measure for family in families().values() for measure in family.measures.values()]
MEASURES = {
    measure: measure(**{field.name: OPTIONS[field.name] for field in fields(measure) if field.default is MISSING})
    for measure in (*EVERY_MEASURE.values(), *OF_FAMILIES)
} | {TauRecall: TauRecall((0.5,)), Tolerance: Tolerance(0.1)}
PRESENTATIONS = [family.presentation for family in families().values() if family.presentation is not None]
PRESENTED = {Sentences: {"people": 2}}
"""An option of each presentation that has no frequencies."""
STARTS = {start for family in families().values() for start in family.starts}


def trial_of(name, **parts):
    model, data = MODELS[name]
    return Trial(**{"data": Given(data.fingerprint), "model": model, **parts})


def task_of(name, **parts):
    return make_task(trial_of(name, **parts), MODELS[name][1])


def test_every_family_is_tried():
    assert {family_of(model).name for model, _ in MODELS.values()} == set(families())


@pytest.mark.parametrize("name", MODELS)
def test_a_model_has_the_measures_of_its_family_and_of_every_family(name):
    offered = {*EVERY_MEASURE.values(), *family_of(MODELS[name][0]).measures.values()}
    what = type(MODELS[name][0]).__name__
    for measure, asked in MEASURES.items():
        if measure in offered:
            assert trial_of(name, measures=asked).measure(measure) == asked
        else:
            with pytest.raises(InputError, match=f"a {what} has no measure {measure.__name__}; it has .*Curve"):
                trial_of(name, measures=asked)


@pytest.mark.parametrize("name", MODELS)
def test_a_model_starts_and_stops_as_its_family_says(name):
    model = MODELS[name][0]
    family, what = family_of(model), type(model).__name__
    for start in {DRAWN, *STARTS, "best"}:
        if start in (DRAWN, *family.starts):
            assert trial_of(name, start=start).start == start
        else:
            with pytest.raises(InputError, match=f"start of a {what} must be one of drawn.*; got '{start}'"):
                trial_of(name, start=start)
    for stop in (*EVERY_STOP, *stop_names()):
        training = Training(stop=stop)
        if stop in family.stops:
            assert trial_of(name, training=training).training.stop == stop
        else:
            with pytest.raises(
                InputError, match=f"stop of a {what} must be one of never, recall, recall_tau.*; got '{stop}'"
            ):
                trial_of(name, training=training)
    assert set(family.stops) >= set(EVERY_STOP)


@pytest.mark.parametrize("name", MODELS)
def test_facts_are_presented_as_the_family_says(name):
    model, data = MODELS[name]
    facts, own = Given(data.fingerprint), family_of(model).presentation
    for presentation in PRESENTATIONS:
        presented = presentation(facts, **PRESENTED.get(presentation, {"key_exponent": 1.0}))
        if presentation is own:
            assert trial_of(name, data=presented).source == facts
        else:
            with pytest.raises(InputError, match=f"a .* reads .*; got {presentation.__name__}"):
                trial_of(name, data=presented)


@pytest.mark.parametrize("name", MODELS)
def test_what_is_offered_is_made_into_a_task(name):
    family = family_of(MODELS[name][0])
    alone = {PartsAlone} if name == "one_hot" else set()  # it has one part
    for measure in {*EVERY_MEASURE.values(), *family.measures.values()} - alone:
        assert task_of(name, measures=MEASURES[measure]).trial.measure(measure) == MEASURES[measure]
    for start in family.starts:
        assert task_of(name, start=start).trial.start == start


@pytest.mark.parametrize(
    ("name", "parts", "message"),
    [
        ("memory", {"training": Training(batch_size=64)}, "all facts in every step; leave out batch_size"),
        ("memory", {"training": Training(score_scale=2.0)}, "no attention scores; leave out score_scale"),
        ("one_hot", {"measures": PartsAlone()}, "has no MLP; leave out PartsAlone"),
        ("one_hot", {"data": FactSequences(Given(ANSWERS.fingerprint), copy_fraction=0.5)}, "a model that copies"),
    ],
)
def test_what_the_shape_of_a_model_rules_out_is_refused_by_its_task(name, parts, message):
    with pytest.raises(InputError, match=message):
        task_of(name, **parts)


@pytest.mark.parametrize("name", ["memory", "sequence", "one_hot", "memoriser", "language"])
def test_only_attention_layers_have_a_fused_engine(name):
    with pytest.raises(InputError, match="engine 'fused'"):
        engine_for(trial_of(name, training=Training(engine="fused")), MODELS[name][1], "cpu")


def test_the_fused_engine_stops_at_all_facts_only():
    layer = MODELS["layer"][0]
    early = Trial(Given("0"), layer, Training(stop="recall", stop_at=0.9))
    assert "stop_at" in refusal(early, "cpu")
    assert refusal(Trial(Given("0"), layer, Training(stop_at=0.9)), "cpu") is None  # it never stops


def test_the_fused_engine_leaves_schedules_to_lanes():
    layer = MODELS["layer"][0]
    for training in (Training(schedule="cosine"), Training(warm_up=0.1)):
        assert "schedule constant" in refusal(Trial(Given("0"), layer, training), "cpu")
    assert refusal(Trial(Given("0"), layer), "cpu") is None


@pytest.mark.parametrize(
    ("name", "frozen", "expected"),
    [
        ("layer", ("w_q",), {"w_q"}),
        ("memory", ("weights",), {"weights", "inputs", "outputs"}),
        ("sequence", ("w_q",), {"w_q", "embedding", "unembedding"}),
        ("one_hot", ("scores",), {"scores"}),
        ("memoriser", ("w_q",), {"w_q"}),
        ("language", ("embedding",), {"embedding"}),
    ],
)
def test_embeddings_are_frozen_beside_what_the_trial_names(name, frozen, expected):
    assert set(task_of(name, training=Training(frozen=frozen)).frozen) == expected


def test_trained_embeddings_are_not_frozen():
    for model, database in (
        (MemoryShape(4, trained_embeddings=True), ASSOCIATIONS),
        (FactualRecallShape(4, 1, 2, 2, trained_embeddings=True), ANSWERS),
    ):
        assert make_task(Trial(Given(database.fingerprint), model), database).frozen == ()


@pytest.mark.parametrize("name", MODELS)
def test_what_is_measured_anyway_is_left_out_at_its_default(name):
    for kind in (*EVERY_MEASURE.values(), *family_of(MODELS[name][0]).measures.values()):
        if kind.implied:
            assert trial_of(name, measures=kind()).hash == trial_of(name).hash
