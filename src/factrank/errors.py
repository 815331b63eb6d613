"""The errors a user can mend: they name the place and what was expected, and never need a traceback."""

from __future__ import annotations

from factrank.foreign_text import shown_message


class FactrankError(Exception):
    """Base of every error that factrank raises on purpose. The command line prints it and exits with 2.

    The message may quote names from files: control characters in it become escapes, and it is kept short.
    """

    def __init__(self, message: str = "") -> None:
        super().__init__(shown_message(message))


class InputError(FactrankError):
    """A file, a table or an argument is not what was expected."""


class ConflictError(InputError):
    """Two different values for one (key, query) where one was expected."""


class InputWarning(UserWarning):
    """A choice that was made because the input left it open, and how to make it otherwise.

    The message may quote names from files, as that of a `FactrankError` may.
    """

    def __init__(self, message: str = "") -> None:
        super().__init__(shown_message(message))
