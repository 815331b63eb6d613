"""An examination is shown and drawn like its parts."""

import pytest

import factrank
from factrank.errors import InputError


@pytest.fixture(scope="module")
def examined():
    facts = factrank.Database.from_facts([("Paris", "country", "France"), ("Rome", "country", "Italy")])
    return factrank.examine(factrank.construct(facts), facts)


def test_html_has_recall_rank_and_certificate(examined):
    html = examined._repr_html_()
    assert "certified: every fact is recalled" in html
    assert "rank of the logits: at most" in html
    assert "on 2 facts" in html


@pytest.mark.parametrize("what", ["contributions", "margins", "queries", "attention", "logits"])
def test_pictures_are_charts(examined, what):
    assert "vega-lite" in examined.plot(what).to_dict()["$schema"]


def test_margins_are_those_of_the_model(examined):
    assert examined.plot("margins").to_dict() == examined.model.plot("margins", database=examined.database).to_dict()


def test_unknown_picture_lists_the_choices(examined):
    with pytest.raises(InputError, match="'contributions', 'margins', 'queries'"):
        examined.plot("nonsense")
