"""Trials: strict data in and out, and an identity that options added later do not change."""

import json
import pickle
from dataclasses import replace
from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from factrank.errors import InputError
from factrank.experiments.specs import Curve, EpochsTo, FrequencyGroups, TauRecall
from factrank.experiments.specs.data import Given, generated
from factrank.experiments.specs.specification import Options, canonical_json, hash_of
from factrank.experiments.specs.training_spec import Optimiser, Training
from factrank.experiments.specs.trial import Trial
from factrank.families.attention import Additive, Hallucinations, PlantedCP, Ranks, Readings
from factrank.families.attention.layer_shape import LayerShape
from factrank.families.attention.pair_transformer import TransformerShape
from factrank.families.factual_recall import FactSequences, PartsAlone, RelationAlone
from factrank.families.factual_recall.factual_recall_shape import FactualRecallOneHotShape, FactualRecallShape
from factrank.families.memoriser import Assumptions, Saturation, Tolerance
from factrank.families.memoriser.examples.examples import RandomExamples
from factrank.families.memoriser.examples.token_examples import TokenExamples
from factrank.families.memoriser.memoriser_shape import MemoriserShape
from factrank.families.memory import WeightedFacts
from factrank.families.memory.memory_shape import MemoryShape

FACTS = generated("uniform", n_keys=20, n_queries=10, n_values=20, seed=0)
LAYER = LayerShape(d_model=10, n_heads=1, d_qk=5, d_vo=5)

GOLDEN = {
    Trial(FACTS, LAYER): "17ad6f1977cb016d03a4c2db1fc976b845a4ea3f9728052cca6fa111cef4d623",
    Trial(FACTS, LAYER, seed=7): "ab1c70206bb8575504d44ab6a4444f36c4c035ad61cd298148b9c830e7fb3e59",
    Trial(
        Given("0" * 64), TransformerShape(8, 2, 3, 4, mlp_width=16, attention="linear")
    ): "b9bc56a77d2b0772e9adddaeec4ac7a05306b9f9c8be9758cd9cca718acc2e1a",
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
        (TauRecall((0.9, 0.5)), Hallucinations(), EpochsTo(), Curve((0, 10))),
        seed=1,
    ): "7da32475a4105f201ec2e0a99ce1d7c0c329ca85e792b882009ab8bd77c01d66",
}


@pytest.mark.parametrize(("trial", "expected"), GOLDEN.items(), ids=["default", "seed", "transformer", "everything"])
def test_golden_hashes(trial, expected):
    """A change of these orphans every stored result: add options with defaults instead."""
    assert trial.hash == expected


def test_golden_hash_of_what_is_measured_on_the_host():
    readings = Readings((0.5, 0.9), (0.5, 2.0), ("bfloat16", "float64"), ranks=True, cp=True)
    measures = (Ranks(), Additive(), readings, PlantedCP(0.01))
    trial = Trial(FACTS, LAYER, Training(precision="bfloat16"), measures=measures)
    assert trial.hash == "2ecc2420f3a317fcca2083cb6758093a352b460ba89e28aa6394377b4e3acb4f"
    assert trial.to_dict()["measures"] == [
        {"kind": "additive"},
        {"kind": "planted_cp", "residual": 0.01},
        {"kind": "ranks"},
        {
            "kind": "readings",
            "taus": [0.5, 0.9],
            "temperatures": [0.5, 2.0],
            "precisions": ["bfloat16", "float64"],
            "ranks": True,
            "cp": True,
        },
    ]


