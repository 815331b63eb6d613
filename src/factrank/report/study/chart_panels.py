"""Panels of a chart: at most three lines each, else small multiples.

More lines in one panel cannot be told apart. If a panel would have more, consecutive colours are divided evenly among
panels with the same axes: eight lines become panels of three, three and two.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from math import ceil
from typing import Any

from factrank.experiments.study import ChartRecord, is_number

MOST_LINES = 3
"""Maximum number of lines in a panel."""

MOST_COLUMNS = 3
"""Maximum number of panels side by side."""


def cell_text(value: object) -> str:
    """Return a cell as a text; a number has no unnecessary digits.

    >>> cell_text(24000), cell_text(2.0), cell_text(0.25), cell_text("boxes")
    ('24,000', '2', '0.25', 'boxes')
    """
    if isinstance(value, int | float) and not isinstance(value, bool):
        return f"{int(value):,}" if value == int(value) else f"{value:g}"
    return str(value)


def sorted_cells(found: Iterable[Any]) -> list[Any]:
    """Return different cells: numbers in order, or names as they come.

    >>> sorted_cells([4, 1, 4, 2]), sorted_cells(["b", "a", "b"])
    ([1, 2, 4], ['b', 'a'])
    """
    different = list(dict.fromkeys(found))
    return sorted(different) if all(map(is_number, different)) else different


def groups_of(colours: Sequence[Any]) -> list[list[Any]]:
    """Divide colours evenly into as few groups of at most three as possible.

    >>> groups_of([1, 2, 3, 4])
    [[1, 2], [3, 4]]
    """
    n_groups = ceil(len(colours) / MOST_LINES)
    ends = [ceil(at * len(colours) / n_groups) for at in range(n_groups + 1)]
    return [list(colours[start:end]) for start, end in pairwise(ends)]


def with_panels(rows: Sequence[ChartRecord], title: str) -> list[ChartRecord]:
    """Return records in which no panel (`facet`) has more than three colours; `title` is the title of the colours.

    If a panel is divided, a second line of its heading has the colours.
    """
    headings: dict[tuple[str, Any], str] = {}
    for facet in dict.fromkeys(row.get("facet", "") for row in rows):
        colours = sorted_cells(row.get("colour") for row in rows if row.get("facet", "") == facet)
        for group in groups_of(colours) if len(colours) > MOST_LINES else ():
            headings |= {(facet, colour): _joined(facet, _heading(group, title)) for colour in group}
    changed = [headings.get((row.get("facet", ""), row.get("colour"))) for row in rows]
    return [row if facet is None else row | {"facet": facet} for row, facet in zip(rows, changed, strict=True)]


def panels_in_order(rows: Sequence[ChartRecord], facets: Sequence[str]) -> list[str]:
    """Return the headings of all panels: by facet in the order given, then by colours."""
    found = sorted_cells(row.get("colour") for row in rows)
    place: Mapping[Any, int] = {colour: at for at, colour in enumerate(found)}
    first: dict[str, tuple[int, int]] = {}
    for row in rows:
        if "facet" in row:
            heading = row["facet"]
            facet = next((at for at, one in enumerate(facets) if heading.split("\n")[0] == one), len(facets))
            here = (facet, place.get(row.get("colour"), 0))
            first[heading] = min(first.get(heading, here), here)
    return sorted(first, key=lambda heading: first[heading])


def columns_of(panels: Sequence[str]) -> int:
    """Return the number of panels side by side: at most three, in rows that are as full as possible.

    The parts of a divided panel are in one row.

    >>> [columns_of([str(panel) for panel in range(n)]) for n in (1, 2, 3, 4, 5, 6, 7)]
    [1, 2, 3, 2, 3, 3, 3]
    """
    parts = {panel.partition("\n")[2] for panel in panels}
    n_panels = len(panels) if "" in parts else len(parts)
    return ceil(n_panels / max(1, ceil(n_panels / MOST_COLUMNS)))


def _heading(group: Sequence[Any], title: str) -> str:
    consecutive = (
        len(group) > 2 and all(isinstance(one, int) for one in group) and group[-1] - group[0] + 1 == len(group)
    )
    texts = f"{group[0]} to {group[-1]}" if consecutive else ", ".join(map(cell_text, group))
    return f"{title}: {texts}" if title and all(map(is_number, group)) else texts


def _joined(*lines: str) -> str:
    return "\n".join(filter(None, lines))
