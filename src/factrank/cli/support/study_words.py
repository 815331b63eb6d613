"""What `factrank study` says: verdicts of one study or of many, plans, counts, and what went wrong."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn, get_args

import typer
from rich.text import Text

from factrank.cli.support.terminal import complain, display, say
from factrank.foreign_text import shown_name

if TYPE_CHECKING:
    from factrank.experiments.execution import RunSummary
    from factrank.experiments.store import Store
    from factrank.experiments.study import Size, Study, StudyResults

INTERRUPTED = 130


def finish_all(
    studies: Sequence[Study],
    size: Size,
    store: Store,
    command: Callable[[Study], str] | None,
    output: Path | None = None,
    before: Callable[[Study], None] = lambda _: None,
) -> None:
    """Do what comes `before` for each study, judge its claims and write its report; end with the exit code for all.

    `command` gives the command that runs a study, for its report; without it none is written. A claim that is not
    reproduced does not stop the next study.
    """
    results: list[StudyResults] = []
    try:
        for at, study in enumerate(studies, start=1):
            if len(studies) > 1:
                say_heading(f"{study.name} ({at} of {len(studies)}): {study.title}", first=at == 1)
            before(study)
            results.append(_finish(study, size, store, command and command(study), output))
    except KeyboardInterrupt:
        complain("interrupted; the same command resumes")
        raise typer.Exit(INTERRUPTED) from None
    say_problems(store)
    if len(studies) > 1:
        say_tally("in all", results, first=False)
    if any(found.errors or found.is_refuted for found in results):
        raise typer.Exit(1)


def _finish(study: Study, size: Size, store: Store, command: str | None, output: Path | None) -> StudyResults:
    """Say what came of the claims, write the report and say where it is; gives the results."""
    from factrank.experiments.study import results_of  # noqa: PLC0415
    from factrank.report.study import claims_table, failures_text  # noqa: PLC0415 - JAX takes a second to load

    found = results_of(study, size, store.tables())
    if found.judged:
        display(claims_table(found))
    failures = failures_text(found)
    if failures:
        complain(f"{failures}\n--rerun-failed runs them again")
    if command is not None:
        from factrank.report.study import write_report  # noqa: PLC0415 - a bare machine has nothing that draws

        say(f"report: {write_report(found, store, command, output)}")
    return found


def say_plans(
    studies: Sequence[Study], size: Size, store: Store, *, rerun_failed: bool, keep_weights: bool = False
) -> None:
    """Say what a run would do."""
    from factrank.experiments.execution import plan_run  # noqa: PLC0415
    from factrank.report.study import dry_run_lines  # noqa: PLC0415 - JAX takes a second to load

    for at, study in enumerate(studies):
        if len(studies) > 1:
            say_heading(f"{study.name}: {study.title}", first=at == 0)
        display(dry_run_lines(plan_run(study, size, store, rerun_failed=rerun_failed, keep_weights=keep_weights)))


def say_heading(text: str, *, first: bool) -> None:
    """A line above others, apart from those before it."""
    display(*([] if first else [""]), Text(shown_name(text, None), style="bold"))


def say_tally(what: object, results: Collection[StudyResults], *, first: bool = True) -> None:
    """Count the claims of several studies."""
    from factrank.experiments.statistics import ClaimStatus  # noqa: PLC0415

    judged = [pair for found in results for pair in found.judged]
    found = [verdict.status for claim, verdict in judged if not claim.extension]
    counts = ", ".join(f"{found.count(status):,} {status}" for status in get_args(ClaimStatus) if status in found)
    n_ours = len(judged) - len(found)
    ours = f"; {many(n_ours, 'question')} of ours beside {'it' if len(found) == 1 else 'them'}" if n_ours else ""
    line = f"{what}: {many(len(results), 'study')}, {many(len(found), 'claim')}{f': {counts}' if counts else ''}{ours}"
    say(line if first else f"\n{line}")


def many(count: int, thing: str) -> str:
    """So many things.

    >>> many(1, "study"), many(2, "study"), many(1000, "claim")
    ('1 study', '2 studies', '1,000 claims')
    """
    things = thing if count == 1 else f"{thing[:-1]}ies" if thing.endswith("y") else f"{thing}s"
    return f"{count:,} {things}"


def say_done(summary: RunSummary) -> None:
    """How many trials ran, and how long."""
    from factrank.report.study import duration  # noqa: PLC0415

    if summary.n_before == summary.n_trials:
        say(f"nothing to run: all {summary.n_trials:,} trials are stored")
        return
    before = f", {summary.n_before:,} were stored before" if summary.n_before else ""
    say(f"{summary.n_ended:,} trials in {duration(summary.seconds)}{before}")


def say_interrupted(summary: RunSummary, store: Path) -> NoReturn:
    """How many trials are stored after Ctrl-C; ends with the exit code for it."""
    stored = summary.n_trials - summary.n_left
    done = f"interrupted; {stored:,} of {summary.n_trials:,} trials are stored in {store}"
    complain(f"{done}; the same command continues with the others")
    raise typer.Exit(INTERRUPTED)


def say_problems(store: Store) -> None:
    """Which files in the store are no parts of it, and what is lost."""
    for problem in store.unsound_files():
        complain(f"{problem}; it is left out")
    for loss in store.losses():
        complain(loss)
