"""Columns by name, arithmetic on columns, and selection of rows by value.

Charts and claims accept arithmetic in place of a column name: column names and numbers combined with +, -, * and /,
parentheses, unary minus, and the functions log (natural) and sqrt, for example "log(model.d_qk + model.d_vo) /
model.d_model". Binary operators must be surrounded by spaces or parentheses, because names may contain dashes. A column
whose name is the whole text takes precedence. Expressions are not executed: names are replaced by placeholders, Python
parses the result, and only the operations above are evaluated.
"""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable
from functools import lru_cache
from math import isfinite, isnan

import numpy as np
import pyarrow as pa
from jaxtyping import Bool, Float

from factrank.errors import InputError

SOUND = ("finished", "stopped")
"""Statuses of trials whose results are valid."""

OPERATIONS: dict[type[ast.operator], Callable[..., np.ndarray]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}
FUNCTIONS: dict[str, Callable[..., np.ndarray]] = {"log": np.log, "sqrt": np.sqrt}

MOST_WORDS = 200
"""Maximum number of names, numbers, operators and parentheses in an expression."""

MARK = re.compile(r"((?<![^\s()])[-+*/](?![^\s()])|[()])")
"""A parenthesis, or an operator between spaces, parentheses or the ends of the text."""

ARITHMETIC = re.compile(rf"(?<![^\s()])[-+*/](?![^\s()])|(?<![^\s()-])({'|'.join(FUNCTIONS)})\(|^\s*[-(]")
"""Distinguishes arithmetic from names, which may contain parentheses too, as in "loss (nats)"."""

STRAY_SIGN = re.compile(r"(?<!\S)[-+*/^]+(?!\S)")
"""Operators inside of a name or number, as in "x ** 2"."""

Value = str | int | float | bool | None
Where = tuple[tuple[str, Value | tuple[Value, ...]], ...]
"""Selection of rows: each column must have this value, or one of these values."""


def frozen_where(where: object) -> Where:
    """Convert a selection, given as a dictionary or as pairs, to tuples.

    Raises:
        InputError: If it is neither.
    """
    pairs = list(where.items()) if isinstance(where, dict) else where
    if not isinstance(pairs, list | tuple):
        raise InputError(f"a selection must be a dictionary or a list of (column, value) pairs; got {where!r}")
    kept = []
    for pair in pairs:
        if not isinstance(pair, list | tuple) or len(pair) != 2:
            raise InputError(f"a selection must be a dictionary or a list of (column, value) pairs; got {pair!r}")
        column, value = pair
        kept.append((str(column), tuple(value) if isinstance(value, list | tuple) else value))
    return tuple(kept)


def columns_in(expression: str) -> list[str]:
    """Return the column names in an expression.

    >>> columns_in("model.d_qk + 2 * model.d_vo")
    ['model.d_qk', 'model.d_vo']
    """
    return [operand for operand in _parsed(expression)[1] if _number(operand) is None]


def missing_columns(table: pa.Table, *expressions: str) -> list[str]:
    """Return the names in these expressions that are not columns of the table."""
    names = [name for text in expressions if text not in table.column_names for name in columns_in(text)]
    return sorted(set(names) - set(table.column_names))


def numbers(table: pa.Table, expression: str) -> Float[np.ndarray, " rows"]:
    """Return the values of a column or expression; NaN if one is missing or not a number.

    >>> numbers(pa.table({"a": [1, 2, None], "b": [10.0, 20.0, 30.0]}), "b - 2 * a").tolist()
    [8.0, 16.0, nan]
    """
    if expression in table.column_names:
        return _as_numbers(table.column(expression))
    tree, operands = _parsed(expression)
    columns = [_operand(table, operand) for operand in operands]
    with np.errstate(all="ignore"):
        found = _computed(tree, columns) + 0.0  # -0 becomes 0
    return np.where(np.isfinite(found), found, np.nan)


def values(table: pa.Table, expression: str) -> list[Value]:
    """Return the values of a column unchanged, or of an expression as numbers (integers if they are whole).

    >>> values(pa.table({"d": [2, 3]}), "d / 2")
    [1, 1.5]
    """
    if expression in table.column_names:
        plain: list[Value] = table.column(expression).to_pylist()
        return plain
    computed = numbers(table, expression).tolist()
    return [None if isnan(value) else int(value) if value == int(value) else value for value in computed]


