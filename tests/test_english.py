"""`tools/english` counts constructions in docstrings, comments and pages, and nothing in code."""

import importlib.machinery
import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

ENGLISH = Path(__file__).parents[1] / "tools" / "english"
SOURCE = '''"""What it holds: beside the facts, nothing."""

beside = "beside, so that"  # beside
# A comment that
# stands on two lines, where it may.


def share():
    """The share of `share`.

    Returns it if asked.

    >>> print("beside")
    beside
    """
'''


@pytest.fixture(scope="module")
def english():
    loader = importlib.machinery.SourceFileLoader("english", str(ENGLISH))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("english", loader))
    sys.dont_write_bytecode, before = True, sys.dont_write_bytecode
    try:
        loader.exec_module(module)
    finally:
        sys.dont_write_bytecode = before
    return module


@pytest.fixture
def source(tmp_path):
    path = tmp_path / "module.py"
    path.write_text(SOURCE)
    return path


def test_prose_is_counted_and_code_is_not(english, source):
    found = {name: number for name, number in english.count([source]).items() if number}
    assert found == {
        "words": 26,
        "functions": 1,
        english.NOUN_FIRST: 1,
        "What ... (sentence start)": 1,
        "holds": 1,
        "beside": 2,
        "nothing, nobody": 1,
        "stands, lies": 1,
        "where (often for if)": 1,
        "share (fraction)": 1,
        "says, asks": 1,
        "if": 1,
        "returns": 1,
    }


def test_pages_are_counted_without_code_and_addresses(english, tmp_path):
    page = tmp_path / "page.md"
    page.write_text("# Facts\n\nBeside [facts](beside.md), `beside` and $beside$:\n\n```python\nbeside()\n```\n")
    assert english.written_files([tmp_path]) == [page]
    found = english.count([page])
    assert (found["words"], found["beside"]) == (7, 1)
    assert [line.partition(": ")[0] for line in english.marked_lines([page])] == [f"{page}:3"]


def test_lines_are_named(english, source):
    places = [line.split(": ")[:2] for line in english.marked_lines([source])]
    assert [f"{source}:5", "stands, lies"] in places
    assert [f"{source}:9", "share (fraction)"] in places
    assert len(places) == 9


@pytest.mark.parametrize(
    ("name", "ours", "theirs", "outside"),
    [
        ("beside", 0.2, [0.1, 0.0], False),
        ("beside", 0.21, [0.1, 0.0], True),
        ("beside", 0.1, [0.0, 0.0], False),
        ("if", 3.0, [9.0, 6.0], False),
        ("if", 2.9, [9.0, 6.0], True),
        ("if", 90.0, [9.0, 6.0], False),
    ],
)
def test_factor_of_two(english, name, ours, theirs, outside):
    assert english.is_outside(name, ours, theirs) is outside


def test_the_program_prints_a_row_per_construction(english, source):
    run = subprocess.run([sys.executable, ENGLISH, source], capture_output=True, text=True, check=True)
    rows = run.stdout.splitlines()
    assert len(rows) == 2 + len(english.RECORDED)
    assert any(row.split() == ["beside", "76.92", "0.04", "0.04", "1923.1", "*"] for row in rows)


@pytest.mark.parametrize("pages", [["README.md"], ["CONTRIBUTING.md"], ["docs"]], ids=lambda pages: pages[0])
def test_pages_are_within_a_factor_of_two(english, pages):
    found = english.rates(english.count(english.written_files([ENGLISH.parents[1] / page for page in pages])))
    assert not english.is_outside("all of these", found["all of these"], english.RECORDED["all of these"])
