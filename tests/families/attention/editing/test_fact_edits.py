"""Edits: what is asked for changes, nothing else does, and the certificate is that of a layer verified from scratch."""

import json
from dataclasses import replace

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fact_tables import UNICODE, slow_margins, with_ranges
from factrank.certificates.certified_weights import fingerprint_of
from factrank.databases.database import Database
from factrank.databases.generators.random_tables import uniform
from factrank.databases.sample_tables import sample
from factrank.errors import InputError
from factrank.experiments.models.verification import verify
from factrank.families.attention.attention_layer import init_layer
from factrank.families.attention.editing.fact_edits import Change, edit, edit_file
from factrank.families.attention.layer_files import SavedLayer, save_layer
from factrank.families.attention.layer_shape import LayerShape
from factrank.families.attention.searching import construct
from factrank.nn.part_arrays import to_arrays
from factrank.nn.weights import on_device
from factrank.readouts.evaluation_blocks import full_precision

EXACT = ("binary", "shared-heads", "parabola", "digits", "compact-parabola", "one-hot-parabola")
EDITABLE = (*EXACT, "circle", "attention-map")


def constructed(database, only="parabola", precision="float32"):
    return construct(database, precision, only=only, budget=0.0).to_saved()


@eqx.filter_jit
def _logits(layer, keys, queries):
    return layer.logits(keys, queries)


def logits_of(saved, pairs):
    """The logits of pairs of names, as the layer itself computes them; padded, so that few sizes are compiled."""
    named = np.array([(saved.database.keys.index(key), saved.database.queries.index(query)) for key, query in pairs])
    keys, rows = np.unique(named[:, 0], return_inverse=True)
    n_keys, embedding = saved.layer.n_keys, to_arrays(saved.layer)["embedding"]
    filled_up = np.concatenate([embedding[np.resize(keys, ROWS)], embedding[n_keys:]])
    layer = replace(saved.layer, n_keys=ROWS, embedding=filled_up)
    filled = [np.resize(codes, PAIRS) for codes in (rows, named[:, 1])]
    with full_precision(layer):
        return np.asarray(_logits(on_device(layer), *map(jnp.asarray, filled)))[: len(pairs)]


ROWS, PAIRS = 64, 64
SHARED = '"shared-heads"'


def in_range(database, query):
    return np.isin(np.array(database.values), database.values_of_query(query))


def facts_of(database):
    return {(key, query): value for key, query, value in database}


def applied(facts, changes):
    """The facts after the changes, the slow way."""
    facts = dict(facts)
    for key, query, value in changes:
        if value is None:
            del facts[key, query]
        else:
            facts[key, query] = value
    return facts


def check(before, edited, changes):
    """The facts are those asked for, all others keep their logits, the certificate is right."""
    after = edited.saved
    expected = applied(facts_of(before.database), changes)
    assert facts_of(after.database) == expected
    touched = {(key, query) for key, query, _ in changes}
    others = [pair for pair in facts_of(before.database) if pair not in touched]
    columns = [to_arrays(saved.layer)["unembedding"][:, : before.database.n_values] for saved in (before, after)]
    same = (columns[0] == columns[1]).all(axis=0)  # a value that is new to a range has new logits there
    for keys_changed in (False, True):
        some = [pair for pair in others if (pair[0] in {key for key, _ in touched}) == keys_changed]
        if some:
            old, new = (logits_of(saved, some)[:, : len(same)] for saved in (before, after))
            kept = np.broadcast_to(same, old.shape)
            if keys_changed and SHARED in before.notes["construction"]:
                # A head that several queries share copies all their words: values outside the query's range hear them.
                kept = kept & np.array([in_range(before.database, query) for _, query in some])
            assert old[kept].tobytes() == new[kept].tobytes()
    whole = verify(after.layer, after.database)
    assert edited.certificate.certified
    assert not whole.differences(edited.certificate)
    assert (whole["answered"], whole["hallucinations"]) == (
        edited.certificate["answered"],
        edited.certificate["hallucinations"],
    )
    assert json.loads(after.notes["certificate"]) == edited.certificate.to_dict()


