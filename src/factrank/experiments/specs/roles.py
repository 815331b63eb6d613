"""Roles: the two parts of a trial that families describe in classes of their own, the data and the model.

A class takes a role when it is registered (`specification.register_kind`); a field annotated with the role then holds
any class that has taken it.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, ClassVar, Protocol, runtime_checkable


@runtime_checkable
class ModelSpec(Hashable, Protocol):
    """A frozen, hashable description of a model: its sizes and options."""

    __dataclass_fields__: ClassVar[dict[str, Any]]


@runtime_checkable
class Data(Protocol):
    """What a model is trained on: a database, examples, whatever a family reads."""

    @property
    def fingerprint(self) -> str:
        """What tells it from all others, the same on every machine."""


@runtime_checkable
class DataSpec(Hashable, Protocol):
    """A frozen, hashable description of data."""

    __dataclass_fields__: ClassVar[dict[str, Any]]

    def build(self) -> Data:
        """The data."""
