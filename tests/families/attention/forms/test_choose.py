"""`construct`: the best layer is chosen, certified, scored, and the others are named with what they cost."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fact_tables import UNICODE, slow_margins, with_ranges, with_sets
from factrank.databases.database import Database
from factrank.databases.generators.random_tables import disjoint, numbered, uniform
from factrank.databases.sample_tables import sample
from factrank.errors import FactrankError, InputError
from factrank.experiments.models.verification import verify
from factrank.families.attention.forms import choose
from factrank.families.attention.forms.binary_codes import BinaryCodes
from factrank.families.attention.forms.candidates import refused_forms
from factrank.families.attention.forms.construction import Built, FormSearch
from factrank.families.attention.forms.mixed import Mixed, joint_shape, of_queries
from factrank.families.attention.forms.registry import CONSTRUCTIONS, registered_form
from factrank.families.attention.forms.shared_heads import SharedHeads
from factrank.families.attention.layer_shape import LayerShape
from factrank.families.attention.pair_transformer import PairTransformer
from factrank.families.attention.searching import construct
from factrank.nn.part_arrays import to_arrays
from slow_layers import slow_layer_tensor
from strategies import as_database, tensors

PRECISIONS = ("float32", "bfloat16", "float64")
COSTS = {
    "parameters": lambda found: found.parameters,
    "heads": lambda found: found.spec.n_heads,
    "d_model": lambda found: found.spec.d_model,
    "bits": lambda found: found.parameters * 8 * np.dtype(found.model.embedding.dtype).itemsize,
    "margin": lambda found: -found.certificate.margin,
}


def all_recalled(found, database):
    assert found.certified
    assert found.certificate.recalled == found.certificate.facts == len(database)
    assert found.certificate.proved_margin > 0
    assert found.parameters == found.spec.parameters(*database.shape)
    assert {str(part.dtype) for part in to_arrays(found.model).values()} == {found.precision}
    return found


# ---------------------------------------------------------------- recall


@pytest.mark.parametrize(
    ("name", "precision"),
    [*(("astrid", precision) for precision in PRECISIONS), ("elements", "float32"), ("countries", "bfloat16")],
)
def test_the_samples(name, precision):
    database = sample(name)
    found = all_recalled(construct(database, precision, budget=0.0), database)
    if name == "astrid":
        assert slow_margins(found.model, database).min() == pytest.approx(found.certificate.margin, rel=1e-3)


@pytest.mark.parametrize(
    "database",
    [
        *(
            uniform(n_keys, n_queries, n_values, seed=3)
            for n_keys, n_queries, n_values in ((1, 1, 1), (1, 4, 2), (9, 1, 33), (9, 4, 2), (9, 4, 33))
        ),
        disjoint(20, 6, 4, seed=0),
        with_ranges(3, n_keys=30, n_queries=6, size=5),
        Database.from_facts([("a", "q", "v")]),
        UNICODE,
    ],
    ids=lambda database: "x".join(map(str, database.shape)),
)
def test_a_grid_of_sizes(database):
    found = all_recalled(construct(database, budget=0.0), database)
    margins = slow_margins(found.model, database)
    assert margins.min() == pytest.approx(found.certificate.margin, rel=1e-3)


@given(tensors(empty=False, most=4), st.sampled_from(PRECISIONS))
@settings(max_examples=8)
def test_any_table_that_fits_is_held(tensor, precision):
    database = as_database(tensor)
    found = all_recalled(construct(database, precision, budget=0.0), database)
    assert (slow_margins(found.model, database) > 0).all()


# ---------------------------------------------------------------- the choice


@pytest.mark.parametrize("minimise", COSTS)
def test_no_construction_alone_is_better(minimise):
    database = with_ranges(4, n_keys=12, n_queries=6, size=3) if minimise == "heads" else sample("astrid")
    best = construct(database, minimise=minimise, budget=0.0)
    cost = COSTS[minimise]
    for name, precision in product(CONSTRUCTIONS, PRECISIONS if minimise == "bits" else ["float32"]):
        try:
            other = construct(database, precision, minimise, budget=0.0, only=name)
        except FactrankError:  # refused, or nothing can be found in no time
            continue
        assert not other.certified or cost(best) <= cost(other), name
    words = {"parameters": "parameters", "heads": "heads", "d_model": "d_model", "bits": "bits", "margin": "margin"}
    assert words[minimise] in best.reason


def test_runners_up_are_sorted_and_refusals_come_last():
    found = construct(uniform(20, 3, 30, seed=0), "bfloat16", budget=0.0)
    sizes = [candidate.parameters for candidate in found.runners_up]
    known = [size for size in sizes if size is not None]
    assert known == sorted(known)
    assert sizes[: len(known)] == known
    assert all(candidate.reason for candidate in found.runners_up if candidate.parameters is None)
    assert found.form not in [candidate.construction for candidate in found.runners_up]
    assert min(known) >= found.parameters


def test_the_score():
    database = sample("elements")
    found = construct(database, "float64", only="binary")
    assert found.bits_per_parameter == database.bits / found.parameters
    assert found.bits_per_stored_bit == database.bits / (64 * found.parameters)
    assert found.facts_per_parameter == len(database) / found.parameters
    assert found.to_dict()["bits_per_stored_bit"] < 1


def test_the_fewest_bits_are_looked_for_in_all_precisions():
    database = sample("astrid")
    found = construct(database, minimise="bits")
    assert found.precision == "bfloat16"
    assert {candidate.precision for candidate in found.runners_up} == set(PRECISIONS)
    assert construct(database, "float64", "bits").precision == "float64"


def test_the_winner_is_not_among_the_forms_that_are_refused():
    """With the fewest bits as the aim, a form may win in float32 and be refused in bfloat16."""
    found = construct(uniform(300, 2, 120, seed=0), minimise="bits", budget=0.0, only=["parabola", "attention-map"])
    assert (found.form, found.precision) == ("attention-map", "float32")
    assert ("attention-map", "bfloat16") in [
        (one.construction, one.precision) for one in found.runners_up if not one.shape
    ]
    assert refused_forms(found) == {"parabola": ("bfloat16",)}


def test_another_precision_may_allow_fewer_heads():
    database = uniform(8, 2, 5, seed=0)
    forms = {"budget": 0.0, "only": ["parabola", "attention-map", "linear-solve"]}
    found = construct(database, "bfloat16", "heads", **forms)
    assert (found.form, found.spec.n_heads) == ("parabola", 2)
    assert found["advice"] == ("attention-map would need only 1 head in float32 (2 in bfloat16)",)
    assert construct(database, "float32", "heads", **forms).spec.n_heads == 1
    assert construct(database, "float32", "heads", **forms)["advice"] == ()
    assert construct(database, "bfloat16", **forms)["advice"] == ()


def test_both_spellings_and_the_largest_margin():
    database, few = sample("astrid"), {"budget": 0.0, "only": ["parabola", "binary", "shared-heads"]}
    margins = [construct(database, maximise="margin", **few), construct(database, maximize="margin", **few)]
    for found in margins:
        assert found.reason == "largest margin"
        assert found.certificate.margin >= max(one.margin for one in found.runners_up)  # every form was built
    assert construct(database, minimize="heads", **few).reason == construct(database, minimise="heads", **few).reason


def test_only_the_constructions_that_are_named():
    found = construct(sample("astrid"), only=["binary", "shared-heads", "binary"])
    assert found.form == "shared-heads"
    assert [candidate.construction for candidate in found.runners_up] == ["binary"]
    alone = construct(sample("astrid"), only="binary")
    assert (alone.form, alone.runners_up, alone.reason) == ("binary", (), "the one asked for")


def test_bad_requests():
    facts = sample("astrid")
    for arguments, message in (
        ({"only": "magic"}, "there is no construction 'magic'; there are .*binary"),
        ({"only": []}, "name at least one"),
        ({"budget": -1.0}, "finite number of seconds"),
        ({"share_tokens": True, "only": "parabola"}, "support only the construction .binary."),
        ({"minimise": "heads", "maximise": "margin"}, "not both"),
    ):
        with pytest.raises(InputError, match=message):
            construct(facts, **arguments)
    with pytest.raises(InputError, match=r'parameters, heads, d_model, bits, or give maximise="margin"; got .weight'):
        choose._objective("weight", None)
    with pytest.raises(InputError, match="only the margin can be maximised; got maximise='heads'"):
        choose._objective(None, "heads")
    with pytest.raises(InputError, match="no facts"):
        construct(Database(np.zeros((0, 3), np.int32), *facts.vocabularies))
    several = Database.from_facts([("a", "q", "v"), ("a", "q", "w"), ("a", "q", "x")], multi=True)
    with pytest.raises(
        InputError, match=r"no construction holds this database in float32:\n  binary: some \(key, query\)"
    ):
        construct(several, only="binary")


class Wrong:
    """A construction that builds the layer of another one with a word turned around."""

    name, estimated = "wrong", False

    def refusal(self, database, precision):
        return None

    def shape(self, database, precision):
        return LayerShape(2, 1, 1, 1)

    def build(self, database, precision, search):
        built = BinaryCodes().build(database, precision, search)
        embedding = np.array(built.layer.embedding)
        embedding[0] = -embedding[0]
        return Built(replace(built.layer, embedding=embedding), self.name)


class Late:
    """A construction that turns out smaller than it says."""

    name, estimated = "late", True

    def refusal(self, database, precision):
        return None

    def shape(self, database, precision):
        return LayerShape(5, 1, 3, 1)

    def build(self, database, precision, search):
        return Built(CONSTRUCTIONS["attention-map"].build(database, precision, search).layer, self.name)


@registered_form(Late())
def test_an_estimate_may_turn_out_smaller():
    facts = sample("astrid")
    assert Late().shape(facts, "float32").parameters(*facts.shape) > construct(facts, only="parabola").parameters
    found = construct(facts, only=["parabola", "late"], budget=60.0)
    assert (found.form, found.reason) == ("late", "fewest parameters")
    assert [candidate.construction for candidate in found.runners_up] == ["parabola"]
    assert construct(facts, only=["parabola", "late"], budget=0.0).form == "parabola"  # no time to find out


@registered_form(Wrong())
def test_what_is_not_certified_is_not_chosen():
    facts = sample("astrid")
    found = all_recalled(construct(facts), facts)
    wrong = next(candidate for candidate in found.runners_up if candidate.construction == "wrong")
    assert wrong.reason.startswith("not certified: ")
    alone = construct(facts, only="wrong")
    assert not alone.certified
    assert construct(facts, only=["wrong", "linear-solve"]).reason == "none could be certified"


def test_too_large_for_this_machine(monkeypatch):
    monkeypatch.setattr(choose, "memory_room", lambda: 3 * 4 * 100)
    found = construct(sample("astrid"))
    assert found.parameters <= 100
    assert any("in float32 take more memory than this" in candidate.reason for candidate in found.runners_up)


SHARED = Database.from_facts([("a", "b", "v"), ("b", "b", "w"), ("b", "c", "v"), ("a", "c", "x")])


def test_shared_tokens():
    found = construct(SHARED, share_tokens=True)
    assert found.certified
    assert isinstance(found.model, PairTransformer)
    assert len(to_arrays(found.model)["embedding"]) == 3
    assert (slow_margins(found.model, SHARED) > 0).all()


def test_shared_tokens_in_bfloat16_count_their_parameters():
    found = construct(SHARED, "bfloat16", share_tokens=True)
    assert found.to_dict()["facts_per_parameter"] == 4 / found.spec.parameters(*SHARED.shape, 1)


# ---------------------------------------------------------------- mixed


def two_kinds(seed=0):
    """Three queries with one of 6 values, one with up to three of another 9."""
    few = uniform(15, 3, 6, seed=seed)
    sets = with_sets(15, 1, 9, 3, seed)
    triples = np.concatenate([few.triples, sets.triples + np.array([0, 3, 6])])
    return numbered(triples, (15, 4, 15))


def test_a_mixed_layer_has_the_logits_of_its_parts():
    database = two_kinds()
    mixed, precision = CONSTRUCTIONS["mixed"], "float32"
    split = mixed.split(database, precision)
    assert sorted(np.concatenate(split.queries).tolist()) == [0, 1, 2, 3]
    built = mixed.build(database, precision, FormSearch(0.0))
    assert built.layer.shape == split.shape == mixed.shape(database, precision)
    whole = slow_layer_tensor(built.layer)
    for form, queries in zip(split.forms, split.queries, strict=True):
        part = form.build(of_queries(database, queries), precision, FormSearch(0.0)).layer
        assert np.allclose(whole[:, queries], slow_layer_tensor(part), atol=1e-9)
    found = all_recalled(construct(database, budget=0.0), database)
    assert found.form == "mixed"
    assert found.parameters < construct(database, only="set-valued").parameters


@given(st.integers(0, 10**6))
@settings(max_examples=3)
def test_mixed_layers_of_long_and_short_ranges(seed):
    """In bfloat16 the parabola takes few values: the query with many goes elsewhere."""
    rng = np.random.default_rng(seed)
    few, many = uniform(40, 2, int(rng.integers(2, 9)), seed=seed), uniform(200, 1, 200, seed=seed)
    triples = np.concatenate([few.triples, many.triples + np.array([0, 2, few.n_values])])
    database = numbered(triples, (200, 3, few.n_values + 200))
    mixed = Mixed({"parabola": CONSTRUCTIONS["parabola"], "shared-heads": SharedHeads()})
    built = mixed.build(database, "bfloat16", FormSearch(0.0))
    assert verify(built.layer, database).certified
    assert (slow_margins(built.layer, database) > 0).all()


def test_mixed_refuses_where_nothing_is_to_be_split():
    assert "nothing to split" in CONSTRUCTIONS["mixed"].refusal(sample("astrid"), "float32")
    with pytest.raises(InputError, match=r"mixed: .*nothing to split"):
        CONSTRUCTIONS["mixed"].build(sample("astrid"), "float32", FormSearch())


@given(*(st.integers(1, 9) for _ in range(4)))
def test_the_width_of_joint_heads_costs_least(heads, width, other_heads, other_width):
    one, other = LayerShape(3, heads, 1, width), LayerShape(4, other_heads, 1, other_width)
    joint = joint_shape(one, other)
    assert joint.d_model == 7
    for wide in range(1, 10):
        n_heads = heads * -(-width // wide) + other_heads * -(-other_width // wide)
        assert joint.n_heads * (1 + joint.d_vo) <= n_heads * (1 + wide)


def test_progress_names_every_step():
    steps = []
    found = construct(
        Database.from_facts([("a", "q", "x"), ("b", "q", "y")]), only=["binary", "cp"], report=steps.append
    )
    assert found.certified
    assert steps[:3] == ["sizing binary", "sizing cp", f"building {found.form}"]
    assert f"proving {found.form}" in steps