# ---------------------------------------------------------------- every edit


@pytest.mark.parametrize(
    ("only", "precision"),
    [
        *((only, "float32") for only in EDITABLE),
        ("parabola", "bfloat16"),
        ("circle", "bfloat16"),
        ("binary", "float64"),
    ],
)
def test_set_and_delete(only, precision):
    before = constructed(sample("astrid"), only, precision)
    changes = [("Astrid", "born_in", "Malaysia"), ("Zed", "lives_in", "Singapore"), ("Colin", "born_in", None)]
    edited = edit(before, changes)
    check(before, edited, changes)
    assert (edited.n_set, edited.n_deleted, edited.n_unchanged) == (2, 1, 0)
    assert (edited.new_keys, edited.new_values) == (("Zed",), ())
    margins = slow_margins(edited.saved.layer, edited.saved.database)
    assert margins.min() == pytest.approx(edited.certificate.margin, rel=1e-2 if precision == "bfloat16" else 1e-5)


@given(st.data())
@settings(max_examples=5)
def test_random_changes(data):
    """Sizes are fixed, because every other size would be compiled anew."""
    only, n_new = data.draw(st.sampled_from(EDITABLE)), data.draw(st.integers(0, 1))
    saved = constructed(uniform(12, 3, 5, seed=data.draw(st.integers(0, 99))), only)
    facts = facts_of(saved.database)
    some = data.draw(st.lists(st.sampled_from(sorted(facts)), unique=True, min_size=1, max_size=10))
    some += [("new", "q0")] * n_new
    values = st.sampled_from(sorted(set(facts.values())))
    changes = [(*pair, data.draw(values if pair[0] == "new" else values | st.none())) for pair in some]
    # Every query keeps every value, so that each has its word in all ranges.
    check(saved, edit(saved, changes), changes)


def test_unicode():
    before = constructed(UNICODE)
    changes = [("🙂", "母", "שלום"), ("Zoë", "naître à", "Ørsta"), ("Łódź", "母", "Łódź")]
    check(before, edit(before, changes), changes)


def test_what_is_so_already_changes_nothing():
    before = constructed(sample("astrid"))
    key, query, value = next(iter(before.database))
    edited = edit(before, [(key, query, value)])
    assert (edited.n_set, edited.n_deleted, edited.n_unchanged) == (0, 0, 1)
    assert all(
        (a == b).all()
        for a, b in zip(to_arrays(before.layer).values(), to_arrays(edited.saved.layer).values(), strict=True)
    )
    assert edited.saved.notes == before.notes


def test_edits_return_to_where_they_came_from():
    before = constructed(with_ranges(3, n_keys=20, n_queries=6, size=5), "shared-heads")
    key, query, value = next(iter(before.database))
    there = edit(before, [(key, query)]).saved
    back = edit(there, [(key, query, value)]).saved
    assert back.database == before.database
    assert back.notes == before.notes
    assert (to_arrays(back.layer)["embedding"] == to_arrays(before.layer)["embedding"]).all()


def test_deleted_facts_have_the_answers_that_are_reported():
    for only, silent in (("binary", True), ("parabola", False)):
        edited = edit(constructed(sample("astrid"), only), [("Colin", "born_in"), ("Astrid", "lives_in")])
        for key, query, value in edited.answers_after_deletion():
            database = edited.saved.database
            logits = logits_of(edited.saved, [(database.keys[key], database.queries[query])])[0]
            winners = np.flatnonzero(logits == logits.max())
            assert (value is None) == silent == (len(winners) > 1)
            assert silent or winners.tolist() == [value]
        assert len(edited.answers_after_deletion(1)) == 1


# ---------------------------------------------------------------- room


