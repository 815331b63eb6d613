"""`factrank study`: run the studies of the catalogue, or your own, and see which published claims hold.

The name of a paper selects all its studies, in order. Exit codes: 0 success; 1 a claim was not reproduced or a trial
failed; 2 bad input; 130 interrupted by Ctrl-C: finished trials are stored, and the same command resumes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from factrank.cli.study_new import new
from factrank.cli.support.asked_studies import STORE, Asked
from factrank.cli.support.commands import HELP_OPTIONS, PlainCommand
from factrank.cli.support.study_words import finish_all, say_heading, say_plans, say_problems, say_tally
from factrank.cli.support.terminal import Json, complain, display, say_json, say_result
from factrank.errors import InputError
from factrank.report import many

if TYPE_CHECKING:
    from factrank.experiments.execution import Executor, RunSummary
    from factrank.experiments.store import Store
    from factrank.experiments.study import Size, Study

app = typer.Typer(
    name="study",
    help="""Run studies and check published claims.

    A study trains many models, keeps their results in a store, judges published claims and writes one report.

    Example: factrank study run vo-against-qk
    """,
    context_settings=HELP_OPTIONS,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)

app.command(cls=PlainCommand)(new)

Name = Annotated[
    str | None, typer.Argument(metavar="STUDY", help="A study or a paper of the catalogue, or a .yaml file.")
]
Python = Annotated[
    Path | None,
    typer.Option("--python", metavar="FILE", help="Execute this Python file and take its variable STUDY."),
]
Seeds = Annotated[
    int | None, typer.Option("--seeds", metavar="N", help="Use this many seeds of every setting, instead of its own.")
]
Set = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="NAME=VALUES", help="Use these values of a setting: model.d_vo=1,2,4. Repeatable."),
]
Words = Annotated[
    list[str],
    typer.Argument(
        metavar="[STUDY] FOLDER",
        help="A paper or a study of the catalogue, or a .yaml file (not with --python), and the published folder.",
    ),
]
Full = Annotated[bool, typer.Option("--full", help="Use the full size instead of the quick one.")]
Folder = Annotated[Path, typer.Option("--store", metavar="FOLDER", help="Folder of the stored results.")]


@app.command("list", cls=PlainCommand)
def list_studies(json: Json = False) -> None:
    """List the papers and their studies, with numbers of trials.

    Example: factrank study list
    """
    from factrank.report.study import catalogue_data, catalogue_table  # noqa: PLC0415 - JAX takes a second to load
    from factrank.studies import PAPERS  # noqa: PLC0415

    if json:
        say_json(catalogue_data(PAPERS))
        return
    for at, (paper, studies) in enumerate(PAPERS.items()):
        say_heading(f"{paper}: {many(len(studies), 'study')}; factrank study run {paper} runs all", first=at == 0)
        display(catalogue_table({study.name: study for study in studies}))


@app.command(cls=PlainCommand)
def show(
    name: Name = None, python: Python = None, seeds: Seeds = None, settings: Set = None, json: Json = False
) -> None:
    """Describe a study: its question, its trials and its claims.

    The name of a paper describes all its studies.

    Example: factrank study show vo-against-qk
    """
    from factrank.report.study import study_data, study_lines  # noqa: PLC0415

    asked = Asked(name, python, seeds, tuple(settings or ()))
    studies = asked.studies()
    command = asked.commands(studies, STORE, "quick")
    if json:
        say_json({"studies": [study_data(study, command(study)) for study in studies]})
        return
    for at, study in enumerate(studies):
        if at:
            display()
        display(study_lines(study, f"run it: {command(study)} [--full]"))


@app.command(cls=PlainCommand)
def run(
    name: Name = None,
    python: Python = None,
    full: Full = False,
    seeds: Seeds = None,
    settings: Set = None,
    executor: Annotated[
        Literal["local", "ray"], typer.Option(help="Run on this machine or on a Ray cluster.")
    ] = "local",
    processes: Annotated[
        int, typer.Option(min=1, metavar="N", help="Run bundles in this many processes, which share the GPU.")
    ] = 1,
    store: Folder = STORE,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only report how many trials would run, how long, in how much memory.")
    ] = False,
    rerun_failed: Annotated[bool, typer.Option("--rerun-failed", help="Run failed trials again.")] = False,
    keep_weights: Annotated[bool, typer.Option("--keep-weights", help="Also store the trained models.")] = False,
    track: Annotated[
        Literal["wandb", "tensorboard"] | None, typer.Option(help="Also log trials to this tracker.")
    ] = None,
    no_report: Annotated[
        bool, typer.Option("--no-report", help="Write no report, for machines without the drawing libraries.")
    ] = False,
    json: Json = False,
) -> None:
    """Run the missing trials of a study and judge its claims.

    Trials that the store has are not run again. A report with charts is written to the store. The name of a paper runs
    all its studies. On Ctrl-C finished trials are kept, and the same command resumes. The exit code is 1 if a claim was
    not reproduced or a trial failed.

    Example: factrank study run vo-against-qk --dry-run
    """
    from factrank.experiments import TerminalMeter  # noqa: PLC0415
    from factrank.experiments.execution import run_study, tracker_named  # noqa: PLC0415
    from factrank.experiments.store import Store  # noqa: PLC0415

    asked = Asked(name, python, seeds, tuple(settings or ()))
    studies, size, kept = asked.studies(), _size(full), Store(store)
    if dry_run:
        say_plans(studies, size, kept, rerun_failed=rerun_failed, keep_weights=keep_weights, json=json)
        return

    def run_one(study: Study) -> RunSummary:
        where = _executor(executor, processes, kept, keep_weights)
        tracker = tracker_named(track, study.name, store / "tensorboard") if track is not None else None
        try:
            with TerminalMeter() as meter:
                return run_study(
                    study, size, kept, executor=where, meter=meter, tracker=tracker, rerun_failed=rerun_failed
                )
        finally:
            if tracker is not None:
                tracker.close()

    commands = asked.commands(studies, store, size)
    finish_all(studies, size, kept, None if no_report else commands, run=run_one, json=json)


@app.command(cls=PlainCommand)
def report(
    name: Name = None,
    python: Python = None,
    full: Full = False,
    seeds: Seeds = None,
    settings: Set = None,
    store: Folder = STORE,
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", metavar="FILE.html", help="File to write; by default, one in the store."),
    ] = None,
    json: Json = False,
) -> None:
    """Write the report of a study from stored results.

    Nothing is run. The exit codes are the same as for `factrank study run`.

    Example: factrank study report vo-against-qk -o report.html
    """
    if output is not None and output.suffix.lower() != ".html":
        raise InputError(f"{output}: a report is written to a file whose name ends in .html")
    asked = Asked(name, python, seeds, tuple(settings or ()))
    studies, size = asked.studies(), _size(full)
    if output is not None and len(studies) > 1:
        raise InputError(f"{output}: {name} has {len(studies)} studies, and each has its report; name one of them")
    finish_all(studies, size, _existing(store), asked.commands(studies, store, size), output, json=json)


@app.command(cls=PlainCommand)
def publish(
    words: Words,
    python: Python = None,
    seeds: Seeds = None,
    settings: Set = None,
    full: Annotated[bool, typer.Option("--full/--quick", help="Size to publish.")] = True,
    store: Folder = STORE,
    check: Annotated[bool, typer.Option("--check", help="Write nothing; check a folder that was published.")] = False,
    json: Json = False,
) -> None:
    """Publish tables, charts, claims and the lab report of a paper.

    Everything is computed from the store. README.md is rendered from text.md, prose with a placeholder for every
    number; if there is no text.md, a first draft is written. --check compares the folder with its checksums, its tables
    with the trials of the studies, and all claims, summaries and texts with what the tables give. The exit code is 1 if
    anything differs, if trials are missing, or if the store has lost their curves or readings.

    A study of which only the quick size was run is not published as the full one: use --quick. --check needs the same
    --seeds and --set that were published.

    Example: factrank study publish wong2025 reproductions/wong2025
    """
    from factrank.experiments.store import CURVES, READINGS  # noqa: PLC0415
    from factrank.report.publishing import differences  # noqa: PLC0415 - JAX takes a second to load
    from factrank.report.publishing import publish as write  # noqa: PLC0415
    from factrank.report.study import results_data  # noqa: PLC0415

    asked, folder = _asked(words, python, seeds, settings)
    studies = asked.studies()
    if check:
        found = differences(folder, studies)
        text = "\n".join(found) or f"{folder}: no difference from its checksums, its tables and its text"
        say_result(text, {"folder": str(folder), "differences": found}, json=json)
        raise typer.Exit(1 if found else 0)
    kept = _existing(store)
    fixed = {study.name: kept.fixed_claims(study.name, _size(full)) for study in studies}
    published = write(asked.title, studies, _size(full), kept.tables(), folder, fixed)
    say_problems(kept)
    for path in published.strange:
        complain(f"{path}: no study of {asked.title} has this file; it is left in place")
    missing = {study: found.n_missing for study, found in published.results.items() if found.n_missing}
    for study, n_missing in missing.items():
        command = asked.command(study if len(studies) > 1 else None, store, _size(full))
        complain(f"{study}: {n_missing:,} trials were not run: {command}")
    if json:
        documents = [results_data(found) for found in published.results.values()]
        say_json({"folder": str(folder), "strange_files": list(map(str, published.strange)), "studies": documents})
    else:
        say_tally(folder, published.results.values())
    requested = {one for found in published.results.values() for one in found.tables.trials["hash"].to_pylist()}
    lost = kept.lost()
    if missing or requested & (lost[CURVES] | lost[READINGS]):
        raise typer.Exit(1)


@app.command(cls=PlainCommand)
def restore(
    words: Words,
    python: Python = None,
    seeds: Seeds = None,
    settings: Set = None,
    store: Folder = STORE,
    json: Json = False,
) -> None:
    """Fill a store with the published results of a paper.

    Its studies can then be resumed. Trials that the store already has are left as they are. Rows that no study requests
    any more are counted and skipped, as are studies that were never published.

    Example: factrank study restore wong2025 reproductions/wong2025
    """
    from factrank.experiments.store import Store  # noqa: PLC0415
    from factrank.report.publishing import restore as fill  # noqa: PLC0415 - JAX takes a second to load

    asked, folder = _asked(words, python, seeds, settings)
    found = fill(folder, asked.studies(), Store(store))
    left = f"; {found.n_unknown:,} rows that no study requests were skipped" if found.n_unknown else ""
    left += f"; not published: {', '.join(found.unpublished)}" if found.unpublished else ""
    data = {
        "store": str(store),
        "restored": found.n_trials,
        "skipped": found.n_unknown,
        "unpublished": list(found.unpublished),
    }
    say_result(f"{found.n_trials:,} trials restored to {store}{left}", data, json=json)


@app.command(cls=PlainCommand)
def export(
    output: Annotated[Path, typer.Argument(metavar="FILE", help="A .parquet or .csv file to write.")],
    store: Folder = STORE,
    json: Json = False,
) -> None:
    """Export all stored trials to one table.

    Example: factrank study export results.parquet
    """
    kept = _existing(store)
    kept.export(output)
    say_problems(kept)
    n_trials = kept.trials().num_rows
    say_result(f"{n_trials:,} trials in {output}", {"output": str(output), "trials": n_trials}, json=json)


# -------------------------------------------------------------------- options


def _asked(
    words: Sequence[str], python: Path | None, seeds: int | None, settings: Sequence[str] | None
) -> tuple[Asked, Path]:
    """Return the studies and the folder of a command that takes both."""
    n_names = 0 if python is not None else 1
    if len(words) != n_names + 1:
        expected = "FOLDER" if python is not None else "STUDY FOLDER"
        raise InputError(f"expected {expected}; got {' '.join(words)}")
    name = words[0] if n_names else None
    return Asked(name, python, seeds, tuple(settings or ())), Path(words[-1])


def _size(full: bool) -> Size:
    return "full" if full else "quick"


def _existing(folder: Path) -> Store:
    from factrank.experiments.store import Store  # noqa: PLC0415 - JAX takes a second to load

    store = Store(folder)
    if not store.exists:
        raise InputError(f"{folder}: there are no stored results")
    return store


def _executor(wanted: Literal["local", "ray"], processes: int, store: Store, keep_weights: bool) -> Executor | None:
    """Return the executor, or None for the default of `run_study`."""
    from factrank.experiments.execution import (  # noqa: PLC0415 - JAX takes a second to load
        LocalExecutor,
        ProcessExecutor,
        RayExecutor,
        checkpoint_folder,
    )

    if wanted == "ray":
        if processes > 1:
            raise InputError("--processes is for this machine; a Ray cluster has its own: leave out one of the two")
        return RayExecutor(keep_weights=keep_weights)
    if processes > 1:
        executor = ProcessExecutor(processes, keep_weights=keep_weights)  # before JAX reserves the GPU's memory
        return replace(executor, checkpoints=checkpoint_folder(store))
    if not keep_weights:
        return None
    return LocalExecutor(keep_weights=keep_weights, checkpoints=checkpoint_folder(store))
