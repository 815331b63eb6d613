"""Data of a trial that every family can read: a generated database, or one that is passed alongside the trial."""

from __future__ import annotations

from dataclasses import dataclass

from factrank.databases import Database
from factrank.databases.generators import generate
from factrank.errors import InputError
from factrank.experiments.specs.roles import Data, DataSpec
from factrank.experiments.specs.specification import NO_OPTIONS, Options, register_kind


@dataclass(frozen=True)
class Generated:
    """A database by the name of its generator and its arguments, its own seed among them; see `generated`."""

    generator: str
    arguments: Options = NO_OPTIONS

    def build(self) -> Database:
        """The facts."""
        return generate(self.generator, **dict(self.arguments))


@dataclass(frozen=True)
class Given:
    """A database, or examples, that are handed in beside the trial, known by their fingerprint."""

    fingerprint: str

    def build(self) -> Data:
        """Nothing: who runs the trial has the data."""
        raise InputError(f"the data {self.fingerprint[:12]} are not described but given beside the trial")


def generated(generator: str, /, **arguments: object) -> Generated:
    """The specification of a generated database.

    >>> generated("uniform", n_keys=20, n_queries=10, n_values=20, seed=0).build().n_facts
    200
    """
    return Generated(generator, Options.of(arguments))


register_kind("generated", Generated, DataSpec)
register_kind("given", Given, DataSpec)
