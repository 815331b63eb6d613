"""`factrank study`: run the catalogue's studies, or one's own, and see which published claims hold.

The name of a paper stands for all its studies, one after the other. Exit codes: 0 done, and no claim is refuted; 1
done, but a claim is not reproduced or a trial failed; 2 bad input; 130 interrupted by Ctrl-C: what had ended is stored,
and the same command resumes.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from factrank.cli.support.study_words import (
    finish_all,
    many,
    say_done,
    say_heading,
    say_interrupted,
    say_plans,
    say_problems,
    say_tally,
)
from factrank.cli.support.terminal import complain, display, say
from factrank.errors import InputError

if TYPE_CHECKING:
    from factrank.experiments.execution import Executor
    from factrank.experiments.store import Store
    from factrank.experiments.study import Size, Study

YAML_SUFFIXES = (".yaml", ".yml")
STORE = Path("factrank-store")

app = typer.Typer(
    name="study",
    help="Run studies: many trials, their results in a folder, published claims beside ours, one report.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)

Name = Annotated[
    str | None, typer.Argument(metavar="NAME|FILE.yaml", help="A study of the catalogue, a paper, or a file.")
]
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
    """List the papers and the studies of each, with the number of trials of each size."""
    from factrank.report.study import catalogue_table  # noqa: PLC0415 - JAX takes a second to load
    from factrank.studies import PAPERS  # noqa: PLC0415

    for at, (paper, studies) in enumerate(PAPERS.items()):
        say_heading(f"{paper}: {many(len(studies), 'study')}; factrank study run {paper} runs all", first=at == 0)
        display(catalogue_table({study.name: study for study in studies}))


@app.command()
def show(name: Name = None, python: Python = None) -> None:
    """Say what a study, or each study of a paper, asks, what it runs and what it claims."""
    from factrank.report.study import study_lines  # noqa: PLC0415

    studies = _studies(name, python)
    command = _commands(studies, name, python, STORE, "quick")
    for at, study in enumerate(studies):
        if at:
            display()
        display(study_lines(study, f"run it: {command(study)} [--full]"))


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
    no_report: Annotated[
        bool, typer.Option("--no-report", help="Write no report: for machines without the libraries that draw.")
    ] = False,
) -> None:
    """Run the trials of a study that the store does not have, judge its claims and write its report.

    The name of a paper runs all its studies. Ctrl-C keeps what has ended, and the same command continues with the rest.
    Exit code 1 says that a claim was not reproduced, or that trials failed.
    """
    from factrank.experiments import TerminalMeter  # noqa: PLC0415
    from factrank.experiments.execution import (  # noqa: PLC0415
        run_study,
        tracker_named,
    )
    from factrank.experiments.store import Store  # noqa: PLC0415

    studies, size, kept = _studies(name, python), _size(full), Store(store)
    if dry_run:
        say_plans(studies, size, kept, rerun_failed=rerun_failed, keep_weights=keep_weights)
        return

    def run_one(study: Study) -> None:
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
            say_interrupted(summary, store)
        say_done(summary)

    commands = _commands(studies, name, python, store, size)
    finish_all(studies, size, kept, None if no_report else commands, before=run_one)


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
    studies, size = _studies(name, python), _size(full)
    if output is not None and len(studies) > 1:
        raise InputError(f"{output}: {name} has {len(studies)} studies, and each has its report; name one of them")
    finish_all(studies, size, _existing(store), _commands(studies, name, python, store, size), output)


@app.command()
def publish(
    name: Annotated[str, typer.Argument(metavar="NAME|FILE.yaml", help="A paper, a study, or a file.")],
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="Where to write.")],
    full: Annotated[bool, typer.Option("--full/--quick", help="Which size is published.")] = True,
    store: Folder = STORE,
    check: Annotated[bool, typer.Option("--check", help="Write nothing: compare the folder with its tables.")] = False,
) -> None:
    """Write tables, charts, claims and the lab report of a paper to a folder, from the store.

    README.md is made from text.md, prose with placeholders for every number; a first text is written where there is
    none. --check compares the folder with its checksums, its tables with the trials of the studies, and all claims,
    summaries and texts with what its tables give. Exit code 1 says that something differs, that trials are missing, or
    that the store has lost their curves or readings.
    """
    from factrank.experiments.store import CURVES, READINGS  # noqa: PLC0415
    from factrank.report.publishing import differences  # noqa: PLC0415 - JAX takes a second to load
    from factrank.report.publishing import publish as write  # noqa: PLC0415

    studies = _studies(name, None)
    if check:
        found = differences(folder, studies)
        say("\n".join(found) or f"{folder}: no difference from its checksums, its tables and its text")
        raise typer.Exit(1 if found else 0)
    kept = _existing(store)
    published = write(Path(name).stem, studies, _size(full), kept.tables(), folder)
    say_problems(kept)
    for path in published.strange:
        complain(f"{path}: no study of {name} has this file; it is left")
    missing = {study: found.n_missing for study, found in published.results.items() if found.n_missing}
    for study, n_missing in missing.items():
        command = _command(study if len(studies) > 1 else name, None, _size(full), store)
        complain(f"{study}: {n_missing:,} trials were not run: {command}")
    say_tally(folder, published.results.values())
    asked = {one for found in published.results.values() for one in found.tables.trials["hash"].to_pylist()}
    lost = kept.lost()
    if missing or asked & (lost[CURVES] | lost[READINGS]):
        raise typer.Exit(1)


@app.command()
def restore(
    name: Annotated[str, typer.Argument(metavar="NAME|FILE.yaml", help="A paper, a study, or a file.")],
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="What publish wrote.")],
    store: Folder = STORE,
) -> None:
    """Fill a store with the published results of a paper, to continue its studies from them.

    Trials that the store has are left as they are. Rows that no study asks for any more are counted and left out.
    """
    from factrank.experiments.store import Store  # noqa: PLC0415
    from factrank.report.publishing import restore as fill  # noqa: PLC0415 - JAX takes a second to load

    n_restored, n_unknown = fill(folder, _studies(name, None), Store(store))
    left = f"; {n_unknown:,} rows that no study asks for were left out" if n_unknown else ""
    say(f"{n_restored:,} trials restored to {store}{left}")


@app.command()
def export(
    output: Annotated[Path, typer.Argument(metavar="FILE.parquet|FILE.csv", help="Where to write.")],
    store: Folder = STORE,
) -> None:
    """Write the rows of all trials in the store to one file."""
    kept = _existing(store)
    kept.export(output)
    say_problems(kept)
    say(f"{kept.trials().num_rows:,} trials in {output}")


# -------------------------------------------------------------------- what the options mean


def _studies(name: str | None, python: Path | None) -> tuple[Study, ...]:
    """The studies that a name stands for: one, or all of a paper."""
    if (name is None) == (python is None):
        raise InputError("give the name of a study or a paper (factrank study list), a YAML file, or --python FILE")
    if python is not None:
        from factrank.experiments.study import load_python_study  # noqa: PLC0415

        return (load_python_study(python),)
    assert name is not None  # noqa: S101 - for mypy; checked above
    if name.lower().endswith(YAML_SUFFIXES):
        from factrank.experiments.study import load_study  # noqa: PLC0415

        return (load_study(name),)
    if name.lower().endswith(".py"):
        raise InputError(f"{name}: a Python study is run by --python {name}, because that executes it")
    from factrank.studies import studies_named  # noqa: PLC0415

    return studies_named(name)


def _size(full: bool) -> Size:
    return "full" if full else "quick"


def _existing(folder: Path) -> Store:
    from factrank.experiments.store import Store  # noqa: PLC0415 - JAX takes a second to load

    store = Store(folder)
    if not store.exists:
        raise InputError(f"{folder}: nothing was ever stored there")
    return store


def _command(name: str | None, python: Path | None, size: Size, store: Path) -> str:
    """The command that runs the study."""
    which = [name] if name is not None else ["--python", str(python)]
    folder = ["--store", str(store)] if store != STORE else []
    return shlex.join(["factrank", "study", "run", *which, *(["--full"] if size == "full" else []), *folder])


def _commands(
    studies: Sequence[Study], name: str | None, python: Path | None, store: Path, size: Size
) -> Callable[[Study], str]:
    """The command that runs each of the studies that a name stands for."""
    return lambda study: _command(study.name if len(studies) > 1 else name, python, size, store)


def _executor(wanted: ExecutorWanted, store: Store, keep_weights: bool) -> Executor | None:
    """What runs the trials; None for what `run_study` takes by itself."""
    if wanted is ExecutorWanted.ray:
        from factrank.experiments.execution import RayExecutor  # noqa: PLC0415

        return RayExecutor(keep_weights=keep_weights)
    if not keep_weights:
        return None
    from factrank.experiments.execution import (  # noqa: PLC0415
        LocalExecutor,
        checkpoint_folder,
    )

    return LocalExecutor(keep_weights=keep_weights, checkpoints=checkpoint_folder(store))
