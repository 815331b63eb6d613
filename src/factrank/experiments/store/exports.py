"""Exports: a table as one Parquet or CSV file, written in one step.

In CSV, text that a spreadsheet would take for a formula gets an apostrophe in front, and so does text that begins with
one: to read it back, take one away. Numbers are written with all their digits and never altered; null is an empty cell.
"""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq

from factrank.errors import InputError
from factrank.host import replacing

FORMULA = r"^[=+\-@\t\r\n']"
"""How text begins that spreadsheets may execute, or that already has an apostrophe."""


def write_table(table: pa.Table, path: str | os.PathLike[str]) -> None:
    """Write a table in the format of the file's suffix; an error leaves the file that was there."""
    path = Path(path)
    suffix = path.suffix.lower()
    if suffix not in (".parquet", ".csv"):
        raise InputError(f"{path}: a table is exported to a file that ends in .parquet or .csv")
    with replacing(path) as stream:
        if suffix == ".parquet":
            pq.write_table(table, stream, compression="zstd", store_schema=False, write_page_checksum=True)
        else:
            pyarrow.csv.write_csv(as_data(table), stream)


def as_data(table: pa.Table) -> pa.Table:
    """The table with no text, and no name of a column, that a spreadsheet would execute.

    >>> as_data(pa.table({"error": ["=1+1", "no"], "loss": [-1.0, 2.0]})).to_pylist()
    [{'error': "'=1+1", 'loss': -1.0}, {'error': 'no', 'loss': 2.0}]
    """
    columns = [
        pc.if_else(pc.match_substring_regex(column, FORMULA), pc.binary_join_element_wise("'", column, ""), column)
        if pa.types.is_string(column.type)
        else column
        for column in table.columns
    ]
    names = pc.replace_substring_regex(pa.array(table.schema.names, pa.string()), f"({FORMULA})", r"'\1")
    return pa.table(columns, names=names.to_pylist())
