"""AttentionProver: what `certify` needs of an attention layer.

`forward_pass` evaluates every fact with the layer's own forward pass in the layer's own precision; `recall_proofs`
bounds the margins of every evaluation. They share no code.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from math import inf
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from factrank.certificates import ArithmeticUsed, MarginBounds, Proof, Prover, RowBlock
from factrank.databases import Database
from factrank.families.attention.pair_transformer import AnyLayer
from factrank.families.attention.proof.forward_pass import ForwardPass, Pairs, too_many_silent
from factrank.families.attention.proof.recall_proofs import FactBlock, LayerBounds, bounds_of, why_no_bounds
from factrank.readouts import cells_per_pair, fibers_of, require_match

MANY_OPERATIONS = 10**6
"""Products per fact from which matrix products are worth several threads; smaller ones wait for each other instead."""


@dataclass(frozen=True, eq=False)
class AttentionProver(Prover):
    """A layer and the facts that it should recall, which may be sets of values.

    The details of its certificate are about `silent_fibers`, the (key, query) pairs without a fact: `answered` counts
    those at which one value has a larger logit than all others, so that argmax answers, and `artifacts` those at which
    one has a probability of at least 0.95; both are None if they are too many to be counted.
    """

    model: AnyLayer
    data: Database
    fixed = ("silent_fibers",)

    def __post_init__(self) -> None:
        require_match(self.model, self.data)

    @cached_property
    def _fibers(self) -> Int[np.ndarray, "facts m"]:
        return fibers_of(self.data)

    @cached_property
    def _numbers(self) -> Int[np.ndarray, " facts"]:
        """The (key, query) pairs of the facts, counted key by key."""
        return np.asarray(self.data.triples[:, 0].astype(np.int64) * self.data.n_queries + self.data.triples[:, 1])

    # ---------------------------------------------------------------- the forward pass

    @cached_property
    def _forward(self) -> ForwardPass:
        return ForwardPass(self.model)

    @cached_property
    def _pairs(self) -> Pairs:
        return Pairs.of(self.model, self._numbers)

    @property
    def forward_cells(self) -> int:
        """What the forward pass holds of a pair, and a copy of the logits for every further value of a fiber."""
        return cells_per_pair(self.model) + self._more_cells

    @property
    def _more_cells(self) -> int:
        return int(self.model.n_values * (self._fibers.shape[1] - 1))

    def forward_blocks(self) -> Iterable[RowBlock]:
        """Lists of pairs or rectangles, whichever is less work."""
        return self._pairs.blocks(self._more_cells)

    def forward(self, block: RowBlock) -> Float[np.ndarray, " rows"]:
        """The margin of the fiber of each fact."""
        return self._forward.margins(self._pairs, block, self._fibers)

    def least_together(self, bounds: Float[np.ndarray, " facts"]) -> Float[np.ndarray, " facts"]:
        """The least bound of each fact's fiber: the forward pass has one margin for all values of a fiber."""
        _, fiber = np.unique(self._numbers, return_inverse=True)
        least = np.full(self.data.n_fibers, inf)
        np.minimum.at(least, fiber, bounds)
        return np.asarray(least[fiber])

    # ---------------------------------------------------------------- the proof

    def obstacle(self) -> str:
        """Anything that is not a plain layer, weights that are not finite or too large."""
        return why_no_bounds(self.model)

    @cached_property
    def _bounds(self) -> LayerBounds:
        return bounds_of(self.model)

    @property
    def bound_cells(self) -> int:
        """In blocks of half the size."""
        return 2 * self._bounds.cells_per_fact(len(self.data) / max(self.data.n_keys, 1))

    @cached_property
    def _threads(self) -> Any:
        from threadpoolctl import ThreadpoolController  # noqa: PLC0415 - trials do without it

        return ThreadpoolController()

    def bound(self, block: RowBlock) -> MarginBounds:
        """By `recall_proofs`."""
        keys, queries, values = self.data.triples[block.rows].T
        n_threads = 1 if self._bounds.operations_per_fact < MANY_OPERATIONS else None
        with self._threads.limit(limits=n_threads, user_api="blas"):
            return self._bounds.bounds(FactBlock(keys, queries, values, self._fibers[block.rows]))

    # ---------------------------------------------------------------- words and numbers

    def details(self, proof: Proof, recall: float) -> Mapping[str, Any]:  # noqa: ARG002
        """How many pairs have no fact, and at how many of them the layer answers."""
        n_pairs = self.data.n_keys * self.data.n_queries
        n_silent = n_pairs - self.data.n_fibers
        answered: int | None = None
        artifacts: int | None = None
        if not too_many_silent(self.model, n_silent):
            silent = np.ones(n_pairs if n_silent else 0, dtype=bool)
            silent[self._numbers if n_silent else []] = False
            answered, artifacts = self._forward.silent_answers(Pairs.of(self.model, np.flatnonzero(silent)))
        return {"silent_fibers": n_silent, "answered": answered, "artifacts": artifacts}

    def why_not_recalled(self, n_wrong: int) -> str:
        """In words, that so many facts are wrong."""
        return f"{super().why_not_recalled(n_wrong)} by the layer's forward pass"

    def why_not_proved(self, n_open: int, arithmetic: ArithmeticUsed) -> str:
        """With the method."""
        return f"{super().why_not_proved(n_open, arithmetic)} (method: {arithmetic})"