@pytest.mark.parametrize("only", ["binary", "shared-heads", "parabola"])
def test_new_values_while_there_is_room(only):
    """5 values have words of 3 signs: 3 more fit; the parabola takes thousands."""
    facts = [(f"k{i:02}", f"q{q}", f"v{(i + q) % 5}") for i in range(12) for q in range(2)]
    saved = constructed(Database.from_facts(facts), only)
    changes = [(f"k{i:02}", "q0", f"new {i}") for i in range(3)] + [("also", "q1", f"new {i}") for i in range(1)]
    edited = edit(saved, changes)
    check(saved, edited, changes)
    assert edited.new_values == ("new 0", "new 1", "new 2")
    saved = edited.saved
    if "parabola" in only:
        edit(saved, [("k00", "q0", "one more")])
        return
    with pytest.raises(
        InputError, match=r"no free place for 'one more': the code of 'q0' has 8 places.* parameters would fit"
    ):
        edit(saved, [("k00", "q0", "one more")])


def test_the_parabola_has_room_for_as_many_values_as_are_proved():
    database = uniform(30, 1, 17, seed=0)
    saved = constructed(database, "parabola", "bfloat16")
    used = len({value for _, _, value in database})
    most = json.loads(saved.notes["construction"])["editing"]["labels"]["most"]
    changes = [(f"n{i}", "q0", f"new {i}") for i in range(most - used)]
    check(saved, edit(saved, changes), changes)
    with pytest.raises(InputError, match=f"no free place for .* {most} places"):
        edit(saved, [*changes, ("more", "q0", "more")])


def test_codes_without_room_say_so():
    for only in ("circle", "attention-map"):
        saved = constructed(sample("astrid"), only)
        with pytest.raises(InputError, match=r"no free place for 'Oslo': the code of 'born_in' has 4 places"):
            edit(saved, [("Colin", "born_in", "Oslo")])


def test_values_of_a_query_with_the_same_head():
    saved = constructed(with_ranges(2, n_keys=20, n_queries=2, size=5), "shared-heads")
    theirs = next(value for _, query, value in saved.database if query == "q1")
    with pytest.raises(InputError, match=rf"'{theirs}' cannot answer 'q0', which shares a head .* would fit"):
        edit(saved, [("k00", "q0", theirs)])
    new = [("k00", "q0", "new"), ("k01", "q1", "newer")]
    check(saved, edit(saved, new), new)
    with pytest.raises(InputError, match="cannot answer"):
        edit(saved, [("k00", "q0", "new"), ("k01", "q1", "new")])


def test_places_of_values_without_facts_are_named():
    """4 values have words of 2 signs, and the fact that gets a fifth was the last one with v3."""
    facts = [(f"k{i}", "q", f"v{i}") for i in range(4)]
    saved = constructed(Database.from_facts(facts), "binary")
    with pytest.raises(InputError, match=r"all taken, 1 by values without facts: 'v3'\. .* frees such places"):
        edit(saved, [("k3", "q", "new")])
    with pytest.raises(InputError, match=r"4 places, all taken\. A layer of"):
        edit(saved, [("more", "q", "new")])
    changes = [(f"k{i}", "q", "new") for i in range(4)]
    with pytest.raises(InputError, match=r"4 by values without facts: 'v0', 'v1', 'v2' and 1 more\. "):
        edit(saved, changes)


def test_a_value_without_facts_in_another_range_of_the_head():
    facts = [(f"k{i}", f"q{q}", f"v{q} {i % 3}") for i in range(6) for q in range(2)]
    saved = constructed(Database.from_facts(facts), "shared-heads")
    gone = edit(saved, [("k0", "q1", "v1 1"), ("k3", "q1", "v1 1")]).saved
    with pytest.raises(InputError, match=r"'v1 0' cannot answer 'q0', .* keeps a place .* no fact uses it\. .* frees"):
        edit(gone, [("k0", "q0", "v1 0")])


def test_a_range_takes_in_a_value_that_only_other_queries_had():
    """Ranges that overlap are served by different heads, and a value may enter another one of them."""
    facts = [(f"k{i}", "q0", f"v{i % 3}") for i in range(6)] + [(f"k{i}", "q1", f"v{i % 5}") for i in range(6)]
    saved = constructed(Database.from_facts(facts), "shared-heads")
    changes = [("k1", "q0", "v4")]
    check(saved, edit(saved, changes), changes)


