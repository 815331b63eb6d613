"""Studies: what they accept, and the list of trials that they give."""

import pytest

from factrank.databases.database import Database
from factrank.errors import InputError
from factrank.experiments.specs.data import Given
from factrank.experiments.statistics.claims import Claim, Quantity
from factrank.experiments.study.study import Chart, Source, Study
from made_up_results import FACTS, made_up_trial

SHORT = "name", "A title", Source("A paper", "Figure 1"), "Why?", "So."


def test_trials_are_listed_once_and_in_order():
    first, second = made_up_trial(5), made_up_trial(1)
    study = Study(*SHORT, lambda size: [first, second, made_up_trial(5)] if size == "quick" else [second])
    assert study.trials_of("quick") == [first, second]
    assert study.trials_of("full") == [second]


def test_a_database_that_is_not_in_hand_is_named():
    database = Database.from_facts([("Oslo", "country", "Norway")])
    trial = made_up_trial(0, data=Given(database.fingerprint))
    assert Study(*SHORT, lambda size: [trial], databases=(database,)).trials_of("quick") == [trial]
    with pytest.raises(InputError, match=database.fingerprint[:12]):
        Study(*SHORT, lambda size: [trial]).trials_of("quick")


def test_only_trials_are_trials():
    with pytest.raises(InputError, match="list of Trial"):
        Study(*SHORT, lambda size: [made_up_trial(0), FACTS]).trials_of("quick")


@pytest.mark.parametrize("name", ["", "../up", "a/b", ".hidden", "a b", "a\n", "x" * 101, "dot.", "ünlaut"])
def test_names_become_file_names(name):
    with pytest.raises(InputError, match="letters, digits"):
        Study(name, *SHORT[1:], lambda size: [])
    with pytest.raises(InputError, match="letters, digits"):
        Chart(name, "title", "lines", "seed", "recall")


def test_charts_are_checked():
    chart = Chart("recall", "Recall", "lines", "model.d_vo", "recall", where=(("seed", 3), ("model.d_qk", (1, 2))))
    assert chart.where == (("seed", 3), ("model.d_qk", (1, 2)))
    for field, wrong in (("kind", "pie"), ("data", "weights"), ("where", "seed"), ("where", [("seed",)])):
        altered = Chart("a", "A", "bars", "seed", "recall")
        object.__setattr__(altered, field, wrong)  # run-time type checks do not let it through the front door
        with pytest.raises(InputError, match=r"must be one of|pairs"):
            altered.__post_init__()
    with pytest.raises(InputError, match="two charts or summaries have the same name"):
        Study(*SHORT, lambda size: [], charts=(chart, chart))


def test_titles_are_texts():
    study = Study(*SHORT, lambda size: [], titles={"seed": "number of the run"})
    object.__setattr__(study, "titles", {"seed": 3})  # run-time type checks do not let it through the front door
    with pytest.raises(InputError, match="study name: titles must map columns to strings"):
        study.__post_init__()


def test_misspelt_settings_are_found_before_anything_is_trained():
    chart = Chart("recall", "Recall", "lines", "model.dvo", "recall")
    study = Study(*SHORT, lambda size: [made_up_trial(0)], charts=(chart,))
    with pytest.raises(InputError, match=r"chart recall: no trial has a setting 'model.dvo'; did you mean model.d_vo"):
        study.trials_of("quick")
    quantity = Quantity("mean", "recall", where=(("training.learning_rat", 1),))
    study = Study(*SHORT, lambda size: [made_up_trial(0)], claims=(Claim("a", "A", quantity, "rises"),))
    with pytest.raises(InputError, match="claim a: no trial has a setting"):
        study.trials_of("quick")


@pytest.mark.parametrize(
    ("x", "colour", "kind"), [("", None, "lines"), ("a + ", None, "bars"), ("seed", None, "heatmap")]
)
def test_charts_that_cannot_be_drawn(x, colour, kind):
    with pytest.raises(InputError, match="chart c: "):
        Chart("c", "C", kind, x, "recall", colour)


def test_trials_that_cannot_be_listed():
    with pytest.raises(InputError, match="short: cannot list its trials: ZeroDivisionError"):
        Study("short", *SHORT[1:], lambda size: [1 // 0]).trials_of("quick")
