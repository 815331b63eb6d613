"""Export a table to a Parquet or CSV file, atomically.

In CSV, strings that a spreadsheet would interpret as a formula, and strings that begin with an apostrophe, are prefixed
with an apostrophe; remove one when reading the file. Numbers are written with all digits and never changed; null is an
empty cell.
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
"""Matches strings that spreadsheets may execute, or that begin with an apostrophe."""


def write_table(table: pa.Table, path: str | os.PathLike[str]) -> None:
    """Write a table in the format given by the file's suffix. An error leaves an existing file unchanged."""
    path = Path(path)
    suffix = path.suffix.lower()
    if suffix not in (".parquet", ".csv"):
        raise InputError(f"{path}: expected a file name that ends in .parquet or .csv")
    with replacing(path) as stream:
        if suffix == ".parquet":
            pq.write_table(table, stream, compression="zstd", store_schema=False, write_page_checksum=True)
        else:
            pyarrow.csv.write_csv(as_data(table), stream)


def as_data(table: pa.Table) -> pa.Table:
    """Escape all strings and column names that a spreadsheet would execute.

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
