"""The command line: one thin file per command.

Contains: options, calls and printing; shared code is in `support`. Add here: a command, without mathematics of its own.
Exit codes: 0 success, 1 the answer is no, 2 bad input or usage, 130 interrupted by Ctrl-C.
"""

from __future__ import annotations

import io
import os
import signal
import sys
import warnings
from typing import Annotated, Any, NoReturn

import typer
from typer.core import TyperGroup

import factrank
from factrank.cli.ask import ask
from factrank.cli.assumptions import assumptions
from factrank.cli.capacity import capacity
from factrank.cli.checkpoints.audit import audit
from factrank.cli.checkpoints.extract import extract
from factrank.cli.construct import construct
from factrank.cli.edit import EditCommand, edit
from factrank.cli.explore import explore
from factrank.cli.layers.examine import examine
from factrank.cli.layers.ranking import ranking
from factrank.cli.ls import ls
from factrank.cli.measure import measure
from factrank.cli.pages.app import app as explorer
from factrank.cli.plan import plan
from factrank.cli.recall import recall
from factrank.cli.solve import solve
from factrank.cli.study import app as study
from factrank.cli.support.commands import HELP_OPTIONS, PlainCommand
from factrank.cli.support.environment import fault_of_environment, show_frames_of_jax
from factrank.cli.support.terminal import INTERRUPTED, complain, say
from factrank.cli.tables.convert import convert
from factrank.cli.tables.generate import generate
from factrank.cli.tables.samples import samples
from factrank.cli.tables.split import split
from factrank.cli.train import train
from factrank.cli.verify import verify
from factrank.errors import FactrankError, InputWarning, SearchError
from factrank.host import require_compilers_fit

OUT_OF_MEMORY = "RESOURCE_EXHAUSTED"
"""Prefix of JAX's errors when a device is out of memory."""


class Commands(TyperGroup):
    """The group of all commands, which reports Ctrl-C if the command itself does not."""

    def invoke(self, context: Any) -> Any:
        """Run a command."""
        try:
            return super().invoke(context)
        except KeyboardInterrupt:
            complain("interrupted")
            raise typer.Exit(INTERRUPTED) from None


app = typer.Typer(
    name="factrank",
    cls=Commands,
    context_settings=HELP_OPTIONS,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
COMMANDS = (
    *(measure, plan, capacity, train, construct, solve, edit, verify, recall, ranking, examine, ask, explore),
    *(assumptions, audit, extract, samples, generate, convert, split, ls, explorer),
)
for command in COMMANDS:
    app.command(cls=EditCommand if command is edit else PlainCommand)(command)
app.add_typer(study)


WITHOUT_COMPILERS = ("measure", "samples", "generate", "convert", "split", "-h", "--help", "--version")
"""First arguments that load neither JAX nor numba."""


def _print_version(wanted: bool) -> bool:
    if wanted:
        say(f"factrank {factrank.__version__}")
        raise typer.Exit
    return wanted


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Measure how many facts an attention layer can hold, write or train them into layers, and query the layers.

    Wherever a table of facts is expected, sample:NAME is a bundled one. `factrank COMMAND -h` describes a command.

    Example: factrank measure sample:astrid
    """


def main() -> None:
    """Run the program `factrank`, which exits quietly on a broken pipe (`| head`)."""
    if hasattr(signal, "SIGPIPE"):
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    show_frames_of_jax()
    run()


def run() -> None:
    """Run the command line; bad input gives one message and exit code 2, never a traceback."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # for names outside the terminal's encoding
    with warnings.catch_warnings():
        warnings.simplefilter("always", InputWarning)
        warnings.showwarning = lambda message, *_: complain(f"{message}")
        _run_app()


def _run_app() -> None:
    try:
        if len(sys.argv) > 1 and sys.argv[1] not in WITHOUT_COMPILERS:
            require_compilers_fit()
        app()
    except FactrankError as error:
        complain(f"{error}")
        sys.exit(1 if isinstance(error, SearchError) else 2)
    except MemoryError:
        _say_out_of_memory()
    except OSError as error:
        complain(f"{error.strerror or error}")
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # discard buffered output: it cannot be written
        sys.exit(2)
    except Exception as error:
        if isinstance(error, RuntimeError) and str(error).startswith(OUT_OF_MEMORY):
            _say_out_of_memory()
        fault = fault_of_environment(error)
        if fault is None:
            raise
        complain(fault)
        sys.exit(2)


def _say_out_of_memory() -> NoReturn:
    complain("out of memory; try a smaller table or layer, fewer seeds or a smaller --batch-size")
    sys.exit(2)
