"""Databases and results as Arrow streams: polars, pandas, DuckDB and pyarrow take them as they are."""

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import factrank
from factrank.databases import Database, from_table

FACTS = [("Astrid", "born_in", "Singapore"), ("Colin", "born_in", "Malaysia"), ("Colin", "likes", "<b>\u202e")]


@pytest.fixture(scope="module")
def db():
    return Database.from_facts(FACTS)


def test_polars_and_pyarrow(db):
    assert pl.DataFrame(db).rows() == FACTS
    assert pl.DataFrame(db).columns == ["key", "query", "value"]
    assert pa.table(db).to_pylist() == [dict(zip(("key", "query", "value"), fact, strict=True)) for fact in FACTS]
    assert list(pa.table(db).to_pandas().itertuples(index=False, name=None)) == FACTS


def test_duckdb(db):
    assert duckdb.from_arrow(db).fetchall() == FACTS
    assert duckdb.sql("SELECT count(*) FROM db WHERE key = 'Colin'").fetchall() == [(2,)]


def test_pandas(db):
    assert pd.DataFrame(db).to_numpy().tolist() == [list(fact) for fact in FACTS]


def test_a_stream_is_a_table_of_facts_again(db):
    assert from_table(db) == db
    empty = Database.from_facts([])
    assert pl.DataFrame(empty).shape == (0, 3)
    assert pa.table(empty).schema.names == ["key", "query", "value"]


def test_attributions_have_names(db):
    found = factrank.attribute_facts(factrank.construct(db))
    frame = pl.DataFrame(found)
    assert frame.select("key", "query", "value").rows() == FACTS
    paths = frame.select("direct", *(name for name in frame.columns if name.startswith("head")))
    assert paths.sum_horizontal().to_list() == pytest.approx(found.margins.tolist())
    assert frame["margin"].to_list() == found.margins.tolist()
    assert frame["right"].all()
