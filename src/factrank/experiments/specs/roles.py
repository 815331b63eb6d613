"""Roles: the parts of a trial that families define classes for, that is, data and model.

A class is assigned a role when it is registered (`specification.register_kind`). A field annotated with a role accepts
any class with that role.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, TypeVar, runtime_checkable

from factrank.errors import InputError

Presented = TypeVar("Presented", bound="Presentation")


@runtime_checkable
class ModelSpec(Hashable, Protocol):
    """A frozen, hashable description of a model: its sizes and options."""

    __dataclass_fields__: ClassVar[dict[str, Any]]


@runtime_checkable
class Data(Protocol):
    """Training data: a database, examples, or anything else that a family reads."""

    @property
    def fingerprint(self) -> str:
        """Hash of the contents, the same on every machine."""


@runtime_checkable
class DataSpec(Hashable, Protocol):
    """A frozen, hashable description of data."""

    __dataclass_fields__: ClassVar[dict[str, Any]]

    def build(self) -> Data:
        """Return the data."""


@dataclass(frozen=True)
class Presentation:
    """Facts, and how they are presented to a model: how often, in which contexts.

    A family with such options subclasses it and gives each option a default. If every option has its default, the
    presentation is equivalent to its facts, and a trial stores only the facts.
    """

    facts: DataSpec

    @classmethod
    def of(cls: type[Presented], data: DataSpec) -> Presented:
        """Return the data, presented with default options unless they already have a presentation."""
        return data if isinstance(data, cls) else cls(data)

    def __post_init__(self) -> None:
        if isinstance(self.facts, Presentation):
            raise InputError(f"{type(self).__name__} takes facts; got facts with a presentation")
        if not isinstance(self.facts, DataSpec):
            raise InputError(f"{type(self).__name__} takes facts, such as generated(...); got {self.facts!r}")

    def build(self) -> Data:
        """Return the facts."""
        return self.facts.build()


def source_of(data: DataSpec) -> DataSpec:
    """Return the description of the data without their presentation."""
    return data.facts if isinstance(data, Presentation) else data


def simplest(data: DataSpec) -> DataSpec:
    """Return the data, without their presentation if all its options have default values."""
    return data.facts if isinstance(data, Presentation) and data == type(data)(data.facts) else data
