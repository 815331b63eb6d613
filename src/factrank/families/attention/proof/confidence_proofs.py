"""Prove claims about the probabilities of a layer: on every fact, and on every (key, query) without a fact.

All pairs are evaluated twice, like margins: by the layer's own forward pass and softmax, and by bounds that hold in
every evaluation, from the intervals of `recall_proofs` and the softmax of `certificates.confidence`. No pair is left
out; a claim about pairs without a fact covers every key and query of the vocabularies.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from factrank.certificates import (
    Confidence,
    ConfidenceClaim,
    LogitIntervals,
    RowBlock,
    largest_probability,
    least_probability,
    precision_of,
    row_blocks,
)
from factrank.databases import Database
from factrank.errors import InputError
from factrank.families.attention.pair_transformer import AnyLayer
from factrank.families.attention.proof.forward_pass import ForwardPass, Pairs
from factrank.families.attention.proof.recall_proofs import LayerBounds
from factrank.readouts import fibers_of

ARRAYS = 8
"""Arrays of a block that are in memory at the same time."""


def require_claim(claim: ConfidenceClaim, data: Database) -> None:
    """Raise `InputError` if the reserved value of a claim is not a value of the vocabulary, or is that of a fact."""
    if claim.unknown is None:
        return
    if claim.unknown not in data.values:
        raise InputError(f"the reserved value {claim.unknown!r} is not a value of the layer")
    if (data.triples[:, 2] == data.values.index(claim.unknown)).any():
        raise InputError(
            f"the facts have the value {claim.unknown!r}, which the layer reserves for pairs without a fact"
        )


def silent_pairs(data: Database) -> Int[np.ndarray, " pairs"]:
    """Return the numbers of the (key, query) pairs without a fact, counted key by key."""
    silent = np.ones(data.n_keys * data.n_queries, dtype=bool)
    silent[data.triples[:, 0].astype(np.int64) * data.n_queries + data.triples[:, 1]] = False
    return np.flatnonzero(silent)


@dataclass(frozen=True, eq=False)
class ConfidenceProof:
    """A layer, its facts, a claim, and the bounds of the layer; None if there are no bounds."""

    layer: AnyLayer
    data: Database
    claim: ConfidenceClaim
    bounds: LayerBounds | None

    def confidence(self) -> Confidence:
        """Return the numbers that support or refute the claim; called inside `evaluation`."""
        fibers = fibers_of(self.data)[self.data.fiber_starts]
        triples = self.data.triples[self.data.fiber_starts].astype(np.int64)
        computed, proved = self._least(triples[:, 0] * self.data.n_queries + triples[:, 1], fibers)
        if self.claim.abstain is None:
            return Confidence(self.claim, computed, proved)
        silent = silent_pairs(self.data)
        if not len(silent):
            return Confidence(self.claim, computed, proved)
        if self.claim.unknown is not None:
            reserved = np.full((len(silent), 1), self.data.values.index(self.claim.unknown))
            return Confidence(self.claim, computed, proved, *self._least(silent, reserved))
        return Confidence(self.claim, computed, proved, *self._largest(silent, fibers.shape[1]))

    def _least(self, numbers: Int[np.ndarray, " pairs"], fibers: Int[np.ndarray, "pairs m"]) -> tuple[float, float]:
        """Return the smallest probability of a fiber in the forward pass, and in every evaluation."""
        pairs, forward = Pairs.of(self.layer, numbers), ForwardPass(self.layer)
        computed = _gathered(
            (block, forward.probabilities(pairs, block, fibers))
            for block in pairs.blocks(self.layer.n_values * fibers.shape[1])
        )
        _require_all(computed, numbers)
        if self.bounds is None:
            return _least_of(computed), 0.0
        proved, precision = [1.0], precision_of(self.layer)
        for block in row_blocks(len(numbers), ARRAYS * self.layer.n_values):
            belongs = np.zeros((len(block.rows), self.layer.n_values), dtype=bool)
            belongs[np.arange(len(block.rows))[:, None], fibers[block.rows]] = True
            found = least_probability(self._intervals(numbers[block.rows]), belongs, precision)
            proved.append(float(found.min()))
        return _least_of(computed), min(proved)

    def _largest(self, numbers: Int[np.ndarray, " pairs"], most: int) -> tuple[float, float]:
        """Return the largest probability of any `most` values in the forward pass, and in every evaluation."""
        pairs, forward = Pairs.of(self.layer, numbers), ForwardPass(self.layer)
        most = min(most, self.layer.n_values)
        computed = _gathered(
            (block, forward.largest_probabilities(pairs, block, most)) for block in pairs.blocks(self.layer.n_values)
        )
        _require_all(computed, numbers)
        largest = 1.0 if np.isnan(computed).any() else float(min(computed.max(), 1.0))
        if self.bounds is None:
            return largest, 1.0
        proved, every = [0.0], np.ones(self.layer.n_values, dtype=bool)
        for block in row_blocks(len(numbers), ARRAYS * self.layer.n_values):
            intervals = self._intervals(numbers[block.rows])
            proved.append(float(largest_probability(intervals, every, most, precision_of(self.layer)).max()))
        return largest, max(proved)

    def _intervals(self, numbers: Int[np.ndarray, " pairs"]) -> LogitIntervals:
        assert self.bounds is not None  # noqa: S101
        return self.bounds.intervals(*np.divmod(numbers, self.data.n_queries))


def _gathered(
    found: Iterator[tuple[RowBlock, Float[np.ndarray, " rows"]]],
) -> Float[np.ndarray, " pairs"]:
    """Return the numbers of all blocks in the order of their rows."""
    blocks = list(found)
    rows = np.concatenate([block.rows for block, _ in blocks])
    together = np.full(len(rows), np.nan)
    together[rows] = np.concatenate([numbers for _, numbers in blocks])
    return together


def _require_all(found: Float[np.ndarray, " pairs"], numbers: Int[np.ndarray, " pairs"]) -> None:
    if len(found) != len(numbers):
        raise ValueError(f"the blocks of the forward pass have {len(found)} of {len(numbers)} pairs")


def _least_of(found: Float[np.ndarray, " pairs"]) -> float:
    """Return the smallest number; 0 if one is not a number."""
    return 0.0 if np.isnan(found).any() else float(min(found.min(initial=1.0), 1.0))
