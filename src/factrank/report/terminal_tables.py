"""Tables without lines for the terminal, whose words stay whole when it is narrow.

Numbers and the words of a title are never broken: where there is no room the titles go over several lines, and the one
column that may give way does: names end in an ellipsis, texts wrap at spaces.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions
from rich.table import Table
from rich.text import Text

from factrank.foreign_text import shown_name

Kind = Literal["number", "word", "name", "text"]
"""Numbers (to the right) and words are shown whole; of names and texts a table has one column, which gives way."""

MOST_ROWS = 20
"""Rows of a table; what is left out is counted, and is in the JSON."""
GAP = 2
LEAST_WIDTH = 6


@dataclass(frozen=True)
class PlainTable:
    """Columns with titles and kinds, and rows of cells with a style each."""

    columns: tuple[tuple[str, Kind], ...]
    rows: list[tuple[list[Text], str]] = field(default_factory=list)

    def add_row(self, *cells: str | Text, style: str = "") -> None:
        """Another row, one cell per column."""
        self.rows.append(([Text(cell) if isinstance(cell, str) else cell for cell in cells], style))

    def __rich_console__(self, _console: Console, options: ConsoleOptions) -> Iterator[Table]:
        titles = [shown_name(title) for title, _ in self.columns]
        if self._excess(titles, options.max_width) > 0:
            titles = [title.replace(" ", "\n") for title in titles]
        excess = max(self._excess(titles, options.max_width), 0)
        table = Table(box=None, padding=(0, GAP, 0, 0), pad_edge=False, show_header=any(titles))
        for title, width, (_, kind) in zip(titles, self._widths(titles), self.columns, strict=True):
            gives_way = kind in ("name", "text")
            table.add_column(
                title,
                justify="right" if kind == "number" else "left",
                header_style="bold",
                width=max(width - excess, min(width, LEAST_WIDTH)) if gives_way else width,
                no_wrap=kind != "text",
                overflow="fold" if kind == "text" else "ellipsis",
            )
        for cells, style in self.rows:
            table.add_row(*cells, style=style)
        yield table

    def _widths(self, titles: list[str]) -> list[int]:
        """How wide each column is when nothing in it gives way."""
        columns = zip(titles, *(cells for cells, _ in self.rows), strict=True)
        return [
            max(*map(cell_len, title.split("\n")), *(cell_len(cell.plain) for cell in cells), 0)
            for title, *cells in columns
        ]

    def _excess(self, titles: list[str], room: int) -> int:
        return sum(self._widths(titles)) + GAP * (len(titles) - 1) - room


def plain_table(*columns: tuple[str, Kind]) -> PlainTable:
    """A table with these columns, and no rows yet; without a head where no column has a title."""
    return PlainTable(columns)
