"""Errors that a user can fix: messages name the location and what was expected."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from factrank.foreign_text import shown_message


class FactrankError(Exception):
    """Base class of every error that factrank raises on purpose. The command line prints it and exits with status 2.

    Messages may quote text from files, so control characters are escaped and long text is truncated.
    """

    def __init__(self, message: str = "") -> None:
        super().__init__(shown_message(message))


class InputError(FactrankError):
    """Invalid file, table or argument."""


class ConflictError(InputError):
    """Two different values for the same (key, query) in a table that must be functional."""


class SearchError(FactrankError):
    """A search found nothing: the question is sound, and the answer is no. The command line exits with status 1."""


class Interrupted(KeyboardInterrupt):
    """Ctrl-C ended a long computation; the message tells how to continue.

    In a notebook, `sys.last_value.finished` has what was finished.

    Arguments:
        message: what happened, and how to continue.
        finished: the results that were finished.
    """

    def __init__(self, message: str, finished: Sequence[Any] = ()) -> None:
        super().__init__(shown_message(message))
        self.finished = list(finished)


class InputWarning(UserWarning):
    """A default that was chosen because the input is ambiguous; the message explains how to override it.

    Text from files is escaped and truncated, as in `FactrankError`.
    """

    def __init__(self, message: str = "") -> None:
        super().__init__(shown_message(message))
