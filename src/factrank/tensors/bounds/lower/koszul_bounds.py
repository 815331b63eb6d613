"""B2 as a method: Koszul flattenings of the largest components, small matrices first, while they can help."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np

from factrank.tensors.bounds.bracket import Bracket
from factrank.tensors.bounds.certified_bounds import Bound
from factrank.tensors.bounds.ledger import PER_FACT
from factrank.tensors.bounds.lower.flattenings import with_koszul
from factrank.tensors.bounds.lower.koszul import Koszul, koszul_choices
from factrank.tensors.bounds.method import BoundMethod, Stage
from factrank.tensors.bounds.needs import gap_beyond_flattenings
from factrank.tensors.core import ZeroOneTensor

NAME = "B2 Koszul flattening"

PER_CUBE = 2.5e-10
"""Seconds per n^3 of a modular elimination of an n x n matrix."""

MOST_COMPONENTS = 3


def expected_seconds(part: ZeroOneTensor, choice: Koszul) -> float:
    """Returns the expected time of one Koszul flattening: projecting the slices and ranking the matrix."""
    projecting = PER_FACT * len(part) + 1e-9 * choice.rows * choice.columns * max(part.shape) * (2 * choice.p + 1)
    return PER_CUBE * choice.size**3 + projecting


def koszul_bounds(bracket: Bracket) -> list[Bound]:
    """Returns bounds that exceed the lower bounds so far; each flattening is a separate step of the ledger."""
    core, found, to_beat = bracket.core, list[Bound](), bracket.greatest
    sizes = np.bincount(core.fact_component, minlength=core.n_components)
    for component in np.argsort(-sizes, kind="stable")[:MOST_COMPONENTS].tolist():
        rest = bracket.flattenings.without(component)
        part = core.tensor if core.n_components == 1 else core.part(component)
        choices = sorted(koszul_choices(part.shape), key=lambda choice: choice.size)
        if all(rest + choice.cap <= to_beat for choice in choices):
            bracket.ledger.skip(NAME, f"cannot exceed the lower bound {to_beat} at this shape")
        for choice in choices:
            if rest + choice.cap > to_beat:
                found += _koszul_bound(bracket, part, component, choice)
                to_beat = max([to_beat, *(bound.value for bound in found)])
    return found


def _koszul_bound(bracket: Bracket, part: ZeroOneTensor, component: int, choice: Koszul) -> list[Bound]:
    name, compute = f"B2 {choice.name}", partial(with_koszul, bracket.flattenings, part, component, choice)
    bound = bracket.ledger.run(name, expected_seconds(part, choice), compute, expensive=True)
    return [replace(Bound.by(bound), seconds=bracket.ledger.seconds[name])] if bound else []


METHODS = (
    BoundMethod(
        name=NAME, of="rank", side="lower", stage=Stage.PROVE, needs=(gap_beyond_flattenings,), run=koszul_bounds
    ),
)
