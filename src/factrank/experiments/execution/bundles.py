"""Bundles: which trials of a study run together.

Models of the fused engine never meet, so they may be cut in any way. The last bits of a model trained in lanes depend
on the width of its bundle; so lanes are cut by recipe from the whole list of the study, whatever has been finished
before, and a bundle with one missing trial is run again as a whole.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Literal, NamedTuple

import jax

from factrank.errors import FactrankError
from factrank.experiments.execution.work import epoch_products, stored_scalars
from factrank.experiments.lanes.ladder import widths
from factrank.experiments.lanes.lanes_engine import WIDEST, WIDEST_ELSEWHERE
from factrank.experiments.lanes.side_by_side import side_by_side
from factrank.experiments.specs.trial import DatabaseSpec, Given, Trial
from factrank.experiments.task import Task
from factrank.experiments.training import TrialResult, task_of
from factrank.families.attention.facts_task import FactsTask
from factrank.families.attention.fused.fused_engine import platform_of
from factrank.families.memoriser.examples.examples import AnyDatabase

MOST_BYTES = 2**30
"""The weights of the models that one bundle keeps until it ends; a bundle is cut there."""


class Failure(NamedTuple):
    """A trial that could not be run, and why."""

    trial: Trial
    error: str


Outcome = TrialResult | Failure
EngineName = Literal["fused", "lanes"]


class SizedTrial(NamedTuple):
    """A trial with about how many multiplications its forward passes take, and the bytes of its weights."""

    trial: Trial
    products: int
    weights: int


@dataclass(frozen=True, eq=False)
class Bundle:
    """Trials that run together; only the results of `wanted` are asked for (hashes)."""

    engine: EngineName
    entries: tuple[SizedTrial, ...]
    wanted: frozenset[str]

    @classmethod
    def of(cls, engine: EngineName, entries: Sequence[SizedTrial], wanted: AbstractSet[str]) -> Bundle:
        """A bundle that knows of what is wanted only its own."""
        return cls(engine, tuple(entries), frozenset(entry.trial.hash for entry in entries) & wanted)

    @property
    def trials(self) -> tuple[Trial, ...]:
        """The trials in their order."""
        return tuple(entry.trial for entry in self.entries)

    @property
    def products(self) -> int:
        """The work of the bundle."""
        return sum(entry.products for entry in self.entries)

    def halves(self) -> list[Bundle]:
        """The bundle in two, or as it is when it has one trial."""
        middle = (len(self.entries) + 1) // 2
        parts = (self.entries[:middle], self.entries[middle:])
        return [Bundle.of(self.engine, part, self.wanted) for part in parts if part]


def cut(
    trials: Sequence[Trial], wanted: AbstractSet[str], databases: Iterable[AnyDatabase] = ()
) -> tuple[list[Bundle], list[Failure]]:
    """The bundles in which the wanted ones of all trials of a study run, and those that cannot run at all.

    Which lanes run side by side follows from the list of trials alone.
    """
    fused, lanes, failures = _sorted_out([trial for trial in trials if trial.hash in wanted], databases)
    bundles = [Bundle.of("fused", part, wanted) for part in _by_bytes(fused)]
    if lanes:  # all of the study's, because the others decide about the widths
        _, lanes, _ = _sorted_out(trials, databases)
        groups = side_by_side([entry.trial for entry, _ in lanes], [task for _, task in lanes]).values()
        widest = WIDEST.get(jax.local_devices()[0].platform, WIDEST_ELSEWHERE)
        entries = [[lanes[member.place][0] for member in group] for group in groups]
        cuts = [part for group in entries for part in _by_width(group, widest)]
        together = [Bundle.of("lanes", part, wanted) for part in cuts]
        bundles += [one for one in together if one.wanted]
    return bundles, failures


class Found:
    """The databases that trials name, each built once."""

    def __init__(self, databases: Iterable[AnyDatabase]) -> None:
        self._found: dict[DatabaseSpec, AnyDatabase] = {Given(one.fingerprint): one for one in databases}

    def __call__(self, trial: Trial) -> AnyDatabase:
        """The database of a trial; an error where it cannot be built or was not given."""
        spec = trial.database
        if spec not in self._found:
            if isinstance(spec, Given):
                raise FactrankError(f"its database {spec.fingerprint[:12]} is not among those given")
            self._found[spec] = spec.build()
        return self._found[spec]


def _sorted_out(
    trials: Sequence[Trial], databases: Iterable[AnyDatabase]
) -> tuple[list[SizedTrial], list[tuple[SizedTrial, Task]], list[Failure]]:
    """The trials of the fused engine, those of lanes, and those with a mistake of their own."""
    find, platform = Found(databases), jax.local_devices()[0].platform
    fused, lanes, failures = list[SizedTrial](), list[tuple[SizedTrial, Task]](), list[Failure]()
    for trial in trials:
        try:
            database = find(trial)
            task = task_of(trial, database)
            is_one = isinstance(task, FactsTask) and platform_of(trial, task.database.shape, platform) is not None
            size = 8 if trial.training.precision == "float64" else 4
            weights = stored_scalars(trial, database) * size
            entry = SizedTrial(trial, trial.training.epochs * epoch_products(trial, database), weights)
        except (FactrankError, MemoryError, OverflowError) as error:
            failures.append(Failure(trial, describe(error)))
            continue
        if is_one:
            fused.append(entry)
        else:
            lanes.append((entry, task))
    return fused, lanes, failures


def _by_bytes(entries: Sequence[SizedTrial]) -> Iterator[tuple[SizedTrial, ...]]:
    part, taken = list[SizedTrial](), 0
    for entry in entries:
        if part and taken + entry.weights > MOST_BYTES:
            yield tuple(part)
            part, taken = [], 0
        part.append(entry)
        taken += entry.weights
    if part:
        yield tuple(part)


def _by_width(entries: Sequence[SizedTrial], widest: int) -> Iterator[tuple[SizedTrial, ...]]:
    start = 0
    for width in widths(len(entries), widest):
        yield tuple(entries[start : start + width])
        start += width


def describe(error: BaseException) -> str:
    """What went wrong, for the row of a failed trial: the message of our own errors, the kind of any other."""
    text = str(error).strip() or "no message"
    return text if isinstance(error, FactrankError) else f"{type(error).__name__}: {text}"
