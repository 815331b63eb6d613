"""Tables: concatenate the parts of a folder, and select the first row of each group."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from factrank.errors import InputError
from factrank.experiments.columns import is_measured
from factrank.experiments.store.parquet_parts import SUFFIX, as_texts, read_part, shared_name

PART = "\0part"
"""Temporary column with the common prefix of the part that a row was read from."""

Problems = list[str]
Check = Callable[[Path, pa.Table], tuple[pa.Table, Problems]]
"""Returns the valid rows of a part, and the problems of the others."""


class FormerVersionError(InputError):
    """A store was written by an earlier version; it must be converted before it is read or extended."""


def read_parts(
    folder: Path, needed: Mapping[str, type], check: Check, only: Sequence[str] | None = None
) -> tuple[list[pa.Table], Problems]:
    """Read all valid parts of a folder, each with a column `PART`, and describe the problems of other files.

    Files whose names begin with a dot are ignored.
    """
    try:
        names = sorted(name for name in os.listdir(folder) if not name.startswith("."))
    except FileNotFoundError:
        return [], []
    except OSError as error:
        return [], [f"{folder}: cannot be read: {error.strerror or error}"]
    tables, problems = [], []
    for name in names:
        try:
            if not name.endswith(SUFFIX):
                raise InputError(f"{folder / name}: not a part of a store: its name does not end in {SUFFIX}")
            table, found = check(folder / name, read_part(folder / name, needed, only))
        except FormerVersionError:
            raise
        except InputError as error:
            problems.append(str(error))
            continue
        problems += found
        tables.append(table.append_column(PART, pa.repeat(shared_name(name), table.num_rows)))
    return tables, problems


def united(tables: Sequence[pa.Table]) -> pa.Table:
    """Concatenate tables; missing columns are null.

    If a column has integers and floats, it becomes float if that is exact. Other mixtures become strings, except that
    metrics stay numeric and strings in their place become null.
    """
    kinds: dict[str, set[Any]] = {}
    for table in tables:
        for field in table.schema:
            kinds.setdefault(field.name, set()).add(field.type)
    mixed = {
        name: _join(name, [table[name] for table in tables if name in table.schema.names])
        for name, found in kinds.items()
        if len(found) > 1
    }
    return pa.concat_tables([_cast(table, mixed) for table in tables], promote_options="default")


def first_rows(table: pa.Table, keys: Sequence[str], ranks: Sequence[str] = ()) -> pa.Table:
    """Return one row per key, with the smallest ranks, then the first; sorted by key."""
    place = "\0place"
    placed = table.select([*keys, *ranks]).append_column(place, pa.array(np.arange(table.num_rows)))
    order = pc.sort_indices(placed, sort_keys=[(name, "ascending") for name in (*keys, *ranks, place)])
    new = np.zeros(table.num_rows, dtype=bool)
    new[:1] = True
    for name in keys:
        column = placed[name].take(order)
        new[1:] |= pc.not_equal(column[1:], column[:-1]).to_numpy(zero_copy_only=False)
    return table.take(order.filter(pa.array(new)))


def _join(name: str, columns: Sequence[pa.ChunkedArray]) -> Any:
    if is_measured(name):
        return pa.float64()
    if {column.type for column in columns} == {pa.int64(), pa.float64()}:
        with suppress(pa.ArrowInvalid):  # an integer that float64 cannot represent
            for column in columns:
                column.cast(pa.float64())
            return pa.float64()
    return pa.string()


def _cast(table: pa.Table, kinds: Mapping[str, Any]) -> pa.Table:
    for place, field in enumerate(table.schema):
        wanted = kinds.get(field.name, field.type)
        if wanted == field.type:
            continue
        column = table[field.name]
        if wanted == pa.float64():
            is_number = pa.types.is_integer(field.type) or pa.types.is_floating(field.type)
            cast = column.cast(wanted) if is_number else pa.nulls(len(column), wanted)
        else:
            cast = pa.array(as_texts(column.to_pylist()), wanted)
        table = table.set_column(place, pa.field(field.name, wanted), cast)
    return table