SPOKEN = generated("answer-sets", n_keys=16, n_queries=4, answers_per_query=8, structure="structured", seed=0)
SEQUENCE = {"kind": "sequence", "d_model": 4, "n_heads": 1, "d_qk": 1, "d_vo": 1}
WEIGHTED = {
    "data": {"kind": "weighted_facts", "facts": {"kind": "given", "fingerprint": "0"}},
    "model": {"kind": "memory", "d_model": 4},
}
SHOWN = {"kind": "fact_sequences", "facts": {"kind": "given", "fingerprint": "0"}}
VECTORS_OF = {"kind": "random_examples", "n_examples": 10, "context_size": 4}
NEWER = {
    Trial(
        generated("associations", n_inputs=8, n_outputs=8, seed=0), MemoryShape(4)
    ): "cf36fa470f4655bf77ff5064fc86bc67fbbca0a6aecc66e27d71dd0bcddff851",
    Trial(
        WeightedFacts(generated("associations", n_inputs=8, n_outputs=3, kind="random", seed=0), key_exponent=1.0),
        MemoryShape(4, width=8, trained_embeddings=True),
        Training(stop="recall", stop_at=0.99),
        FrequencyGroups(2),
        start="two-sided",
    ): "544e16840065e86d078fb98597fe47d2e68a4ab5785186b8972f992e64589508",
    Trial(
        FactSequences(SPOKEN, key_exponent=1.0, query_exponent=0.5, copy_fraction=0.25, contexts=2),
        FactualRecallShape(8, 2, 1, 4, 16, 12, 20, linear=True, trained_embeddings=True, copy_groups=2, copy_size=3),
        measures=(PartsAlone(), RelationAlone()),
    ): "3952cbe5f45882b0beda281a8bdcd3598d589ce05923965e3682d45f1b6b20ef",
    Trial(
        SPOKEN, FactualRecallOneHotShape(2, False, 12, 20, 0.5)
    ): "116012606deedf4c1b88bb996eaa61017c2d69ed30946222856b3de4c5f44a56",
}


@pytest.mark.parametrize(("trial", "expected"), NEWER.items(), ids=["memory", "every memory", "sequence", "one-hot"])
def test_golden_hashes_of_memories_and_sequences(trial, expected):
    assert trial.hash == expected
    assert Trial.from_dict(json.loads(json.dumps(trial.to_dict()))) == trial


TOKENS = TokenExamples("passage", "gpt2", "attention")
EXAMPLES = RandomExamples(1000, 32, n_classes=100, n_contexts=1, seed=3)
VECTORS = {
    Trial(RandomExamples(10, 4), MemoriserShape()): "d0d50825229a1b6edfa8f9be2f60b13287998516f40923d9138b434f70416305",
    Trial(
        EXAMPLES,
        MemoriserShape(4, 16, 8, 2, embedded=False, positions=False, scaled_by="d_qk"),
        Training(learning_rate=1e-3, epochs=50_000, batch_size=128, schedule="cosine", warm_up=0.05),
        (Saturation(0.99), Tolerance(0.1), Assumptions(100)),
        start="solved",
    ): "17bfb4fabb59de10005989ee872bb26d30191e856b816bf1d59befaf4e2c72df",
    Trial(
        TOKENS, MemoriserShape(d_model=16), Training(epochs=0), Assumptions(20)
    ): "22c2d4d071857729da27aa59d398438366dfb9141c60ed647b794232c8f4e6d7",
    Trial(
        SPOKEN, FactualRecallShape(4, 1, 1, 1), Training(stop="recall_sequences")
    ): "43de6113ece576e305bfe80af34fc740036661b7980f8c3762f96e631890627d",
}


@pytest.mark.parametrize(("trial", "expected"), VECTORS.items(), ids=["memoriser", "options", "tokens", "sequences"])
def test_golden_hashes_of_memorisers(trial, expected):
    assert trial.hash == expected
    assert Trial.from_dict(json.loads(json.dumps(trial.to_dict()))) == trial


def test_models_and_what_they_read_fit():
    with pytest.raises(InputError, match=r"a memoriser reads vectors, .*; got Generated"):
        Trial(FACTS, MemoriserShape())
    for data, model in ((EXAMPLES, LAYER), (EXAMPLES, MemoryShape(4)), (TOKENS, LAYER)):
        with pytest.raises(InputError, match=f"a {type(model).__name__} reads facts; got {type(data).__name__}"):
            Trial(data, model)
    assert Trial(Given("0"), MemoriserShape()).data == Given("0")  # known by its fingerprint alone
    assert EXAMPLES.build() is EXAMPLES


def test_defaults_are_left_out():
    plain = Trial(FACTS, LAYER).to_dict()
    assert set(plain) == {"version", "data", "model"}
    assert Trial(FACTS, LAYER, Training(learning_rate=0.01)).hash == Trial(FACTS, LAYER).hash
    whole = Trial.from_dict(plain | {"training": {"learning_rate": 1}})
    assert whole.hash == Trial(FACTS, LAYER, Training(learning_rate=1.0)).hash


