"""Certify: a certificate from the weights and the facts alone, knowing nothing of how the weights came about.

Two parts that share no code: the model's own forward pass evaluates every fact in its own precision, and a proof bounds
the margins of every evaluation, in float64 with NumPy. A model is certified if both find every fact recalled, and no
margin of the forward pass is below its bound. A family supplies a `Prover`; blocks, counts, reasons and fingerprints
are here, for all of them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from math import inf
from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import Float

from factrank.certificates.arithmetic import ARITHMETIC, why_refuted
from factrank.certificates.blocks import RowBlock, row_blocks
from factrank.certificates.certificate import ArithmeticUsed, Certificate
from factrank.certificates.certified_weights import fingerprint_of, precision_of
from factrank.nn import Precision


class MarginBounds(NamedTuple):
    """A lower bound of the margin of each row of a block, and whether the bounds are exact integers."""

    margins: Float[np.ndarray, " rows"]
    exact: bool = False


class Prover(ABC):
    """What a family supplies to certify a model: a forward pass and bounds, a block of facts at a time.

    What most families share is written here. A prover checks that the data fit the model when it is made.
    """

    model: Any
    data: Any
    """The facts; `len` counts them and `fingerprint` identifies them."""
    fixed: tuple[str, ...] = ()
    """The details that are the same on every machine."""

    @property
    @abstractmethod
    def forward_cells(self) -> int:
        """Numbers per fact in the largest array of the forward pass."""

    @property
    @abstractmethod
    def bound_cells(self) -> int:
        """The same of the proof."""

    @abstractmethod
    def forward(self, block: RowBlock) -> Float[np.ndarray, " rows"]:
        """The margin of each row in the model's own forward pass; it runs inside `evaluation`."""

    @abstractmethod
    def obstacle(self) -> str:
        """Why nothing can be proved, such as a subclass that may compute something else; empty if nothing is."""

    @abstractmethod
    def bound(self, block: RowBlock) -> MarginBounds:
        """Lower bounds of the margin of each row in every evaluation; asked for only without an obstacle."""

    def forward_blocks(self) -> Iterable[RowBlock]:
        """The blocks of the forward pass: together all facts."""
        return row_blocks(self.n_facts, self.forward_cells)

    @property
    def n_facts(self) -> int:
        """Number of facts."""
        return len(self.data)

    @property
    def precision(self) -> Precision:
        """Of the evaluation."""
        return precision_of(self.model)

    @property
    def weights(self) -> str:
        """The fingerprint of the model."""
        return fingerprint_of(self.model)

    def worst(self, row: int) -> tuple[str, ...] | int:
        """What a fact is called."""
        key, query, value = (int(code) for code in self.data.triples[row])
        return self.data.keys[key], self.data.queries[query], self.data.values[value]

    def least_together(self, bounds: Float[np.ndarray, " facts"]) -> Float[np.ndarray, " facts"]:
        """The bounds of what `forward` gives for each fact; others than its own if several share one margin."""
        return bounds

    def details(self, proof: Proof, recall: float) -> Mapping[str, Any]:  # noqa: ARG002 - some details need them
        """What only this family has; it runs inside `evaluation`."""
        return {}

    def why_not_recalled(self, n_wrong: int) -> str:
        """In words, how many facts are wrong in the forward pass."""
        return f"{n_wrong:,} of {self.n_facts:,} facts are not recalled"

    def why_not_proved(self, n_open: int, arithmetic: ArithmeticUsed) -> str:  # noqa: ARG002 - some say how
        """In words, how many facts have a bound that is not positive."""
        return f"the margins of {n_open:,} facts are not proved positive"


@dataclass(frozen=True, eq=False)
class Proof:
    """What was proved of the margins of the facts.

    Arguments:
        arithmetic: how; "none" if no bound was found, and then `reason` says why.
        bounds: a lower bound of every fact's margin in every evaluation; minus infinity if there is none.
        reason: why there is no proof of recall; empty if there is one.
    """

    arithmetic: ArithmeticUsed
    bounds: Float[np.ndarray, " facts"] = field(repr=False)
    reason: str

    @property
    def holds(self) -> bool:
        """Whether recall is proved."""
        return not self.reason

    @property
    def margin(self) -> float:
        """The least bound; infinite without facts."""
        return -inf if self.arithmetic == "none" else float(self.bounds.min(initial=inf))


def certify(prover: Prover, obstacle: str = "") -> Certificate:
    """Check every fact with the model's own forward pass, and prove that every other evaluation recalls it too.

    An `obstacle` is a further reason, in addition to the prover's own, why nothing can be proved.
    """
    n_facts, precision = prover.n_facts, prover.precision
    proof = prove(prover, obstacle)
    # Weights may be so large that sums overflow: what is infinite or not a number proves nothing, as it should.
    with np.errstate(all="ignore"), evaluation(precision):
        computed = computed_margins(prover)
        recalled = int((computed > 0).sum())
        details = dict(prover.details(proof, recalled / max(n_facts, 1)))
    reasons = [prover.why_not_recalled(n_facts - recalled)] if recalled < n_facts else []
    reasons += [proof.reason, why_refuted(computed, prover.least_together(proof.bounds), ARITHMETIC[precision])]
    reasons = [text for text in reasons if text]
    least = int(np.where(np.isnan(computed), -inf, computed).argmin()) if n_facts else None
    return Certificate(
        certified=not reasons,
        facts=n_facts,
        recalled=recalled,
        margin=inf if least is None else float(computed[least]),
        proved_margin=proof.margin,
        worst=None if least is None else prover.worst(least),
        details=details,
        arithmetic=proof.arithmetic,
        precision=precision,
        reason="; ".join(reasons),
        weights=prover.weights,
        database=prover.data.fingerprint,
        fixed=tuple(prover.fixed),
    )


def computed_margins(prover: Prover) -> Float[np.ndarray, " facts"]:
    """The other half: the margins of the forward pass, inside `evaluation`; NaN for a fact that no block has."""
    found = np.full(prover.n_facts, np.nan)
    for block in prover.forward_blocks():
        found[block.rows] = _one_each(block, prover.forward(block))
    return found


def prove(prover: Prover, obstacle: str = "") -> Proof:
    """The half of a certificate that is for every evaluation: bounds from the weights and the facts alone."""
    bounds, exact = np.full(prover.n_facts, -inf), True
    with np.errstate(all="ignore"):
        obstacle = prover.obstacle() or obstacle
        if obstacle:
            return Proof("none", bounds, obstacle)
        for block in row_blocks(prover.n_facts, prover.bound_cells):
            found = prover.bound(block)
            bounds[block.rows] = _one_each(block, found.margins)
            exact &= found.exact
    bounds = np.where(np.isnan(bounds), -inf, bounds)  # what is not a number proves nothing
    used: ArithmeticUsed = "exact integers" if exact else "running error bound"
    n_open = int((~(bounds > 0)).sum())
    return Proof(used, bounds, prover.why_not_proved(n_open, used) if n_open else "")


def _one_each(block: RowBlock, margins: Float[np.ndarray, " rows"]) -> Float[np.ndarray, " rows"]:
    """The margins, one for each row: NumPy would take a single one for all of them."""
    if margins.shape != block.rows.shape:
        raise ValueError(f"a prover gives one margin per row: expected {block.rows.shape}, got {margins.shape}")
    return margins


@contextmanager
def evaluation(precision: Precision) -> Iterator[None]:
    """Evaluation as certificates mean it: no shortened products, and 64-bit numbers for 64-bit weights."""
    with jax.enable_x64(precision == "float64"), jax.default_matmul_precision("highest"):
        yield
