"""What users' names and odd numbers look like in the terminal and in JSON."""

import json

from hypothesis import given
from hypothesis import strategies as st

from factrank.foreign_text import shown_name
from factrank.readouts.plain_data import percent
from factrank.report.plain_output import json_text, name_text


@given(st.text())
def test_shown_names_never_move_the_cursor(name):
    shown = shown_name(name, longest=None)
    assert not any(letter < " " or "\x7f" <= letter <= "\x9f" or letter in "\u2028\u2029\u202e" for letter in shown)
    assert name_text(name, longest=None).spans == []


@given(st.text(alphabet=st.characters(categories=["L", "N", "P", "S"])))
def test_ordinary_names_are_shown_as_they_are(name):
    assert shown_name(name, longest=None) == name
    assert len(shown_name(name)) <= 40


@given(st.integers(1, 10**7), st.data())
def test_all_facts_and_only_all_facts_are_100_per_cent(n_facts, data):
    right = data.draw(st.integers(0, n_facts))
    assert (percent(right / n_facts) == "100%") == (right == n_facts)
    assert (percent(right / n_facts) == "0.0%") == (right == 0)
    if right < n_facts and right / n_facts >= 0.001:
        assert 0 <= 100 * right / n_facts - float(percent(right / n_facts)[:-1]) + 1e-9 < 0.1 + 2e-9


def test_json_has_null_for_what_it_lacks():
    data = {"a": float("nan"), "b": [float("-inf"), 1.5, True], "c": {"d": (1, None, "x")}}
    assert json.loads(json_text(data)) == {"a": None, "b": [None, 1.5, True], "c": {"d": [1, None, "x"]}}
