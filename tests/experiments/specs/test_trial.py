"""Trials: strict data in and out, and an identity that options added later do not change."""

import json
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from factrank.errors import InputError
from factrank.experiments.specs.data import Given, generated
from factrank.experiments.specs.measures import Measures, Readings
from factrank.experiments.specs.specification import Options, canonical_json, hash_of
from factrank.experiments.specs.training_spec import Optimiser, Training
from factrank.experiments.specs.trial import Trial
from factrank.families.attention.layer_shape import LayerShape
from factrank.families.attention.pair_transformer import TransformerShape
from factrank.families.factual_recall.factual_recall_shape import FactualRecallOneHotShape, FactualRecallShape
from factrank.families.memoriser.examples.examples import RandomExamples
from factrank.families.memoriser.examples.token_examples import TokenExamples
from factrank.families.memoriser.memoriser_shape import MemoriserShape
from factrank.families.memory.memory_shape import MemoryShape

FACTS = generated("uniform", n_keys=20, n_queries=10, n_values=20, seed=0)
LAYER = LayerShape(d_model=10, n_heads=1, d_qk=5, d_vo=5)

GOLDEN = {
    Trial(FACTS, LAYER): "46cb9e791f189859c02ec6bcccfa486f08194236021a0b04eba1cc9897436305",
    Trial(FACTS, LAYER, seed=7): "47126b55c37cb2e3ba804fd5431b520ae3a4621acfc41b7ce9c04ae0c47b68a3",
    Trial(
        Given("0" * 64), TransformerShape(8, 2, 3, 4, mlp_width=16, attention="linear")
    ): "58e3b1f3a2fa8ed849c3e3c089189f2a7de96240fe716bba9cd94fd06e3b8513",
    Trial(
        generated("boxes", shapes=[[2, 3], [1, 1]]),
        LAYER,
        Training(
            Optimiser("sgd", Options.of({"momentum": 0.9})),
            1.0,
            0.5,
            10,
            4,
            "recall_tau",
            5,
            ("w_q",),
            2.0,
            "float64",
            "lanes",
        ),
        1,
        Measures((0.9, 0.5), artifacts=True, epochs_to=True),
        (0, 10),
    ): "53fac0c6b7799e5ae0494bfbb48091e6143ba28bce8f86a3e7c4f30fb49b53e4",
}


@pytest.mark.parametrize(("trial", "expected"), GOLDEN.items(), ids=["default", "seed", "transformer", "everything"])
def test_golden_hashes(trial, expected):
    """A change of these orphans every stored result: add options with defaults instead."""
    assert trial.hash == expected


def test_golden_hash_of_what_is_measured_on_the_host():
    readings = Readings((0.5, 0.9), (0.5, 2.0), ("bfloat16", "float64"), ranks=True, cp=True)
    measures = Measures(ranks=True, additive=True, readings=readings, planted_cp=0.01)
    trial = Trial(FACTS, LAYER, Training(precision="bfloat16"), measures=measures)
    assert trial.hash == "7fc456f61498630fa44b96703aae6a9e93803811b8f45983d9598cc58801b406"
    assert trial.to_dict()["measures"] == {
        "ranks": True,
        "additive": True,
        "readings": {
            "kind": "readings",
            "taus": [0.5, 0.9],
            "temperatures": [0.5, 2.0],
            "precisions": ["bfloat16", "float64"],
            "ranks": True,
            "cp": True,
        },
        "planted_cp": 0.01,
    }


