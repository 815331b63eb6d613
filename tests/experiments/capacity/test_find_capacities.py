"""Capacities of real models, found directly."""

import pytest

from factrank.errors import InputError, Interrupted
from factrank.experiments.capacity.capacity_search import CapacitySearch
from factrank.experiments.capacity.find_capacities import capacity, run_searches
from factrank.experiments.execution import executors
from factrank.experiments.specs.data import generated
from factrank.experiments.specs.training_spec import Training
from factrank.experiments.specs.trial import Trial
from factrank.experiments.store.store import Store
from factrank.families.memory.memory_shape import MemoryShape

D_MODEL = 6


def least_squares(n_facts):
    """A linear memory in closed form: exact up to d facts, and none of 16 facts fits into 6 x 6 numbers."""
    facts = generated("associations", n_inputs=n_facts, n_outputs=n_facts, seed=0)
    return [Trial(facts, MemoryShape(D_MODEL), Training(epochs=0), start="least squares")]


def test_a_linear_memory_holds_at_least_d_facts(tmp_path, monkeypatch):
    store = Store(tmp_path)
    asked = {"guess": 8, "sizes": (4, 16), "probes": 2, "resolution": 4}
    found = capacity(least_squares, **asked, store=store)
    assert (found.status, found.rounds, [probe.size for probe in found.probes]) == ("finished", 1, [4, 16])
    assert (found.lower, found.upper) == (4, 16)
    numbers = found.to_row()
    assert numbers["facts"] == found.lower
    assert numbers["parameters"] == D_MODEL**2
    assert numbers["facts"] < numbers["limit"] < numbers["upper_facts"] == 16
    monkeypatch.setattr(executors, "train_bundles", None)  # everything is in the store
    assert capacity(least_squares, **asked, store=store) == found
    several = [CapacitySearch(name, least_squares, 8, least=4, most=16, probes=2, resolution=4) for name in "ab"]
    assert run_searches(several, store=store) == [found, found]


def test_without_a_search_there_is_nothing_to_find():
    with pytest.raises(InputError, match="no search"):
        run_searches([])


def test_an_interruption_says_how_to_continue(tmp_path, monkeypatch):
    class Stopped:
        def update(self, *progress):
            raise KeyboardInterrupt

    search = CapacitySearch("a", least_squares, 8, least=4, most=16)
    with pytest.raises(Interrupted, match=r"0 trials have ended; store=Store\(FOLDER\) keeps them") as without:
        run_searches([search], meter=Stopped())
    assert [found.status for found in without.value.finished] == ["missing"]
    with pytest.raises(Interrupted, match=r"the same call resumes from .*here"):
        run_searches([search], store=Store(tmp_path / "here"), meter=Stopped())
