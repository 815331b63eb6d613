"""Displays in notebooks: every kind of object has one, hostile names stay text, and it is small for a million facts."""

import re
import tempfile
from dataclasses import replace
from html.parser import HTMLParser
from itertools import pairwise

import numpy as np
import polars as pl
import pytest
from rich.console import Console

import factrank
from factrank.databases import Database, Vocabulary
from factrank.display import Drawn, Shown
from factrank.experiments.capacity import CapacityInterval, Criterion
from factrank.experiments.execution import RunSummary
from factrank.report.display import (
    Description,
    Words,
    described,
    description_html,
    description_of,
    html_of,
    plain_table,
)
from factrank.report.display.registry import DESCRIPTIONS, PICTURES, load
from made_up_results import made_up_result, made_up_trial

HOSTILE = [
    "<script>alert(1)</script>",
    "\u202eevil\u202c",
    "x" * 10_000,
    '"><img src=x onerror=alert(1)>',
    "a\x1b[31m\nb",
]
SMALL = 50_000


class Tags(HTMLParser):
    """The tags, attributes and texts of a display; fails on tags that are never closed."""

    def __init__(self):
        super().__init__()
        self.open, self.tags, self.attributes, self.texts = [], set(), set(), []

    def handle_starttag(self, tag, attrs):
        self.open.append(tag)
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.texts.append(data)


def parsed(html):
    found = Tags()
    found.feed(html)
    found.close()
    assert found.open == []
    assert found.tags <= {"div", "span", "b", "table", "thead", "tbody", "tr", "th", "td"}
    assert found.attributes <= {"style", "dir", "scope", "aria-hidden"}
    assert "url(" not in html
    assert len(html) < SMALL
    return found


def results():
    """A study with one trial and hostile texts."""
    claim = factrank.Claim("learns", HOSTILE[0], factrank.Quantity("mean", "recall"), None)
    study = factrank.Study("mine", HOSTILE[3], None, "", "", lambda _: [made_up_trial(0)], claims=(claim,))
    with tempfile.TemporaryDirectory() as folder:
        store = factrank.Store(folder)
        store.append([made_up_result(0)])
        return factrank.results_of(study, "quick", store.tables())


@pytest.fixture(scope="module")
def hostile():
    return Database.from_facts([(name, f"query {name}", f"value {name}") for name in HOSTILE])


@pytest.fixture(scope="module")
def shown(hostile):
    """One object of every kind, with hostile names wherever it has names."""
    built = factrank.construct(hostile)
    measured = factrank.measure(hostile, budget=0.5)
    return {
        "Database": hostile,
        "Measurement": measured,
        "RankBounds": measured.rank,
        "Bound": measured.rank.upper,
        "witness": measured.rank.upper.witness(),
        "lower witness": measured.rank.lower.witness,
        "Constructed": built,
        "layer": built.model,
        "saved": built.to_saved(),
        "Certificate": built.certificate,
        "Answer": factrank.answer(built, HOSTILE[2], f"query {HOSTILE[0]}"),
        "RecallReport": factrank.recall(built),
        "Diagnosis": factrank.diagnose(built),
        "Attribution": factrank.attribute_facts(built),
        "Plan": factrank.plan(n_facts=200, n_keys=20, n_queries=10, n_values=20, recall=0.95),
        "TrialResult": made_up_result(0),
        "RunSummary": RunSummary(4, 1, 2, 0, 0.5, interrupted=True),
        "CapacityInterval": CapacityInterval(3, 4, Criterion("recall", 1.0), (), 2, "finished"),
        "StudyResults": results(),
        "memory": factrank.construct_memory(hostile.select(queries=hostile.queries[0]), factrank.MemoryShape(4)),
    }


def test_displays_are_safe_and_small(shown):
    for name, thing in shown.items():
        html = html_of(thing)
        found = parsed(html)
        assert not re.search("[\x00-\x09\x0b-\x1f\u202a-\u202e]", html), name
        assert max(map(len, found.texts)) <= 1_000, name


def test_hostile_names_are_shown_as_text(shown):
    texts = "".join(parsed(shown["Database"]._repr_html_()).texts)
    assert "<script>alert(1)</script>" in texts
    assert r"\u202eevil\u202c" in texts
    assert r"a\x1b[31m\nb" in texts


