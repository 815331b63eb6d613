"""Which trials run side by side: those of one recipe, and few of several recipes that can be padded to one.

A study over sizes has few trials of each, and a bundle of few lanes leaves most of a GPU idle: it is the number of
compiled operations that costs, not what is in them. So trials whose recipe has fewer than 16 of them are padded to
sizes that more trials share, where their tasks know how to (`Fillable`) and others are found that then have the same
recipe. On a CPU, where arithmetic is what costs, nothing is padded.

Who runs with whom follows from the list of trials and the kind of device alone.
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
"""From so many trials on a recipe runs as it is."""


@runtime_checkable
class Fillable(Protocol):
    """A task that can be padded."""

    def filled_up(self) -> Task:
        """The same with sizes that more trials share; results are those of the real sizes, up to rounding."""


class Member(NamedTuple):
    """A trial by its place in the list, and the task as which it runs."""

    place: int
    task: Task


def side_by_side(trials: Sequence[Trial], tasks: Sequence[Task]) -> dict[Recipe, list[Member]]:
    """The groups of a list of trials; padded ones have the longest first, so that few wait for others."""
    groups: dict[Recipe, list[Member]] = {}
    for place, (trial, task) in enumerate(zip(trials, tasks, strict=True)):
        groups.setdefault(recipe_of(trial, task), []).append(Member(place, task))
    wide = WIDE.get(jax.local_devices()[0].platform, WIDE_ELSEWHERE)
    narrow = {
        recipe: recipe_of(trials[members[0].place], members[0].task.filled_up())
        for recipe, members in groups.items()
        if len(members) < wide and isinstance(members[0].task, Fillable)
    }
    shared = list(narrow.values())
    found: dict[Recipe, list[Member]] = {}
    for recipe, members in groups.items():
        if recipe in narrow and shared.count(narrow[recipe]) > 1:
            filled = [Member(place, task.filled_up()) for place, task in members if isinstance(task, Fillable)]
            found.setdefault(narrow[recipe], []).extend(filled)
        else:
            found[recipe] = members
    for recipe in narrow.values():
        if recipe in found:
            found[recipe].sort(key=lambda member: -trials[member.place].training.epochs)
    return found