# ---------------------------------------------------------------- mistakes


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ([], "no changes given"),
        ([("Astrid", "likes", "Oslo")], "no head of the layer answers the query 'likes': rebuild it"),
        ([("Nobody", "born_in")], r"no fact for \('Nobody', 'born_in'\) to delete"),
        ([("Astrid", "currency")], r"no fact for \('Astrid', 'currency'\) to delete"),
        ([("", "born_in", "x")], "the key of a change must be a non-empty string; got ''"),
        ([("Astrid", "born_in", "")], "the value of a change must be a non-empty string"),
        ([("Astrid", "born_in", "a"), ("Astrid", "born_in", "b")], "has two conflicting changes: 'a' and 'b'"),
        ([("Astrid", "born_in", "a"), ("Astrid", "born_in")], "two conflicting changes: 'a' and a deletion"),
        ([Change("Astrid", "likes", "x", "t.csv, line 7")], "t.csv, line 7: no head"),
    ],
)
def test_mistakes_are_named(changes, message):
    with pytest.raises(InputError, match=message):
        edit(constructed(sample("astrid")), changes)


def test_the_last_fact_stays():
    saved = constructed(Database.from_facts([("a", "q", "v"), ("b", "q", "w")]))
    with pytest.raises(InputError, match="delete every fact"):
        edit(saved, [("a", "q"), ("b", "q")])


def test_a_layer_of_which_no_fact_is_stored():
    saved = constructed(sample("astrid"))
    bare = replace(saved, database=Database(np.zeros((0, 3), np.int32), *saved.database.vocabularies))
    with pytest.raises(InputError, match=r"there is no fact for .* to delete"):
        edit(bare, [("Astrid", "born_in")])
    edited = edit(bare, [("Astrid", "born_in", "Malaysia")])
    assert edited.certificate.certified
    assert list(edited.saved.database) == [("Astrid", "born_in", "Malaysia")]


def test_layers_that_cannot_be_edited():
    facts = sample("astrid")
    trained = SavedLayer(init_layer(LayerShape(2, 1, 1, 1), *facts.shape, key=0), facts)
    with pytest.raises(InputError, match="not made by factrank construct"):
        edit(trained, [("Astrid", "born_in", "Malaysia")])
    for only in ("set-valued", "cp"):
        with pytest.raises(InputError, match=f"form {only} cannot be edited one by one: rebuild it"):
            edit(constructed(facts, only), [("Astrid", "born_in", "Malaysia")])
    shared = construct(facts, share_tokens=True).to_saved()
    with pytest.raises(InputError, match="rebuild it"):
        edit(shared, [("Astrid", "born_in", "Malaysia")])


@pytest.mark.parametrize(
    ("note", "message"),
    [
        ("{", "not valid JSON"),
        ("[]", "must contain exactly"),
        ('{"construction": "binary", "editing": {"code": "magic"}}', "does not describe how to edit"),
        (
            '{"construction": "binary", "editing": {"code": "binary words", "bias": 0, "groups": 3}}',
            "does not describe how",
        ),
    ],
)
def test_notes_that_somebody_wrote(note, message):
    saved = constructed(sample("astrid"), "binary")
    with pytest.raises(InputError, match=message):
        edit(replace(saved, notes=saved.notes | {"construction": note}), [("Astrid", "born_in", "Malaysia")])


def test_a_note_for_another_size():
    saved = constructed(sample("astrid"), "binary")
    note = json.loads(saved.notes["construction"])
    for where, wrong in (("output", 99), ("constant", -1), ("bits", 50)):
        broken = json.loads(json.dumps(note))
        broken["editing"]["groups"][0][where] = wrong
        with pytest.raises(InputError, match="does not match the size"):
            edit(replace(saved, notes=saved.notes | {"construction": json.dumps(broken)}), [("Colin", "born_in")])


HUGE = (10**400, -(10**400), 2**63 - 1, 2**63, 2**53 + 1, True, 1.0, "1", None)


