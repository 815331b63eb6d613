"""Output of `factrank study`: verdicts, plans, counts and problems, as text or as JSON."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import typer
from rich.text import Text

from factrank.cli.support.terminal import INTERRUPTED, complain, display, say, say_json
from factrank.foreign_text import shown_name
from factrank.report import many

if TYPE_CHECKING:
    from factrank.experiments.execution import RunSummary
    from factrank.experiments.store import Store
    from factrank.experiments.study import Size, Study, StudyResults


def finish_all(
    studies: Sequence[Study],
    size: Size,
    store: Store,
    command: Callable[[Study], str] | None,
    output: Path | None = None,
    run: Callable[[Study], RunSummary] | None = None,
    json: bool = False,
) -> None:
    """Run each study, judge its claims and write its report; then exit with the code for all of them.

    A claim that is not reproduced does not stop the next study.

    `command` returns the command that runs a study, which its report quotes; without it no report is written. `run`
    runs the missing trials of a study; without it only the store is read. `json` prints one document instead of text.
    """
    from factrank.report.study import run_data  # noqa: PLC0415 - JAX takes a second to load

    results: list[StudyResults] = []
    documents: list[dict[str, Any]] = []
    interrupted = False
    try:
        for at, study in enumerate(studies, start=1):
            if len(studies) > 1 and not json:
                say_heading(f"{study.name} ({at} of {len(studies)}): {study.title}", first=at == 1)
            summary = run(study) if run is not None else None
            interrupted = summary is not None and _ran(summary, store, json=json)
            if interrupted:
                break
            found, document = _finish(study, size, store, command and command(study), output, json=json)
            results.append(found)
            documents.append(document | {"run": None if summary is None else run_data(summary)})
    except KeyboardInterrupt:
        complain("interrupted; the same command resumes")
        interrupted = True
    if not interrupted:
        say_problems(store)
        if len(studies) > 1 and not json:
            say_tally("in all", results, first=False)
    if json:
        say_json({"store": str(store.folder), "interrupted": interrupted, "studies": documents})
    if interrupted or any(found.errors or found.is_refuted for found in results):
        raise typer.Exit(INTERRUPTED if interrupted else 1)


def _ran(summary: RunSummary, store: Store, *, json: bool) -> bool:
    """Report what a run did; returns whether it was interrupted."""
    from factrank.report.study import duration  # noqa: PLC0415

    if summary.interrupted:
        stored = summary.n_trials - summary.n_left
        done = f"interrupted; {stored:,} of {summary.n_trials:,} trials are stored in {store.folder}"
        complain(f"{done}; the same command continues with the others")
    elif summary.n_before == summary.n_trials and not json:
        say(f"nothing to run: all {summary.n_trials:,} trials are stored")
    elif not json:
        before = f", {summary.n_before:,} were stored before" if summary.n_before else ""
        say(f"{summary.n_ended:,} trials in {duration(summary.seconds)}{before}")
    return summary.interrupted


def _finish(
    study: Study, size: Size, store: Store, command: str | None, output: Path | None, *, json: bool
) -> tuple[StudyResults, dict[str, Any]]:
    """Judge the claims of a study and write its report; returns the results, and the results as plain data."""
    from factrank.experiments.study import results_of  # noqa: PLC0415
    from factrank.report.study import claims_table, failures_text, results_data  # noqa: PLC0415

    found = results_of(study, size, store.tables(), store.fixed_claims(study.name, size))
    if found.judged and not json:
        display(claims_table(found))
    failures = failures_text(found)
    if failures:
        complain(f"{failures}\n--rerun-failed runs them again")
    path = None
    if command is not None:
        from factrank.report.study import write_report  # noqa: PLC0415 - a bare machine has no drawing libraries

        path = write_report(found, store, command, output)
        if not json:
            say(f"report: {path}")
    return found, results_data(found) | {"report": None if path is None else str(path)} if json else {}


def say_plans(
    studies: Sequence[Study],
    size: Size,
    store: Store,
    *,
    rerun_failed: bool,
    keep_weights: bool = False,
    json: bool = False,
) -> None:
    """Print what a run would do."""
    from factrank.experiments.execution import plan_run  # noqa: PLC0415
    from factrank.report.study import dry_run_lines, run_data  # noqa: PLC0415 - JAX takes a second to load

    documents = []
    for at, study in enumerate(studies):
        plan = plan_run(study, size, store, rerun_failed=rerun_failed, keep_weights=keep_weights)
        documents.append({"name": study.name, "size": size, **run_data(plan)})
        if json:
            continue
        if len(studies) > 1:
            say_heading(f"{study.name}: {study.title}", first=at == 0)
        display(dry_run_lines(plan))
    if json:
        say_json({"store": str(store.folder), "studies": documents})


def say_heading(text: str, *, first: bool) -> None:
    """Print a heading, after an empty line unless it is the first."""
    display(*([] if first else [""]), Text(shown_name(text, None), style="bold"))


def say_tally(what: object, results: Collection[StudyResults], *, first: bool = True) -> None:
    """Print the number of published statements with each verdict, over several studies, and of claims not counted."""
    from factrank.experiments.statistics import ClaimStatus  # noqa: PLC0415
    from factrank.experiments.study import paper_statements  # noqa: PLC0415

    statements = paper_statements({found.study.name: found for found in results})
    found = [one.status for one in statements]
    counts = ", ".join(f"{found.count(status):,} {status}" for status in get_args(ClaimStatus) if status in found)
    n_others = sum(len(one.judged) for one in results) - sum(len(one.claims) for one in statements)
    others = f"; {many(n_others, 'claim')} not counted" if n_others else ""
    counted = f"{many(len(found), 'published statement')}{f': {counts}' if counts else ''}"
    line = f"{what}: {many(len(results), 'study')}, {counted}{others}"
    say(line if first else f"\n{line}")


def say_problems(store: Store) -> None:
    """Report damaged or foreign files in the store, and lost results, to standard error."""
    for problem in store.unsound_files():
        complain(f"{problem}; it is left out")
    for loss in store.losses():
        complain(loss)
