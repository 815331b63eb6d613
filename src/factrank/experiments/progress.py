"""Progress of a run: one hook for any meter, and the terminal's own."""

from __future__ import annotations

import sys
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Protocol, runtime_checkable


@runtime_checkable
class Meter(Protocol):
    """What a run reports. Give any object with this method to `train_many` to draw progress in another way."""

    def update(self, models_done: int, n_models: int, model_epochs: int, n_model_epochs: int) -> None:
        """Models finished and all models; epochs of single models run so far, and at most to run in all."""


class TerminalMeter(AbstractContextManager["TerminalMeter"]):
    """A bar on standard error with models done, epochs per second and time left; silent when that is no terminal."""

    def __init__(self) -> None:
        self._progress = None
        if sys.stderr.isatty():
            from rich.console import Console  # noqa: PLC0415 - not needed to run a trial
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
