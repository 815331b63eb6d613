"""The family in one file, certified, saved, verified and read back by the functions and commands of every family."""

import json
from dataclasses import dataclass
from types import SimpleNamespace

import jax.numpy as jnp
import numpy as np
import pytest
from test_toy_family import LookupFamily, LookupTable, TableShape

import factrank
from factrank.certificates.certification import MarginBounds, Prover, certify
from factrank.errors import InputError
from factrank.experiments.family import SizedForm
from factrank.experiments.models.constructed import Constructed
from factrank.experiments.registry import registered_family
from factrank.families.attention.editing import Edited
from factrank.readouts.fiber_margins import margins


@dataclass(frozen=True, eq=False)
class LookupProver(Prover):
    """A table answers with numbers that it stores: its margins are differences of two of them."""

    model: LookupTable
    data: factrank.Database

    @property
    def forward_cells(self):
        return self.data.n_values

    bound_cells = forward_cells

    def forward(self, block):
        keys, queries, values = self.data.triples[block.rows].T
        logits = jnp.asarray(self.model.logits)[keys, queries]
        return np.asarray(margins(logits, jnp.asarray(values[:, None])), np.float64)

    def obstacle(self):
        return "" if type(self.model) is LookupTable else "another class"

    def bound(self, block):
        keys, queries, values = self.data.triples[block.rows].T
        logits, every = np.asarray(self.model.logits, np.float64)[keys, queries], np.arange(len(keys))
        own = logits[every, values]
        logits[every, values] = -np.inf
        return MarginBounds((own - logits.max(axis=1)) * (1 - 1e-6))


class CertifiedFamily(LookupFamily):
    forms = {"one-hot": SizedForm("one-hot")}  # noqa: RUF012

    def spec_of(self, model):
        return TableShape() if isinstance(model, LookupTable) else None

    def prover(self, model, data):
        return LookupProver(model, data)

    def construct(self, data, spec, form=None, *, precision="float32", seed=0):
        logits = np.zeros(data.shape, precision)
        logits[tuple(data.triples.T)] = 1
        model = LookupTable(logits)
        return Constructed(
            model=model, data=data, spec=spec, form="one-hot", certificate=certify(LookupProver(model, data))
        )


@dataclass(frozen=True, eq=False)
class EditedTable(Edited):
    """What the command prints of a table that was made again."""

    saved: object

    def answers_after_deletion(self, most=None):
        return []


def made_again(self, path, changes, *, force=False):
    """How a family whose models are made at once edits them."""
    saved = self.read(path)
    facts = {(key, query): value for key, query, value in saved.data}
    for change in changes:
        facts.pop((change.key, change.query), None)
        facts |= {} if change.value is None else {(change.key, change.query): change.value}
    made = self.construct(factrank.Database.from_facts([(*pair, value) for pair, value in facts.items()]), saved.spec)
    if made.certified or force:
        made.save(path)
    n_deleted = sum(change.value is None for change in changes)
    counts = {"n_set": len(changes) - n_deleted, "n_deleted": n_deleted, "n_unchanged": 0}
    names = {"new_keys": (), "new_values": (), "deleted": np.empty((0, 2), np.int64)}
    return EditedTable(SimpleNamespace(database=made.data), made.certificate, **counts, **names)


class Twisted(LookupTable):
    """A table that may answer something else."""


@pytest.fixture(autouse=True)
def family():
    with registered_family(CertifiedFamily()) as known:
        yield known


def test_it_is_constructed_certified_saved_and_read_back(family, tmp_path):
    facts = factrank.sample("astrid")
    found = family.construct(facts, TableShape())
    assert (found.certified, found.certificate.margin) == (True, 1.0)
    found.save(tmp_path / "table.safetensors")
    saved = factrank.load(tmp_path / "table.safetensors")
    assert (saved.data, saved.spec) == (facts, TableShape())
    assert factrank.verify(saved.model, saved.data) == found.certificate
    assert np.array_equal(saved.model.logits, found.model.logits)


def test_what_it_does_not_hold_or_may_not_compute_is_not_certified(family):
    facts = factrank.sample("astrid")
    logits = np.array(family.construct(facts, TableShape()).model.logits)
    assert factrank.verify(Twisted(logits), facts).reason == "another class"
    logits[tuple(facts.triples[0])] = 0
    assert "1 of 8 facts are not recalled" in factrank.verify(LookupTable(logits), facts).reason


def test_the_commands_know_it(call):
    code, out, _ = call("construct", "sample:astrid", "--family", "lookup", "-o", "table.safetensors")
    assert (code, "certified: every fact is recalled" in out) == (0, True)
    code, out, _ = call("verify", "table.safetensors", "sample:astrid", "--json")
    assert (code, json.loads(out)["certified"], json.loads(out)["stored_certificate"]) == (0, True, True)
    code, _, err = call("edit", "table.safetensors", "--delete", "Astrid", "born_in")
    assert (code, "facts of this lookup cannot be edited one by one" in err) == (2, True)


def test_a_family_may_edit_its_files(call, monkeypatch, family):
    facts = factrank.sample("astrid")
    family.construct(facts, TableShape()).save("table.safetensors")
    monkeypatch.setattr(CertifiedFamily, "edit", made_again)
    changes = ("--set", "Astrid", "born_in", "Oslo", "--delete", "Bernard", "born_in")
    code, out, _ = call("edit", "table.safetensors", *changes)
    assert (code, "1 set, 1 deleted; 7 facts now" in out) == (0, True)
    code, out, _ = call("edit", "table.safetensors", "--set", "Astrid", "born_in", "Lima", "--json")
    assert (code, json.loads(out)["set"], json.loads(out)["certificate"]["certified"]) == (0, 1, True)
    saved = factrank.load("table.safetensors")
    assert factrank.verify(saved.model, saved.data).certified
    assert ("Astrid", "born_in", "Lima") in set(saved.data)
    assert {fact[:2] for fact in facts} - {fact[:2] for fact in saved.data} == {("Bernard", "born_in")}


def test_a_family_without_a_proof_says_so():
    class Silent(LookupFamily):
        name = "silent"
        models = {"silent_table": type("Other", (TableShape,), {})}  # noqa: RUF012

    with pytest.raises(InputError, match="no proof is known for models of the family silent"):
        Silent().prover(None, None)
    with pytest.raises(InputError, match="no closed form is known for models of the family silent"):
        Silent().construct(None, None)
