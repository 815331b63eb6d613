"""`factrank study`: run the catalogue's studies, or one's own, and see which published claims hold.

Exit codes: 0 done, and no claim is refuted; 1 done, but a claim is not reproduced or a trial failed; 2 bad input; 130
interrupted by Ctrl-C: what had ended is stored, and the same command goes on.
"""

from __future__ import annotations

import shlex
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from factrank.errors import InputError

if TYPE_CHECKING:
    from factrank.runs import Size, Study
    from factrank.runs.executors import Executor
    from factrank.runs.runner import Summary
    from factrank.runs.store import Store

INTERRUPTED = 130
YAML_SUFFIXES = (".yaml", ".yml")
STORE = Path("factrank-store")

app = typer.Typer(
    name="study",
    help="Run studies: many trials, their results in a folder, published claims beside ours, one report.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)

Name = Annotated[str | None, typer.Argument(metavar="NAME|FILE.yaml", help="A study of the catalogue, or a file.")]
Python = Annotated[
    Path | None, typer.Option("--python", metavar="FILE", help="A Python file that defines STUDY. This runs the file.")
]
Full = Annotated[bool, typer.Option("--full", help="The full size; quick if not given.")]
Folder = Annotated[Path, typer.Option("--store", metavar="FOLDER", help="Where results are kept.")]


class ExecutorWanted(Enum):
    """Where trials run."""

    local = "local"
    ray = "ray"


class TrackerWanted(Enum):
    """Who else hears of trials."""

    wandb = "wandb"
    tensorboard = "tensorboard"


@app.command("list")
def list_studies() -> None:
    """List the studies of the catalogue, with the number of trials of each size."""
    from factrank.report.study_terminal import catalogue_table  # noqa: PLC0415 - JAX takes a second to load
    from factrank.studies import CATALOGUE  # noqa: PLC0415

    _console().print(catalogue_table(CATALOGUE))


@app.command()
def show(name: Name = None, python: Python = None) -> None:
    """Say what a study asks, what it runs and what it claims."""
    from factrank.report.study_terminal import study_lines  # noqa: PLC0415

    study = _study(name, python)
    _console().print(study_lines(study, f"run it: {_command(name, python, 'quick', STORE)} [--full]"))


@app.command()
def run(
    name: Name = None,
    python: Python = None,
    full: Full = False,
    executor: Annotated[ExecutorWanted, typer.Option(help="This machine, or a Ray cluster.")] = ExecutorWanted.local,
    store: Folder = STORE,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say how many trials, how long, how large.")] = False,
    rerun_failed: Annotated[bool, typer.Option("--rerun-failed", help="Run failed trials again.")] = False,
    keep_weights: Annotated[bool, typer.Option("--keep-weights", help="Store the trained models too.")] = False,
    track: Annotated[TrackerWanted | None, typer.Option(help="Report trials there, too.")] = None,
) -> None:
    """Run the trials of a study that the store does not have, judge its claims and write its report.

    Ctrl-C keeps what has ended, and the same command goes on with the rest. Exit code 1 says that a claim was not
    reproduced, or that trials failed.
    """
    from factrank.report.study_terminal import dry_run_lines  # noqa: PLC0415 - JAX takes a second to load
    from factrank.runs.estimate import plan_run  # noqa: PLC0415
    from factrank.runs.runner import run_study  # noqa: PLC0415
    from factrank.runs.store import Store  # noqa: PLC0415
    from factrank.runs.trackers import tracker_named  # noqa: PLC0415
    from factrank.training import TerminalMeter  # noqa: PLC0415

    study, size, kept = _study(name, python), _size(full), Store(store)
    if dry_run:
        _console().print(dry_run_lines(plan_run(study, size, kept, rerun_failed=rerun_failed)))
        return
    where = _executor(executor, kept, keep_weights)
    tracker = tracker_named(track.value, study.name, store / "tensorboard") if track is not None else None
    try:
        with TerminalMeter() as meter:
            summary = run_study(
                study, size, kept, executor=where, meter=meter, tracker=tracker, rerun_failed=rerun_failed
            )
    finally:
        if tracker is not None:
            tracker.close()
    if summary.interrupted:
        _say_interrupted(summary, store)
    _say_done(summary)
    _finish(study, size, kept, _command(name, python, size, store))


@app.command()
def report(
    name: Name = None,
    python: Python = None,
    full: Full = False,
    store: Folder = STORE,
    output: Annotated[Path | None, typer.Option("-o", "--output", metavar="FILE.html", help="Where to write.")] = None,
) -> None:
    """Write the report of a study from the store, without running anything; the exit codes are those of run."""
    if output is not None and output.suffix.lower() != ".html":
        raise InputError(f"{output}: a report is written to a file whose name ends in .html")
    size = _size(full)
    _finish(_study(name, python), size, _existing(store), _command(name, python, size, store), output)


@app.command()
def export(
    output: Annotated[Path, typer.Argument(metavar="FILE.parquet|FILE.csv", help="Where to write.")],
    store: Folder = STORE,
) -> None:
    """Write the rows of all trials in the store to one file."""
    kept = _existing(store)
    kept.export(output)
    _say_problems(kept)
    typer.echo(f"{kept.trials().num_rows:,} trials in {output}")


# -------------------------------------------------------------------- what the options mean


def _study(name: str | None, python: Path | None) -> Study:
    if (name is None) == (python is None):
        raise InputError("give the name of a study (factrank study list), a YAML file, or --python FILE")
    if python is not None:
        from factrank.runs.study_files import load_python_study  # noqa: PLC0415

        return load_python_study(python)
    assert name is not None  # noqa: S101 - for mypy; checked above
    if name.lower().endswith(YAML_SUFFIXES):
        from factrank.runs.study_files import load_study  # noqa: PLC0415

        return load_study(name)
    if name.lower().endswith(".py"):
        raise InputError(f"{name}: a Python study is run by --python {name}, because that executes it")
    from factrank.studies import study  # noqa: PLC0415

    return study(name)


def _size(full: bool) -> Size:
    return "full" if full else "quick"


def _existing(folder: Path) -> Store:
    from factrank.runs.store import Store  # noqa: PLC0415 - JAX takes a second to load

    store = Store(folder)
    if not store.exists:
        raise InputError(f"{folder}: nothing was ever stored there")
    return store


def _command(name: str | None, python: Path | None, size: Size, store: Path) -> str:
    """The command that runs the study."""
    which = [name] if name is not None else ["--python", str(python)]
    folder = ["--store", str(store)] if store != STORE else []
    return shlex.join(["factrank", "study", "run", *which, *(["--full"] if size == "full" else []), *folder])


def _executor(wanted: ExecutorWanted, store: Store, keep_weights: bool) -> Executor | None:
    """What runs the trials; None for what `run_study` takes by itself."""
    if wanted is ExecutorWanted.ray:
        from factrank.runs.ray_executor import RayExecutor  # noqa: PLC0415

        return RayExecutor(keep_weights=keep_weights)
    if not keep_weights:
        return None
    from factrank.runs.executors import LocalExecutor  # noqa: PLC0415
    from factrank.runs.runner import checkpoint_folder  # noqa: PLC0415

    return LocalExecutor(keep_weights=keep_weights, checkpoints=checkpoint_folder(store))


# -------------------------------------------------------------------- what is said


def _finish(study: Study, size: Size, store: Store, command: str, output: Path | None = None) -> None:
    """Judge the claims, write the report, say where it is, and end with the exit code for it."""
    from factrank.report.study_report import write_report  # noqa: PLC0415 - JAX takes a second to load
    from factrank.report.study_terminal import claims_table, failures_text  # noqa: PLC0415
    from factrank.runs.study_table import judge, study_table  # noqa: PLC0415

    table = store.trials()
    verdicts = judge(study, size, table)
    if verdicts:
        _console().print(claims_table(verdicts))
    failures = failures_text(study_table(study, size, table))
    if failures:
        typer.echo(f"factrank: {failures}\n--rerun-failed runs them again", err=True)
    _say_problems(store)
    typer.echo(f"report: {write_report(study, size, store, command, output)}")
    if failures or any(verdict.status == "not reproduced" and not claim.extension for claim, verdict in verdicts):
        raise typer.Exit(1)


def _say_done(summary: Summary) -> None:
    from factrank.report.study_terminal import duration  # noqa: PLC0415

    if summary.n_before == summary.n_trials:
        typer.echo(f"nothing to run: all {summary.n_trials:,} trials are stored")
        return
    before = f", {summary.n_before:,} were stored before" if summary.n_before else ""
    typer.echo(f"{summary.n_ended:,} trials in {duration(summary.seconds)}{before}")


def _say_interrupted(summary: Summary, store: Path) -> None:
    stored = summary.n_trials - summary.n_left
    done = f"interrupted; {stored:,} of {summary.n_trials:,} trials are stored in {store}"
    typer.echo(f"factrank: {done}; the same command goes on with the others", err=True)
    raise typer.Exit(INTERRUPTED)


def _say_problems(store: Store) -> None:
    for problem in store.problems():
        typer.echo(f"factrank: {problem}; it is left out", err=True)


def _console() -> Console:
    return Console(highlight=False, markup=False)
