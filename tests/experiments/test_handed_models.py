"""Certificates of what was handed in: of its own facts, by name, at its own length, and of nothing that it is not."""

import subprocess
import sys
from dataclasses import replace

import equinox as eqx
import pytest

import factrank
from factrank import Database, FactualRecallShape, MemoryShape, construct, construct_memory, verify
from factrank.databases.generators import answer_sets
from factrank.errors import InputError
from factrank.experiments.models import load, save
from factrank.families.attention.pair_transformer import Block
from factrank.families.memoriser.examples.example_vectors import stored

FACTS = Database.from_facts([("Oslo", "country", "Norway"), ("Lima", "country", "Peru")])
SWAPPED = Database.from_facts([("Lima", "country", "Norway"), ("Oslo", "country", "Peru")])
SAME = Database.from_facts([("Lima", "country", "Peru"), ("Oslo", "country", "Norway")])


@pytest.mark.parametrize("made", [construct(FACTS), construct_memory(FACTS, MemoryShape(4), form="two-sided")])
def test_other_facts_are_matched_by_name(made):
    assert verify(made).certified
    assert verify(made, SAME).certified
    found = verify(made, SWAPPED)
    assert (found.certified, found.recalled) == (False, 0)
    with pytest.raises(InputError, match="unknown names"):
        verify(made, Database.from_facts([("Rome", "country", "Italy")]))


def test_the_length_of_sequences_comes_with_the_model(tmp_path):
    facts = answer_sets(3, 2, 2, seed=0)
    made = factrank.construct_factual_recall(facts, FactualRecallShape(32, 4, 1, 4, length=64))
    assert verify(made) == made.certificate
    assert verify(made)["length"] == 64
    save(tmp_path / "made.safetensors", made)
    assert load(tmp_path / "made.safetensors").spec.length == 64
    assert verify(load(tmp_path / "made.safetensors"))["length"] == 64


def test_other_examples_cannot_be_smuggled_in():
    examples = factrank.RandomExamples(n_examples=8, context_size=4, d_input=8, n_contexts=1)
    solved = factrank.solve(examples, factrank.MemoriserShape(n_heads=4, d_model=8, d_qk=4))
    with pytest.raises(InputError, match="has no option 'arrays'; it has precision, tolerance"):
        verify(solved.model, replace(examples, seed=9), arrays=stored(examples))
    with pytest.raises(InputError, match="has no option 'tolerance'; it has tau, abstain, unknown"):
        verify(construct(FACTS), tolerance=1.0)


WIDER = """
import numpy as np
from factrank import Database, verify
from factrank.families.memory import LinearMemory

n = 1001
first, second = np.full(n, 2.0**-25, np.float32), np.zeros(n, np.float32)
first[-1] = second[-1] = 1
second[0] = n * 2.0**-26
inputs = np.array([[1], [-1]], np.float32)
memory = LinearMemory(inputs, np.stack([first, second]), np.ones((1, n), np.float32))
facts = Database.from_facts([("a", "q", "x"), ("b", "q", "y")])
found = verify(memory, facts)
print(found.certified, "not those of its sizes" in found.reason)
strange = LinearMemory(inputs, np.eye(2, 1, dtype=np.float32), np.ones((1, 1), np.complex64))
print(verify(strange, facts).certified)
"""


def test_parts_that_are_not_those_of_the_sizes_are_not_certified():
    """Roundings are counted by sizes: a memory that is wider than it says adds more terms than the proof knows of."""
    run = subprocess.run([sys.executable, "-c", WIDER], capture_output=True, text=True, check=False)
    assert (run.stdout.splitlines(), run.returncode) == (["False True", "False"], 0), run.stderr


class Louder(Block):
    """May compute something else with the same weights."""


def test_blocks_of_another_class_are_not_certified():
    made = construct(FACTS, share_tokens=True)
    block = made.model.blocks[0]
    louder = Louder(**{name: getattr(block, name) for name in block.__dataclass_fields__})
    found = verify(eqx.tree_at(lambda one: one.blocks, made.model, (louder,)), FACTS)
    assert not found.certified
    assert "no proof is known for a block of the class Louder" in found.reason


class Inverted:
    """Answers by itself, and has a model inside."""

    def __init__(self, model):
        self.model, self.n_keys, self.n_queries, self.n_values = model, model.n_keys, model.n_queries, model.n_values

    def logits(self, keys, queries):
        return -self.model.logits(keys, queries)


def test_what_answers_by_itself_carries_no_model():
    with pytest.raises(InputError, match="a Inverted is not a model of the families"):
        verify(Inverted(construct(FACTS).model), FACTS)


def test_a_specification_of_another_model_is_not_saved(tmp_path):
    made = construct_memory(FACTS, MemoryShape(4), form="two-sided")
    with pytest.raises(InputError, match="does not fit its specification"):
        save(tmp_path / "a.safetensors", made.model, FACTS, spec=MemoryShape(99))
    with pytest.raises(InputError, match="a LayerShape does not describe a LinearMemory"):
        save(tmp_path / "a.safetensors", made.model, FACTS, spec=factrank.LayerShape(4, 1, 1, 1))
    assert not (tmp_path / "a.safetensors").exists()
