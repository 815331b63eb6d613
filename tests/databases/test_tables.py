"""Tables: Arrow, polars and pandas in and out, typed cells as text, errors by row and column."""

from __future__ import annotations

import datetime as dt
import decimal
import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from factrank.databases.database import Database
from factrank.databases.files.formats import read, write
from factrank.databases.tables import from_table, to_table
from factrank.errors import ConflictError, InputError

FACTS = {("Ann", "city", "Oslo"), ("Ann", "born", "1990"), ("Bob", "city", "Lima")}
COLUMNS = {"key": ["Ann", "Ann", "Bob"], "query": ["city", "born", "city"], "value": ["Oslo", "1990", "Lima"]}
WIDE = {"name": ["Ann", "Bob"], "city": ["Oslo", "Lima"], "born": [1990, None]}


class Stream:
    """The least a table must offer."""

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return pa.table(COLUMNS).__arrow_c_stream__(requested_schema)


TABLES: dict[str, Any] = {
    "arrow": lambda: pa.table(COLUMNS),
    "batch": lambda: pa.RecordBatch.from_pydict(COLUMNS),
    "reader": lambda: pa.table(COLUMNS).to_reader(),
    "chunks": lambda: pa.concat_tables([pa.table(COLUMNS).slice(i, 1) for i in range(3)]),
    "dictionaries": lambda: (
        pa.concat_tables([pa.table(COLUMNS).slice(i, 1) for i in range(3)]).to_pandas().astype("category")
    ),
    "polars": lambda: pl.DataFrame(COLUMNS),
    "polars categories": lambda: pl.DataFrame(COLUMNS).cast(pl.Categorical),
    "polars chunks": lambda: pl.concat([pl.DataFrame(COLUMNS), pl.DataFrame(COLUMNS)], rechunk=False),
    "pandas": lambda: pd.DataFrame(COLUMNS),
    "pandas objects": lambda: pd.DataFrame(COLUMNS).astype(object),
    "pandas filtered": lambda: pd.DataFrame(COLUMNS, index=[7, 3, 5]),
    "stream": Stream,
}


@pytest.mark.parametrize("kind", TABLES)
def test_tables_of_every_library(kind: str) -> None:
    database = from_table(TABLES[kind]())
    assert set(database) == FACTS
    assert tuple(database.keys) == ("Ann", "Bob")
    assert tuple(database.values) == ("Oslo", "1990", "Lima")


@pytest.mark.parametrize("make", [pa.table, pl.DataFrame, pd.DataFrame])
def test_wide_tables_of_every_library(make: Any) -> None:
    assert set(from_table(make(WIDE), wide=True)) == FACTS


def test_out_to_every_library_and_back() -> None:
    database = Database.from_facts(FACTS)
    for wide in (False, True):
        table = to_table(database, wide=wide)
        frame = pl.from_arrow(table)
        assert isinstance(frame, pl.DataFrame)
        assert set(frame.dtypes) == {pl.String}
        assert all(pd.api.types.is_string_dtype(kind) for kind in table.to_pandas().dtypes)
        for again in (table, frame, table.to_pandas()):
            assert from_table(again, wide=wide) == database


names = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=5)


@given(facts=st.dictionaries(st.tuples(names, names), names, min_size=1, max_size=20))
@settings(deadline=None, max_examples=100)
def test_tables_hold_the_same_facts(facts: dict[tuple[str, str], str]) -> None:
    database = Database.from_facts((key, query, value) for (key, query), value in facts.items())
    assert from_table(to_table(database)) == database
    assert from_table(to_table(database, wide=True), wide=True) == database


def test_unused_names_are_not_facts() -> None:
    database = Database.from_facts(FACTS).select(keys=["Bob"], compact=False)
    assert to_table(database, wide=True).to_pylist() == [{"key": "Bob", "city": "Lima"}]


def test_wide_order_of_appearance_is_by_row() -> None:
    database = from_table(pa.table({"k": ["a", "b"], "q": ["1", "2"], "r": ["3", "1"]}), wide=True)
    assert tuple(database.values) == ("1", "3", "2")


