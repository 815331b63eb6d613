"""The command line: one thin file per command.

What lives here: options, calls, printing; what commands share is in `support`. What may enter: a command, without
mathematics of its own. Exit codes: 0 done, 1 done but the answer is no, 2 bad input or usage, 130 interrupted (by
Ctrl-C).
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
from factrank.cli.construct import construct
from factrank.cli.convert import convert
from factrank.cli.edit import EditCommand, edit
from factrank.cli.generate import generate
from factrank.cli.measure import measure
from factrank.cli.recall import recall
from factrank.cli.samples import samples
from factrank.cli.solve import solve
from factrank.cli.study import app as study
from factrank.cli.support.environment import fault_of_environment, show_frames_of_jax
from factrank.cli.support.terminal import complain, say
from factrank.cli.train import train
from factrank.cli.verify import verify
from factrank.errors import FactrankError, InputWarning
from factrank.host import require_compilers_fit

OUT_OF_MEMORY = "RESOURCE_EXHAUSTED"
"""How the errors of JAX begin when a device has no memory left."""

INTERRUPTED = 130


class Commands(TyperGroup):
    """The commands; one that is interrupted says so, unless it has something better to say."""

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
    help="Measure how many facts an attention layer can hold, write or train them into layers, and ask them.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
)
for command in (measure, train, construct, solve, edit, verify, recall, ask, assumptions, samples, generate, convert):
    app.command(cls=EditCommand if command is edit else None)(command)
app.add_typer(study)


WITHOUT_COMPILERS = ("measure", "samples", "generate", "convert", "--help", "--version")
"""What loads neither JAX nor numba."""


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
    """Measure how many facts an attention layer can hold, write or train them into layers, and ask them."""


def main() -> None:
    """The program `factrank`: like other Unix programs it ends quietly when its reader does (`| head`)."""
    if hasattr(signal, "SIGPIPE"):
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    show_frames_of_jax()
    run()


def run() -> None:
    """Run the command line; a user's mistake is one clear message and exit code 2, never a traceback."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # names that the terminal cannot show
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
        sys.exit(2)
    except MemoryError:
        _say_out_of_memory()
    except OSError as error:
        complain(f"{error.strerror or error}")
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # what is still in the buffer has nowhere to go
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
    complain(
        "this needs more memory than there is; try a smaller table or layer, fewer seeds or a smaller --batch-size"
    )
    sys.exit(2)
