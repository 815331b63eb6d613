"""The first screen of a study's page: the answer, the verdicts, the contents and the first chart come first."""

import re
from datetime import date

import pytest

from factrank.experiments.statistics.claims import Claim, Quantity
from factrank.experiments.store.store import Store
from factrank.experiments.study.study import Chart
from factrank.experiments.study.study_results import results_of
from factrank.report.study.page_opening import answer, badges, claim_conditions, conditions
from factrank.report.study.study_page import build_page
from factrank.report.study.study_report import write_report
from factrank.version import __version__
from made_up_study import CHARTS, CLAIMS, EMPTY, made, made_study, only

RISES = CLAIMS[0]


def found_of(**changes):
    return results_of(made_study(**changes), "quick", made())


def body(page):
    return page[page.index("<main>") : page.index("</main>")]


def test_the_first_screen_comes_first():
    """Title, answer, a badge for each verdict, contents and the first chart, in this order and before any section."""
    found = found_of()
    page = body(build_page(found))
    order = [
        page.index("<h1>"),
        page.index("<p class=answer>"),
        page.index('aria-label="Verdicts"'),
        page.index('aria-label="Contents"'),
        page.index('<div class=chart id="chart-heat"'),
        page.index("<h2"),
    ]
    assert order == sorted(order)
    opening = page[: page.index("<h2")]
    assert opening.count("<figure") == 1
    for status in {verdict.status for _, verdict in found.judged}:
        assert status in opening[opening.index("Verdicts") :]


def test_contents_name_every_section_and_nothing_else():
    page = body(build_page(found_of(), ["a problem"]))
    linked = re.findall('<a href="#([^"]*)">', page[page.index("<nav") : page.index("</nav>")])
    assert linked == re.findall(r"<h2 id=\"?([\w-]+)", page)
    assert {"question", "claims", "more-charts", "summaries", "fits", "settings", "run", "problems"} == set(linked)
    without = body(build_page(found_of(charts=CHARTS[:1], summaries=(), fits=(), claims=())))
    assert re.findall(r"<h2 id=\"?([\w-]+)", without) == ["question", "settings", "run"]


def test_anchors_are_unique():
    page = build_page(found_of(), ["a problem"])
    names = re.findall(r"\sid=\"?([\w-]+)", page[: page.index('<script type="application/json"')])
    assert len(names) == len(set(names))
    assert "charts" not in names, "the id of the page's data"


def test_the_answer_is_one_sentence():
    said = answer(found_of())
    assert re.fullmatch(
        r"It rises: reproduced \(ours: 0\.2, [^;]*; published: rises\); of 3 published claims .*\.", said
    )
    assert said.count(". ") == 0
    assert "all 2 published claims are reproduced." in answer(
        found_of(claims=(RISES, Claim("again", "It rises again.", RISES.quantity, "rises")))
    )
    asked = Claim("how", "How much is it?", RISES.quantity, None)
    assert answer(found_of(claims=(asked,))).startswith("How much is it? measured (ours: 0.2, ")
    assert answer(found_of(claims=())) == "18 of 18 trials have run; the charts show what they give."
    unrun = results_of(made_study(), "quick", only(EMPTY))
    assert answer(unrun) == "There is no answer yet: none of 18 trials has run."


def test_badges_count_every_verdict():
    found = found_of()
    assert sum(int(badge.text.split()[1]) for badge in badges(found)) == len(found.judged)
    assert [badge.kind for badge in badges(found_of(claims=(RISES,)))] == ["yes"]
    assert badges(found_of(claims=())) == []


def test_figures_without_results_are_no_sections():
    """A chart of something that the quick size does not run has no heading, only a line at the end."""
    nothing = Chart("nothing", "Of the full size", "lines", "model.d_vo", "never_measured")
    page = body(build_page(found_of(charts=(nothing, CHARTS[1]), summaries=(), fits=())))
    assert '<div class=chart id="chart-lines"' in page[: page.index("<h2")]
    assert 'id="figure-nothing"' not in page
    assert "more-charts" not in page
    listed = page[page.index("1 figure without results in the quick size") :]
    assert "Of the full size: Nothing to draw yet" in listed


def test_conditions_are_words():
    assert conditions((("model.d_vo", 4), ("data.n_queries", (3, 4, 5)))) == "d_vo 4 and 3, 4 or 5 queries"
    assert conditions((("model.d_qk + model.d_vo", 9),)) == "d_qk + d_vo = 9"
    assert conditions(()) == ""
    minus = Quantity("mean", "recall", where=(("model.d_vo", 1),))
    claim = Claim("c", "C.", Quantity("mean", "recall", where=(("model.d_vo", 2),), minus=minus), "rises")
    assert claim_conditions(claim) == "For d_vo 2. Compared with d_vo 1."
    chart = Chart("lines", "Lines", "lines", "model.d_vo", "recall", where=(("model.d_qk", 1),))
    page = build_page(found_of(charts=(chart,), claims=(claim,)))
    assert "Only for d_qk 1." in page
    assert "For d_vo 2. Compared with d_vo 1." in page


def test_date_version_and_data(tmp_path):
    path = write_report(found_of(charts=(), summaries=(), fits=()), Store(tmp_path), "again", tmp_path / "page.html")
    page = path.read_text(encoding="utf-8")
    assert f"factrank {__version__}" in page
    assert f"{date.today():%B %Y}" in page
    assert '<a href="page.csv">' in page
    assert len((tmp_path / "page.csv").read_text(encoding="utf-8").splitlines()) == 19


@pytest.mark.parametrize("kind", ["claims", "charts"])
def test_a_page_without_them_still_opens(kind):
    page = body(build_page(found_of(**{kind: ()}, summaries=(), fits=())))
    assert page.index("<p class=answer>") < page.index("<nav")
