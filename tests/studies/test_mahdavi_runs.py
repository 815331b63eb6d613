"""Corners of the studies of multi-head memorisation, run."""

from dataclasses import replace

from factrank.experiments.execution.runner import run_study
from factrank.experiments.statistics.expressions import missing_columns
from factrank.experiments.store.store import Store
from factrank.experiments.study.study_results import results_of
from factrank.experiments.study.trials_of_study import study_tables
from factrank.families.memoriser.examples.examples import RandomExamples
from factrank.studies.mahdavi import STUDIES
from factrank.studies.mahdavi.assumptions import ASSUMPTIONS
from factrank.studies.mahdavi.closed_form import CLOSED_FORM


def test_a_corner_runs(tmp_path):
    """Closed forms as the runner finds them, one training step, and assumptions: columns and verdicts."""
    solved = [
        trial
        for trial in CLOSED_FORM.trials_of("quick")
        if (trial.start, trial.model.n_heads, trial.data.n_contexts) == ("solved", 1, 1)
    ]
    corner = replace(CLOSED_FORM, trials=lambda _: solved)
    store = Store(tmp_path)
    run_study(corner, "quick", store)
    rows = study_tables(corner, "quick", store.tables()).trials
    assert set(rows["status"].to_pylist()) == {"finished"}
    columns = {name for claim in corner.claims for name in claim.quantity.columns}
    assert missing_columns(rows, *columns) == ["data.n_classes"]  # real labels have none
    found = {claim.name: verdict for claim, verdict in results_of(corner, "quick", store.tables()).judged}
    for name in ("all at the rank, shared", "not one more, shared", "the paper's count is the rank, shared"):
        assert found[name].status in ("reproduced", "by construction")


def test_a_corner_of_real_data_runs(tmp_path):
    vectors = ("bert", "attention", "token"), ("none", "embedding", "token")
    chosen = [
        trial
        for trial in ASSUMPTIONS.trials_of("quick")
        if (trial.data.family, trial.data.stage, trial.data.query) in vectors
    ]
    small = [replace(trial, data=replace(trial.data, n_examples=40)) for trial in chosen]
    corner = replace(ASSUMPTIONS, trials=lambda _: small)
    store = Store(tmp_path)
    run_study(corner, "quick", store)
    found = {claim.name: verdict.status for claim, verdict in results_of(corner, "quick", store.tables()).judged}
    assert found["after a random attention layer"] == found["uniform vectors"] == "reproduced"


def test_quick_sizes_are_small():
    for study in STUDIES:
        for trial in study.trials_of("quick"):
            n_examples = trial.data.n_examples if isinstance(trial.data, RandomExamples) else 0
            assert trial.training.epochs <= 10_000
            assert n_examples <= 2_000
