"""Numbers and tables in Markdown that are identical on every machine.

The last bits of a mean depend on a library's summation order. Rounding to ten digits first removes them, so a text with
three digits is the same everywhere.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import pyarrow as pa

from factrank.foreign_text import shown_name

DIGITS = 10
NOTHING = 1e-12
"""Numbers below this are rounding errors of 0."""


def steady(value: float) -> float:
    """Round away the digits that depend on the machine.

    >>> steady(0.1 + 0.2), steady(-3e-17)
    (0.3, 0.0)
    """
    return 0.0 if abs(value) < NOTHING else float(f"{value:.{DIGITS}g}")


def steady_table(table: pa.Table) -> pa.Table:
    """Apply `steady` to every floating-point number of a table."""
    for at, field in enumerate(table.schema):
        if pa.types.is_floating(field.type):
            cells = [None if value is None else steady(value) for value in table.column(at).to_pylist()]
            table = table.set_column(at, field, pa.array(cells, field.type))
    return table


def number_text(value: float) -> str:
    """Format a number with three digits, or more if needed to tell it from 1; large numbers as integers.

    >>> [number_text(value) for value in (0.03951, -0.5, 12.0, 0.99996, 1.0, 20000.0, 1e-05)]
    ['0.0395', '-0.5', '12', '0.99996', '1', '20,000', '1e-05']
    """
    plain = steady(value)
    if abs(plain) >= 1000:
        return f"{plain:,.0f}"
    texts = [f"{plain:.{digits}g}" for digits in range(3, DIGITS + 1)]
    return next((text for text in texts if abs(plain) >= 1 or abs(float(text)) < 1), texts[-1])


def value_text(value: float | None, low: float | None, high: float | None) -> str:
    """Format a value and its interval, or a dash if there is none.

    >>> value_text(0.0395, 0.036, 0.0421), value_text(0.5, None, None), value_text(None, None, None)
    ('0.0395 [0.036, 0.0421]', '0.5', '–')
    """
    if value is None:
        return "–"
    interval = f" [{number_text(low)}, {number_text(high)}]" if low is not None and high is not None else ""
    return number_text(value) + interval


def cell(text: str) -> str:
    r"""Escape a text for a table cell: one line, no HTML.

    >>> print(cell("a | b\n<i>"))
    a \| b &lt;i>
    """
    plain = shown_name(" ".join(text.split()), None)
    return plain.replace("\\", "\\\\").replace("|", "\\|").replace("<", "&lt;")


def inline(text: str) -> str:
    r"""Escape a text for a line of prose, so that Markdown and HTML show it verbatim.

    >>> print(inline("d_vo is *not* [here]\n<b> &amp; $x$, _so_"))
    d_vo is \*not\* \[here\] &lt;b> &amp;amp; \$x\$, \_so\_
    """
    plain = shown_name(" ".join(text.split()), None)
    plain = re.sub(r"[\\`*~$\[\]]|(?<![^\W_])_|_(?![^\W_])", r"\\\g<0>", plain)  # d_vo needs none
    return re.sub(r"&(?=#?\w+;)", "&amp;", plain).replace("<", "&lt;")


def table_text(head: Sequence[str], rows: Sequence[Sequence[str]], numeric: Sequence[str] = ()) -> str:
    """Format a table; `numeric` columns are right-aligned.

    >>> print(table_text(["d_vo", "recall"], [["1", "0.5"]], numeric=["recall"]))
    | d_vo | recall |
    |---|---:|
    | 1 | 0.5 |
    """
    lines = [head, ["---:" if name in numeric else "---" for name in head], *rows]
    texts = [f"| {' | '.join(line)} |" for line in lines]
    texts[1] = texts[1].replace(" ", "")
    return "\n".join(texts)
