"""Searches over trials: any learning rate may meet the criterion, the final state counts, every end was run."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from factrank.errors import InputError
from factrank.experiments.capacity.capacity_interval import Criterion
from factrank.experiments.capacity.capacity_search import CapacitySearch
from factrank.experiments.store.columns import row_of
from made_up_searches import RATES, family, keys_of, result_of, searches


def row(trial, **changes):
    return row_of(result_of(trial)) | changes


def finished(search, change=lambda trial: {}, rows=None):
    """The rows of a whole search."""
    rows = dict(rows or {})
    while lacking := [trial for part in search.rounds(rows) for trial in part if trial.hash not in rows]:
        rows |= {trial.hash: row(trial, **change(trial)) for trial in lacking}
    return rows


def search_of(seed=0, **options):
    return searches((2,), seed + 1, **options)[seed]


def test_the_interval_has_both_ends_of_the_better_learning_rate():
    search = search_of()
    rows = finished(search)
    found = search.interval(rows)
    assert (found.lower, found.upper, found.status, found.monotone) == (20, 21, "finished", True)
    best, worse = family(20)
    assert (rows[best.hash]["recall"], rows[worse.hash]["recall"]) == (1.0, 0.75)
    for size, met in ((20, True), (21, False)):
        probe = found.probe(size)
        assert (probe.met, probe.hash) == (met, family(size)[0].hash)
        assert all(trial.hash in rows for trial in family(size))
    assert len(found.probes) * len(RATES) == len(rows)
    assert str(found) == "recall >= 1: holds at 20, not at 21"


def test_the_row_has_what_was_measured_at_both_ends():
    search = search_of(resolution=1.2)
    found = search.row(finished(search))
    assert found["lower"] <= 20 < found["upper"]
    assert (found["facts"], found["upper_facts"]) == (found["lower"], found["upper"])
    assert found["log_facts"] == found["log_lower"] > 2.5
    assert (found["recall"], found["parameters"], found["upper_parameters"]) == (1.0, 100.0, 100.0)
    assert found["upper_recall"] == 20 / found["upper"]
    assert found["criterion"] == "recall >= 1"


def test_a_search_after_another_runs_its_sizes_first():
    """The same trials by another criterion: nothing of the first search is asked for twice, and both ends are run."""
    first = search_of(resolution=1.2)
    second = search_of(resolution=1.1, criterion=Criterion("recall", 0.5), after=first)
    half = first.rounds({})[0]
    assert second.rounds({}) == [half]
    rows = finished(first)
    assert second.rounds(rows)[: len(first.rounds(rows))] == first.rounds(rows)
    rows = finished(second, rows=rows)
    found = second.interval(rows)
    assert (found.status, found.lower <= 40 < found.upper) == ("finished", True)
    assert {probe.size for probe in first.interval(rows).probes} < {probe.size for probe in found.probes}
    assert first.interval(rows) == first.interval(finished(first))


@settings(max_examples=12)
@given(st.data())
def test_lists_that_were_asked_for_never_change(data):
    """From any part of the rows the search asks for the beginning of what it asks for in the end, and carries on."""
    search = search_of(data.draw(st.integers(0, 2)), probes=data.draw(st.integers(1, 5)))
    complete = finished(search)
    rounds = search.rounds(complete)
    place = data.draw(st.integers(0, len(rounds) - 1))
    known = [trial.hash for part in rounds[:place] for trial in part]
    known += data.draw(st.lists(st.sampled_from([trial.hash for trial in rounds[place]]), unique=True))
    rows = {name: complete[name] for name in known}
    so_far = search.rounds(rows)
    assert so_far == rounds[: len(so_far)]
    assert len(so_far) >= place + 1
    if len(rows) < len(complete):
        found = search.interval(rows)
        assert found.status == "missing"
        assert "have not been run" in found.why
    fresh = search_of(search.trials(1)[0].seed, probes=search.probes)
    assert finished(fresh, rows=rows) == complete


def test_rows_of_other_trials_do_not_matter():
    search = search_of()
    rows = finished(search)
    assert search.interval(rows | finished(search_of(1))) == search.interval(rows)


def test_only_the_end_of_training_counts():
    """`epochs_to.recall` says that a trial had full recall on the way; that is not enough."""
    search = search_of()
    rows = finished(search, lambda trial: {"epochs_to.recall": 3})
    assert search.interval(rows).lower == 20


def test_a_criterion_below_one():
    search = search_of(criterion=Criterion("recall", 0.5))
    assert search.interval(finished(search)).lower == 40


def test_a_size_that_holds_above_one_that_does_not():
    search = search_of()
    rows = finished(search, lambda trial: {"recall": 0.9 if keys_of(trial) == 13 else row(trial)["recall"]})
    found = search.interval(rows)
    assert (found.lower, found.upper, found.monotone) == (20, 21, False)


def test_labels_are_columns():
    search = search_of(labels={"answers": "random", "ratio": 0.5})
    found = search.row(finished(search))
    assert (found["answers"], found["ratio"], found["lower"]) == ("random", 0.5, 20)


# -------------------------------------------------------------------- what has no answer


@pytest.mark.parametrize(
    ("options", "status", "ends", "why"),
    [
        ({"least": 30, "guess": 40}, "no lower end", (None, None), "does not hold at 30"),
        ({"most": 18}, "no upper end", (18, None), "still holds at 18"),
    ],
)
def test_a_search_without_an_end_says_so(options, status, ends, why):
    search = search_of(**options)
    found = search.interval(finished(search))
    assert (found.status, (found.lower, found.upper)) == (status, ends)
    assert why in found.why
    assert status in str(found)


def test_a_learning_rate_that_diverges_is_only_a_bad_one():
    search = search_of()
    rows = finished(search, lambda trial: {"status": "diverged"} if trial.training.learning_rate == RATES[0] else {})
    assert (search.interval(rows).lower, search.interval(rows).status) == (15, "finished")


def test_an_end_at_which_everything_diverged_is_no_measurement():
    search = search_of()
    rows = finished(search, lambda trial: {"status": "diverged"} if keys_of(trial) > 20 else {})
    found = search.interval(rows)
    assert (found.lower, found.upper, found.status) == (20, 21, "diverged")


def test_a_trial_that_failed_decides_nothing():
    """A size that another learning rate holds is held; one that none holds is unknown, and others are tried."""
    search = search_of()
    rows = finished(search, lambda trial: {"status": "failed"} if trial.training.learning_rate == RATES[1] else {})
    assert search.interval(rows).status == "failed"
    rows = finished(search, lambda trial: {"status": "failed"} if keys_of(trial) > 25 else {})
    found = search.interval(rows)
    assert (found.lower, found.upper, found.status) == (20, 21, "finished")
    rows = finished(search, lambda trial: {"status": "failed"} if keys_of(trial) > 20 else {})
    found = search.interval(rows)
    assert (found.lower, found.upper, found.status) == (20, None, "failed")
    assert "failed" in found.why


@pytest.mark.parametrize("recall", [None, float("nan"), "high"])
def test_a_row_without_the_number_does_not_meet_it(recall):
    assert not Criterion().is_met({"status": "finished", "recall": recall})
    assert Criterion("recall", 0.5).is_met({"status": "stopped", "recall": 0.5})


# -------------------------------------------------------------------- mistakes


def test_mistakes_are_named():
    with pytest.raises(InputError, match="must have a name"):
        CapacitySearch("", family, 4)
    with pytest.raises(InputError, match=r"search a: .*resolution"):
        CapacitySearch("a", family, 4, resolution=0)
    with pytest.raises(InputError, match="one or more Trials"):
        CapacitySearch("a", lambda size: [], 4).rounds({})
    with pytest.raises(InputError, match="finite"):
        Criterion("recall", float("inf"))


def test_mistakes_of_families_and_criteria_are_named():
    def broken(size):
        return 1 / 0

    for wrong, words in ((broken, "ZeroDivisionError"), (lambda size: None, "TypeError")):
        with pytest.raises(InputError, match=f"search s: cannot list its trials of size 1: {words}"):
            CapacitySearch("s", wrong, guess=2).trials(1)
    misspelt = search_of(criterion=Criterion("recal", 1.0))
    with pytest.raises(InputError, match="no trial has a metric 'recal'; did you mean recall"):
        finished(misspelt)
    with pytest.raises(InputError, match="a finite number"):
        Criterion("recall", float("nan"))
