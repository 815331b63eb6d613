"""The prover that `certify` uses for attention layers.

`forward_pass` evaluates every fact with the layer's forward pass in the layer's precision; `recall_proofs` bounds the
margins under every evaluation order. They share no code.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from math import inf
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from factrank.certificates import ArithmeticUsed, Confidence, ConfidenceClaim, MarginBounds, Proof, Prover, RowBlock
from factrank.databases import Database
from factrank.families.attention.pair_transformer import AnyLayer
from factrank.families.attention.proof.confidence_proofs import ConfidenceProof, require_claim
from factrank.families.attention.proof.forward_pass import ForwardPass, Pairs, too_many_silent
from factrank.families.attention.proof.recall_proofs import FactBlock, LayerBounds, bounds_of, why_no_bounds
from factrank.readouts import cells_per_pair, fibers_of, require_match

MANY_OPERATIONS = 10**6
"""Products per fact above which matrix products run on several threads; for smaller ones threads only wait."""


@dataclass(frozen=True, eq=False)
class AttentionProver(Prover):
    """A layer and the facts that it should recall; a fact may be a set of values.

    The details of the certificate describe the missing entries, `silent_fibers`: `answered` counts those with a unique
    largest logit, and `hallucinations` those with a probability of at least 0.95. Both are None if there
    are too many to evaluate.
    """

    model: AnyLayer
    data: Database
    claim: ConfidenceClaim | None = None
    """A claim about probabilities, to prove in addition."""
    fixed = ("silent_fibers",)

    def __post_init__(self) -> None:
        require_match(self.model, self.data)
        if self.claim is not None:
            require_claim(self.claim, self.data)

    @cached_property
    def _fibers(self) -> Int[np.ndarray, "facts m"]:
        return fibers_of(self.data)

    @cached_property
    def _numbers(self) -> Int[np.ndarray, " facts"]:
        """Return the (key, query) pairs of the facts, numbered key by key."""
        return np.asarray(self.data.triples[:, 0].astype(np.int64) * self.data.n_queries + self.data.triples[:, 1])

    @cached_property
    def _forward(self) -> ForwardPass:
        return ForwardPass(self.model)

    @cached_property
    def _pairs(self) -> Pairs:
        return Pairs.of(self.model, self._numbers)

    @property
    def forward_cells(self) -> int:
        """Return the numbers per pair in the forward pass, and a copy of the logits per further value of a fiber."""
        return cells_per_pair(self.model) + self._more_cells

    @property
    def _more_cells(self) -> int:
        return int(self.model.n_values * (self._fibers.shape[1] - 1))

    def forward_blocks(self) -> Iterable[RowBlock]:
        """Yield lists of pairs or rectangles, whichever is less work."""
        return self._pairs.blocks(self._more_cells)

    def forward(self, block: RowBlock) -> Float[np.ndarray, " rows"]:
        """Return the margin of the fiber of each fact."""
        return self._forward.margins(self._pairs, block, self._fibers)

    def least_together(self, bounds: Float[np.ndarray, " facts"]) -> Float[np.ndarray, " facts"]:
        """Return the least bound of each fact's fiber: the forward pass computes one margin per fiber."""
        _, fiber = np.unique(self._numbers, return_inverse=True)
        least = np.full(self.data.n_fibers, inf)
        np.minimum.at(least, fiber, bounds)
        return np.asarray(least[fiber])

    def obstacle(self) -> str:
        """Return why there is no proof: not a plain layer, or weights that are not finite or too large."""
        return why_no_bounds(self.model)

    @cached_property
    def _bounds(self) -> LayerBounds:
        return bounds_of(self.model)

    @property
    def bound_cells(self) -> int:
        """Return the numbers per fact, doubled to halve the blocks."""
        return 2 * self._bounds.cells_per_fact(len(self.data) / max(self.data.n_keys, 1))

    @cached_property
    def _threads(self) -> Any:
        from threadpoolctl import ThreadpoolController  # noqa: PLC0415 - trials do without it

        return ThreadpoolController()

    def bound(self, block: RowBlock) -> MarginBounds:
        """Bound the margins of a block by `recall_proofs`."""
        keys, queries, values = self.data.triples[block.rows].T
        n_threads = 1 if self._bounds.operations_per_fact < MANY_OPERATIONS else None
        with self._threads.limit(limits=n_threads, user_api="blas"):
            return self._bounds.bounds(FactBlock(keys, queries, values, self._fibers[block.rows]))

    def details(self, proof: Proof, recall: float) -> Mapping[str, Any]:  # noqa: ARG002
        """Count the pairs without a fact, and the answers of the layer there."""
        n_pairs = self.data.n_keys * self.data.n_queries
        n_silent = n_pairs - self.data.n_fibers
        answered: int | None = None
        hallucinations: int | None = None
        if not too_many_silent(self.model, n_silent):
            silent = np.ones(n_pairs if n_silent else 0, dtype=bool)
            silent[self._numbers if n_silent else []] = False
            silent_ones = Pairs.of(self.model, np.flatnonzero(silent))
            answered, hallucinations = self._forward.silent_answers(silent_ones, self._reserved)
        return {"silent_fibers": n_silent, "answered": answered, "hallucinations": hallucinations}

    @property
    def _reserved(self) -> int | None:
        unknown = None if self.claim is None else self.claim.unknown
        return None if unknown is None else self.data.values.index(unknown)

    def confidence(self, proof: Proof) -> Confidence | None:
        """Prove the claim, on every fact and, if the layer should abstain, on every pair without a fact."""
        if self.claim is None:
            return None
        bounds = None if proof.arithmetic == "none" else self._bounds
        with self._threads.limit(limits=1, user_api="blas"):
            return ConfidenceProof(self.model, self.data, self.claim, bounds).confidence()

    def why_not_recalled(self, n_wrong: int) -> str:
        """Describe the facts that the forward pass gets wrong."""
        return f"{super().why_not_recalled(n_wrong)} by the layer's forward pass"

    def why_not_proved(self, n_open: int, arithmetic: ArithmeticUsed) -> str:
        """Describe the facts without a proof, with the method."""
        return f"{super().why_not_proved(n_open, arithmetic)} (method: {arithmetic})"
