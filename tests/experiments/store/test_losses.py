"""What is lost from a store is named and run again: curves, readings and weights, deleted or damaged."""

from dataclasses import dataclass, field, replace

import numpy as np
import pytest

from factrank.experiments.execution.estimate import plan_run
from factrank.experiments.execution.executors import LocalExecutor
from factrank.experiments.execution.outcomes import Failure
from factrank.experiments.execution.runner import run_study
from factrank.experiments.specs import Curve
from factrank.experiments.specs.training_spec import Training
from factrank.experiments.specs.trial import Trial
from factrank.experiments.store.store import Store
from factrank.families.attention import Readings
from factrank.families.attention.attention_layer import draw_layer
from factrank.families.attention.layer_shape import LayerShape
from factrank.nn.part_arrays import to_arrays
from made_up_results import made_up_result
from made_up_searches import result_of, searches, study_with
from small_studies import facts, same_table, study_of

READ = [{"precision": "float32", "temperature": 1.0, "tau": 0.5, "recall": 0.25}]


@dataclass
class MadeUp:
    """Answers at once with everything that a trial asks for, and its weights."""

    keep_weights: bool = False
    fails: bool = False
    ran: list = field(default_factory=list)

    def run(self, bundles, wanted, databases, recorder):
        for trial in (one for bundle in bundles for one in bundle.trials if one.hash in wanted):
            self.ran.append(trial.hash)
            recorder.take(Failure(trial, "no memory") if self.fails else self.result(trial), at_once=True)

    def result(self, trial):
        drawn = draw_layer(trial.model, 8, 4, 6, rng=np.random.default_rng(trial.seed))
        curves = {"epoch": list(trial.curve_epochs), "loss": [1.0] * len(trial.curve_epochs)}
        result = made_up_result(trial.seed)
        read = READ if trial.measure(Readings) else []
        return replace(result, trial=trial, curves=curves, readings=read, weights=drawn)


def trials(n=4):
    """Half of them have curves, half of them readings."""
    asked = [(*((Readings(),) if seed < 2 else ()), *((Curve((0, 50)),) if seed % 2 else ())) for seed in range(n)]
    parts = facts(), LayerShape(4, 1, 2, 2), Training(epochs=100)
    return [Trial(*parts, measures, seed=seed) for seed, measures in enumerate(asked)]


STUDY = study_of(trials())
HASHES = [trial.hash for trial in trials()]
CONCERNED = {"curves": {HASHES[1], HASHES[3]}, "readings": {HASHES[0], HASHES[1]}, "weights": set(HASHES)}


def run(store, **options):
    executor = MadeUp(**options)
    return run_study(STUDY, "quick", store, executor=executor), executor.ran


def stored(tmp_path, **options):
    store = Store(tmp_path / "store")
    run(store, **options)
    assert store.problems() == []
    return store


def delete(path):
    path.unlink()


def truncate(path):
    path.write_bytes(path.read_bytes()[:-9])


@pytest.mark.parametrize("damage", [delete, truncate])
@pytest.mark.parametrize("folder", ["curves", "readings"])
def test_lost_tables_are_named_and_run_again(tmp_path, folder, damage):
    store, untouched = stored(tmp_path / "one"), stored(tmp_path / "two")
    for path in (store.folder / folder).iterdir():
        damage(path)
    assert store.lost()[folder] == CONCERNED[folder]
    assert len(store.losses()) == 1
    assert f"{folder}: 2 trials have lost their {folder} (" in store.losses()[0]
    assert all(name[:12] in store.losses()[0] for name in CONCERNED[folder])
    assert set(store.problems()) >= set(store.losses())
    assert store.finished() == set(HASHES) - CONCERNED[folder]
    assert store.trials().num_rows == 4
    summary, ran = run(store)
    assert (summary.n_before, summary.n_ended, set(ran)) == (2, 2, CONCERNED[folder])
    assert store.losses() == []
    assert same_table(store, untouched)
    assert run(store)[1] == []


