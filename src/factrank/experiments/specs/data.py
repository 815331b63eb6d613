"""Data that every family can read: a generated database, or one passed alongside the trial."""

from __future__ import annotations

from dataclasses import dataclass

from factrank.databases import Database
from factrank.databases.generators import generate
from factrank.errors import InputError
from factrank.experiments.specs.roles import Data, DataSpec
from factrank.experiments.specs.specification import NO_OPTIONS, Options, register_kind


@dataclass(frozen=True)
class Generated:
    """A database, described by its generator and the arguments, including the seed. See `generated`."""

    generator: str
    arguments: Options = NO_OPTIONS

    def build(self) -> Database:
        """Return the database."""
        return generate(self.generator, **dict(self.arguments))


@dataclass(frozen=True)
class Given:
    """A database or examples passed alongside the trial, identified by fingerprint."""

    fingerprint: str

    def build(self) -> Data:
        """Raise an `InputError`: the caller has the data."""
        raise InputError(f"the data {self.fingerprint[:12]} cannot be built; pass them alongside the trial")


def generated(generator: str, /, **arguments: object) -> Generated:
    """Return the specification of a generated database.

    >>> generated("uniform", n_keys=20, n_queries=10, n_values=20, seed=0).build().n_facts
    200
    """
    return Generated(generator, Options.of(arguments))


register_kind("generated", Generated, DataSpec)
register_kind("given", Given, DataSpec)