@pytest.mark.parametrize("only", ["binary", "parabola", "digits", "attention-map"])
def test_numbers_that_nobody_would_write(only):
    """Every integer of the note in turn becomes what is too large, or no integer at all."""
    saved = constructed(sample("astrid"), only)
    note = json.loads(saved.notes["construction"])

    def spots(tree, path=()):
        if isinstance(tree, dict | list):
            for name, branch in tree.items() if isinstance(tree, dict) else enumerate(tree):
                yield from spots(branch, (*path, name))
        elif isinstance(tree, int):
            yield path

    if only == "digits":
        del note["editing"]["bias"]  # which is not read
    for *path, last in spots(note["editing"]):
        for wrong in HUGE:
            broken = json.loads(json.dumps(note))
            branch = broken["editing"]
            for name in path:
                branch = branch[name]
            branch[last] = wrong
            tampered = replace(saved, notes=saved.notes | {"construction": json.dumps(broken)})
            with pytest.raises(InputError, match="does not describe how to edit"):
                edit(tampered, [("Zed", "born_in", "x")])


@pytest.mark.parametrize(
    ("only", "where", "wrong", "message"),
    [
        ("parabola", ("labels", "most"), 10**6, "1000000 labels of kind"),
        ("parabola", ("labels", "kind"), "magic", "labels of kind 'magic'"),
        ("digits", ("base",), 1, "does not match the size"),
        ("digits", ("base",), 2**53, None),
        ("binary", ("queries", "start"), [2**53] * 6, "does not match the size"),
    ],
)
def test_numbers_that_do_not_fit_each_other(only, where, wrong, message):
    saved = constructed(sample("astrid"), only)
    broken = json.loads(saved.notes["construction"])
    branch = broken["editing"]
    for name in where[:-1]:
        branch = branch[name]
    branch[where[-1]] = wrong[: saved.database.n_queries] if isinstance(wrong, list) else wrong
    tampered = replace(saved, notes=saved.notes | {"construction": json.dumps(broken)})
    changes = [("Astrid", "born_in", "Malaysia"), ("Zed", "born_in", "new")]
    if message is None:
        assert not edit(tampered, changes).certificate.certified
    else:
        with pytest.raises(InputError, match=message):
            edit(tampered, changes)


# ---------------------------------------------------------------- certificates


@pytest.mark.parametrize("how", ["true", "missing", "nonsense", "forged"])
def test_nothing_is_taken_from_the_certificate_of_the_file(how, tmp_path):
    """Also where its fingerprints were computed again for other weights: edits claim what `verify` would."""
    saved, path = constructed(uniform(50, 3, 9, seed=0), "binary"), tmp_path / "forged.safetensors"
    notes, layer = dict(saved.notes), saved.layer
    if how == "missing":
        del notes["certificate"]
    if how == "nonsense":
        notes["certificate"] = "certified!"
    if how == "forged":
        embedding = np.array(layer.embedding)
        embedding[3] = -embedding[3]
        layer = replace(layer, embedding=embedding)
        forged = json.loads(notes["certificate"]) | {"weights": fingerprint_of(layer)}
        notes["certificate"] = json.dumps(forged)
    save_layer(path, layer, saved.database, notes=notes)
    edited = edit_file(path, [("k00", "q0", saved.database.values[1])])
    assert edited.certificate == verify(edited.saved.layer, edited.saved.database)
    assert edited.certificate.certified == (how != "forged")


def test_a_layer_that_is_wrong_elsewhere_is_not_certified(tmp_path):
    """Nothing is written unless forced."""
    saved, path = constructed(uniform(50, 3, 9, seed=0), "binary"), tmp_path / "wrong.safetensors"
    embedding = np.array(saved.layer.embedding)
    embedding[3] = -embedding[3]
    save_layer(path, replace(saved.layer, embedding=embedding), saved.database, notes=saved.notes)
    old = path.read_bytes()
    edited = edit_file(path, [("k00", "q0", saved.database.values[1])])
    assert not edited.certificate.certified
    assert path.read_bytes() == old
    edit_file(path, [("k00", "q0", saved.database.values[1])], force=True)
    assert path.read_bytes() != old
