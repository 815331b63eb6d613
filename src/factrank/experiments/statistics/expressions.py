"""Columns by name, sums and products of columns, and the rows that have given values.

Where charts and claims name a column they may also write arithmetic: names of columns and numbers with ` + `, ` - `,
` * ` or ` / ` between them, in the usual order, for example "model.d_qk + model.d_vo - model.d_model". The signs stand
between spaces, because names may contain dashes, and there are no brackets; a column that bears the whole text as its
name comes first. Nothing is executed.
"""

from __future__ import annotations

import re
from math import isfinite, isnan

import numpy as np
import pyarrow as pa
from jaxtyping import Bool, Float

from factrank.errors import InputError

SOUND = ("finished", "stopped")
"""The statuses of trials whose numbers mean something."""

STRAY_SIGN = re.compile(r"(?<!\S)[-+*/^()]+(?!\S)")
"""A sign by itself in what should be a name or a number, as in "1 +" or "x ** 2"."""

BRACKET = re.compile(r"[()]")

Value = str | int | float | bool | None
Where = tuple[tuple[str, Value | tuple[Value, ...]], ...]
"""Rows are kept where each column has its value, or one of its values."""


def frozen_where(where: object) -> Where:
    """A selection given as a dictionary or as pairs; lists of values become tuples."""
    pairs = list(where.items()) if isinstance(where, dict) else where
    if not isinstance(pairs, list | tuple):
        raise InputError(f"a selection is a dictionary or a list of (column, value) pairs; got {where!r}")
    kept = []
    for pair in pairs:
        if not isinstance(pair, list | tuple) or len(pair) != 2:
            raise InputError(f"a selection is a dictionary or a list of (column, value) pairs; got {pair!r}")
        column, value = pair
        kept.append((str(column), tuple(value) if isinstance(value, list | tuple) else value))
    return tuple(kept)


def columns_in(expression: str) -> list[str]:
    """The names of columns in an expression.

    >>> columns_in("model.d_qk + 2 * model.d_vo")
    ['model.d_qk', 'model.d_vo']
    """
    terms = [term for _, product in _terms(expression) for _, term in product]
    return [term for term in terms if _number(term) is None]


def missing_columns(table: pa.Table, *expressions: str) -> list[str]:
    """The names that are not columns of the table."""
    names = [name for text in expressions if text not in table.column_names for name in columns_in(text)]
    return sorted(set(names) - set(table.column_names))


def numbers(table: pa.Table, expression: str) -> Float[np.ndarray, " rows"]:
    """The values of a column or of arithmetic on columns; nan where one is missing or no number.

    >>> numbers(pa.table({"a": [1, 2, None], "b": [10.0, 20.0, 30.0]}), "b - 2 * a").tolist()
    [8.0, 16.0, nan]
    """
    if expression in table.column_names:
        return _as_numbers(table.column(expression))
    total = np.zeros(table.num_rows)
    for sign, product in _terms(expression):
        value = np.ones(table.num_rows)
        for operation, term in product:
            factor = _factor(table, term)
            with np.errstate(divide="ignore", invalid="ignore"):
                value = value / factor if operation == "/" else value * factor
        total = total + sign * value
    return np.where(np.isfinite(total), total, np.nan)


def values(table: pa.Table, expression: str) -> list[Value]:
    """The values of a column as they are, or of arithmetic on columns as numbers (whole ones as integers)."""
    if expression in table.column_names:
        plain: list[Value] = table.column(expression).to_pylist()
        return plain
    computed = numbers(table, expression).tolist()
    return [None if isnan(value) else int(value) if value == int(value) else value for value in computed]


def selected(table: pa.Table, where: Where) -> Bool[np.ndarray, " rows"]:
    """Which rows have the values; a column that the table lacks has no value anywhere."""
    kept = np.ones(table.num_rows, dtype=bool)
    for column, wanted in where:
        choices = wanted if isinstance(wanted, tuple) else (wanted,)
        known = not missing_columns(table, column)
        found = [(isinstance(value, bool), value) for value in values(table, column)] if known else []
        agrees = {key: any(_same(key[1], choice) for choice in choices) for key in {*found, (False, None)}}
        kept &= np.array([agrees[key] for key in found] if known else agrees[False, None], dtype=bool)
    return kept


def ended_soundly(table: pa.Table) -> Bool[np.ndarray, " rows"]:
    """Which rows are of trials that ended with a model; all of them where the table has no status."""
    if "status" not in table.column_names:
        return np.ones(table.num_rows, dtype=bool)
    return np.array([status in SOUND for status in table.column("status").to_pylist()], dtype=bool)


def _same(value: Value, choice: Value) -> bool:
    """1 and 1.0 are the same here, True and 1 are not."""
    if isinstance(value, bool) or isinstance(choice, bool):
        return value is choice
    return value == choice


def _terms(expression: str) -> list[tuple[int, list[tuple[str, str]]]]:
    """The expression as a sum of signed products, each a list of (operation, name or number)."""
    parts = re.split(r" ([+-]) ", expression)
    signs = [1, *(1 if sign == "+" else -1 for sign in parts[1::2])]
    products = [re.split(r" ([*/]) ", part) for part in parts[::2]]
    split = [list(zip(["*", *product[1::2]], map(str.strip, product[::2]), strict=True)) for product in products]
    terms = [term for product in split for _, term in product]
    if any(not term or STRAY_SIGN.search(term) or (len(terms) > 1 and BRACKET.search(term)) for term in terms):
        raise InputError(
            f"{expression!r} is no column, and no arithmetic that is understood: names of columns and numbers, "
            "with + - * / between spaces, and no brackets"
        )
    return list(zip(signs, split, strict=True))


def _number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if isfinite(number) and re.fullmatch(r"[0-9.eE+-]+", text) else None


def _factor(table: pa.Table, term: str) -> Float[np.ndarray, " rows"]:
    if term in table.column_names:
        return _as_numbers(table.column(term))
    number = _number(term)
    if number is None:
        raise InputError(f"the table has no column {term!r}; it has {', '.join(table.column_names)}")
    return np.full(table.num_rows, number)


def _as_numbers(column: pa.ChunkedArray) -> Float[np.ndarray, " rows"]:
    kind = column.type
    if not (pa.types.is_floating(kind) or pa.types.is_integer(kind) or pa.types.is_boolean(kind)):
        return np.full(len(column), np.nan)
    cast = column.cast(pa.float64(), safe=False)
    return np.array(cast.to_numpy(), dtype=np.float64)
