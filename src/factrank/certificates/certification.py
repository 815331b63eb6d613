"""Certify a model from its weights and facts alone, however the weights were obtained.

There are two independent checks: the model's forward pass evaluates every fact in its own precision, and a proof bounds
the margins under any floating-point summation order, in float64 with NumPy. A model is certified if both find that
every fact is recalled, and no margin of the forward pass is below its bound. Families implement `Prover`; this module
provides blocks, counts, reasons and fingerprints for all of them.
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
from factrank.certificates.confidence import Confidence
from factrank.nn import Precision


class MarginBounds(NamedTuple):
    """Lower bound of the margin of each row of a block, and whether the bounds are exact integers."""

    margins: Float[np.ndarray, " rows"]
    exact: bool = False


class Prover(ABC):
    """Interface that a family implements to certify a model: a forward pass and bounds, for a block of facts.

    The constructor of a prover must check that the data match the model.
    """

    model: Any
    data: Any
    """The facts, with `len` and `fingerprint`."""
    fixed: tuple[str, ...] = ()
    """Names of the details that are the same on every machine."""

    @property
    @abstractmethod
    def forward_cells(self) -> int:
        """Entries per fact of the largest array in the forward pass."""

    @property
    @abstractmethod
    def bound_cells(self) -> int:
        """Entries per fact of the largest array in the proof."""

    @abstractmethod
    def forward(self, block: RowBlock) -> Float[np.ndarray, " rows"]:
        """Return the margin of each row in the model's forward pass; called inside `evaluation`."""

    @abstractmethod
    def obstacle(self) -> str:
        """Return why nothing can be proved, such as an unknown subclass of the model; empty if there is no obstacle."""

    @abstractmethod
    def bound(self, block: RowBlock) -> MarginBounds:
        """Return lower bounds of the margin of each row in every evaluation; called only if there is no obstacle."""

    def forward_blocks(self) -> Iterable[RowBlock]:
        """Return the blocks of the forward pass, which together contain all facts."""
        return row_blocks(self.n_facts, self.forward_cells)

    @property
    def n_facts(self) -> int:
        """Number of facts."""
        return len(self.data)

    @property
    def precision(self) -> Precision:
        """Precision of the evaluation."""
        return precision_of(self.model)

    @property
    def weights(self) -> str:
        """Fingerprint of the model."""
        return fingerprint_of(self.model)

    def worst(self, row: int) -> tuple[str, ...] | int:
        """Return the names of a fact."""
        key, query, value = (int(code) for code in self.data.triples[row])
        return self.data.keys[key], self.data.queries[query], self.data.values[value]

    def least_together(self, bounds: Float[np.ndarray, " facts"]) -> Float[np.ndarray, " facts"]:
        """Return the bounds of the margins that `forward` returns, which differ if several facts have one margin."""
        return bounds

    def details(self, proof: Proof, recall: float) -> Mapping[str, Any]:  # noqa: ARG002 - used by some families
        """Return the entries specific to this family; called inside `evaluation`."""
        return {}

    def confidence(self, proof: Proof) -> Confidence | None:  # noqa: ARG002 - used by some families
        """Return the proof of a claim about probabilities; None if nothing is claimed. Called inside `evaluation`."""
        return None

    def why_not_recalled(self, n_wrong: int) -> str:
        """Return the reason if facts are wrong in the forward pass."""
        return f"{n_wrong:,} of {self.n_facts:,} facts are not recalled"

    def why_not_proved(self, n_open: int, arithmetic: ArithmeticUsed) -> str:  # noqa: ARG002 - used by some families
        """Return the reason if the bounds of some facts are not positive."""
        return f"the margins of {n_open:,} facts are not proved positive"


@dataclass(frozen=True, eq=False)
class Proof:
    """Proved bounds of the margins of the facts.

    Arguments:
        arithmetic: Arithmetic of the proof; "none" if no bound was found.
        bounds: Lower bound of every fact's margin in every evaluation; minus infinity if there is none.
        reason: Why recall is not proved; empty if it is.
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
        """Smallest bound; infinite if there are no facts."""
        return -inf if self.arithmetic == "none" else float(self.bounds.min(initial=inf))


def certify(prover: Prover, obstacle: str = "") -> Certificate:
    """Check every fact with the model's forward pass, and prove that every other evaluation recalls it too.

    Arguments:
        prover: The family's prover for a model and its facts.
        obstacle: A reason why nothing can be proved, in addition to the prover's own.
    """
    n_facts, precision = prover.n_facts, prover.precision
    proof = prove(prover, obstacle)
    # Sums of large weights may overflow; infinite and NaN margins prove nothing, as they should.
    with np.errstate(all="ignore"), evaluation(precision):
        computed = computed_margins(prover)
        recalled = int((computed > 0).sum())
        details = dict(prover.details(proof, recalled / max(n_facts, 1)))
        confidence = prover.confidence(proof)
    reasons = [prover.why_not_recalled(n_facts - recalled)] if recalled < n_facts else []
    reasons += [proof.reason, why_refuted(computed, prover.least_together(proof.bounds), ARITHMETIC[precision])]
    reasons += () if confidence is None else confidence.faults()
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
        confidence=confidence,
        fixed=tuple(prover.fixed),
    )


def computed_margins(prover: Prover) -> Float[np.ndarray, " facts"]:
    """Return the margins of the forward pass, inside `evaluation`; NaN for facts that are in no block."""
    found = np.full(prover.n_facts, np.nan)
    for block in prover.forward_blocks():
        found[block.rows] = _one_each(block, prover.forward(block))
    return found


def prove(prover: Prover, obstacle: str = "") -> Proof:
    """Bound the margins in every evaluation, from the weights and the facts alone."""
    bounds, exact = np.full(prover.n_facts, -inf), True
    with np.errstate(all="ignore"):
        obstacle = prover.obstacle() or obstacle
        if obstacle:
            return Proof("none", bounds, obstacle)
        for block in row_blocks(prover.n_facts, prover.bound_cells):
            found = prover.bound(block)
            bounds[block.rows] = _one_each(block, found.margins)
            exact &= found.exact
    bounds = np.where(np.isnan(bounds), -inf, bounds)  # NaN proves nothing
    used: ArithmeticUsed = "exact integers" if exact else "running error bound"
    n_open = int((~(bounds > 0)).sum())
    return Proof(used, bounds, prover.why_not_proved(n_open, used) if n_open else "")


def _one_each(block: RowBlock, margins: Float[np.ndarray, " rows"]) -> Float[np.ndarray, " rows"]:
    """Return the margins after checking that there is one per row, because NumPy would broadcast a single one."""
    if margins.shape != block.rows.shape:
        raise ValueError(f"a prover must return one margin per row: expected {block.rows.shape}, got {margins.shape}")
    return margins


@contextmanager
def evaluation(precision: Precision) -> Iterator[None]:
    """Context for evaluation: no reduced-precision products, and 64-bit arithmetic for 64-bit weights."""
    with jax.enable_x64(precision == "float64"), jax.default_matmul_precision("highest"):
        yield
