"""Objects that notebooks show and that can be drawn.

A class inherits `Shown` or `Drawn` and needs nothing else: `factrank.report.display` has a table of what to show of
which class. It is imported when something is shown, so no other room depends on charts or pages.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

REGISTRY = "factrank.report.display"


class Shown:
    """An object with an HTML display in notebooks."""

    def _repr_html_(self) -> str:
        return str(import_module(REGISTRY).html_of(self))


class Drawn(Shown):
    """An object with one or several pictures."""

    def plot(self, what: str | None = None, **options: Any) -> Any:
        """Draw a picture as an interactive altair chart, with at most 5,000 marks.

        Arguments:
            what: Name of the picture; by default, the first. An unknown name raises an error that lists all.
            options: Options of the picture, such as `query="capital"`; see docs/notebooks.md.

        Returns:
            The chart. Notebooks show it, and `save_chart(chart, "name.png")` writes PNG, SVG, HTML or JSON.
        """
        return import_module(REGISTRY).picture_of(self, what, options)
