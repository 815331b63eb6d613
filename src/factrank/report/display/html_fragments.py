"""Descriptions as HTML for notebooks: small, without scripts, and in the colours of the notebook's theme.

Jinja2 escapes every text after control characters and direction marks are made visible. Long texts are cut, so that the
display stays small whatever the names are.
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import Any

from jinja2 import Environment, StrictUndefined, Template

from factrank.foreign_text import visible
from factrank.report.display.description import MOST_ROWS, Description, Kind, PlainTable, Tone, Words

LONGEST_CELL, LONGEST_WORDS = 200, 800
"""Most characters of a cell and of a paragraph."""

MARKS: dict[Tone, str] = {"good": "✓", "bad": "✗", "unsure": "!"}
"""Signs instead of colours, which would have to suit light and dark themes alike."""

LEFT, RIGHT = "left", "right"


def description_html(description: Description) -> str:
    """Return a description as a fragment of HTML."""
    parts = [_table(part) if isinstance(part, PlainTable) else _words(part) for part in description.parts]
    return _template().render(parts=[part for part in parts if part is not None])


def _words(words: Words) -> dict[str, str] | None:
    if not words.text and not words.lead:
        return None  # tables have margins of their own
    style = ";font-weight:600" if words.tone == "title" else ""
    mark = MARKS.get(words.tone, "")
    return {"text": _cut(words.text, LONGEST_WORDS), "lead": _cut(words.lead), "mark": mark, "style": style}


def _table(table: PlainTable) -> dict[str, Any]:
    kinds = [kind for _, kind in table.columns]
    rows = [
        [(_cut(cell), _align(kind)) for cell, kind in zip(cells, kinds, strict=True)]
        for cells, _ in table.rows[:MOST_ROWS]
    ]
    if len(table.rows) > MOST_ROWS:
        rows.append([(f"... and {len(table.rows) - MOST_ROWS:,} more", LEFT)])
    titles = [(_cut(title), _align(kind)) for title, kind in table.columns]
    return {"rows": rows, "titles": titles, "has_titles": any(title for title, _ in titles)}


def _align(kind: Kind) -> str:
    return RIGHT if kind == "number" else LEFT


def _cut(text: str, longest: int = LONGEST_CELL) -> str:
    return text if len(text) <= longest else f"{text[: longest - 3]}..."


@cache
def _template() -> Template:
    source = files(__package__).joinpath("display.html").read_text(encoding="utf-8")
    environment = Environment(
        autoescape=True, trim_blocks=True, lstrip_blocks=True, undefined=StrictUndefined, finalize=_visible
    )
    return environment.from_string(source)


def _visible(value: object) -> object:
    return visible(value) if isinstance(value, str) else value
