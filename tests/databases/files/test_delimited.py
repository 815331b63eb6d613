"""Delimited text: Arrow's reading agrees with a record-by-record reading, and errors name lines."""

from __future__ import annotations

import csv
import itertools
import warnings
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from factrank.databases.columns import TableForm
from factrank.databases.database import Database
from factrank.databases.files.delimited import Delimited
from factrank.databases.files.formats import read
from factrank.databases.files.records import Dialect
from factrank.databases.source_files import SourceFile
from factrank.errors import ConflictError, InputError, InputWarning

thorough = settings(deadline=None, max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture])


def saved(folder: Path, text: str | bytes, name: str = "facts.csv") -> Path:
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def complaint(path: Path, **options: object) -> str:
    with pytest.raises(InputError) as caught:
        read(path, **options)  # type: ignore[arg-type]
    message = str(caught.value)
    assert message.startswith(str(path))
    return message.removeprefix(str(path))


# ---------------------------------------------------------------- the two readings agree

fields = st.text('a, "\n\r\té', max_size=4) | st.sampled_from(
    ["a", "b", "c", '"a"', '"a,b"', '"x\ny"', '"', '""""', 'a"b']
)
records = st.lists(fields, min_size=3, max_size=3) | st.lists(fields, max_size=5)
line_ends = st.sampled_from(["\n", "\r\n", "\n\n", "\r"])
tables = st.lists(st.tuples(records, line_ends), max_size=6).map(
    lambda rows: "".join(",".join(record) + end for record, end in rows)
)


def outcome(facts: object) -> object:
    """The database with its names in order, or the message of the error."""
    try:
        database = facts() if callable(facts) else facts
    except InputError as error:
        return str(error)
    assert isinstance(database, Database)
    return [tuple(vocabulary) for vocabulary in database.vocabularies], sorted(database), database.duplicates


@pytest.mark.parametrize(
    "form", [TableForm(), TableForm(header=False), TableForm(wide=True), TableForm(long=(3, 1, 2))], ids=str
)
@given(text=st.one_of(tables, tables.map(lambda table: "key,query,value\n" + table)))
@example(text='key,query,value\n1,2,"3\n4,5,6\n')
@example(text='key,query,value\n1,2,"3""')
@example(text='key,query,value\n1,"2"x,3"y"\n')
@example(text="\ufeffkey,query,value\r\n\r\na,b,c\r\n")
@example(text="a,b,c\n\ufeff1,2,3")
@thorough
def test_fast_and_slow_agree(tmp_path: Path, form: TableForm, text: str) -> None:
    path = saved(tmp_path, text)
    csv_format, source = Delimited(Dialect(",")), SourceFile(path, str(path))

    def slowly() -> Database:
        database = Database.from_facts((fact for _, fact in csv_format.placed(source, form)), multi=True)
        if not len(database):
            raise InputError(f"{path}: no facts")
        return database

    assert outcome(lambda: csv_format.read(source, form)) == outcome(slowly)


@pytest.mark.parametrize("quoted", [False, True])
def test_files_of_many_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, quoted: bool) -> None:
    monkeypatch.setattr("factrank.databases.files.text_blocks.BLOCK_BYTES", 64)
    facts = [(f"k{i % 17}", f"q{i % 5}", f"two\nlines {i % 85}" if quoted else f"v{i % 85}") for i in range(500)]
    with (tmp_path / "facts.csv").open("w", newline="") as file:
        csv.writer(file).writerows([("key", "query", "value"), *facts])
    database = read(tmp_path / "facts.csv")
    assert set(database) == set(facts)
    assert database.duplicates == 500 - 85
    assert tuple(database.keys) == tuple(dict.fromkeys(key for key, _, _ in facts))
    assert tuple(database.values) == tuple(dict.fromkeys(value for _, _, value in facts))


def test_fields_longer_than_the_csv_module_allows(tmp_path: Path) -> None:
    long_name = "x" * (csv.field_size_limit() + 1)
    path = saved(tmp_path, f"key,query,value\n{long_name},q,1\n{long_name},q,2\n")
    limit = csv.field_size_limit()
    with pytest.raises(ConflictError, match="line 3"):
        read(path)
    assert csv.field_size_limit() == limit


# ---------------------------------------------------------------- everything is text


def test_cells_stay_as_they_are(tmp_path: Path) -> None:
    cells = ["01", "1", "1.0", "NA", "null", "NaN", "true", " x", "x ", "-", "1e5", "2020-01-01", "#N/A", "'"]
    path = saved(tmp_path, "key,query,value\n" + "".join(f"k,{i},{cell}\n" for i, cell in enumerate(cells)))
    assert tuple(read(path).values) == tuple(cells)


