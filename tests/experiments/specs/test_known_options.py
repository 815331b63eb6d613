"""Options of a trial: a task refuses those it does not know, whatever else it does with the others."""

import numpy as np
import pytest

from factrank.databases.generators.answer_set_tables import answer_sets
from factrank.databases.generators.association_tables import associations
from factrank.errors import InputError
from factrank.experiments.prepared import task_of as make_task
from factrank.experiments.specs.data import Given
from factrank.experiments.specs.known_options import OPTIONAL
from factrank.experiments.specs.measures import Measures, Readings
from factrank.experiments.specs.training_spec import Training
from factrank.experiments.specs.trial import Trial
from factrank.families.attention.fused.fused_engine import refusal
from factrank.families.attention.layer_shape import LayerShape
from factrank.families.attention.pair_transformer import TransformerShape
from factrank.families.factual_recall.factual_recall_shape import FactualRecallOneHotShape, FactualRecallShape
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
}
FACTS = {"batch_size", "frozen", "score_scale", "artifacts", "ranks", "additive", "readings", "planted_cp"}
SEQUENCES = {"batch_size", "frozen", "score_scale", "key_exponent", "query_exponent", "contexts"}
SEQUENCES |= {"hallucination", "frequency_groups", "test_sequences", "best"}
KNOWN = {
    "layer": FACTS,
    "transformer": FACTS,
    "memory": {"frozen", "key_exponent", "frequency_groups"},
    "sequence": SEQUENCES | {"copy_share", "parts"},
    "one_hot": SEQUENCES,
    "memoriser": {"batch_size", "frozen", "score_scale", "saturation", "tolerance", "assumptions"},
}
SET = {
    "batch_size": 64,
    "frozen": ("w_q",),
    "score_scale": 2.0,
    "key_exponent": 1.0,
    "query_exponent": 1.0,
    "copy_share": 0.5,
    "artifacts": True,
    "ranks": True,
    "additive": True,
    "readings": Readings(),
    "planted_cp": 0.1,
    "contexts": 2,
    "parts": True,
    "hallucination": True,
    "frequency_groups": 2,
    "test_sequences": 10,
    "best": True,
    "saturation": 0.9,
    "tolerance": 0.1,
    "assumptions": 10,
}


def task_of(name, **parts):
    model, database = MODELS[name]
    return make_task(Trial(Given(database.fingerprint), model, **parts), database)


def test_every_option_is_tried():
    assert set(SET) == {name for _, names in OPTIONAL for name in names}


@pytest.mark.parametrize("name", MODELS)
def test_what_a_task_does_not_know_is_refused(name):
    task_of(name)
    for part, options in OPTIONAL:
        for option in options:
            chosen = {"training": Training, "measures": Measures}[part](**{option: SET[option]})
            if option in KNOWN[name]:
                task_of(name, **{part: chosen})
            else:
                with pytest.raises(InputError, match=rf"has no {part}\.{option}; it knows"):
                    task_of(name, **{part: chosen})


@pytest.mark.parametrize("name", MODELS)
def test_only_models_of_sequences_stop_by_the_recall_of_sequences(name):
    training = Training(stop="recall_sequences")
    if "contexts" in KNOWN[name]:
        assert task_of(name, training=training).trial.training == training
    else:
        with pytest.raises(InputError, match=r"has no training\.stop 'recall_sequences'"):
            task_of(name, training=training)


@pytest.mark.parametrize("name", ["memory", "sequence", "one_hot", "memoriser"])
def test_only_attention_layers_have_a_fused_engine(name):
    with pytest.raises(InputError, match="engine 'fused'"):
        task_of(name, training=Training(engine="fused"))


def test_the_fused_engine_stops_at_all_facts_only():
    layer = MODELS["layer"][0]
    early = Trial(Given("0"), layer, Training(stop="recall", stop_at=0.9))
    assert "stop_at" in refusal(early, "cpu")
    assert refusal(Trial(Given("0"), layer, Training(stop_at=0.9)), "cpu") is None  # it never stops


def test_the_fused_engine_leaves_schedules_to_lanes():
    layer = MODELS["layer"][0]
    for training in (Training(schedule="cosine"), Training(warm_up=0.1)):
        assert "learning rate stays" in refusal(Trial(Given("0"), layer, training), "cpu")
    assert refusal(Trial(Given("0"), layer), "cpu") is None


@pytest.mark.parametrize(
    ("name", "frozen", "expected"),
    [
        ("layer", ("w_q",), {"w_q"}),
        ("memory", ("weights",), {"weights", "inputs", "outputs"}),
        ("sequence", ("w_q",), {"w_q", "embedding", "unembedding"}),
        ("one_hot", ("scores",), {"scores"}),
        ("memoriser", ("w_q",), {"w_q"}),
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
