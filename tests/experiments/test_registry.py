"""Families from outside: all or nothing, one name for one thing, and what is wrong with one harms no other."""

import warnings
from types import SimpleNamespace

import pytest

from factrank import Store, Training, Trial, plugins, run_study, train, train_many
from factrank.errors import InputError
from factrank.experiments import registry
from factrank.experiments.columns.measured import measure_of
from factrank.experiments.execution.ray_executor import RayExecutor
from factrank.experiments.execution.runner import StoreRecorder, checkpoint_folder
from factrank.experiments.execution.study_bundles import study_bundles
from factrank.experiments.registry import families, register_family, registered_family, unregister_family
from factrank.experiments.specs import ResultColumn
from small_studies import fused_trials, study_of
from toy_families import Aim, Halver, NumberFamily, NumberShape, Target


def test_a_family_is_registered_whole_or_not_at_all():
    before = dict(families())
    clashing = NumberFamily("clash")
    clashing.models = {"clash": clashing.shape, "attention": NumberShape}
    with pytest.raises(InputError, match="the kind 'attention' is already used by LayerShape"):
        register_family(clashing)
    with pytest.raises(InputError, match="already a family 'attention'"):
        register_family(NumberFamily("attention"))
    with pytest.raises(InputError, match="already an engine 'fused'"):
        register_family(NumberFamily(engines=(Halver("fused", []),)))
    assert dict(families()) == before
    clashing.models = {"clash": clashing.shape}
    with registered_family(clashing):
        assert "clash" in families()
    assert dict(families()) == before


def test_a_family_may_be_registered_again():
    first, second = NumberFamily(), NumberFamily(columns=(ResultColumn("distance", "error"),))
    try:
        register_family(first)
        assert register_family(first) is first
        with registered_family(first):
            pass
        assert families()["number"] is first
        assert measure_of("distance").label == "how far off"
        register_family(second)
        assert families()["number"] is second
        assert measure_of("distance").label == "error"
    finally:
        unregister_family(families()["number"])


def test_the_first_to_declare_a_column_is_right():
    with registered_family(NumberFamily(columns=(ResultColumn("rank", "mine"), ResultColumn("loss", "mine")))):
        assert measure_of("rank").label != "mine"
        assert measure_of("loss").label != "mine"


def test_a_package_with_a_broken_family_is_left_out_with_a_warning(monkeypatch):
    def broken():
        raise ModuleNotFoundError("no module named nonsense")

    dist = SimpleNamespace(name="nonsense")
    points = [SimpleNamespace(name="a", dist=dist, load=broken), SimpleNamespace(name="b", dist=None, load=lambda: "x")]
    for table in ("_families", "_of_model", "_packages"):
        monkeypatch.setattr(registry, table, {})
    monkeypatch.setattr(plugins, "entry_points", lambda group: points)
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        registry._load.__wrapped__()
    assert len(registry._families) == len(registry.BUILT_IN)
    said = [str(warning.message) for warning in heard]
    assert said[0] == "the family 'a' of nonsense is left out: ModuleNotFoundError: no module named nonsense"
    assert said[1].startswith("the family 'b' of an unknown package is left out: AttributeError")


def test_engines_train_their_own_models_alone():
    first, second = Halver("halving", []), Halver("doubling", [])
    with (
        registered_family(NumberFamily(engines=(first,))) as one,
        registered_family(NumberFamily("other", engines=(second,))) as other,
    ):
        trials = [Trial(Target(), family.shape(), Training(epochs=1)) for family in (one, other)]
        results = train_many(trials)
        assert [result.engine for result in results] == ["halving", "doubling"]
        assert (first.trained, second.trained) == (trials[:1], trials[1:])


def test_a_fault_of_one_family_does_not_end_a_study(tmp_path):
    with registered_family(NumberFamily(fault=ZeroDivisionError("a fault"))):
        trials = [Trial(Target(), NumberShape(), Training(epochs=1)), *fused_trials(2)]
        summary = run_study(study_of(trials), "quick", Store(tmp_path))
        assert (summary.n_ended, summary.n_failed) == (2, 1)
        bundles, failures = study_bundles(trials, {trial.hash for trial in trials})
        assert [failure.error for failure in failures] == ["ZeroDivisionError: a fault"]
        assert len(bundles) == 1


def test_data_that_describe_themselves_need_no_fingerprint():
    with registered_family(NumberFamily()):
        training = Training(epochs=300, learning_rate=0.1)
        assert train(Target(0.5), NumberShape(), training).recall == 1
        assert train(Aim(0.5), NumberShape(), training).recall == 1


def test_checkpoints_do_not_depend_on_other_packages(tmp_path):
    alone = checkpoint_folder(Store(tmp_path))
    with registered_family(NumberFamily(engines=(Halver("halving", []),))):
        assert checkpoint_folder(Store(tmp_path)) == alone


def test_workers_do_not_know_what_was_registered_by_a_call(tmp_path):
    with registered_family(NumberFamily()):
        trial = Trial(Target(), NumberShape(), Training(epochs=1))
        bundles, _ = study_bundles([trial], {trial.hash})
        with pytest.raises(InputError, match="do not know the family 'number'"):
            RayExecutor().run(bundles, {trial.hash}, {}, StoreRecorder(Store(tmp_path)))