def test_quotes_byte_order_mark_line_ends_and_blank_lines(tmp_path: Path) -> None:
    path = saved(tmp_path, '\ufeffkey,query,value\r\n\r\n"a ""b""",q,"x, y"\r\nc,q,"two\r\nlines"\r\n\r\n')
    assert set(read(path)) == {('a "b"', "q", "x, y"), ("c", "q", "two\r\nlines")}


def test_repeated_facts_are_counted(tmp_path: Path) -> None:
    assert read(saved(tmp_path, "key,query,value\na,b,c\na,b,c\na,b,c\n")).duplicates == 2


@pytest.mark.parametrize("name", ["facts.tsv", "facts.tab", "facts.txt"])
def test_tabs(tmp_path: Path, name: str) -> None:
    path = saved(tmp_path, 'head\trelation\ttail\na,b\tq\t"x\ty"\n', name)
    assert set(read(path)) == {("a,b", "q", "x\ty")}


# ---------------------------------------------------------------- which columns


@pytest.mark.parametrize(
    "header",
    [
        "KEY,Query,value",
        "subject,predicate,object",
        "subject,relation,object",
        "Subject,Relation,Answer",
        "head,relation,tail",
        "S,P,O",
    ],
)
def test_recognised_headers_in_any_order(tmp_path: Path, header: str) -> None:
    columns = header.split(",")
    for order in itertools.permutations(range(3)):
        names = ["year", *(columns[i] for i in order), "note"]
        cells = ["1990", *("kqv"[i] for i in order), ""]
        assert set(read(saved(tmp_path, f"{','.join(names)}\n{','.join(cells)}\n"))) == {("k", "q", "v")}


@pytest.mark.parametrize("long", [("c", "a", "d"), (3, 1, 4), ("3", "1", "4"), ("c", 1, "4")])
def test_columns_by_name_and_position(tmp_path: Path, long: tuple[str | int, ...]) -> None:
    assert set(read(saved(tmp_path, "a,b,c,d\nq,,k,v\n"), long=long, header=True)) == {("k", "q", "v")}


def test_a_name_goes_before_a_position(tmp_path: Path) -> None:
    path = saved(tmp_path, "3,2,1\nv,q,k\n")
    assert set(read(path, long=("1", "2", "3"))) == {("k", "q", "v")}
    assert set(read(path, long=(1, 2, 3), header=True)) == {("v", "q", "k")}


def test_without_a_header(tmp_path: Path) -> None:
    path = saved(tmp_path, "a\tq\tb\nc\tq\td\n", "facts.txt")
    assert set(read(path, header=False)) == {("a", "q", "b"), ("c", "q", "d")}
    assert set(read(path, header=False, long=(3, 2, 1))) == {("b", "q", "a"), ("d", "q", "c")}


@pytest.mark.filterwarnings("ignore::factrank.errors.InputWarning")
@pytest.mark.parametrize(
    ("text", "seen"),
    [
        ("a,q,b\nc,r,d\n\ne,q,f\n", "its query 'q' occurs again in line 4."),
        ("a,q,b\nc,r,d\n\na,s,f\n", "its key 'a' occurs again in line 4."),
        ("a,q,b\nc,r,b\n\ne,s,f\n", "its value 'b' occurs again in line 2."),
    ],
)
def test_a_header_does_not_swallow_a_fact(tmp_path: Path, text: str, seen: str) -> None:
    path = saved(tmp_path, text)
    message = complaint(path)
    assert message.startswith(": the first line looks like a fact: " + seen)
    assert "header=False (--no-header)" in message
    assert "header=True (--header)" in message
    assert seen in complaint(path, long=(1, 2, 3))
    below = {tuple(line.split(",")) for line in text.split()[1:]}
    assert set(read(path, long=("a", "q", "b"))) == below
    assert set(read(path, long=(1, 2, 3), header=True)) == below
    assert set(read(path, header=False)) == below | {("a", "q", "b")}


def warned(path: Path, **options: object) -> list[str]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        read(path, **options)  # type: ignore[arg-type]
    assert all(warning.category is InputWarning for warning in caught)
    return [str(warning.message).removeprefix(f"{path}: ") for warning in caught]


def test_a_guess_is_reported_until_it_is_none(tmp_path: Path) -> None:
    """Neither the first fact of a file without a header nor a wide table of three columns is lost unnoticed."""
    path = saved(tmp_path, "Oslo,capital_of,Norway\nLima,seat_of,Peru\n")
    line, form = warned(path)
    assert line.startswith("line 1 is taken as the header ('Oslo', 'capital_of', 'Norway'), not as a fact")
    assert "--no-header" in line
    assert form.startswith("read as long, one fact per row, with the key in 'Oslo', the query in 'capital_of'")
    assert "--wide" in form
    assert warned(path, header=True) == [form]
    assert warned(path, long=(1, 2, 3)) == [line]
    for options in (
        {"header": False},
        {"wide": True},
        {"long": (1, 2, 3), "header": True},
        {"long": ("Oslo", "capital_of", "Norway")},
    ):
        assert warned(path, **options) == []
    assert warned(saved(tmp_path, "head,relation,tail\na,b,c\n")) == []


