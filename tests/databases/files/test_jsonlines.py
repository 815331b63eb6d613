"""JSON Lines: cells as text, columns by field, errors by line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from factrank.databases.database import Database
from factrank.databases.files.formats import read, write
from factrank.errors import InputError, InputWarning


def saved(folder: Path, *lines: str) -> Path:
    path = folder / "facts.jsonl"
    path.write_text("\n".join(lines), encoding="utf-8")
    return path


def test_numbers_keep_their_text(tmp_path: Path) -> None:
    texts = ["2", "2.0", "1e5", "-0", "0.1000", "123456789012345678901234567890", "1E400", "true", "false"]
    path = saved(tmp_path, *(f'{{"key": "k", "query": {i}, "value": {text}}}' for i, text in enumerate(texts)))
    assert tuple(read(path).values) == tuple(texts)


def test_a_number_and_its_text_are_one_value(tmp_path: Path) -> None:
    path = saved(tmp_path, '{"s": 1, "p": "q", "o": 2}', "", '{"o": "2", "p": "q", "s": "1", "note": [1]}')
    database = read(path)
    assert set(database) == {("1", "q", "2")}
    assert database.duplicates == 1


def test_columns_by_position_are_those_of_the_first_object(tmp_path: Path) -> None:
    path = saved(tmp_path, '{"a": "k", "b": "q", "c": "v"}', '{"c": "w", "b": "q", "a": "l"}')
    with pytest.warns(InputWarning, match="read as long, one fact per row, with the key in 'a'"):
        assert set(read(path)) == {("k", "q", "v"), ("l", "q", "w")}
    assert set(read(path, long=("c", "b", "a"))) == {("v", "q", "k"), ("w", "q", "l")}


def test_wide_objects(tmp_path: Path) -> None:
    path = saved(
        tmp_path, '{"name": "Ann", "born": 1990}', '{"city": "Lima", "name": "Bob", "born": null}', '{"name": "Eve"}'
    )
    assert sorted(read(path, wide=True)) == [("Ann", "born", "1990"), ("Bob", "city", "Lima")]


def test_wide_writing_leaves_out_what_is_not_there(tmp_path: Path) -> None:
    write(Database.from_facts([("Ann", 'a"b', "1"), ("Bob", "key", "2")]), tmp_path / "facts.jsonl", wide=True)
    objects = [json.loads(line) for line in (tmp_path / "facts.jsonl").read_text().splitlines()]
    assert objects == [{"key_": "Ann", 'a"b': "1"}, {"key_": "Bob", "key": "2"}]


GOOD = '{"key": "k", "query": "q", "value": "v"}'


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "not JSON: Expecting property name enclosed in double quotes at column 2"),
        (GOOD + GOOD, "not JSON: Extra data"),
        ('{"key": NaN}', "not JSON: NaN"),
        ("[1, 2, 3]", r"expected a JSON object, found '\[1, 2, 3\]'"),
        ('"text"', "expected a JSON object"),
        ('{"key": "k", "query": "q"}', "no field 'value'; the fields are 'key', 'query'"),
        ('{"key": "k", "query": "q", "value": null}', "empty cell in column 'value'"),
        ('{"key": "", "query": "q", "value": "v"}', "empty cell in column 'key'"),
        ('{"key": "k", "query": "q", "value": ["v"]}', "the cell in column 'value' is nested"),
        ('{"key": {"k": 1}, "query": "q", "value": "v"}', "the cell in column 'key' is nested"),
        ('{"key": "k", "query": "q", "value": "a", "value": "b"}', "two fields of the object have the same name"),
        ('{"key": "k", "query": "q", "value": "\\ud800"}', "half of a surrogate pair"),
        ('{"key": "k", "\\udc00": "q", "value": "v"}', "half of a surrogate pair"),
        ("[" * 100_000, "nested too deeply"),
        ('{"key":' * 100_000, "nested too deeply"),
    ],
)
def test_errors_name_the_line(tmp_path: Path, line: str, message: str) -> None:
    path = saved(tmp_path, GOOD, "", line)
    with pytest.raises(InputError, match=rf"facts\.jsonl, line 3: {message}"):
        read(path)


def test_surrogate_pairs_are_text(tmp_path: Path) -> None:
    path = saved(tmp_path, '{"key": "k", "query": "q", "value": "\\ud83d\\ude00"}')
    assert tuple(read(path).values) == ("\U0001f600",)


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (['{"a": 1, "b": 2}'], "cannot tell which of the columns 'a', 'b'"),
        (["", " "], "the file is empty"),
        (["{}"], "cannot tell"),
    ],
)
def test_files_without_facts(tmp_path: Path, lines: list[str], message: str) -> None:
    with pytest.raises(InputError, match=message):
        read(saved(tmp_path, *lines))


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"born": 1}', "line 2: no field 'name'"),
        ('{"name": null}', "line 2: empty cell in column 'name'"),
        ('{"name": "Bob", "born": {}}', "line 2: the cell in column 'born' is nested"),
    ],
)
def test_wide_errors(tmp_path: Path, line: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        read(saved(tmp_path, '{"name": "Ann", "born": 1}', line), wide=True)
