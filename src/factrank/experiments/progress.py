"""Progress meters: the interface, a progress bar for the terminal, and a line for notebooks."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from time import monotonic
from types import TracebackType
from typing import Protocol, runtime_checkable

from factrank.notebook_progress import ProgressLine

INTERVAL = 0.3
"""Least seconds between two updates of the line."""


@runtime_checkable
class Meter(Protocol):
    """Receives progress updates. Pass any object with this method to `train_many` to display progress differently."""

    def update(self, models_done: int, n_models: int, model_epochs: int, n_model_epochs: int) -> None:
        """Report the number of finished models, of all models, of model epochs so far, and of model epochs at most."""


class NotebookMeter:
    """Writes progress to the line below a notebook's cell."""

    def __init__(self, line: ProgressLine) -> None:
        self._line, self._start, self._due = line, monotonic(), 0.0

    def update(self, models_done: int, n_models: int, model_epochs: int, n_model_epochs: int) -> None:
        """Replace the line: finished models, percentage, speed, time left at most."""
        passed, share = monotonic() - self._start, model_epochs / max(n_model_epochs, 1)
        if passed < self._due:
            return
        self._due = passed + INTERVAL
        words = [f"{models_done:,} of {n_models:,} models", f"{share:.0%}"]
        if model_epochs:
            words += [f"{model_epochs / passed:,.0f} model-epochs/s", f"at most {passed / share - passed:,.0f} s left"]
        else:
            words.append("compiling")
        self._line.update(", ".join(words))


@contextmanager
def notebook_meter(meter: Meter | None) -> Iterator[Meter | None]:
    """Return the given meter; if there is none, a line below the cell in notebooks."""
    with ProgressLine("training", wanted=meter is None) as line:
        yield NotebookMeter(line) if meter is None else meter


class TerminalMeter(AbstractContextManager["TerminalMeter"]):
    """Progress bar on standard error: finished models, epochs per second, time left. Disabled without a terminal."""

    def __init__(self) -> None:
        self._progress = None
        if sys.stderr.isatty():
            from rich.console import Console  # noqa: PLC0415 - slow to import
            from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn  # noqa: PLC0415

            self._progress = Progress(
                TextColumn("{task.fields[models]} models"),
                BarColumn(),
                TextColumn("{task.percentage:>3.0f}%  {task.fields[speed]}"),
                TimeRemainingColumn(),
                console=Console(stderr=True),
                transient=True,
            )
            self._task = self._progress.add_task("", total=None, models="0", speed="")

    def update(self, models_done: int, n_models: int, model_epochs: int, n_model_epochs: int) -> None:
        """Redraw the bar."""
        if self._progress is None:
            return
        speed = self._progress.tasks[0].speed
        self._progress.update(
            self._task,
            total=n_model_epochs,
            completed=model_epochs,
            models=f"{models_done:,} of {n_models:,}",
            speed=f"{speed:,.0f} model-epochs/s" if speed else "compiling",
        )

    def __enter__(self) -> TerminalMeter:
        if self._progress is not None:
            self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._progress is not None:
            self._progress.stop()
