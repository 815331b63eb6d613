"""Studies with searches: rounds run together, resume to the same table, and end as rows that claims can judge."""

from dataclasses import replace
from math import log

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from factrank.databases.generators.random_tables import uniform
from factrank.errors import InputError
from factrank.experiments.execution.estimate import plan_run
from factrank.experiments.specs.data import Given
from factrank.experiments.statistics.claims import Claim, Quantity
from factrank.experiments.store.store import Store
from factrank.experiments.study.study import Chart, Study, no_trials
from factrank.experiments.study.study_results import results_of
from factrank.experiments.study.trials_of_study import asked_trials, study_tables
from made_up_searches import PARTS, FakeExecutor, family, keys_of, run, searches, study_with
from small_studies import same_table


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A study that was run without disturbance: the store, and what ran."""
    store, executor = Store(tmp_path_factory.mktemp("whole")), FakeExecutor()
    return run(study_with(searches()), store, executor), store, executor


# -------------------------------------------------------------------- running


def test_rounds_run_together_and_nothing_twice(whole):
    summary, store, executor = whole
    n_trials = store.trials().num_rows
    assert (summary.n_trials, summary.n_ended, summary.n_before, summary.n_left) == (n_trials, n_trials, 0, 0)
    assert len(set(executor.hashes)) == len(executor.hashes) == n_trials
    found = study_tables(study_with(searches()), "quick", store.tables()).searches
    assert found["lower"].to_pylist() == [20, 21, 22, 40, 41, 42]
    assert found["upper"].to_pylist() == [21, 22, 23, 41, 42, 43]
    assert found["seed"].to_pylist() == found["data.seed"].to_pylist() == [0, 1, 2] * 2
    assert found["model.d_model"].to_pylist() == [2, 2, 2, 4, 4, 4]
    assert "training.learning_rate" not in found.column_names  # it is not the same in all trials of a search
    assert "data.n_keys" not in found.column_names
    assert len(executor.ran) == max(found["rounds"].to_pylist())
    assert len(executor.ran[0]) == 6 * 4 * 2  # the first round of all searches, both learning rates


def test_the_same_call_runs_nothing(whole, tmp_path):
    _, store, _ = whole
    executor = FakeExecutor()
    summary = run(study_with(searches()), store, executor)
    assert (summary.n_before, summary.n_ended, executor.ran) == (summary.n_trials, 0, [])


@pytest.mark.parametrize("after", [0, 48, 60])
def test_an_interrupted_search_goes_on(whole, tmp_path, after):
    summary, store, executor = whole
    own = Store(tmp_path)
    stopped = run(study_with(searches()), own, FakeExecutor(after=after))
    assert (stopped.interrupted, stopped.n_ended) == (True, after)
    again = FakeExecutor()
    ended = run(study_with(searches()), own, again)
    assert (ended.n_before, ended.n_trials) == (after, summary.n_trials)
    assert sorted(again.hashes) == sorted(executor.hashes[after:])
    assert same_table(own, store)


def test_listed_trials_come_first(tmp_path):
    listed, executor = family(7, seed=5), FakeExecutor()
    study = study_with(searches((2,), 1), trials=lambda size: listed)
    run(study, Store(tmp_path), executor)
    assert executor.ran[0] == listed
    assert {keys_of(trial) for trial in executor.ran[1]} == {8, 13, 20, 32}
    table = study_tables(study, "quick", Store(tmp_path).tables()).trials
    assert table["hash"].to_pylist() == executor.hashes


def test_searches_may_share_trials(tmp_path):
    first, second = searches((2,), 1)[0], replace(searches((2,), 1)[0], name="other", resolution=1.3)
    executor, study = FakeExecutor(), study_with([first, second])
    run(study, Store(tmp_path), executor)
    assert len(set(executor.hashes)) == len(executor.hashes)
    found = study_tables(study, "quick", Store(tmp_path).tables()).searches
    assert found["search"].to_pylist() == ["width 2, seed 0", "other"]
    assert (found["lower"].to_pylist()[0], found["status"].to_pylist()) == (20, ["finished"] * 2)


def test_failed_trials_end_a_search_until_they_are_run_again(tmp_path):
    store, study = Store(tmp_path), study_with(searches((2,), 1))
    spoilt = FakeExecutor(spoilt=lambda trial: "failed" if keys_of(trial) > 20 else None)
    assert run(study, store, spoilt).n_failed > 0
    assert study_tables(study, "quick", store.tables()).searches["status"].to_pylist() == ["failed"]
    assert run(study, store).n_ended == 0
    assert plan_run(study, "quick", store).n_to_run == 0
    assert plan_run(study, "quick", store, rerun_failed=True).n_to_run > 0
    n_failed = len(store.failed())
    again = run(study, store, spoilt, rerun_failed=True)  # they fail again: each is tried once
    assert (again.n_ended, again.n_failed) == (0, n_failed)
    assert run(study, store, rerun_failed=True).n_failed == 0
    found = study_tables(study, "quick", store.tables()).searches
    assert (found["status"].to_pylist(), found["lower"].to_pylist()) == (["finished"], [20])


# -------------------------------------------------------------------- tables and claims


def test_what_is_asked_for_next_is_missing(whole):
    _, store, executor = whole
    study, first = study_with(searches(), **PARTS), {trial.hash for trial in executor.ran[0]}
    tables = store.tables()
    begun = replace(tables, trials=tables.trials.filter(pc.is_in(tables.trials["hash"], pa.array(first))))
    own = study_tables(study, "quick", begun)
    statuses = own.trials["status"].to_pylist()
    assert statuses[: len(first)] == ["finished"] * len(first)
    assert set(statuses[len(first) :]) == {"missing"}
    assert own.trials["hash"].to_pylist() == executor.hashes[: len(statuses)]
    assert set(own.searches["status"].to_pylist()) == {"missing"}
    assert results_of(study, "quick", begun).judged[0][1].why == "6 of 6 searches have no value (6 missing)"
    assert [trial.hash for trial in asked_trials(study, "quick", tables.trials)] == executor.hashes


def test_claims_summaries_and_fits_are_about_intervals(whole):
    _, store, _ = whole
    study, tables = study_with(searches(), **PARTS), store.tables()
    results = results_of(study, "quick", tables)
    (_, rises), (_, logs) = results.judged
    assert (rises.status, rises.value, rises.n_seeds) == ("reproduced", pytest.approx(10), 3)
    assert logs.value == pytest.approx(sum(map(log, (20, 21, 22, 40, 41, 42))) / 6)
    summaries = results.summaries
    assert summaries[0][1]["value"].to_pylist() == pytest.approx([21, 41])
    assert results.fits[0][1].formula == "keys = 1 + 10 d_model"


def test_a_search_without_both_ends_makes_a_claim_not_comparable(tmp_path):
    store = Store(tmp_path)
    study = study_with(searches(most=30), **PARTS)  # the wide ones hold everything
    run(study, store)
    verdict = results_of(study, "quick", store.tables()).judged[0][1]
    assert (verdict.status, verdict.why) == ("not comparable", "3 of 6 searches have no value (3 no upper end)")


def test_a_dry_run_counts_what_is_asked_for_now(whole, tmp_path):
    _, store, executor = whole
    study = study_with(searches())
    plan = plan_run(study, "quick", Store(tmp_path))
    assert (plan.n_trials, plan.n_to_run, plan.n_open) == (48, 48, 6)
    plan = plan_run(study, "quick", store)
    assert (plan.n_trials, plan.n_to_run, plan.n_open) == (len(executor.hashes), 0, 0)


# -------------------------------------------------------------------- mistakes


def test_mistakes_in_searches_are_named(tmp_path):
    with pytest.raises(InputError, match="study search: two searches have the name 'width 2, seed 0'"):
        run(study_with(searches() * 2), Store(tmp_path))
    with pytest.raises(InputError, match="study search: searches must be a list of searches with names; it contains 3"):
        run(study_with([3]), Store(tmp_path))
    with pytest.raises(InputError, match="cannot list its searches: ZeroDivisionError"):
        run(Study("s", "S", None, "?", "!", no_trials, searches=lambda size: [1 // 0]), Store(tmp_path))
    misspelt = Chart("c", "C", "lines", "model.d_modell", "lower", data="searches")
    with pytest.raises(InputError, match=r"did you mean model\.d_model"):
        run(study_with(searches(), charts=(misspelt,)), Store(tmp_path))


def test_a_database_that_is_not_given_is_found_at_once():
    def given(size):
        return [replace(trial, data=Given(uniform(3, 2, 2, seed=0).fingerprint)) for trial in family(size)]

    study = study_with([replace(searches()[0], family=given)])
    with pytest.raises(InputError, match="not among the databases of the study"):
        study.rounds("quick", {})


def test_curves_are_beside_the_trials_of_searches(whole):
    """A claim on trials sees those of the searches; on curves it asks for each of them."""
    _, store, _ = whole
    claim = Claim("mean", "Mean.", Quantity("mean", "recall", where=(("data.n_keys", 20),)), None)
    curves = replace(claim, data="curves", name="curves")
    study = study_with(searches(), claims=(claim, curves))
    first, second = (verdict for _, verdict in results_of(study, "quick", store.tables()).judged)
    assert (first.status, first.n_seeds) == ("measured", 3)
    assert second.status == "not comparable"
