"""Statements: one sentence, one verdict; wrong verdicts of a paper are rare together; claims are fixed before a run."""

from dataclasses import replace

import numpy as np
import pytest

from factrank.errors import InputError
from factrank.experiments.execution.runner import run_study
from factrank.experiments.specs.data import generated
from factrank.experiments.specs.training_spec import Training
from factrank.experiments.specs.trial import Trial
from factrank.experiments.statistics.claims import Claim, Quantity
from factrank.experiments.statistics.frozen_claims import fixed, frozen
from factrank.experiments.statistics.statements import statements_of
from factrank.experiments.statistics.verdicts import Verdict
from factrank.experiments.store.store import Store
from factrank.experiments.study.study import Study
from factrank.experiments.study.study_results import paper_statements, results_of
from factrank.families.attention.layer_shape import LayerShape

SAID = Claim("a", "A is more.", Quantity("mean", "recall"), "greater", quote="a grows", place="Figure 1")
YES, NO = Verdict("reproduced", p=0.001), Verdict("not reproduced", p=0.001)
OPEN, NONE = Verdict("undecided", p=0.4), Verdict("not comparable")


@pytest.mark.parametrize(
    ("verdicts", "status", "p"),
    [
        ((YES,), "reproduced", 0.001),
        ((YES, replace(YES, p=0.02)), "reproduced", 0.02),
        ((YES, NO), "not reproduced", 0.002),
        ((YES, OPEN), "undecided", 0.4),
        ((OPEN, NO, NONE), "not reproduced", 0.003),
        ((YES, NONE), "undecided", 0.001),
        ((NONE, NONE), "not comparable", None),
    ],
)
def test_one_sentence_has_one_verdict(verdicts, status, p):
    judged = [("s", replace(SAID, name=str(at)), verdict) for at, verdict in enumerate(verdicts)]
    (found,) = statements_of(judged)
    assert (found.text, found.place, found.status, found.p) == ("a grows", "Figure 1", status, p)
    assert len(found.claims) == len(verdicts)


def test_what_could_not_fail_or_was_not_published_is_not_counted():
    judged = [
        ("s", replace(SAID, extension=True), YES),
        ("s", replace(SAID, published=None), Verdict("measured")),
        ("s", replace(SAID, by_construction="a theorem"), Verdict("by construction", p=0.001)),
    ]
    assert statements_of(judged) == []
    assert len(statements_of([*judged, ("s", SAID, YES), ("s", replace(SAID, quote="", statement="B."), NO)])) == 2


def holm(p_values):
    """Reject in order of p while p <= 0.05 / (number of hypotheses left)."""
    rejected = set()
    for rank, at in enumerate(np.argsort(p_values, kind="stable")):
        if p_values[at] > 0.05 / (len(p_values) - rank):
            break
        rejected.add(int(at))
    return rejected


def test_holms_procedure():
    rng = np.random.default_rng(0)
    for _ in range(50):
        p_values = (rng.random(8) ** 4).tolist()
        judged = [("s", replace(SAID, quote=str(at)), Verdict("reproduced", p=p)) for at, p in enumerate(p_values)]
        found = statements_of(judged)
        assert {at for at, one in enumerate(found) if one.status == "reproduced"} == holm(p_values)
        assert all(one.status == "reproduced" or "not beyond chance" in one.why for one in found)


def trials(size):
    facts, training = generated("unit", n=3), Training(epochs=5)
    return [Trial(facts, LayerShape(3, 1, 1, 2), training, seed=seed) for seed in range(3)]


@pytest.fixture(scope="module")
def study():
    claims = (SAID, replace(SAID, name="b", published="less", quote="b falls"))
    return Study("mine", "A study of mine", None, "Does it run?", "Three seeds.", trials, claims=claims)


def test_claims_are_fixed_when_a_run_starts(study, tmp_path):
    store = Store(tmp_path / "store")
    assert store.fixed_claims("mine", "quick") is None
    run_study(study, "quick", store)
    record = store.fixed_claims("mine", "quick")
    assert record == frozen(study.claims)
    first, second = study.claims
    reworded = replace(first, note="another note", statement="Reworded.")
    later = replace(study, claims=(reworded, replace(second, published="greater"), replace(first, name="new")))
    run_study(later, "quick", store, rerun_failed=True)
    assert store.fixed_claims("mine", "quick") == record
    assert [fixed(claim, record) for claim in later.claims] == ["before the run", "changed since", "added since"]
    found = results_of(later, "quick", store.tables(), record)
    assert [claim.name for _, claim, _ in found.counted] == ["a"]
    assert [one.text for one in paper_statements({"mine": found})] == ["a grows"]
    assert len(results_of(later, "quick", store.tables()).counted) == 3  # without a record nothing is known


def test_results_that_were_there_before_leave_no_record(study, tmp_path):
    """Trials that an older version stored may have been looked at."""
    store = Store(tmp_path / "store")
    run_study(replace(study, name="other", claims=()), "quick", store)
    more = replace(study, trials=lambda size: [*trials(size), replace(trials(size)[0], seed=3)])
    run_study(more, "quick", store)
    assert store.fixed_claims("mine", "quick") is None


@pytest.mark.parametrize("content", ["", "[1]", '{"a": 1}'])
def test_a_broken_record_is_named(study, tmp_path, content):
    store = Store(tmp_path / "store")
    store.fix_claims("mine", "quick", frozen(study.claims))
    (tmp_path / "store" / "claims" / "mine-quick.json").write_text(content)
    with pytest.raises(InputError, match=r"mine-quick\.json: not a record of claims"):
        store.fixed_claims("mine", "quick")
