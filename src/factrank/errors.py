"""The errors a user can mend: they name the place and what was expected, and never need a traceback."""

from __future__ import annotations


class FactrankError(Exception):
    """Base of every error that factrank raises on purpose. The command line prints it and exits with 2."""


class InputError(FactrankError):
    """A file, a table or an argument is not what was expected."""


class ConflictError(InputError):
    """Two different values for one (key, query) where one was expected."""