def test_only_the_trials_of_a_lost_part_run_again(tmp_path):
    store = Store(tmp_path)
    for trial in trials():
        store.append([MadeUp().result(trial)])
    sorted((tmp_path / "curves").iterdir())[0].unlink()
    assert run(store)[1] == [HASHES[1]]


def test_a_trial_that_fails_when_it_is_run_again_keeps_its_row(tmp_path):
    store = stored(tmp_path)
    for path in (store.folder / "curves").iterdir():
        path.unlink()
    assert set(run(store, fails=True)[1]) == CONCERNED["curves"]
    print(store.trials()["error"].to_pylist())
    assert set(store.trials()["status"].to_pylist()) == {"finished"}
    assert store.lost()["curves"] == CONCERNED["curves"]


@pytest.mark.parametrize("damage", [delete, truncate])
def test_lost_weights_are_named_and_run_again_where_weights_are_kept(tmp_path, damage):
    store = stored(tmp_path, keep_weights=True)
    damage(store.folder / "weights" / f"{HASHES[2]}.safetensors")
    assert store.lost() == {"curves": set(), "readings": set(), "weights": {HASHES[2]}}
    assert f"1 trial has lost their weights ({HASHES[2][:12]}); --keep-weights" in store.losses()[0]
    assert run(store)[1] == []
    plan = plan_run(STUDY, "quick", store, keep_weights=True)
    assert (plan.n_trials, plan.n_finished, plan.n_to_run) == (4, 3, 1)
    assert run(store, keep_weights=True)[1] == [HASHES[2]]
    assert store.problems() == []
    assert np.array_equal(to_arrays(store.weights(HASHES[2]))["w_q"], MadeUp().result(trials()[2]).weights.w_q)


def test_weights_that_were_never_kept_are_no_loss_but_run_when_asked_for(tmp_path):
    store = stored(tmp_path)
    assert run(store, keep_weights=True)[1] == HASHES
    assert run(store, keep_weights=True)[1] == []
    (store.folder / "weights" / f"{HASHES[0]}.safetensors").unlink()
    assert store.lost()["weights"] == {HASHES[0]}


def test_searches_run_what_is_lost_again_and_only_once(tmp_path):
    found = [replace(search, family=_with_curves(search.family)) for search in searches(widths=(2,), seeds=1)]

    @dataclass
    class Climbing(MadeUp):
        def result(self, trial):
            return replace(result_of(trial), curves={"epoch": [0], "loss": [1.0]})

    study, store, first = study_with(found), Store(tmp_path), Climbing()
    run_study(study, "quick", store, executor=first)
    victims = sorted((tmp_path / "curves").iterdir())[:3]
    for path in victims:
        path.unlink()
    lost = store.lost()["curves"]
    assert len(lost) == 3
    failing = Climbing(fails=True)
    run_study(study, "quick", store, executor=failing)
    assert (sorted(failing.ran), store.lost()["curves"]) == (sorted(lost), lost)
    again = Climbing()
    run_study(study, "quick", store, executor=again)
    assert sorted(again.ran) == sorted(lost)
    assert store.problems() == []


def _with_curves(family):
    return lambda size: [replace(trial, measures=Curve((0,))) for trial in family(size)]


def test_no_engine_leaves_out_what_counts_as_lost(tmp_path):
    """Else trials would run again for ever: runs that stop early, diverge or end before their first curve."""
    few, shape = facts(n_keys=3, n_queries=2, n_values=2), LayerShape(8, 2, 2, 2)
    stops = {"stop": "recall", "check_every": 5, "learning_rate": 0.05}
    kinds = [(stops, (0, 200, 400)), (stops, (400,)), ({"learning_rate": 1e30}, (10,))]
    some = [
        Trial(few, shape, Training(epochs=400, engine=engine, **options), Curve(epochs))
        for engine in ("fused", "lanes")
        for options, epochs in kinds
    ]
    store = Store(tmp_path)
    run_study(study_of(some), "quick", store, executor=LocalExecutor())
    assert sorted(store.trials()["status"].to_pylist()) == ["diverged"] * 2 + ["stopped"] * 4
    assert store.problems() == []
    assert store.finished() == {trial.hash for trial in some}