def test_counts_of_a_trained_model_are_whole_and_its_columns_are_labelled():
    metrics = {"recall_0.95": 0.5, "silent_fibers": 7.0, "hallucinations_0.95": 6.0, "loss": 0.25, "facts": 1200.0}
    shown = html_of(replace(made_up_result(0), metrics=metrics))
    texts = [text for text in parsed(shown).texts if text.strip()]
    found = dict(pairwise(texts))
    assert found["recall at confidence 0.95"] == "50.0%"
    assert (found["missing entries"], found["hallucinations at confidence 0.95"]) == ("7", "6")
    assert (found["loss"], found["facts"]) == ("0.25", "1,200")


def test_results_of_studies_are_arrow_streams(shown):
    found = pl.DataFrame(shown["StudyResults"])
    assert found["recall"].to_list() == [0.5]
    assert found.columns == shown["StudyResults"].table.column_names


def test_reprs_are_short(shown):
    for name, thing in shown.items():
        assert len(repr(thing)) < 700, name
        assert "\x1b" not in repr(thing)
        assert repr(thing).count("\n") <= 4, name
        assert "<script>alert(1)</script>" in repr(thing) or name != "Database"


def test_every_line_of_the_registry_leads_somewhere():
    for kind, place in DESCRIPTIONS.items():
        assert issubclass(load(kind), Shown), kind
        assert callable(load(place))
    for kind, pictures in PICTURES.items():
        assert issubclass(load(kind), Drawn), kind
        assert all(callable(load(place)) for place in pictures.values())
        assert kind in DESCRIPTIONS


def test_an_empty_table_and_a_single_fact():
    assert "no facts" in Database.from_facts([])._repr_html_()
    one = Database.from_facts([("Oslo", "country", "Norway")])
    assert {"1 facts: 1 keys x 1 queries -> 1 values", "Oslo", "Norway"} <= set(parsed(one._repr_html_()).texts)


def test_a_million_facts_have_a_small_display():
    keys = np.arange(1_000_000, dtype=np.int32)
    triples = np.column_stack([keys // 10, keys % 10, keys % 997])
    names = [Vocabulary.numbered(kind, size) for kind, size in (("k", 100_000), ("q", 10), ("v", 997))]
    html = Database(triples, *names)._repr_html_()
    parsed(html)
    assert "1,000,000 facts: 100,000 keys x 10 queries" in html
    assert "... and 999,992 more facts" in html


def test_the_terminal_prints_the_same_description(shown):
    console = Console(width=200, color_system=None, highlight=False)
    with console.capture() as capture:
        console.print(description_of(shown["Certificate"]))
    lines = " ".join(capture.get().split())
    cells = [text.strip() for text in parsed(html_of(shown["Certificate"])).texts if text.strip()]
    assert all(" ".join(cell.split()) in lines for cell in cells if cell not in "✓✗!")


def test_long_tables_are_cut_and_the_rest_is_counted():
    table = plain_table(("n", "number"))
    for number in range(30):
        table.add_row(str(number))
    assert "... and 10 more" in description_html(described(table))


def test_marks_and_leads_and_options():
    html = description_html(Description((Words("fine", "good"), Words("why", lead="storage", option=" (--json)"))))
    texts = parsed(html).texts
    assert "✓ " in texts
    assert {"storage", ": why"} <= set(texts)
    assert "--json" not in html


def test_an_unknown_object_shows_its_repr():
    class Own(Shown):
        def __repr__(self):
            return "<own>"

    assert "&lt;own&gt;" in Own()._repr_html_()


def test_a_subclass_is_shown_as_its_base(hostile):
    class Own(Database):
        pass

    own = Own(hostile.triples, *hostile.vocabularies)
    assert own._repr_html_() == hostile._repr_html_()


def test_models_with_missing_parts_have_a_repr(shown):
    import equinox as eqx

    dynamic, static = eqx.partition(shown["layer"], lambda _: False)
    assert "AttentionLayer" in repr(dynamic)
    assert repr(static) == repr(shown["layer"])
    assert "80 parameters" in repr(factrank.init_layer(factrank.LayerShape(4, 1, 2, 2), 5, 3, 4, key=0))
