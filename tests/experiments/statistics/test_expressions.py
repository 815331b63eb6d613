"""Arithmetic on columns against NumPy, and against what it was without brackets."""

from __future__ import annotations

from operator import add, mul, sub, truediv

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from factrank.errors import InputError
from factrank.experiments.columns.labels import label
from factrank.experiments.statistics.expressions import columns_in, numbers, values

COLUMNS = {
    "a": np.array([1.0, -2.0, 0.0, 3.5]),
    "model.d_vo": np.array([1.0, 2.0, 4.0, 8.0]),
    "b-c": np.array([0.1, np.nan, 1e200, -7.0]),
    "least margin": np.array([2.0, 3.0, -1e-300, 5.0]),
    "recall_0.95": np.array([1.0, 1.0, 0.25, 0.5]),
    "log": np.array([0.5, 0.25, 3.0, 9.0]),
}
TABLE = pa.table(COLUMNS)
SIGNS = {"+": add, "-": sub, "*": mul, "/": truediv}

columns = st.sampled_from(list(COLUMNS)).map(lambda name: (name, COLUMNS[name], [name]))
constants = st.sampled_from(["0", "2", "1e-3", "-1", "0.5"]).map(lambda text: (text, np.full(4, float(text)), []))


def joined(one, sign, other):
    return f"({one[0]}) {sign} ({other[0]})", SIGNS[sign](one[1], other[1]), one[2] + other[2]


def larger(parts):
    return (
        st.builds(joined, parts, st.sampled_from(list(SIGNS)), parts)
        | parts.map(lambda part: (f"-({part[0]})", -part[1], part[2]))
        | parts.map(lambda part: (f"- ( {part[0]} )", -part[1], part[2]))
        | parts.map(lambda part: (f"log({part[0]})", np.log(part[1]), part[2]))
        | parts.map(lambda part: (f"-sqrt( {part[0]})", -np.sqrt(part[1]), part[2]))
    )


@pytest.fixture(autouse=True)
def quiet():
    with np.errstate(all="ignore"):
        yield


@given(data=st.data())
@settings(deadline=None)
def test_random_expressions_are_those_of_numpy(data):
    with np.errstate(all="ignore"):
        text, expected, names = data.draw(st.recursive(columns | constants, larger, max_leaves=12))
    expected = np.where(np.isfinite(expected), expected, np.nan)
    np.testing.assert_array_equal(numbers(TABLE, text), expected)
    assert columns_in(text) == names


@given(
    first=columns | constants, others=st.lists(st.tuples(st.sampled_from(list(SIGNS)), columns | constants), max_size=8)
)
@settings(deadline=None)
def test_without_brackets_it_is_a_sum_of_products_from_left_to_right(first, others):
    """Term by term, as it was computed before there were brackets: the same bits."""
    text = " ".join([first[0], *(f"{sign} {part[0]}" for sign, part in others)])
    total, product, outer = np.zeros(4), first[1], 1
    with np.errstate(all="ignore"):
        for sign, (_, column, _) in others:
            if sign in "*/":
                product = SIGNS[sign](product, column)
            else:
                total, product, outer = total + outer * product, column, 1 if sign == "+" else -1
        total = total + outer * product
    expected = np.where(np.isfinite(total), total, np.nan)
    found = numbers(TABLE, text)
    np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(np.signbit(found), np.signbit(expected))


@given(st.text(alphabet="ab-+*/()_. 0e1[]{}:,'=logsqrt\n", max_size=24))
@settings(deadline=None)
def test_any_text_is_computed_or_refused(text):
    try:
        found = numbers(TABLE, text)
    except InputError:
        return
    assert found.shape == (4,)


def test_nothing_is_executed(tmp_path):
    mark = tmp_path / "executed"
    for call in (f"open('{mark}', 'w')", f"__import__('pathlib').Path('{mark}').touch()", "(lambda: 1)()", "a.real"):
        for text in (call, f"1 + {call}", f"log({call})", f"-{call}", f"({call})"):
            with pytest.raises(InputError):
                numbers(TABLE, text)
    assert not mark.exists()


def test_expressions_have_at_most_two_hundred_words():
    assert numbers(TABLE, "a" + " + a" * 99).tolist() == [100.0, -200.0, 0.0, 350.0]
    assert numbers(TABLE, "(" * 99 + "a" + ")" * 99).tolist() == COLUMNS["a"].tolist()
    for text in ("a" + " + a" * 100, "a" + " + a" * 50_000, "(" * 100 + "a" + ")" * 100, "- " * 50_000 + "a"):
        with pytest.raises(InputError, match=r"neither a column nor valid arithmetic; .*; at most 200 terms"):
            columns_in(text)


def test_values_and_labels_of_expressions():
    assert values(TABLE, "sqrt(model.d_vo * 4 / (model.d_vo))") == [2] * 4
    assert values(TABLE, "log(a - a)") == [None] * 4
    assert label("log(model.d_vo) / (1 + data.n_keys)") == "log(d_vo) / (1 + n_keys)"
    assert label("-log(loss)") == "-log(loss)"
