"""E1 and E2 as bounds of the effective rank: over queries, then over keys, until one meets the lower bound."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from factrank.tensors.bounds.bracket import Bracket
from factrank.tensors.bounds.certified_bounds import Bound
from factrank.tensors.bounds.ledger import expected_of
from factrank.tensors.bounds.method import BoundMethod, Stage
from factrank.tensors.bounds.needs import functional, met_here
from factrank.tensors.codes import CodeBound, shared_bias_bound, slicewise_bound
from factrank.tensors.core import AXIS_NAMES, Core, ZeroOneTensor, lifted

PER_MERGING = 0.002
"""Passes of E2 per slice."""


def code_bound(name: str, code: CodeBound, core: Core) -> Bound:
    """The bound that a code of the core gives."""
    return Bound(code.value, name, witness=lifted(code.decomposition, core))


def _methods() -> Iterator[BoundMethod]:
    for axis in (1, 0):
        slices = AXIS_NAMES[axis]
        yield _method(f"E1 slice by slice over {slices}", axis, _cost_of_slices, slicewise_bound)
        yield _method(f"E2 shared bias, {slices} slices merged", axis, _cost_of_merging, shared_bias_bound)


def _method(
    name: str,
    axis: int,
    cost: Callable[[int, Bracket], float],
    code: Callable[[ZeroOneTensor, int], CodeBound],
) -> BoundMethod:
    return BoundMethod(
        name=name,
        of="effective rank",
        side="upper",
        stage=Stage.CONSTRUCT,
        needs=(functional,),
        refusals=(met_here,),
        cost=partial(cost, axis),
        run=lambda bracket: [code_bound(name, code(bracket.tensor, axis), bracket.core)],
    )


def _cost_of_slices(axis: int, bracket: Bracket) -> float:
    return 0.0 if axis == 1 else expected_of(0.5, len(bracket.tensor))


def _cost_of_merging(axis: int, bracket: Bracket) -> float:
    return expected_of(1 + PER_MERGING * bracket.tensor.shape[axis], len(bracket.tensor))


METHODS = tuple(_methods())
