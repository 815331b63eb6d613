"""Progress in notebooks: one line below the cell, replaced while work proceeds and removed when it ends.

Long functions show it if they run in a Jupyter kernel for more than a second and were given no callback or meter of
their own. `show_progress(False)` turns it off.
"""

from __future__ import annotations

import sys
from contextlib import AbstractContextManager
from contextvars import copy_context
from threading import Lock, Timer
from types import TracebackType
from typing import Any

PATIENCE = 1.0
"""Seconds before the line appears."""

_settings = {"shown": True}


def show_progress(shown: bool) -> None:
    """Turn the progress line in notebooks on or off, for the rest of the session.

    >>> show_progress(False)
    """
    _settings["shown"] = bool(shown)


def in_notebook() -> bool:
    """Return whether this process is a Jupyter kernel."""
    shell = sys.modules["IPython"].get_ipython() if "IPython" in sys.modules else None
    return getattr(shell, "kernel", None) is not None


def tell(text: str) -> None:
    """Write a line below the running cell; does nothing outside notebooks."""
    if in_notebook():
        sys.modules["IPython"].display.display({"text/plain": text}, raw=True)


class ProgressLine(AbstractContextManager["ProgressLine"]):
    """A line of text below the running cell; does nothing outside notebooks or if progress is turned off.

    Arguments:
        what: First words of the line, such as "measuring".
        wanted: Whether to show it at all.
    """

    def __init__(self, what: str, *, wanted: bool = True) -> None:
        self._what, self._text = what, ""
        self._line: Any = None
        self._lock = Lock()
        self._timer: Timer | None = None
        if wanted and _settings["shown"] and in_notebook():
            # A single step may take long, so the line appears by itself. The context tells it which cell is running.
            self._timer = Timer(PATIENCE, copy_context().run, [self._appear])
            self._timer.daemon = True

    def update(self, text: str) -> None:
        """Replace the text of the line, which appears after a second."""
        with self._lock:
            self._text = text
            if self._line is not None:
                self._line.update(self._bundle(), raw=True)

    def __enter__(self) -> ProgressLine:
        if self._timer is not None:
            self._timer.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._timer is not None:
            self._timer.cancel()
        with self._lock:
            line, self._line, self._timer = self._line, None, None
        if line is not None:
            line.update({"text/plain": ""}, raw=True)

    def _appear(self) -> None:
        with self._lock:
            if self._timer is not None:
                self._line = sys.modules["IPython"].display.display(self._bundle(), raw=True, display_id=True)

    def _bundle(self) -> dict[str, str]:
        return {"text/plain": f"{self._what}: {self._text}" if self._text else f"{self._what} ..."}