# ---------------------------------------------------------------- cells as text


def text_of(column: Any) -> list[str]:
    """The values that a column of cells becomes, in order, in the wide form; "" where there is none."""
    keys = pa.array([str(i) for i in range(len(column))])
    database = from_table(pa.table({"key": keys, "q": column, "all": keys}), wide=True)
    values = {key: value for key, query, value in database if query == "q"}
    return [values.get(key, "") for key in keys.to_pylist()]


@pytest.mark.parametrize(
    ("column", "text"),
    [
        (pa.array([2, -1, None]), ["2", "-1", ""]),
        (pa.array([255], pa.uint8()), ["255"]),
        (
            pa.array([2.0, 2.5, float("nan"), None, -0.0, 0.1, 1e15, 1e300]),
            ["2", "2.5", "", "", "0", "0.1", "1000000000000000", "1e+300"],
        ),
        (pa.array([2.0, 0.1], pa.float32()), ["2", "0.1"]),
        (pa.array([np.float16(2), np.float16(1.5)]), ["2", "1.5"]),
        (pa.array([float("inf")]), ["inf"]),
        (pa.array([True, False, None]), ["true", "false", ""]),
        (pa.array(["", "x", None], pa.string_view()), ["", "x", ""]),
        (pa.array(["01", "NA", "null", "2.0"], pa.large_string()), ["01", "NA", "null", "2.0"]),
        (pa.array([b"x", "é".encode()]), ["x", "é"]),
        (pa.array([b"ab"], pa.binary(2)), ["ab"]),
        (pa.array([None, None]), ["", ""]),
        (pa.array([decimal.Decimal("2.50")]), ["2.50"]),
        (pa.array([dt.date(2020, 1, 31)]), ["2020-01-31"]),
        (pa.array([dt.time(1, 2, 3)]), ["01:02:03"]),
        (
            pa.array([dt.datetime(2020, 1, 2, 3, 4, 50), dt.datetime(2020, 1, 2, 3, 4, 5, 60)]),
            ["2020-01-02T03:04:50", "2020-01-02T03:04:05.00006"],
        ),
        (pa.array([dt.datetime(2020, 1, 2)], pa.timestamp("ns", "UTC")), ["2020-01-02T00:00:00Z"]),
        (pa.array([dt.datetime(2020, 1, 2)], pa.timestamp("s", "Europe/Paris")), ["2020-01-02T01:00:00+01:00"]),
        (pa.array([1.0, 2.0, 1.0]).dictionary_encode(), ["1", "2", "1"]),
        (pa.DictionaryArray.from_arrays(pa.array([0, 1, 2], pa.int8()), pa.array(["x", None, ""])), ["x", "", ""]),
        (pa.DictionaryArray.from_arrays(pa.array([1, 0, None]), pa.array([0.0, -0.0])), ["0", "0", ""]),
        (pc.run_end_encode(pa.array([1, 1, 2])), ["1", "1", "2"]),
    ],
    ids=lambda case: str(case.type) if isinstance(case, pa.Array) else "",
)
def test_cells_become_text(column: pa.Array, text: list[str]) -> None:
    assert text_of(column) == text
    assert text_of(pa.chunked_array([column, column])) == text * 2


def test_an_integer_column_with_gaps_keeps_its_integers() -> None:
    frame = pd.DataFrame({"name": ["Ann", "Bob"], "born": [1990, None], "year": ["1990", "x"]})
    database = from_table(frame, wide=True)
    assert frame["born"].dtype == np.float64
    assert database.fiber("Ann", "born") == database.fiber("Ann", "year") == ("1990",)


@pytest.mark.parametrize(
    "column",
    [
        pa.array([["v"]]),
        pa.array([{"a": 1}]),
        pa.array([dt.timedelta(1)]),
        pa.array([b"\xff"]),
        pa.Array.from_buffers(pa.string(), 1, [None, pa.py_buffer(np.array([0, 1], np.int32)), pa.py_buffer(b"\xff")]),
    ],
    ids=lambda column: str(column.type),
)
def test_cells_that_are_not_text_name_their_column(tmp_path: Path, column: pa.Array) -> None:
    table = pa.table({"key": ["a"], "query": ["b"], "value": column})
    with pytest.raises(InputError, match=rf"^table: column 'value': cells of type {re.escape(str(column.type))}"):
        from_table(table)
    pq.write_table(table, tmp_path / "facts.parquet")
    if not pa.types.is_duration(column.type):  # which Parquet keeps as an integer
        with pytest.raises(InputError, match=r"facts\.parquet: column 'value': cells of type"):
            read(tmp_path / "facts.parquet")


