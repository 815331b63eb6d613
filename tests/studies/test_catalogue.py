"""What the studies of the catalogue say: sentences, places in papers, titles and columns."""

import re
from collections import Counter

import pytest

from factrank.experiments.columns import LONG, RUN, SEARCHES, measure_of
from factrank.experiments.study.study import SETTINGS
from factrank.studies import CATALOGUE, PAPERS, WAITING, studies_named
from small_studies import columns_named, trials_listed

EACH = pytest.mark.parametrize("study", (CATALOGUE | WAITING).values(), ids=CATALOGUE | WAITING)

PLACE = re.compile(
    r"(cf\. |beyond )?(the )?(first of the |third of the )?"
    r"((Figures?|Propositions?|Example) \d|abstract|theorem|experiments on |proposed experiments|rank relationship|"
    r"(key results|mechanism \d|failure signatures|limitations|design trade-?offs|open questions|next checks)\b|"
    r"follow-up paper|paper$|closed form$|arXiv \d{4}\.\d{5})"
)
"""A numbered place of a paper, a part of it, or a part of a summary of it."""

SAME = "The same "
"""How a statement begins that repeats the one before it for other tables or models."""

ALIKE = {
    "The fraction of searches in which a size that is held lies above one that is not.",  # under each criterion
    "Real labels memorised, solved and trained: a context for each example",  # by heads and by tokens
    "Real labels memorised, solved and trained: one context for all",
}
"""Statements and titles that two parts of one study share."""


def repeated(texts):
    return [text for text, count in Counter(texts).items() if count > 1]


@EACH
def test_questions_and_methods_are_sentences(study):
    assert re.fullmatch(r"[A-Z0-9].*\?", study.question)
    assert re.fullmatch(r"[A-Z].*\.", study.method)
    assert re.fullmatch(r"[A-Z].*, .* (19|20)\d\d|[A-Z].* (19|20)\d\d, .+", study.source.paper)
    assert re.fullmatch(r"https://arxiv\.org/abs/\d{4}\.\d{5}", study.source.link)


@EACH
def test_a_claim_is_a_statement_with_its_place(study):
    """A question may take the place of a statement if no answer was published."""
    for number, claim in enumerate(study.claims):
        assert re.fullmatch(r"[A-Z].*(\.|\?)", claim.statement), claim.name
        assert claim.statement.endswith(".") or claim.published is None, claim.name
        assert number or not claim.statement.startswith(SAME), claim.name
        assert PLACE.match(claim.place.removeprefix("our ")), (claim.name, claim.place)
        assert claim.note.endswith("."), claim.name
        assert claim.quote == claim.quote.strip()


@EACH
def test_a_claim_of_the_paper_says_what_was_published(study):
    """In its words, or as a number or direction; what it repeats for other tables may refer to the claim before."""
    for claim in study.claims:
        published = claim.quote or claim.published is not None or claim.statement.startswith(SAME)
        assert published or claim.extension, claim.name
        assert not (claim.place.startswith(("cf. ", "beyond ", "our ")) and not claim.extension), claim.name


@EACH
def test_no_two_claims_or_pictures_say_the_same(study):
    assert {statement for statement, _ in repeated((one.statement, one.note) for one in study.claims)} <= ALIKE
    assert repeated((repr(one.quantity), one.data, one.published) for one in study.claims) == []
    for parts in (study.charts, study.summaries):
        assert set(repeated(part.title for part in parts)) <= ALIKE
    assert repeated((fit.summary, fit.title) for fit in study.fits) == []
    assert [one.name for one in (*study.charts, *study.summaries, *study.fits) if re.search(r"\.$|^$", one.title)] == []


@EACH
def test_there_are_enough_seeds_for_what_is_claimed(study):
    """A published number needs 10 seeds; listing the trials also finds settings that no trial has."""
    assert study.trials_of("quick") or study.searches_of("quick")
    searched = [trial for search in study.searches_of("full") for trial in search.rounds({})[0]]
    seeds = {trial.seed for trial in (*trials_listed(study, "full"), *searched)}
    numbers = [claim.name for claim in study.claims if isinstance(claim.published, float)]
    few = *PAPERS["mahdavi2024"], *PAPERS["language"], *WAITING.values()  # a grid run once, large models
    once = study in few or study.name == "linear-memory-training"  # a factorial
    assert len(seeds) >= 10 or (once and not numbers)


@EACH
def test_every_column_is_a_setting_or_declared(study):
    """Settings are checked when trials are listed; a search adds its labels."""
    known = {column.name for column in (*RUN, *LONG, *SEARCHES)}
    labels = {name for search in study.searches_of("quick") for name in search.labels}
    for data, columns in columns_named(study):
        for name in columns:
            declared = name in known or measure_of(name) or name.startswith(SETTINGS) or name in ("seed", "start")
            assert declared or (data == "searches" and name in labels), (data, name)


def test_titles_of_studies_are_distinct():
    for studies in PAPERS.values():
        assert repeated(study.title for study in studies) == []
        assert repeated(study.question for study in studies) == []
    assert [study.title for study in CATALOGUE.values() if study.title.endswith(".")] == []


def test_waiting_studies_are_found_by_name_and_belong_to_no_report():
    assert not set(WAITING) & set(CATALOGUE)
    assert [studies_named(name) for name in WAITING] == [(study,) for study in WAITING.values()]