SPOKEN = generated("answer-sets", n_keys=16, n_queries=4, answers_per_query=8, structure="structured", seed=0)
SEQUENCE = {"kind": "sequence", "d_model": 4, "n_heads": 1, "d_qk": 1, "d_vo": 1}
VECTORS_OF = {"kind": "random_examples", "n_examples": 10, "context_size": 4}
NEWER = {
    Trial(
        generated("associations", n_inputs=8, n_outputs=8, seed=0), MemoryShape(4)
    ): "abe58e78a1ead1c529c71a49b9ce17fb78f3cfe3e9ee9fcf5ddf7bd99f283cb0",
    Trial(
        generated("associations", n_inputs=8, n_outputs=3, kind="random", seed=0),
        MemoryShape(4, width=8, start="two-sided", trained_embeddings=True),
        Training(stop="recall", stop_at=0.99, key_exponent=1.0),
        measures=Measures(frequency_groups=2),
    ): "6daf7d0fc5f44e355e4436fcfc4168f21458a92feae25d2eb2a63e1c2ee76192",
    Trial(
        SPOKEN,
        FactualRecallShape(8, 2, 1, 4, 16, 12, 20, linear=True, trained_embeddings=True, copy_groups=2, copy_size=3),
        Training(key_exponent=1.0, query_exponent=0.5, copy_share=0.25),
        measures=Measures(contexts=2, parts=True, hallucination=True),
    ): "680927886fcfecf358ceda79fab01955d47241e7257cc5e95c8afd40f967c696",
    Trial(
        SPOKEN, FactualRecallOneHotShape(2, False, 12, 20, 0.5)
    ): "e05d8f367724cc1361166d213b154de3df29fa97db730ea8df858ab106fc4ce0",
}


@pytest.mark.parametrize(("trial", "expected"), NEWER.items(), ids=["memory", "every memory", "sequence", "one-hot"])
def test_golden_hashes_of_memories_and_sequences(trial, expected):
    assert trial.hash == expected
    assert Trial.from_dict(json.loads(json.dumps(trial.to_dict()))) == trial


TOKENS = TokenExamples("passage", "gpt2", "attention")
EXAMPLES = RandomExamples(1000, 32, n_classes=100, n_contexts=1, seed=3)
VECTORS = {
    Trial(RandomExamples(10, 4), MemoriserShape()): "880889d841ec88213e78970c721716393ef50964639e5b4d8f62ec51b0d7e7cd",
    Trial(
        EXAMPLES,
        MemoriserShape(4, 16, 8, 2, embedded=False, positions=False, scaled_by="d_qk", start="solved"),
        Training(learning_rate=1e-3, epochs=50_000, batch_size=128, schedule="cosine", warm_up=0.05),
        measures=Measures(saturation=0.99, tolerance=0.1, assumptions=100),
    ): "817072c069748f4f99640b25333e6b147a9c6f2b4247c4ab0d6f9921d16e4aa4",
    Trial(
        TOKENS, MemoriserShape(d_model=16), Training(epochs=0), measures=Measures(assumptions=20)
    ): "e215107bc79bbf25561fb58dd348fac1571b46711af27d8b25b2c0d139d2c058",
    Trial(
        SPOKEN, FactualRecallShape(4, 1, 1, 1), Training(stop="recall_sequences")
    ): "aea3f56bfd525aca9ebde9a322c3e50d27a1b8e1b4bc5ab4d2ed88aa4358074f",
}


@pytest.mark.parametrize(("trial", "expected"), VECTORS.items(), ids=["memoriser", "options", "tokens", "sequences"])
def test_golden_hashes_of_memorisers(trial, expected):
    assert trial.hash == expected
    assert Trial.from_dict(json.loads(json.dumps(trial.to_dict()))) == trial


def test_models_and_what_they_read_fit():
    with pytest.raises(InputError, match=r"a memoriser reads vectors, .*; got Generated"):
        Trial(FACTS, MemoriserShape())
    for database, model in ((EXAMPLES, LAYER), (EXAMPLES, MemoryShape(4)), (TOKENS, LAYER)):
        with pytest.raises(InputError, match=f"a {type(model).__name__} reads facts; got {type(database).__name__}"):
            Trial(database, model)
    assert Trial(Given("0"), MemoriserShape()).database == Given("0")  # known by its fingerprint alone
    assert EXAMPLES.build() is EXAMPLES


def test_defaults_are_left_out():
    plain = Trial(FACTS, LAYER).to_dict()
    assert set(plain) == {"version", "database", "model"}
    assert Trial(FACTS, LAYER, Training(learning_rate=0.01)).hash == Trial(FACTS, LAYER).hash
    whole = Trial.from_dict(plain | {"training": {"learning_rate": 1}})
    assert whole.hash == Trial(FACTS, LAYER, Training(learning_rate=1.0)).hash


