r"""Traces of value sets: a lower bound on the effective rank of set-valued tables, by counting half-spaces.

If logits $T[k, q, v] = \sum_{r \le R} a_r[k]\, b_r[q]\, c_r[v]$ are correct, then in every valid fiber the points
$c_v \in \mathbb{R}^R$ of its values are separated from those of all other values by a hyperplane with normal vector
$(a_r[k]\, b_r[q])_r$. So for any set W of values, the sets $S \cap W$, S the values of a fiber, are cut off from
W by half-spaces. Hyperplanes split n points in $\mathbb{R}^R$ in at most

$$2 \sum_{i=0}^{R} \binom{n - 1}{i}$$

ways (Cover 1965, IEEE Trans. Electron. Comput. 14). If more sets $S \cap W$ occur, the effective rank exceeds R. For
instance, if all subsets of some W occur, it is at least |W| - 1, which is Radon's theorem.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import comb

import numpy as np
from jaxtyping import Bool, Int

from factrank.tensors.bounds.bracket import Bracket
from factrank.tensors.bounds.certified_bounds import Bound, ShownWitness
from factrank.tensors.bounds.ledger import PER_FACT
from factrank.tensors.bounds.method import BoundMethod, Stage
from factrank.tensors.bounds.needs import functional, gap, searching
from factrank.tensors.core import FiberSets, ZeroOneTensor

NAME = "traces of value sets"

LARGEST_W = 16
"""Maximum number of values in W."""

MOST_STARTS = 40
"""Number of values from which W is grown: those that are in about half of the sets."""

MOST_CELLS = 20_000_000
"""Maximum of valid fibers x values."""

PER_CELL = 4e-8
"""Seconds per fiber and value of one step of growing W."""


@dataclass(frozen=True, eq=False, repr=False)
class TraceWitness(ShownWitness):
    """A set W of values whose traces are too many for smaller ranks."""

    values: tuple[int, ...]
    value: int
    method: str = NAME

    def recompute(self, tensor: ZeroOneTensor) -> int:
        """Returns the bound, counted again from the facts."""
        chosen = {v: place for place, v in enumerate(self.values)}
        traces: dict[tuple[int, int], int] = {}
        for k, q, v in tensor.coordinates.tolist():
            traces[k, q] = traces.get((k, q), 0) | (1 << chosen[v] if v in chosen else 0)
        return least_dimension(len(set(traces.values())), len(chosen))


def least_dimension(n_traces: int, n_points: int) -> int:
    """Returns the least R for which half-spaces of R^R can cut that many subsets off n points.

    >>> [least_dimension(n_traces, 5) for n_traces in (2, 10, 11, 30, 31, 32)]
    [0, 1, 2, 3, 4, 4]
    """
    dimension, ways = 0, 2
    while ways < n_traces:
        dimension += 1
        ways += 2 * comb(n_points - 1, dimension)
    return dimension


def trace_witness(tensor: ZeroOneTensor) -> TraceWitness | None:
    """Returns the best witness found by growing W greedily from each value; None if there are no two sets."""
    fibers = FiberSets.of(tensor)
    sets = np.unique(fibers.members(0, len(fibers)), axis=0)
    best: TraceWitness | None = None
    imbalance = np.abs(2 * sets.sum(axis=0) - len(sets))
    for start in np.argsort(imbalance, kind="stable")[:MOST_STARTS].tolist():
        for chosen, n_traces in _grown(sets, start):
            bound = least_dimension(n_traces, len(chosen))
            if bound > (best.value if best else 0):
                best = TraceWitness(tuple(chosen), bound)
    return best


def _grown(sets: Bool[np.ndarray, "sets values"], start: int) -> list[tuple[list[int], int]]:
    """W = {start}, and W with one more value at a time, the one that adds most traces; each with its traces."""
    chosen, found = [start], list[tuple[list[int], int]]()
    trace, n_traces = sets[:, start].astype(np.int64), 2
    for _ in range(min(LARGEST_W, sets.shape[1]) - 1):
        counts = _counts(sets, trace)
        counts[chosen] = 0
        value = int(counts.argmax())
        if counts[value] <= n_traces:
            break
        chosen = [*chosen, value]
        trace = np.unique(2 * trace + sets[:, value], return_inverse=True)[1].reshape(-1)
        n_traces = int(counts[value])
        found.append((chosen, n_traces))
    return found


def _counts(sets: Bool[np.ndarray, "sets values"], trace: Int[np.ndarray, " sets"]) -> Int[np.ndarray, " values"]:
    """The number of traces if a value is added: traces that occur with it, plus traces that occur without it."""
    order = np.argsort(trace, kind="stable")
    starts = np.flatnonzero(np.diff(trace[order], prepend=-1))
    with_it = np.logical_or.reduceat(sets[order], starts, axis=0)
    without = np.logical_or.reduceat(~sets[order], starts, axis=0)
    return np.asarray(with_it.sum(axis=0) + without.sum(axis=0), dtype=np.int64)


def _set_valued(bracket: Bracket) -> bool:
    return not functional(bracket)


def _cells(bracket: Bracket) -> int:
    return len(bracket.tensor.pairs_without(2)) * bracket.tensor.shape[2]


def _too_large(bracket: Bracket) -> str:
    return "" if _cells(bracket) <= MOST_CELLS else "the table is too large"


def _expected_seconds(bracket: Bracket) -> float:
    starts = min(bracket.tensor.shape[2], MOST_STARTS)
    return PER_FACT * len(bracket.tensor) + PER_CELL * starts * LARGEST_W / 3 * _cells(bracket)


def _traces(bracket: Bracket) -> list[Bound]:
    witness = trace_witness(bracket.tensor)
    return [Bound.by(witness)] if witness and witness.value > bracket.greatest else []


METHODS = (
    BoundMethod(
        name=NAME,
        of="effective rank",
        side="lower",
        stage=Stage.PROVE,
        needs=(_set_valued, gap, searching),
        refusals=(_too_large,),
        cost=_expected_seconds,
        run=_traces,
    ),
)
