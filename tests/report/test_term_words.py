"""Terms in words, and the words in the terminal table."""

import io
from dataclasses import replace

import numpy as np
from rich.console import Console

from factrank.databases.database import Database
from factrank.databases.sample_tables import sample
from factrank.report.measurement_tables import measurement_table, samples_table, skipped_table
from factrank.report.term_words import terms_in_words
from factrank.tensors.bounds.certified_bounds import Bound, Estimate, RankBounds
from factrank.tensors.core.decomposition import Decomposition, Factor
from factrank.tensors.measurement import measure


def printed(renderable):
    console = Console(file=io.StringIO(), width=100, highlight=False)
    console.print(renderable)
    return console.file.getvalue()


def test_weights_signs_and_denominators():
    database = Database.from_facts([("a", "q", "x"), ("b", "q", "y")])
    first = Factor(np.array([0, 1]), np.array([0, 0]), np.array([1, -2]))
    second = Factor(np.array([0]), np.array([0]), np.array([1]))
    third = Factor(np.array([0]), np.array([0]), np.array([-1]))
    terms = Decomposition((first, second, third), np.array([3]))
    assert terms_in_words(terms, database) == ["1/3 (a - 2 b) x q x (-x)"]


def test_long_lists_are_cut():
    database = sample("countries")
    lines = terms_in_words(measure(database, 0.5).rank.upper.witness(), database, most=5)
    assert len(lines) == 6
    assert lines[-1] == "... and 1132 more terms"


def test_table_shows_counts_bits_and_brackets():
    text = printed(measurement_table("astrid", measure(sample("astrid"))))
    for words in ("8 facts: 5 keys x 3 queries -> 4 values", "functional, not full", "16.0 bits", "U7 reference value"):
        assert words in text


def test_table_shows_an_estimate_as_not_proved():
    measurement = measure(sample("astrid"))
    open_rank = RankBounds(Bound(4, "low"), Bound(9, "high"), Estimate(6, "CP, numerical", 1e-13))
    text = printed(measurement_table("astrid", replace(measurement, rank=open_rank)))
    assert "~ 6, not proved: CP, numerical" in text


def test_table_names_another_functional_view():
    view = sample("astrid").view("value", "query", "key")
    text = printed(measurement_table("turned", measure(view)))
    assert "multi-valued" in text
    assert "(query, value) determine the key" in text


def test_duplicates_are_shown():
    database = Database.from_facts([("a", "q", "x")] * 3)
    assert "2 exact duplicates dropped" in printed(measurement_table("doubled", measure(database)))


def test_skipped_and_samples():
    assert "the bounds already meet" in printed(skipped_table(measure(sample("astrid"))))
    assert "sample:elements" in printed(samples_table())