@pytest.mark.parametrize("code", [2, -1])
def test_codes_beyond_their_dictionary_are_an_error(code: int) -> None:
    damaged = pa.DictionaryArray.from_arrays(pa.array([0, code]), pa.array(["x", "y"]), safe=False)
    table = pa.table({"key": ["a", "b"], "query": ["q", "q"], "value": damaged})
    with pytest.raises(InputError, match=r"^table: column 'value': cells of type .* are damaged"):
        from_table(table)


# ---------------------------------------------------------------- errors


@pytest.mark.parametrize("cell", [None, ""])
def test_empty_cells_name_row_and_column(cell: str | None) -> None:
    table = pa.table({"value": ["v", "v", "v"], "query": ["q", "q", cell], "key": ["k", cell, "k"]})
    with pytest.raises(InputError, match=r"^table, row 2: empty cell in column 'key'$"):
        from_table(table)
    with pytest.raises(InputError, match=r"^table, row 2: empty cell in the key column 'key'$"):
        from_table(table.select(["key", "value"]), wide=True)


def test_tables_without_facts() -> None:
    for table in (pa.table(COLUMNS).slice(0, 0), pa.table({name: pa.array([], pa.string()) for name in COLUMNS})):
        with pytest.raises(InputError, match=r"^table: no facts$"):
            from_table(table)
    with pytest.raises(InputError, match=r"^table: no facts$"):
        from_table(pa.table({"key": ["a"], "q": [None]}), wide=True)


def test_conflicts_name_their_rows() -> None:
    table = pa.table({"key": ["a", "b", "a"], "query": ["q", "q", "q"], "value": ["1", "2", "3"]})
    with pytest.raises(ConflictError, match=r"row 1: \(a, q, 1\)\n  row 3: \(a, q, 3\)\n.*--multi"):
        from_table(table)
    assert from_table(table, multi=True).fiber("a", "q") == ("1", "3")


def test_the_index_of_a_pandas_frame_is_not_lost_in_silence() -> None:
    frame = pd.DataFrame(WIDE)
    for indexed in (frame.set_index("name"), frame.set_index(["name", "city"]), frame.set_axis(["x", "y"])):
        with pytest.raises(InputError, match=r"reset_index\(\)"):
            from_table(indexed, wide=True)
    assert set(from_table(frame.set_index("name").reset_index(), wide=True)) == FACTS


@pytest.mark.parametrize(
    "table",
    [
        5,
        "facts.csv",
        [("a", "b", "c")],
        {"key": ["a"]},
        pl.Series([1, 2]),
        pd.Series([1, 2]),
        pd.DataFrame({"key": pd.Series(["\ud800"], dtype=object), "query": ["q"], "value": ["x"]}),
        pd.DataFrame([[1, 2, 3]], columns=["a", "a", "b"]),
    ],
    ids=lambda table: type(table).__module__ + "." + type(table).__name__,
)
def test_what_is_not_a_table(table: object) -> None:
    with pytest.raises(InputError, match=r"^table: not an Arrow, polars or pandas table"):
        from_table(table)


def test_columns_of_tables() -> None:
    table = pa.table([["k"], ["q"], ["v"], ["w"]], names=["a", "b", "c", "d"])
    assert set(from_table(table, long=("a", 2, "d"))) == {("k", "q", "w")}
    with pytest.raises(InputError, match=r"^table: cannot tell which of the columns 'a', 'b', 'c', 'd'"):
        from_table(table)
    with pytest.raises(InputError, match=r"^table: two columns are named 'a'"):
        from_table(table.rename_columns(["a", "b", "c", "a"]))
    with pytest.raises(InputError, match="wide form has one value"):
        to_table(Database.from_facts([("a", "b", "c"), ("a", "b", "d")], multi=True), wide=True)


