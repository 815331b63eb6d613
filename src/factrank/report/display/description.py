"""Descriptions: words and tables as plain data, which terminal, notebook and page render without further logic.

A description is printed by rich as it is: its tables have no borders and stay readable in a narrow terminal. Numbers
and words are never broken. If a table is too wide, titles wrap, and the one column of names or texts shrinks: names end
in an ellipsis, texts wrap at spaces.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions
from rich.table import Table
from rich.text import Text

from factrank.foreign_text import shown_name, visible

Tone = Literal["plain", "title", "good", "bad", "unsure", "note"]
STYLES: dict[Tone, str] = {
    "plain": "",
    "title": "bold",
    "good": "green",
    "bad": "red",
    "unsure": "yellow",
    "note": "cyan",
}
"""How a terminal shows each tone."""

Kind = Literal["number", "word", "name", "text"]
"""Numbers (right-aligned) and words are never cut; at most one column has names or texts, and it may shrink."""

MOST_ROWS = 20
"""Most rows of a table; omitted rows are counted, and the JSON has them."""
GAP = 2
LEAST_WIDTH = 6


@dataclass(frozen=True)
class Words:
    """A line or paragraph with its tone.

    Arguments:
        text: the words.
        tone: how they are meant.
        lead: printed before them in bold, followed by a colon.
        option: printed after them in a terminal alone: which option of the command tells more.
    """

    text: str = ""
    tone: Tone = "plain"
    lead: str = ""
    option: str = ""

    def __str__(self) -> str:
        return visible(f"{self.lead}: {self.text}" if self.lead else self.text)

    def __rich__(self) -> Text:
        lead = f"{visible(self.lead)}: " if self.lead else ""
        return Text.assemble((lead[:-2], "bold"), lead[-2:], (visible(self.text + self.option), STYLES[self.tone]))


@dataclass(frozen=True)
class PlainTable:
    """A table of columns with titles and kinds, and of rows with a tone each."""

    columns: tuple[tuple[str, Kind], ...]
    rows: list[tuple[tuple[str, ...], Tone]] = field(default_factory=list)

    def add_row(self, *cells: str, tone: Tone = "plain") -> None:
        """Add a row, one cell per column."""
        self.rows.append((cells, tone))

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
        for cells, tone in self.rows:
            table.add_row(*(Text(visible(cell)) for cell in cells), style=STYLES[tone])
        yield table

    def _widths(self, titles: list[str]) -> list[int]:
        """Return the width of each column if nothing shrinks."""
        columns = zip(titles, *(cells for cells, _ in self.rows), strict=True)
        return [max(cell_len(line) for cell in column for line in visible(cell).split("\n")) for column in columns]

    def _excess(self, titles: list[str], room: int) -> int:
        return sum(self._widths(titles)) + GAP * (len(titles) - 1) - room


@dataclass(frozen=True)
class Description:
    """What there is to see of a result: words and tables, one under the other; empty words are a gap."""

    parts: tuple[Words | PlainTable, ...]

    def __rich_console__(self, _console: Console, _options: ConsoleOptions) -> Iterator[Words | PlainTable]:
        yield from self.parts


def described(*parts: Words | PlainTable | Description) -> Description:
    """Return a description of these parts, in which other descriptions are merged."""
    return Description(
        tuple(inner for part in parts for inner in (part.parts if isinstance(part, Description) else (part,)))
    )


def plain_table(*columns: tuple[str, Kind]) -> PlainTable:
    """Return an empty table with these columns; it has no header if no column has a title."""
    return PlainTable(columns)
