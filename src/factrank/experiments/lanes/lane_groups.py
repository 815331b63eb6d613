"""Group trials that run side by side: trials with the same recipe, or with recipes that can be padded to the same one.

A study over sizes has few trials of each size, and a bundle with few lanes leaves most of a GPU idle, because its cost
is the number of compiled operations. A recipe with fewer than 16 trials is therefore padded, if its tasks support it
(`Paddable`) and other recipes become equal to it by padding. CPU trials are never padded, because arithmetic dominates
there.

The groups depend only on the list of trials and the kind of device.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol, runtime_checkable

import jax

from factrank.experiments.lanes.lane_programs import Recipe, recipe_of
from factrank.experiments.specs import Trial
from factrank.experiments.task import Task

WIDE = {"cpu": 0}
WIDE_ELSEWHERE = 16
"""A recipe with at least this many trials is not padded."""


@runtime_checkable
class Paddable(Protocol):
    """A task that can be padded."""

    def with_padding(self) -> Task:
        """Return the task padded to a common size. Its results agree with the original size, up to rounding."""


class Member(NamedTuple):
    """A trial, given by its index in the list, and the task that it runs as."""

    place: int
    task: Task


def side_by_side(trials: Sequence[Trial], tasks: Sequence[Task]) -> dict[Recipe, list[Member]]:
    """Group a list of trials by recipe; padded groups are sorted from longest to shortest, to avoid idle lanes."""
    groups: dict[Recipe, list[Member]] = {}
    for place, (trial, task) in enumerate(zip(trials, tasks, strict=True)):
        groups.setdefault(recipe_of(trial, task), []).append(Member(place, task))
    wide = WIDE.get(jax.local_devices()[0].platform, WIDE_ELSEWHERE)
    narrow = {
        recipe: recipe_of(trials[members[0].place], members[0].task.with_padding())
        for recipe, members in groups.items()
        if len(members) < wide and isinstance(members[0].task, Paddable)
    }
    shared = list(narrow.values())
    found: dict[Recipe, list[Member]] = {}
    for recipe, members in groups.items():
        if recipe in narrow and shared.count(narrow[recipe]) > 1:
            padded = [Member(place, task.with_padding()) for place, task in members if isinstance(task, Paddable)]
            found.setdefault(narrow[recipe], []).extend(padded)
        else:
            found[recipe] = members
    for recipe in narrow.values():
        if recipe in found:
            found[recipe].sort(key=lambda member: -trials[member.place].training.epochs)
    return found