def selected(table: pa.Table, where: Where) -> Bool[np.ndarray, " rows"]:
    """Return which rows have these values. A column that is not in the table counts as null.

    >>> selected(pa.table({"seed": [0, 1, 2], "d": [4, 4, 8]}), (("seed", (0, 1)), ("d", 4))).tolist()
    [True, True, False]
    """
    kept = np.ones(table.num_rows, dtype=bool)
    for column, wanted in where:
        choices = wanted if isinstance(wanted, tuple) else (wanted,)
        known = not missing_columns(table, column)
        found = [(isinstance(value, bool), value) for value in values(table, column)] if known else []
        agrees = {key: any(_same(key[1], choice) for choice in choices) for key in {*found, (False, None)}}
        kept &= np.array([agrees[key] for key in found] if known else agrees[False, None], dtype=bool)
    return kept


def ended_soundly(table: pa.Table) -> Bool[np.ndarray, " rows"]:
    """Return which rows belong to trials that finished or stopped; all rows if the table has no status."""
    if "status" not in table.column_names:
        return np.ones(table.num_rows, dtype=bool)
    return np.array([status in SOUND for status in table.column("status").to_pylist()], dtype=bool)


def _same(value: Value, choice: Value) -> bool:
    """Compare two values: 1 equals 1.0, but True does not equal 1."""
    if isinstance(value, bool) or isinstance(choice, bool):
        return value is choice
    return value == choice


@lru_cache(maxsize=1024)
def _parsed(expression: str) -> tuple[ast.expr, list[str]]:
    """Parse an expression into a tree, in which the name `_2` refers to the third operand, and its operands."""
    words, operands = _words(expression)
    try:
        if len(words) > MOST_WORDS:
            raise SyntaxError
        tree = ast.parse(" ".join(words), mode="eval").body
        _computed(tree, [np.ones(0)] * len(operands))
        if not all(operands) or any(map(STRAY_SIGN.search, operands)):
            raise SyntaxError
    except (SyntaxError, RecursionError, MemoryError):
        raise InputError(
            f"{expression!r} is neither a column nor valid arithmetic; use column names, numbers, + - * / between "
            f"spaces, parentheses, {' and '.join(FUNCTIONS)}; at most {MOST_WORDS} terms in all"
        ) from None
    return tree, operands


def _words(expression: str) -> tuple[list[str], list[str]]:
    """Split an expression into operators, parentheses, functions and placeholders, and its operands."""
    arithmetic = _number(expression) is None and ARITHMETIC.search(expression)
    words, operands = list[str](), list[str]()
    parts = MARK.split(expression) if arithmetic else [expression]
    for operand, mark in zip(map(str.strip, parts[::2]), [*parts[1::2], ""], strict=True):
        minus = operand.startswith("-") and _number(operand) is None
        name = operand[minus:]
        words += ["-"] * minus
        if name in FUNCTIONS and mark == "(":
            words.append(name)
        elif operand:
            words.append(f"_{len(operands)}")
            operands.append(name)
        words += [mark] if mark else []
    return words, operands


def _computed(node: ast.expr, operands: list[np.ndarray]) -> np.ndarray:
    """Evaluate a tree; raise a `SyntaxError` for any other operation."""
    match node:
        case ast.Name(id=name) if name.startswith("_"):
            return operands[int(name[1:])]
        case ast.UnaryOp(op=ast.USub(), operand=inner):
            return -_computed(inner, operands)
        case ast.BinOp(left=left, op=op, right=right) if type(op) in OPERATIONS:
            return OPERATIONS[type(op)](_computed(left, operands), _computed(right, operands))
        case ast.Call(func=ast.Name(id=function), args=[argument], keywords=[]) if function in FUNCTIONS:
            return FUNCTIONS[function](_computed(argument, operands))
    raise SyntaxError


def _number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if isfinite(number) and re.fullmatch(r"[0-9.eE+-]+", text) else None


def _operand(table: pa.Table, term: str) -> Float[np.ndarray, " rows"]:
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
