"""The runner: an input is made, given to a command, and the command is held to its promises.

Whatever the input, a command ends with 0 (done), 1 (the answer is no) or 2 (bad input), without a traceback or a
warning of a library, without control characters in what it prints, and in bounded memory.
"""

from __future__ import annotations

import io
import resource
import sys
import traceback
import warnings
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from random import Random
from unittest.mock import patch

import typer.main

from factrank import cli
from factrank.foreign_text import visible

Maker = Callable[[Random, Path], list[str]]
"""Writes an input into an empty folder and gives the arguments of the command that takes it."""

MOST_GROWTH = 600 << 10
"""KiB by which the memory of the process may grow over one input, the libraries that it loads included."""

LONGEST_OUTPUT = 200_000


@dataclass(frozen=True)
class Failure:
    """An input that broke a promise."""

    arguments: list[str]
    complaint: str


def try_input(make: Maker, seed: str, folder: Path) -> Failure | None:
    """Make the input of a seed in a new folder and run its command there; what went wrong, if anything did."""
    folder.mkdir(parents=True)
    arguments = make(Random(seed), folder)  # noqa: S311 - not for secrets
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    code, output, trace = _called(arguments)
    growth = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    complaints = [
        (trace, trace),
        (code not in (0, 1, 2), f"exit code {code}"),
        ("Traceback" in output, "a traceback is printed"),
        (visible(output) != output, f"control characters are printed: {output[:2_000]!r}"),
        (len(output) > LONGEST_OUTPUT, f"{len(output):,} letters are printed"),
        (growth > MOST_GROWTH, f"{growth >> 10:,} MiB more memory"),
    ]
    found = [complaint for applies, complaint in complaints if applies]
    return Failure(arguments, "\n".join(found)) if found else None


@cache
def _commands() -> Callable[[], object]:
    """The command line, built once: typer builds it anew whenever it is called, and that takes most of the time."""
    return typer.main.get_command(cli.app)


def _called(arguments: list[str]) -> tuple[object, str, str]:
    """The exit code of a command, what it printed, and the traceback of what it should not have raised."""
    output, usual = io.StringIO(), sys.argv
    sys.argv = ["factrank", *arguments]
    try:
        with (
            warnings.catch_warnings(),
            redirect_stdout(output),
            redirect_stderr(output),
            patch.object(cli, "app", _commands()),
        ):
            warnings.simplefilter("error")
            cli.run()
        return 0, output.getvalue(), ""
    except SystemExit as end:
        return end.code or 0, output.getvalue(), ""
    except BaseException:
        return None, output.getvalue(), traceback.format_exc()
    finally:
        sys.argv = usual
