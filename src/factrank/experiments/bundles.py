"""Bundles: which trials run together. The one place where a list of trials is cut.

Models of an engine like the fused one never meet, so they may be cut in any way. The last bits of a model trained in
lanes depend on the width of its bundle; so lanes are cut by recipe, and the cut follows from the list of trials and the
kind of device alone. In a study that is its whole list, whatever has been finished before, and a bundle with one
missing trial is run again as a whole.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace

import jax

from factrank.experiments.family import Engine
from factrank.experiments.lanes import rung_below, side_by_side, widths
from factrank.experiments.prepared import Prepared
from factrank.experiments.specs import Trial
from factrank.experiments.task import Task

MOST_BYTES = 2**30
"""The weights of the models that one bundle keeps until it ends; a bundle is cut there."""

WIDEST = {"cpu": 256}
"""On a CPU wider bundles leave the caches and gain nothing; on a GPU they do."""

WIDEST_ELSEWHERE = 16384


@dataclass(frozen=True, eq=False)
class Bundle:
    """Trials that run together, by one engine on one platform, with their places in the list."""

    members: tuple[Prepared, ...]
    places: tuple[int, ...]

    @property
    def trials(self) -> tuple[Trial, ...]:
        """The trials in their order."""
        return tuple(member.trial for member in self.members)

    @property
    def engine(self) -> Engine | None:
        """The engine that trains them; None: lanes."""
        return self.members[0].engine

    @property
    def engine_name(self) -> str:
        """The engine by its name."""
        return self.members[0].engine_name

    @property
    def platform(self) -> str:
        """Where they are trained."""
        return self.members[0].platform

    @property
    def products(self) -> int:
        """The work of the bundle."""
        return sum(member.products for member in self.members)

    @property
    def padded(self) -> bool:
        """Whether the sizes of its members are padded to those that they share."""
        return self.members[0].padded

    def among(self, hashes: AbstractSet[str]) -> Bundle:
        """Only the members with these hashes."""
        kept = [at for at, member in enumerate(self.members) if member.trial.hash in hashes]
        return Bundle(tuple(self.members[at] for at in kept), tuple(self.places[at] for at in kept))

    def halves(self) -> list[Bundle]:
        """The bundle in two, or as it is when it has one trial."""
        middle = (len(self.members) + 1) // 2
        ends = ((0, middle), (middle, len(self.members)))
        return [Bundle(self.members[a:b], self.places[a:b]) for a, b in ends if a < b]


def cut(prepared: Sequence[Prepared], n_devices: int = 1) -> list[Bundle]:
    """The bundles in which these trials run: first the engines of families, then lanes.

    With several devices, lanes are wider by the greatest power of two that is not above their number. Studies are cut
    as for one, so that what they compute does not depend on the machine.
    """
    groups: dict[tuple[Engine | None, str], list[int]] = {}
    for place, member in enumerate(prepared):
        groups.setdefault((member.engine, member.platform), []).append(place)
    bundles = []
    for (engine, _), places in groups.items():
        if engine is not None:
            bundles += [_bundle(prepared, part) for part in _by_bytes(prepared, places)]
    lanes = [place for place, member in enumerate(prepared) if member.engine is None]
    return bundles + list(_lanes(prepared, lanes, n_devices))


def _bundle(prepared: Sequence[Prepared], places: Sequence[int]) -> Bundle:
    return Bundle(tuple(prepared[place] for place in places), tuple(places))


def _by_bytes(prepared: Sequence[Prepared], places: Sequence[int]) -> Iterator[list[int]]:
    part, taken = list[int](), 0
    for place in places:
        size = prepared[place].weight_bytes
        if part and taken + size > MOST_BYTES:
            yield part
            part, taken = [], 0
        part.append(place)
        taken += size
    if part:
        yield part


def _lanes(prepared: Sequence[Prepared], places: Sequence[int], n_devices: int) -> Iterator[Bundle]:
    """Lanes by recipe, in widths of the ladder; each member has the task as which it runs, padded or not."""
    groups = side_by_side([prepared[place].trial for place in places], [prepared[place].task for place in places])
    widest = WIDEST.get(jax.local_devices()[0].platform, WIDEST_ELSEWHERE) * rung_below(n_devices)
    for group in groups.values():
        rest = group
        for width in widths(len(group), widest):
            now, rest = rest[:width], rest[width:]
            members = tuple(_with_task(prepared[places[at]], task) for at, task in now)
            yield Bundle(members, tuple(places[at] for at, _ in now))


def _with_task(member: Prepared, task: Task) -> Prepared:
    return member if member.task is task else replace(member, task=task, padded=True)