# ---------------------------------------------------------------- Parquet


def test_typed_parquet(tmp_path: Path) -> None:
    pl.DataFrame({"head": [1, 2], "relation": ["q", "r"], "tail": [2.0, 2.5], "note": [[1], [2]]}).write_parquet(
        tmp_path / "facts.pq"
    )
    assert set(read(tmp_path / "facts.pq")) == {("1", "q", "2"), ("2", "r", "2.5")}


def test_parquet_files_hold_plain_strings(tmp_path: Path) -> None:
    write(Database.from_facts(FACTS), tmp_path / "facts.parquet")
    assert set(pl.read_parquet(tmp_path / "facts.parquet").dtypes) == {pl.String}
    assert set(pl.read_parquet(tmp_path / "facts.parquet").rows()) == FACTS


def test_parquet_columns_and_row_groups(tmp_path: Path) -> None:
    table = pa.table(
        {"a": [f"k{i}" for i in range(100)], "b": ["q"] * 100, "c": [str(i % 7) for i in range(100)], "d": range(100)}
    )
    pq.write_table(table, tmp_path / "facts.parquet", row_group_size=9)
    database = read(tmp_path / "facts.parquet", long=("a", "b", "c"))
    assert set(database) == {(f"k{i}", "q", str(i % 7)) for i in range(100)}
    assert tuple(database.keys) == tuple(f"k{i}" for i in range(100))
    with pytest.raises(InputError, match=r"facts\.parquet: cannot tell which"):
        read(tmp_path / "facts.parquet")


def test_empty_cells_in_parquet(tmp_path: Path) -> None:
    pq.write_table(pa.table({"key": ["a", "b"], "query": ["q", None], "value": ["v", "w"]}), tmp_path / "facts.pq")
    with pytest.raises(InputError, match=r"facts\.pq, row 2: empty cell in column 'query'"):
        read(tmp_path / "facts.pq")


def test_pandas_columns_of_mixed_objects_are_text() -> None:
    frame = pd.DataFrame(
        {
            "key": [2, "2", 2.0, True],
            "query": list("abcd"),
            "value": pd.Series([1, "01", 0.5, np.float64(3)], dtype=object),
        }
    )
    assert set(from_table(frame)) == {("2", "a", "1"), ("2", "b", "01"), ("2", "c", "0.5"), ("true", "d", "3")}
    with pytest.raises(InputError, match="list"):
        from_table(frame.assign(value=pd.Series([1, "01", [0], 3], dtype=object)))
    for gap in (float("nan"), None, pd.NA, pd.NaT):
        with pytest.raises(InputError, match="row 2: empty cell"):
            from_table(frame.assign(value=pd.Series([1, gap, "x", True], dtype=object)))
    numbered = frame.set_axis([1, 2, 3], axis=1)
    assert from_table(numbered, long=(1, 2, 3)) == from_table(frame)


def test_mixed_and_typed_columns_spell_numbers_alike() -> None:
    for number in (1e300, 2.0**53, 2.0**53 + 2, -(2.0**60), 1e16, 0.1, 123456789.0, 5e-324):
        typed = pd.DataFrame({"key": ["a"], "query": ["q"], "value": [number]})
        mixed = pd.DataFrame({"key": ["a", 1], "query": ["q", "p"], "value": pd.Series([number, "x"], dtype=object)})
        assert from_table(typed).fiber("a", "q") == from_table(mixed).fiber("a", "q")


def test_types_that_only_their_library_can_spell_are_refused() -> None:
    period = pd.DataFrame({"key": ["a"], "query": ["q"], "value": pd.PeriodIndex(["2020"], freq="Y")})
    with pytest.raises(InputError, match=r"value.*cannot be read as text"):
        from_table(period)


def test_a_lazy_frame_is_told_to_collect() -> None:
    with pytest.raises(InputError, match="collect"):
        from_table(pl.DataFrame({"key": ["a"]}).lazy())
