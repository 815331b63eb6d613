"""The smallest layer by training: a search along one size that runs both ends of its answer.

It starts where the law expects the answer, doubles or halves until one size reaches the recall and another does not,
and then bisects.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal, get_args

from factrank.databases import Database
from factrank.errors import InputError
from factrank.families.attention import LayerShape
from factrank.nn import require_sizes
from factrank.planning.atlas import trained_recalls
from factrank.planning.plans import require_fraction
from factrank.planning.table_sizes import TableSizes
from factrank.planning.trained_sizes import planned_shape, smallest_planned

Along = Literal["d_model", "n_heads", "d_vo"]
DEFAULT_HEADS, SEEDS, LARGEST = 8, 3, 4096


@dataclass(frozen=True)
class Probed:
    """A layer trained from every seed: its recalls, and whether at least half of the seeds reached the recall."""

    shape: LayerShape
    recalls: tuple[float, ...]
    met: bool


@dataclass(frozen=True)
class Smallest:
    """Result of a search.

    Arguments:
        along: the size that varied.
        recall: requested fraction of the facts.
        found: the smallest size that reaches the recall; None if no size that was tried does.
        too_small: the next smaller size, which was trained too and fails; None if size 1 is enough.
        probes: every size that was trained, in ascending order.
    """

    along: str
    recall: float
    found: Probed | None
    too_small: Probed | None
    probes: tuple[Probed, ...]


def smallest(
    table: Database,
    along: Along = "d_model",
    *,
    shape: LayerShape | None = None,
    recall: float = 1.0,
    seeds: int = SEEDS,
    largest: int = LARGEST,
    on_probe: Callable[[Probed], None] | None = None,
) -> Smallest:
    """Train layers to find the smallest size with which at least half of the seeds reach a recall.

    Arguments:
        table: the facts.
        along: the size that varies; the other sizes come from `shape`, or from the plan for this table.
        shape: the layer to vary.
        recall: fraction of the facts.
        seeds: number of layers to train at each size, with the seeds 0, 1, ...
        largest: the largest size to try.
        on_probe: called with each size after its training.

    Raises:
        InputError: if an argument makes no sense.

    >>> from factrank import sample
    >>> found = smallest(sample("astrid"), seeds=1)
    >>> found.found.met, found.too_small is None or not found.too_small.met
    (True, True)
    """
    if along not in get_args(Along):
        raise InputError(f"along must be one of {', '.join(get_args(Along))}; got {along!r}")
    wanted = require_fraction(recall)
    require_sizes({"seeds": seeds, "largest": largest})
    sizes = TableSizes.of(table)
    guess = shape or smallest_planned(sizes, DEFAULT_HEADS, wanted) or planned_shape(2, DEFAULT_HEADS)
    probed: dict[int, Probed] = {}

    def is_met(size: int) -> bool:
        if size not in probed:
            layer = _layer(guess, along, size, is_planned=shape is None)
            recalls = tuple(trained_recalls(table, [layer], range(seeds))[0])
            met = 2 * sum(one >= wanted for one in recalls) >= seeds
            probed[size] = Probed(layer, recalls, met)
            if on_probe is not None:
                on_probe(probed[size])
        return probed[size].met

    low, high = _ends(is_met, min(getattr(guess, along), largest), largest)
    while high is not None and high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if is_met(middle) else (middle, high)
    order = tuple(probed[size] for size in sorted(probed))
    return Smallest(along, wanted, probed.get(high or 0), probed.get(low), order)


def _ends(is_met: Callable[[int], bool], guess: int, largest: int) -> tuple[int, int | None]:
    """Return a size that fails (0 if none does) and one that is enough (None if none is)."""
    if is_met(guess):
        high = guess
        while high > 1 and is_met(max(1, high // 2)):
            high = max(1, high // 2)
        return (max(1, high // 2) if high > 1 else 0), high
    low = guess
    while low < largest:
        high = min(2 * low, largest)
        if is_met(high):
            return low, high
        low = high
    return low, None


def _layer(guess: LayerShape, along: Along, size: int, *, is_planned: bool) -> LayerShape:
    if not is_planned:
        return replace(guess, **{along: size})
    if along == "d_vo":
        return replace(guess, d_vo=size)
    d_model, n_heads = (size, guess.n_heads) if along == "d_model" else (guess.d_model, size)
    return planned_shape(d_model, n_heads)