def test_columns_that_cannot_be_told(tmp_path: Path) -> None:
    path = saved(tmp_path, "a,b,c,d\n1,2,3,4\n")
    message = complaint(path)
    for part in (
        "'a', 'b', 'c', 'd'",
        'long=("KEY", "QUERY", "VALUE")',
        "--long KEY QUERY VALUE",
        "wide=True (--wide)",
    ):
        assert part in message
    assert complaint(path, long=("a", "b", "x")) == ": no column 'x'; the columns are 'a', 'b', 'c', 'd'"
    assert complaint(path, long=(1, 2, 5)).startswith(": no column 5;")
    assert "three different columns" in complaint(path, long=("a", "b", 1))
    assert "cannot tell" in complaint(saved(tmp_path, "a,b\n1,2\n"))
    assert "cannot tell" in complaint(saved(tmp_path, "s,p,o,head,relation,tail\n1,2,3,4,5,6\n"))
    assert complaint(saved(tmp_path, "a,b,a\n1,2,3\n")) == ": two columns are named 'a'"


# ---------------------------------------------------------------- what is wrong, and where

UNCLOSED = (
    "a quote in this record is never closed; if quotes are ordinary characters in this file, pass "
    "quotes=False (--no-quotes)"
)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("key,query,value\n\na,b,c\na,,c\n", ", line 4: empty cell in column 'query'"),
        ('key,query,value\n"x\ny",b,c\n"",b,c\n', ", line 4: empty cell in column 'key'"),
        ("key,query,value\na,b,c\na,b\n", ", line 3: expected 3 fields, found 2"),
        ("key,query,value\na,b,c\na,b,c,d\n", ", line 3: expected 3 fields, found 4"),
        ('key,query,value\na,b,c\nd,e,"f\ng,h,i\n', ", line 3: " + UNCLOSED),
        ('key,query,value\na,b,c\nd,e,"', ", line 3: " + UNCLOSED),
        ('"key,query,value\na,b,c\n', ", line 1: " + UNCLOSED),
        ("key,query,value\n", ": no facts"),
        ("key,query,value", ": no facts"),
        ("\n\n", ": the file is empty"),
    ],
)
def test_errors_name_the_line(tmp_path: Path, text: str, message: str) -> None:
    assert complaint(saved(tmp_path, text)) == message


def test_errors_beyond_the_first_block_name_the_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("factrank.databases.files.text_blocks.BLOCK_BYTES", 64)
    good = "".join(f"k{i},q,v\n" for i in range(100))
    assert complaint(saved(tmp_path, f"key,query,value\n{good}x,q,\n")) == ", line 102: empty cell in column 'value'"
    assert complaint(saved(tmp_path, f"key,query,value\n{good}x,q\n")) == ", line 102: expected 3 fields, found 2"
    assert ", line 102: a quote in this record" in complaint(saved(tmp_path, f'key,query,value\n{good}x,q,"v\n{good}'))


def test_a_record_longer_than_a_block(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("factrank.databases.files.text_blocks.BLOCK_BYTES", 64)
    assert "block" in complaint(saved(tmp_path, f"key,query,value\n{'x' * 500},q,v\n"))


# ---------------------------------------------------------------- wide


def test_wide_files(tmp_path: Path) -> None:
    path = saved(tmp_path, ",born,city,note\nAnn,01,Oslo,\nBob,,Lima,\nAnn,,Oslo,\n")
    database = read(path, wide=True)
    assert sorted(database) == [("Ann", "born", "01"), ("Ann", "city", "Oslo"), ("Bob", "city", "Lima")]
    assert tuple(database.values) == ("01", "Oslo", "Lima")
    assert tuple(database.queries) == ("born", "city")
    assert database.duplicates == 1


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("name\nAnn\n", ": the wide form needs a key column and at least one query; found 'name'"),
        ("name,born,born\nAnn,1,2\n", ": two columns are named 'born'"),
        ("name,born,\nAnn,1,2\n", ": column 3 has no name; in the wide form it names a query"),
        ("name,born\nAnn,1\n,2\n", ", line 3: empty cell in the key column 'name'"),
        ("name,born\nAnn,1\nBob\n", ", line 3: expected 2 fields, found 1"),
        ("name,born\nAnn,\n", ": no facts"),
    ],
)
def test_wide_errors(tmp_path: Path, text: str, message: str) -> None:
    assert complaint(saved(tmp_path, text), wide=True) == message


def test_wide_conflicts(tmp_path: Path) -> None:
    path = saved(tmp_path, "name,born,city\nAnn,1,x\nBob,2,y\nAnn,3,x\n")
    with pytest.raises(ConflictError, match=r"line 2: \(Ann, born, 1\)\n  line 4: \(Ann, born, 3\)\n.*--multi"):
        read(path, wide=True)