def test_order_of_arguments_does_not_matter():
    other = generated("uniform", seed=0, n_values=20, n_queries=10, n_keys=20)
    assert Trial(other, LAYER).hash == Trial(FACTS, LAYER).hash


def test_the_order_of_measures_does_not_matter():
    measures = (Ranks(), Curve((5, 0)), TauRecall((0.5,)), Readings(), EpochsTo())
    one, *others = [Trial(FACTS, LAYER, measures=order) for order in permutations(measures)]
    assert {other.hash for other in others} == {one.hash}
    assert all(other == one for other in others)
    assert one.measures == Trial(FACTS, LAYER, measures=list(measures)).measures  # a list is as good
    assert Trial.from_dict(one.to_dict()) == one


def test_one_measure_needs_no_tuple():
    assert Trial(FACTS, LAYER, measures=Ranks()) == Trial(FACTS, LAYER, measures=(Ranks(),))
    assert replace(Trial(FACTS, LAYER), measures=Ranks()).measures == (Ranks(),)


def test_a_measure_is_asked_for_once():
    for twice in ((Ranks(), Ranks()), (Curve((0,)), Ranks(), Curve((5,)))):
        with pytest.raises(InputError, match=r"each measure may be given once; got \w+"):
            Trial(FACTS, LAYER, measures=twice)
    plain = Trial(FACTS, LAYER, measures=Ranks()).to_dict()
    with pytest.raises(InputError, match="each measure may be given once"):
        Trial.from_dict(plain | {"measures": plain["measures"] * 2})


@pytest.mark.parametrize("wrong", ["ranks", Ranks, (Ranks,), ("ranks",), {"ranks": True}, None, 3])
def test_measures_are_measures(wrong):
    with pytest.raises(InputError, match="measures must be a tuple of measures"):
        Trial(FACTS, LAYER, measures=wrong)


def test_what_every_trial_measures_anyway_says_nothing():
    assert Trial(FACTS, LAYER, measures=TauRecall()) == Trial(FACTS, LAYER)
    assert Trial(FACTS, LAYER, measures=TauRecall()).hash == Trial(FACTS, LAYER).hash
    assert Trial(FACTS, LAYER).taus == TauRecall().taus
    assert Trial(FACTS, LAYER, measures=TauRecall((0.5,))).taus == (0.5,)


@pytest.mark.parametrize(
    ("presentation", "model", "option"),
    [
        (WeightedFacts, MemoryShape(4), {"key_exponent": 1.0}),
        (FactSequences, FactualRecallShape(4, 1, 1, 1), {"contexts": 2}),
    ],
)
def test_a_presentation_that_says_nothing_is_its_facts(presentation, model, option):
    plain, shown, other = (Trial(data, model) for data in (FACTS, presentation(FACTS), presentation(FACTS, **option)))
    assert (shown, shown.data, shown.hash) == (plain, FACTS, plain.hash)
    assert other != plain
    assert (other.source, other.data.build().fingerprint) == (FACTS, FACTS.build().fingerprint)
    assert presentation.of(FACTS) == presentation(FACTS)
    assert presentation.of(other.data) == other.data
    with pytest.raises(InputError, match="got facts with a presentation"):
        presentation(presentation(FACTS))


@pytest.mark.parametrize("optimiser", ["sgd", Optimiser("sgd"), Optimiser("sgd", Options.of({"momentum": 0.9}))])
def test_the_optimiser_in_both_spellings(optimiser):
    one, other = Training(optimiser=optimiser, epochs=7), Training(optimizer=optimiser, epochs=7)
    assert one == other == Training(optimiser, epochs=7)
    assert hash(one) == hash(other)
    assert one.optimizer == one.optimiser == other.optimizer
    assert replace(Training(epochs=7), optimiser=optimiser) == one
    assert replace(other, epochs=9).optimiser == one.optimiser  # other changes keep it
    assert pickle.loads(pickle.dumps(other)) == one  # noqa: S301 - our own bytes
    assert Trial(FACTS, LAYER, one).hash == Trial(FACTS, LAYER, other).hash
    assert "optimizer" not in json.dumps(Trial(FACTS, LAYER, other).to_dict())


