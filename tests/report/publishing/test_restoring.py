"""Restoring: a store is filled again from what was published."""

from dataclasses import replace

import pytest

from factrank.errors import InputError
from factrank.experiments.execution.runner import missing
from factrank.experiments.statistics.frozen_claims import frozen
from factrank.experiments.store.store import Store
from factrank.experiments.study.study_results import results_of
from factrank.report.publishing.published_tables import write_published
from factrank.report.publishing.restoring import Restored, restore
from made_up_paper import PAPER, fill, result_of


@pytest.fixture(scope="module")
def published(tmp_path_factory):
    """The tables of a paper; the rest of the folder is not needed."""
    folder = tmp_path_factory.mktemp("published")
    (folder / "tables").mkdir()
    tables = fill(Store(folder / "store")).tables()
    for study in PAPER:
        write_published(folder / "tables", results_of(study, "full", tables))
    return folder


def test_a_store_is_restored_from_what_was_published(tmp_path, published):
    """The restored store publishes the same bytes, and only what was not published is left to run."""
    restored = Store(tmp_path / "restored")
    n_trials = sum(len(study.trials_of("full")) for study in PAPER)
    assert restore(published, PAPER, restored) == Restored(n_trials, 0)
    for study in PAPER:
        for path in write_published(tmp_path, results_of(study, "full", restored.tables())):
            assert path.read_bytes() == (published / "tables" / path.name).read_bytes()
        assert not missing(study.trials_of("full"), restored)
    assert restored.problems() == []
    assert restore(published, PAPER, restored) == Restored(0, 0)


def test_curves_that_were_never_published_are_not_missed(tmp_path):
    """Tables leave out what nothing is drawn from; that is no loss."""
    bare = [replace(study, charts=(), claims=(), summaries=(), fits=()) for study in PAPER]
    with_curves = [trial for study in bare for trial in study.trials_of("full") if trial.curve_epochs]
    assert with_curves
    store, restored = fill(Store(tmp_path / "store")), Store(tmp_path / "restored")
    assert store.curves().num_rows
    (tmp_path / "tables").mkdir()
    for study in bare:
        write_published(tmp_path / "tables", results_of(study, "full", store.tables()))
    restore(tmp_path, bare, restored)
    assert restored.curves().num_rows == 0
    assert not missing(with_curves, restored)
    assert restored.problems() == []


def test_settings_that_tables_lack_come_from_the_trials(tmp_path):
    """An option that trials got after they were published has its value in the rows that are restored."""
    study, store, restored = PAPER[0], fill(Store(tmp_path / "store")), Store(tmp_path / "restored")
    tables = store.tables()
    (tmp_path / "tables").mkdir()
    older = replace(tables, trials=tables.trials.drop_columns(["training.warm_up"]))
    write_published(tmp_path / "tables", results_of(study, "full", older))
    restore(tmp_path, [study], restored)
    assert restored.trials()["training.warm_up"].to_pylist() == [
        trial.training.warm_up for trial in study.trials_of("full")
    ]


def test_restoring_leaves_out_what_no_study_asks_for(tmp_path, published):
    """Without its trial a row has no place in a store; what the store has stays as it is."""
    widths, few = PAPER[0], lambda size: PAPER[0].trials_of(size)[:7]
    smaller, restored = replace(widths, trials=few), Store(tmp_path / "restored")
    restored.append([replace(result_of(few("full")[0]), metrics={"loss": 7.0, "recall": 0.0})])
    assert restore(published, [smaller], restored) == Restored(6, len(widths.trials_of("full")) - 7)
    assert restored.finished() == {trial.hash for trial in few("full")}
    assert max(restored.trials()["loss"].to_pylist()) == 7.0
    with pytest.raises(InputError, match=r"no such file"):
        restore(tmp_path / "nothing", PAPER, restored)


def test_studies_that_were_never_published_are_skipped(tmp_path, published):
    """A paper gets new studies; its older ones can still be restored."""
    new, restored = replace(PAPER[0], name="new"), Store(tmp_path / "restored")
    n_trials = sum(len(study.trials_of("full")) for study in PAPER)
    assert restore(published, [*PAPER, new], restored) == Restored(n_trials, 0, ("new",))
    with pytest.raises(InputError, match=r"new\.parquet: no such file"):
        restore(published, [new], restored)


def test_claims_that_were_fixed_before_the_published_run_stay_fixed(tmp_path):
    """Otherwise a paper that is restored and published again would lose the record."""
    study, store, restored = PAPER[0], fill(Store(tmp_path / "store")), Store(tmp_path / "restored")
    record = {**frozen(study.claims), "slope": "what it was then"}
    (tmp_path / "tables").mkdir()
    write_published(tmp_path / "tables", results_of(study, "full", store.tables(), record))
    write_published(tmp_path / "tables", results_of(PAPER[1], "full", store.tables()))
    restore(tmp_path, PAPER, restored)
    assert restored.fixed_claims(study.name, "full") == record
    assert restored.fixed_claims(PAPER[1].name, "full") is None
