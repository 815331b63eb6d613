"""Bundles: groups of trials that run together. Only this module splits a list of trials.

Engines such as the fused one train each model independently, so their bundles can be split anywhere. In lanes, the last
bits of a model depend on the width of its bundle, so lanes are grouped by recipe and the split depends only on the list
of trials and the kind of device. A study always splits its complete list, including finished trials, and reruns a whole
bundle if one of its trials is missing.
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
"""Maximum size of the weights that a bundle keeps in memory until it ends."""

WIDEST = {"cpu": 256}
"""Maximum width by platform. On a CPU, wider bundles no longer fit into the caches and are not faster."""

WIDEST_ELSEWHERE = 16384


@dataclass(frozen=True, eq=False)
class Bundle:
    """Trials trained together by one engine on one platform, and their indices in the list of trials."""

    members: tuple[Prepared, ...]
    places: tuple[int, ...]

    @property
    def trials(self) -> tuple[Trial, ...]:
        """Trials in order."""
        return tuple(member.trial for member in self.members)

    @property
    def engine(self) -> Engine | None:
        """Engine that trains the bundle; None for lanes."""
        return self.members[0].engine

    @property
    def engine_name(self) -> str:
        """Name of the engine."""
        return self.members[0].engine_name

    @property
    def platform(self) -> str:
        """Platform that trains the bundle."""
        return self.members[0].platform

    @property
    def products(self) -> int:
        """Estimated number of multiplications in all forward passes of the bundle."""
        return sum(member.products for member in self.members)

    @property
    def padded(self) -> bool:
        """True if the members are padded to common sizes."""
        return self.members[0].padded

    def among(self, hashes: AbstractSet[str]) -> Bundle:
        """Return the bundle reduced to the trials with these hashes."""
        kept = [at for at, member in enumerate(self.members) if member.trial.hash in hashes]
        return Bundle(tuple(self.members[at] for at in kept), tuple(self.places[at] for at in kept))

    def halves(self) -> list[Bundle]:
        """Split the bundle in two; a bundle of one trial is returned unchanged."""
        middle = (len(self.members) + 1) // 2
        ends = ((0, middle), (middle, len(self.members)))
        return [Bundle(self.members[a:b], self.places[a:b]) for a, b in ends if a < b]


def cut(prepared: Sequence[Prepared], n_devices: int = 1) -> list[Bundle]:
    """Group trials into bundles: first for the engines of families, then for lanes.

    With several devices, lanes are wider by the largest power of two that does not exceed their number. Studies always
    use `n_devices=1`, so their results do not depend on the machine.
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
    """Yield bundles of lanes, grouped by recipe; widths are powers of two, and members carry their padded task."""
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
