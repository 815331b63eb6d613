"""One way to hand in a model: bare, trained, constructed or loaded, all functions take it, and names or codes."""

import subprocess
import sys

import numpy as np
import pytest

import factrank
from factrank import Database, LayerShape, MemoryShape, Training, train
from factrank.errors import InputError
from factrank.families.attention import load_layer, save_layer
from factrank.families.attention.circuits import attribute_facts
from factrank.readouts import handed_in

FACTS = factrank.sample("astrid")
OTHER_ORDER = Database.from_facts(list(FACTS)[::-1])


@pytest.fixture(scope="module")
def carriers(tmp_path_factory):
    """The same layer in everything that it may come in."""
    made = factrank.construct(FACTS, only="parabola")
    path = tmp_path_factory.mktemp("layers") / "astrid.safetensors"
    made.save(path)
    return {"bare": made.model, "constructed": made, "loaded": load_layer(path)}


@pytest.fixture(scope="module")
def trained():
    return train(FACTS, LayerShape(4, 1, 2, 2), Training(epochs=300))


@pytest.mark.parametrize("how", ["bare", "constructed", "loaded"])
def test_every_function_takes_every_carrier(carriers, how):
    given, bare = carriers[how], carriers["bare"]
    assert factrank.recall(given, FACTS) == factrank.recall(bare, FACTS)
    assert factrank.diagnose(given, FACTS) == factrank.diagnose(bare, FACTS)
    assert np.array_equal(attribute_facts(given, FACTS).heads, attribute_facts(bare, FACTS).heads)
    assert factrank.answer(given, "Astrid", "born_in", database=FACTS).answer == FACTS.fiber("Astrid", "born_in")[0]
    key, query = FACTS.keys.index("Astrid"), FACTS.queries.index("born_in")
    by_code = factrank.attribute(given, key, query)
    assert factrank.attribute(given, "Astrid", "born_in", database=FACTS) == by_code
    assert factrank.answer(given, key, query, database=FACTS) == factrank.answer(bare, key, query, database=FACTS)


@pytest.mark.parametrize("how", ["constructed", "loaded"])
def test_facts_that_came_with_a_layer_need_not_be_given(carriers, how):
    given = carriers[how]
    assert factrank.recall(given) == factrank.recall(given, FACTS)
    assert factrank.diagnose(given).recall.recall == 1
    assert factrank.answer(given, "Astrid", "born_in").verdict == "fact"
    assert factrank.attribute(given, "Astrid", "born_in").value == factrank.attribute(given, 0, 0).value


@pytest.mark.parametrize("how", ["constructed", "loaded"])
def test_facts_in_another_order_are_matched_by_name(carriers, how):
    assert OTHER_ORDER.vocabularies != FACTS.vocabularies
    assert factrank.recall(carriers[how], OTHER_ORDER).recall == 1
    with pytest.raises(InputError, match="unknown names"):
        factrank.recall(carriers[how], Database.from_facts([("Nobody", "born_in", "Nowhere")]))


def test_what_was_trained_is_taken_with_its_database(trained):
    assert factrank.recall(trained, FACTS).recall == trained.recall
    assert factrank.answer(trained, "Astrid", "born_in", database=FACTS).key == "Astrid"
    with pytest.raises(InputError, match="TrialResult has no facts: pass the database"):
        factrank.recall(trained)
    with pytest.raises(InputError, match="'Astrid' is a name: pass the database"):
        factrank.attribute(trained, "Astrid", 0)


def test_saving_takes_them_too(trained, carriers, tmp_path):
    save_layer(tmp_path / "trained.safetensors", trained, FACTS)
    assert factrank.recall(load_layer(tmp_path / "trained.safetensors")).recall == trained.recall
    save_layer(tmp_path / "again.safetensors", carriers["loaded"])
    again = load_layer(tmp_path / "again.safetensors")
    assert (again.database, again.notes) == (FACTS, carriers["loaded"].notes)


def test_memories_read_facts_too():
    pairs = factrank.generate("associations", n_inputs=4, n_outputs=4, seed=0)
    memory = train(pairs, MemoryShape(4), Training(epochs=1))
    assert factrank.recall(memory, pairs).recall == memory.recall
    with pytest.raises(InputError, match="is not a sum of a direct path and heads"):
        factrank.attribute(memory, 0, 0)


def test_what_reads_no_facts_is_refused_in_words():
    for given, named in ((5, "int"), ("x", "str"), (MemoryShape(4), "MemoryShape"), (None, "NoneType")):
        with pytest.raises(InputError, match=rf"expected a model that reads facts.*got {named}"):
            handed_in(given)


PROGRAM = """
import factrank
made = factrank.construct(factrank.sample("astrid"))
for ask in (lambda: factrank.recall(made, [("a", "b", "c")]), lambda: factrank.answer(made, 1.5, 0)):
    try:
        ask()
    except factrank.FactrankError as error:
        print(error)
"""


def test_wrong_facts_and_questions_are_refused_in_words():
    """As users have it, without the checks of types that tests run with."""
    run = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    assert run.stdout.splitlines() == [
        "expected a Database of facts; got list",
        "a key must be a name or an integer code; got 1.5",
    ]