def test_order_of_arguments_does_not_matter():
    other = generated("uniform", seed=0, n_values=20, n_queries=10, n_keys=20)
    assert Trial(other, LAYER).hash == Trial(FACTS, LAYER).hash


def dictionaries(**fields):
    return st.fixed_dictionaries({}, optional=fields)


trainings = dictionaries(
    optimiser=dictionaries(name=st.sampled_from(["adam", "sgd"]), options=st.just({"b1": 0.5}) | st.just({})),
    learning_rate=st.floats(0, 10) | st.integers(0, 3),
    weight_decay=st.floats(0, 1),
    epochs=st.integers(20, 10**6),
    batch_size=st.none() | st.integers(1, 999),
    stop=st.sampled_from(["never", "recall", "recall_tau", "recall_sequences"]),
    check_every=st.integers(1, 100),
    frozen=st.lists(st.sampled_from(["w_q", "embedding", "unembedding"]), max_size=3),
    score_scale=st.floats(0, 10),
    precision=st.sampled_from(["float32", "tf32", "float64", "bfloat16"]),
    engine=st.sampled_from(["auto", "lanes"]),
    stop_at=st.floats(0.01, 1),
    key_exponent=st.floats(0, 3) | st.integers(0, 2),
    query_exponent=st.floats(0, 3),
    copy_share=st.floats(0, 1),
    schedule=st.sampled_from(["constant", "cosine"]),
    warm_up=st.floats(0, 0.99) | st.just(0),
)
sizes = {name: st.integers(1, 9) for name in ("d_model", "n_heads", "d_qk", "d_vo")}
layers = st.fixed_dictionaries({"kind": st.just("attention"), **sizes})
transformers = st.fixed_dictionaries(
    {"kind": st.just("transformer"), **sizes},
    optional={
        "n_layers": st.integers(1, 3),
        "mlp_width": st.integers(0, 9),
        "positions": st.booleans(),
        "attention": st.sampled_from(["softmax", "linear", "affine"]),
    },
)
memories = st.fixed_dictionaries(
    {"kind": st.just("memory"), "d_model": st.integers(1, 9)},
    optional={
        "width": st.none() | st.integers(1, 9),
        "start": st.sampled_from(["random", "zero", "outer product", "least squares", "two-sided", "logistic"]),
        "trained_embeddings": st.booleans(),
    },
)
spoken = {"length": st.integers(3, 40), "n_noise": st.none() | st.integers(1, 9), "linear": st.booleans()}
sequences = st.fixed_dictionaries(
    {"kind": st.just("sequence"), **sizes}, optional={**spoken, "mlp_width": st.integers(0, 9)}
)
one_hots = st.fixed_dictionaries({"kind": st.just("one_hot")}, optional={**spoken, "start_scale": st.integers(0, 2)})
memorisers = st.fixed_dictionaries(
    {"kind": st.just("memoriser")},
    optional={
        **sizes,
        "embedded": st.booleans(),
        "positions": st.booleans(),
        "scaled_by": st.sampled_from(["d_model", "d_qk"]),
        "start": st.sampled_from(["random", "solved"]),
    },
)
readings = st.fixed_dictionaries(
    {},
    optional={
        "kind": st.just("readings"),
        "taus": st.lists(st.sampled_from([0.25, 0.5]), min_size=1, unique=True),
        "temperatures": st.lists(st.integers(1, 3) | st.floats(4, 5), min_size=1, max_size=3, unique=True),
        "precisions": st.lists(st.sampled_from(["float32", "float64", "bfloat16"]), min_size=1, unique=True),
        "cp": st.booleans(),
    },
)
plain_trials = st.fixed_dictionaries(
    {
        "version": st.just(1),
        "database": st.fixed_dictionaries({"kind": st.just("given"), "fingerprint": st.text(max_size=5)}),
        "model": layers | transformers | memories | sequences | one_hots | memorisers,
    },
    optional={
        "training": trainings,
        "seed": st.integers(0, 2**32 - 1),
        "measures": dictionaries(
            taus=st.lists(st.floats(0.01, 0.99), min_size=1, max_size=3, unique=True),
            artifacts=st.booleans(),
            ranks=st.booleans(),
            readings=st.none() | readings,
            planted_cp=st.none() | st.floats(0.01, 0.5),
            contexts=st.integers(1, 9),
            hallucination=st.booleans(),
            frequency_groups=st.integers(0, 9),
            test_sequences=st.integers(0, 9),
            best=st.booleans(),
            saturation=st.none() | st.floats(0.01, 0.99),
            tolerance=st.floats(0, 1) | st.integers(0, 1),
            assumptions=st.integers(0, 9),
        ),
        "curve_epochs": st.lists(st.integers(0, 20), max_size=4),
    },
)


