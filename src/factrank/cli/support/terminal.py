"""Printing: all output goes through this module, so no name from a file can send control codes to the terminal."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any

import typer
from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from factrank.foreign_text import shown_message, visible

INTERRUPTED = 130
"""Exit code after Ctrl-C."""

Json = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of text.")]


class Terminal(Console):
    """A console without markup or highlighting that prints control characters as escapes."""

    def __init__(self, *, stderr: bool = False) -> None:
        super().__init__(stderr=stderr, highlight=False, markup=False)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterator[Segment]:
        """Render a text or table; only rich itself may move the cursor."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else segment._replace(text=visible(segment.text))


def display(*renderables: RenderableType) -> None:
    """Print tables and styled texts to standard output, one below the other."""
    Terminal().print(*renderables, sep="\n")


def say(text: str) -> None:
    """Print a line to standard output."""
    typer.echo(visible(text))


def say_json(data: Any) -> None:
    """Print one JSON document to standard output."""
    from factrank.report import json_text  # noqa: PLC0415 - not every command prints JSON

    say(json_text(data))


def say_result(text: str, data: Any, *, json: bool) -> None:
    """Print a result as a line of text or as JSON."""
    if json:
        say_json(data)
    else:
        say(text)


def complain(text: str) -> None:
    """Print an error or a warning to standard error."""
    typer.echo(f"factrank: {shown_message(text)}", err=True)


def progress() -> Terminal:
    """Return a console on standard error for a spinner, which is silent unless it is a terminal."""
    return Terminal(stderr=True)