def test_two_optimisers_are_one_too_many():
    for options in ({"optimiser": "adam", "optimizer": "adam"}, {"optimiser": "adam", "optimizer": "sgd"}):
        with pytest.raises(InputError, match="optimizer is an alias of optimiser"):
            Training(**options)
    with pytest.raises(InputError, match="optimizer is an alias of optimiser"):
        Training("adam", optimizer="sgd")
    for options in ({"optimizer": "sgd"}, {"optimizer": Optimiser("sgd"), "optimiser": Optimiser("adam")}):
        with pytest.raises(InputError, match="every field, so change optimiser there"):
            replace(Training(epochs=7), **options)
    for wrong in (3, None, Training):
        with pytest.raises(InputError, match="optimiser must be a name or an Optimiser"):
            Training(optimizer=wrong)
    plain = Trial(FACTS, LAYER).to_dict() | {"training": {"optimizer": {"name": "sgd"}}}
    with pytest.raises(InputError, match=r"Trial.training: unknown 'optimizer'; it takes optimiser, "):
        Trial.from_dict(plain)


def dictionaries(**fields):
    return st.fixed_dictionaries({}, optional=fields)


trainings = dictionaries(
    optimiser=dictionaries(name=st.sampled_from(["adam", "sgd"]), options=st.just({"b1": 0.5}) | st.just({})),
    learning_rate=st.floats(0, 10) | st.integers(0, 3),
    weight_decay=st.floats(0, 1),
    epochs=st.integers(20, 10**6),
    batch_size=st.none() | st.integers(1, 999),
    stop=st.sampled_from(["never", "recall", "recall_tau"]),
    check_every=st.integers(1, 100),
    frozen=st.lists(st.sampled_from(["w_q", "embedding", "unembedding"]), max_size=3),
    score_scale=st.floats(0, 10),
    precision=st.sampled_from(["float32", "tf32", "float64", "bfloat16"]),
    engine=st.sampled_from(["auto", "lanes"]),
    stop_at=st.floats(0.01, 1),
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
    },
)
readings = st.fixed_dictionaries(
    {"kind": st.just("readings")},
    optional={
        "taus": st.lists(st.sampled_from([0.25, 0.5]), min_size=1, unique=True),
        "temperatures": st.lists(st.integers(1, 3) | st.floats(4, 5), min_size=1, max_size=3, unique=True),
        "precisions": st.lists(st.sampled_from(["float32", "float64", "bfloat16"]), min_size=1, unique=True),
        "cp": st.booleans(),
    },
)
GIVEN = st.fixed_dictionaries({"kind": st.just("given"), "fingerprint": st.text(max_size=5)})
OF_EVERY = {
    "tau_recall": {"taus": st.lists(st.floats(0.01, 0.99), min_size=1, max_size=3, unique=True)},
    "epochs_to": {},
    "curve": {"epochs": st.lists(st.integers(0, 20), min_size=1, max_size=4)},
}
OF_LAYERS = {"hallucinations": {}, "ranks": {}, "planted_cp": {"residual": st.floats(0.01, 0.5)}}
OF_SEQUENCES = {
    "relation_alone": {},
    "frequency_groups": {"groups": st.integers(1, 9)},
    "test_recall": {"sequences": st.integers(1, 9)},
    "best": {},
}
OF_MEMORISERS = {
    "saturation": {"threshold": st.floats(0.01, 0.99)},
    "tolerance": {"error": st.floats(0, 1) | st.integers(0, 1)},
    "assumptions": {"subsets": st.integers(1, 9)},
}


def measured(kinds, *more):
    """Lists of measures of these kinds, in any order, each at most once."""
    each = [st.fixed_dictionaries({"kind": st.just(kind), **options}) for kind, options in (OF_EVERY | kinds).items()]
    return st.lists(st.one_of(*each, *more), max_size=5, unique_by=lambda measure: measure["kind"])


def presented(kind, **options):
    return GIVEN | st.fixed_dictionaries({"kind": st.just(kind), "facts": GIVEN}, optional=options)


def plain_trials_of(models, measures, data=GIVEN, starts=()):
    return st.fixed_dictionaries(
        {"version": st.just(2), "data": data, "model": models},
        optional={
            "training": trainings,
            "measures": measures,
            "start": st.sampled_from(["drawn", *starts]),
            "seed": st.integers(0, 2**32 - 1),
        },
    )