@given(plain_trials, plain_trials)
def test_data_round_trip_and_identity(plain, other):
    first, second = Trial.from_dict(plain), Trial.from_dict(other)
    text = json.dumps(first.to_dict())
    assert Trial.from_dict(json.loads(text)) == first
    assert Trial.from_dict(json.loads(text)).hash == first.hash == hash_of(json.loads(text))
    assert pickle.loads(pickle.dumps(first)) == first  # noqa: S301 - our own bytes
    assert (first.hash == second.hash) == (first == second)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"version": 2}, "version 1"),
        ({"sed": 3}, "unknown 'sed'"),
        ({"seed": -1}, "seed must be an integer of at least 0"),
        ({"seed": 2**32}, "seed must be at most"),
        ({"seed": True}, "Trial.seed must be int"),
        ({"model": {"kind": "atention"}}, "kind must be one of attention, memoriser, memory, one_hot, seq"),
        ({"model": {"kind": "attention", "d_model": 4}}, "missing 'n_heads'"),
        ({"model": {"kind": "attention", "d_model": 4, "n_heads": 0, "d_qk": 1, "d_vo": 1}}, "n_heads must be"),
        ({"model": 3}, "Trial.model"),
        ({"training": {"epochs": 1.5}}, "Trial.training.epochs must be int"),
        ({"training": {"learning_rate": -1}}, "learning_rate must be a finite number"),
        ({"training": {"learning_rate": "fast"}}, "Trial.training.learning_rate must be float"),
        ({"training": {"batch_size": 0}}, "batch_size must be"),
        ({"training": {"stop": "soon"}}, "must be one of 'never'"),
        ({"training": {"optimiser": {"options": [1]}}}, "options must be a dictionary"),
        ({"training": {"stop_at": 0}}, "stop_at is a share"),
        ({"training": {"stop_at": 1.01}}, "stop_at is a share"),
        ({"training": {"key_exponent": -1}}, "key_exponent must be a finite number"),
        ({"training": {"copy_share": 2}}, "copy_share is a share"),
        ({"training": {"schedule": "linear"}}, "schedule must be one of 'constant', 'cosine'"),
        ({"training": {"warm_up": 1}}, "warm_up is a share of the epochs"),
        ({"training": {"warm_up": -0.1}}, "warm_up must be a finite number"),
        ({"measures": {"saturation": 1.0}}, "saturation is an attention weight"),
        ({"measures": {"saturation": 0}}, "saturation is an attention weight"),
        ({"measures": {"tolerance": -1}}, "tolerance must be a finite number"),
        ({"measures": {"assumptions": -1}}, "assumptions must be an integer of at least 0"),
        ({"model": {"kind": "memoriser"}}, "a memoriser reads vectors"),
        ({"model": {"kind": "memoriser", "d_vo": 0}}, "d_vo must be an integer of at least 1"),
        ({"model": {"kind": "memoriser", "embedded": 1}}, "embedded must be bool"),
        ({"model": {"kind": "memoriser", "scaled_by": "d_vo"}}, "must be one of 'd_model', 'd_qk'"),
        ({"model": {"kind": "memoriser", "start": "zero"}}, "must be one of 'random', 'solved'"),
        ({"database": VECTORS_OF | {"n_examples": 0}}, "n_examples must be an integer from 1"),
        ({"database": VECTORS_OF | {"n_classes": 1}}, "n_classes must be an integer from 2"),
        ({"database": VECTORS_OF | {"n_contexts": 11}}, "n_contexts must be at most n_examples = 10; got 11"),
        ({"database": VECTORS_OF | {"seed": 2**32}}, "seed must be an integer from 0"),
        ({"database": VECTORS_OF | {"context": 4}}, "unknown 'context'"),
        ({"database": VECTORS_OF}, "a LayerShape reads facts; got RandomExamples"),
        ({"measures": {"contexts": 0}}, "contexts must be an integer of at least 1"),
        ({"measures": {"frequency_groups": -1}}, "frequency_groups must be"),
        ({"measures": {"test_sequences": -1}}, "test_sequences must be"),
        ({"model": {"kind": "memory", "d_model": 0}}, "d_model must be"),
        ({"model": {"kind": "memory", "d_model": 4, "width": 0}}, "width must be"),
        ({"model": {"kind": "memory", "d_model": 4, "start": "best"}}, "must be one of 'random', 'zero'"),
        ({"model": SEQUENCE | {"d_vo": 0}}, "d_vo must be an integer of at least 1"),
        ({"model": SEQUENCE | {"length": 2}}, "length must be an integer of at least 3"),
        ({"model": SEQUENCE | {"n_noise": 0}}, "n_noise must be"),
        ({"model": SEQUENCE | {"copy_groups": 2}}, "both 0 or both at least 1"),
        ({"model": SEQUENCE | {"copy_groups": 8, "copy_size": 1, "length": 8}}, "copy_groups . 1 = 9; got 8"),
        ({"model": {"kind": "one_hot", "start_scale": -1}}, "start_scale must be a finite number"),
        ({"model": {"kind": "one_hot", "n_heads": 0}}, "n_heads must be"),
        ({"measures": {"taus": []}}, "taus must be"),
        ({"measures": {"taus": [0.5, 1.0]}}, "taus must be"),
        ({"measures": {"ranks": 1}}, "ranks must be bool"),
        ({"measures": {"planted_cp": 1.0}}, "planted_cp is a relative residual"),
        ({"measures": {"planted_cp": 0}}, "planted_cp is a relative residual"),
        ({"measures": {"readings": {"kind": "attention"}}}, "Trial.measures.readings: unknown 'kind'"),
        ({"measures": {"readings": {"tau": 0.5}}}, "Trial.measures.readings: unknown 'tau'"),
        ({"measures": {"readings": 3}}, "Trial.measures.readings must be a dictionary"),
        ({"measures": {"readings": {"kind": "readings", "taus": [2]}}}, "taus must be"),
        ({"measures": {"readings": {"kind": "readings", "temperatures": [1, 1.0]}}}, "temperatures must be different"),
        ({"measures": {"readings": {"kind": "readings", "temperatures": [0]}}}, "temperatures must be different"),
        ({"measures": {"readings": {"kind": "readings", "precisions": []}}}, "precisions is a list"),
        ({"measures": {"readings": {"kind": "readings", "precisions": ["tf32"]}}}, "must be one of 'float32'"),
        ({"curve_epochs": [5000]}, "beyond the last epoch"),
        ({"curve_epochs": 5}, "must be a list"),
    ],
)
def test_mistakes_are_named(change, message):
    with pytest.raises(InputError, match=message):
        Trial.from_dict(Trial(FACTS, LAYER).to_dict() | change)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (generated("uniform", n_keys=8), generated("uniform", n_keys=8.0)),
        (generated("uniform", seed=1), generated("uniform", seed=True)),
    ],
)
def test_options_are_equal_when_their_hashes_are(first, second):
    assert first != second
    assert Trial(first, LAYER).hash != Trial(second, LAYER).hash
    assert Trial(first, LAYER) != Trial(second, LAYER)


def test_negative_zero_is_zero():
    assert (
        Trial(FACTS, LAYER, Training(learning_rate=-0.0)).hash == Trial(FACTS, LAYER, Training(learning_rate=0.0)).hash
    )


def test_only_data_enters_a_specification():
    with pytest.raises(InputError, match="finite"):
        canonical_json(Trial(generated("uniform", n_keys=float("inf")), LAYER).to_dict())
    with pytest.raises(InputError, match="numbers, text and lists"):
        Trial(generated("uniform", n_keys=print), LAYER).to_dict()
