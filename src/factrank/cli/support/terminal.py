"""The terminal: the one place through which commands print, so that no name from a file can steer it."""

from __future__ import annotations

from collections.abc import Iterator

import typer
from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from factrank.foreign_text import shown_message, visible


class Terminal(Console):
    """A console without markup and coloured numbers, which shows control characters in texts as escapes."""

    def __init__(self, *, stderr: bool = False) -> None:
        super().__init__(stderr=stderr, highlight=False, markup=False)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterator[Segment]:
        """The parts of a text or a table; what moves the cursor comes from rich itself, never from a text."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else segment._replace(text=visible(segment.text))


def display(*renderables: RenderableType) -> None:
    """Print tables and texts with styles to standard output, one under the other."""
    Terminal().print(*renderables, sep="\n")


def say(text: str) -> None:
    """Print a line to standard output."""
    typer.echo(visible(text))


def complain(text: str) -> None:
    """Print what went wrong, or what should be known, to standard error."""
    typer.echo(f"factrank: {shown_message(text)}", err=True)


def progress() -> Terminal:
    """Standard error, for a spinner while a command works; silent when that is no terminal."""
    return Terminal(stderr=True)