exponents = st.floats(0, 3) | st.integers(0, 2)
weighted = presented("weighted_facts", key_exponent=exponents)
shown = presented(
    "fact_sequences",
    key_exponent=exponents,
    query_exponent=st.floats(0, 3),
    copy_fraction=st.floats(0, 1),
    contexts=st.integers(1, 9),
)
forms = ("zero", "outer product", "least squares", "two-sided", "logistic")
plain_trials = (
    plain_trials_of(layers | transformers, measured(OF_LAYERS, readings))
    | plain_trials_of(memories, measured({"frequency_groups": OF_SEQUENCES["frequency_groups"]}), weighted, forms)
    | plain_trials_of(sequences | one_hots, measured(OF_SEQUENCES), shown)
    | plain_trials_of(memorisers, measured(OF_MEMORISERS), starts=["solved"])
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
        ({"version": 3}, "a trial must be a dictionary with version 2"),
        ({"version": 1}, "written by factrank 0.1; convert it with"),
        ({"sed": 3}, "unknown 'sed'"),
        ({"seed": -1}, "seed must be an integer of at least 0"),
        ({"seed": 2**32}, "seed must be at most"),
        ({"seed": True}, "Trial.seed must be int"),
        ({"model": {"kind": "atention"}}, "kind must be one of attention, language, memoriser, memory, one_hot, seq"),
        ({"model": {"kind": "attention", "d_model": 4}}, "missing 'n_heads'"),
        ({"model": {"kind": "attention", "d_model": 4, "n_heads": 0, "d_qk": 1, "d_vo": 1}}, "n_heads must be"),
        ({"model": 3}, "Trial.model"),
        ({"training": {"epochs": 1.5}}, "Trial.training.epochs must be int"),
        ({"training": {"learning_rate": -1}}, "learning_rate must be a finite number"),
        ({"training": {"learning_rate": "fast"}}, "Trial.training.learning_rate must be float"),
        ({"training": {"batch_size": 0}}, "batch_size must be"),
        ({"training": {"stop": "soon"}}, "stop must be one of never, recall, .*sequences, in_context; got 'soon'"),
        ({"training": {"optimiser": {"options": [1]}}}, "options must be a dictionary"),
        ({"training": {"stop_at": 0}}, "stop_at must be a fraction"),
        ({"training": {"stop_at": 1.01}}, "stop_at must be a fraction"),
        ({"training": {"schedule": "linear"}}, "schedule must be one of 'constant', 'cosine'"),
        ({"training": {"warm_up": 1}}, "warm_up must be a fraction of the epochs"),
        ({"training": {"warm_up": -0.1}}, "warm_up must be a finite number"),
        ({"model": {"kind": "memoriser"}}, "a memoriser reads vectors"),
        ({"model": {"kind": "memoriser", "d_vo": 0}}, "d_vo must be an integer of at least 1"),
        ({"model": {"kind": "memoriser", "embedded": 1}}, "embedded must be bool"),
        ({"model": {"kind": "memoriser", "scaled_by": "d_vo"}}, "must be one of 'd_model', 'd_qk'"),
        ({"data": VECTORS_OF | {"n_examples": 0}}, "n_examples must be an integer from 1"),
        ({"data": VECTORS_OF | {"n_classes": 1}}, "n_classes must be an integer from 2"),
        ({"data": VECTORS_OF | {"n_contexts": 11}}, "n_contexts must be at most n_examples = 10; got 11"),
        ({"data": VECTORS_OF | {"seed": 2**32}}, "seed must be an integer from 0"),
        ({"data": VECTORS_OF | {"context": 4}}, "unknown 'context'"),
        ({"data": VECTORS_OF}, "a LayerShape reads facts; got RandomExamples"),
        ({"model": {"kind": "memory", "d_model": 0}}, "d_model must be"),
        ({"model": {"kind": "memory", "d_model": 4, "width": 0}}, "width must be"),
        ({"model": SEQUENCE | {"d_vo": 0}}, "d_vo must be an integer of at least 1"),
        ({"model": SEQUENCE | {"length": 2}}, "length must be an integer of at least 3"),
        ({"model": SEQUENCE | {"n_noise": 0}}, "n_noise must be"),
        ({"model": SEQUENCE | {"copy_groups": 2}}, "both 0 or both at least 1"),
        ({"model": SEQUENCE | {"copy_groups": 8, "copy_size": 1, "length": 8}}, "copy_groups . 1 = 9, .*; got 8"),
        ({"model": {"kind": "one_hot", "start_scale": -1}}, "start_scale must be a finite number"),
        ({"model": {"kind": "one_hot", "n_heads": 0}}, "n_heads must be"),
        ({"data": {"kind": "weighted_facts", "facts": {"kind": "given"}}}, "missing 'fingerprint'"),
        ({"data": {"kind": "weighted_facts"}}, "missing 'facts'"),
        (WEIGHTED | {"data": {**WEIGHTED["data"], "key_exponent": -1}}, "key_exponent must be a finite number"),
        ({"data": SHOWN | {"copy_fraction": 2}}, "copy_fraction must be between"),
        ({"data": SHOWN | {"contexts": 0}}, "contexts must be an integer of at least 1"),
        ({"data": SHOWN | {"facts": SHOWN}}, "FactSequences takes facts; got facts with a presentation"),
        ({"measures": {"ranks": True}}, "Trial.measures must be a list"),
        ({"measures": ["ranks"]}, "Trial.measures.0. must be a dictionary"),
        ({"measures": [{"kind": "rank"}]}, "the kind must be one of .*additive.*; got 'rank'"),
        ({"measures": [{"kind": "attention"}]}, "the kind must be one of"),
        ({"measures": [{"kind": "ranks", "taus": [0.5]}]}, "unknown 'taus'"),
        ({"measures": [{"kind": "tau_recall", "taus": []}]}, "taus must be"),
        ({"measures": [{"kind": "tau_recall", "taus": [0.5, 1.0]}]}, "taus must be"),
        ({"measures": [{"kind": "planted_cp"}]}, "missing 'residual'"),
        ({"measures": [{"kind": "planted_cp", "residual": 1.0}]}, "residual must be between 0 and 1"),
        ({"measures": [{"kind": "planted_cp", "residual": 0}]}, "residual must be between 0 and 1"),
        ({"measures": [{"kind": "saturation", "threshold": 1.0}]}, "threshold must be between 0 and 1"),
        ({"measures": [{"kind": "saturation", "threshold": 0}]}, "threshold must be between 0 and 1"),
        ({"measures": [{"kind": "tolerance", "error": -1}]}, "error must be a finite number"),
        ({"measures": [{"kind": "assumptions", "subsets": 0}]}, "subsets must be an integer of at least 1"),
        ({"measures": [{"kind": "frequency_groups", "groups": 0}]}, "groups must be an integer of at least 1"),
        ({"measures": [{"kind": "test_recall", "sequences": 0}]}, "sequences must be an integer of at least 1"),
        ({"measures": [{"kind": "readings", "tau": 0.5}]}, "Trial.measures.0.: unknown 'tau'"),
        ({"measures": [{"kind": "readings", "taus": [2]}]}, "taus must be"),
        ({"measures": [{"kind": "readings", "temperatures": [1, 1.0]}]}, "temperatures must be one or more distinct"),
        ({"measures": [{"kind": "readings", "temperatures": [0]}]}, "temperatures must be one or more distinct"),
        ({"measures": [{"kind": "readings", "precisions": []}]}, "precisions must be distinct"),
        ({"measures": [{"kind": "readings", "precisions": ["tf32"]}]}, "must be one of 'float32'"),
        ({"measures": [{"kind": "curve", "epochs": [5000]}]}, "beyond the last epoch"),
        ({"measures": [{"kind": "curve", "epochs": [-1]}]}, "an epoch of a curve must be"),
        ({"measures": [{"kind": "curve", "epochs": []}]}, "at least one epoch"),
        ({"measures": [{"kind": "curve", "epochs": 5}]}, "must be a list"),
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
    with pytest.raises(InputError, match="numbers, strings and lists"):
        Trial(generated("uniform", n_keys=print), LAYER).to_dict()


@pytest.mark.parametrize("options", [(("momentum", 0.9),), [("momentum", 0.9)], (("momentum", 0.9, 1),)])
def test_options_of_an_optimiser_are_a_dictionary(options):
    with pytest.raises((InputError, TypeError), match=r"dictionary|options"):
        Optimiser("sgd", options)
