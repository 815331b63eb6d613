"""Certificates of memorisers: every example is answered, and its label proved for every evaluation order.

Two parts that share no code: the model's own forward pass answers every example, and `memoriser_proof` bounds the
answers of any evaluation, from the weights and vectors only. Trained and solved memorisers are certified alike. A class
is correct if its logit is larger than all others, a real label if the answer is within a tolerance.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import astuple, dataclass, field
from functools import cached_property
from math import inf, isfinite
from typing import Any, cast

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Shaped

from factrank.certificates import (
    ARITHMETIC,
    ArithmeticUsed,
    MarginBounds,
    Proof,
    Prover,
    RowBlock,
    fingerprint_of,
    precision_of,
    row_blocks,
    storage,
)
from factrank.errors import InputError
from factrank.families.memoriser.examples import Examples, VectorExamples, stored
from factrank.families.memoriser.memoriser import Memoriser
from factrank.families.memoriser.solving.memoriser_proof import OutputProver, largest_vector, leads, plain_memoriser
from factrank.nn import Precision, dtype_of, on_device

TOLERANCE = 1e-4
"""Largest allowed error of a real label. Errors of solved answers are about 1e-13; errors proved for every evaluation
order grow to 1e-5 at the authors' sizes, and one label too many causes errors of 1e-3 or more there.
"""

BLOCK_STEP = 64
"""Blocks of examples have a multiple of this many rows."""


@dataclass(frozen=True, eq=False)
class MemoriserProver(Prover):
    """Prover for `certify`, for a memoriser and its examples.

    The certificate is valid for an evaluation in `precision` on vectors rounded to it. For float64 weights this is
    `model(query, context)`, and `outputs` inside `with jax.enable_x64(True):`. The margin is the difference between the
    logit of the class and the next largest, or between the tolerance and the error of a real label; `proved_error` is
    the largest error of a real label in any evaluation. The fingerprint of the weights covers the shape, because the
    computed function depends on it.

    Arguments:
        model: A trained or solved memoriser.
        data: Examples that match the model's dimensions and outputs.
        tolerance: Largest allowed error of a real label.
        evaluated_in: Precision of the evaluation; by default the precision of the weights. float32 weights may be
            proved in float64, if nothing can be proved in float32.
        arrays: The examples as arrays, if already available.
    """

    model: Memoriser
    data: Examples
    tolerance: float = TOLERANCE
    evaluated_in: str | None = None
    arrays: VectorExamples | None = field(default=None, repr=False)
    fixed = ("parameters", "tolerance")

    def __post_init__(self) -> None:
        require_memoriser(self.model, self.data)
        require_number("the tolerance of real labels", self.tolerance)
        own, wanted = precision_of(self.model), self.precision
        if ARITHMETIC[wanted].bits < ARITHMETIC[own].bits:
            raise InputError(
                f"{own} weights change when rounded to {wanted}; choose a precision that represents them exactly"
            )

    @property
    def n_facts(self) -> int:
        """Number of examples."""
        return self.data.n_examples

    @property
    def precision(self) -> Precision:
        """Precision of the evaluation."""
        own = self.evaluated_in is None
        return precision_of(self.model) if own else cast("Precision", dtype_of(cast("str", self.evaluated_in)).name)

    @property
    def weights(self) -> str:
        """Fingerprint of the function: the weights and the shape."""
        shape = (*astuple(self.model.shape), "random")  # the last word is part of format version 1
        return hashlib.sha256(f"factrank memoriser 1 {shape} {fingerprint_of(self.model)}".encode("ascii")).hexdigest()

    @cached_property
    def _vectors(self) -> VectorExamples:
        """Vectors as seen by the evaluation."""
        return _rounded(stored(self.data) if self.arrays is None else self.arrays, self.precision)

    @property
    def forward_cells(self) -> int:
        """Numbers per example: contexts, weights and values of all heads, outputs."""
        heads, _, d_vo = self.model.w_v.shape
        per_token = self.data.d_input + heads * (1 + d_vo)
        return int(self.data.context_size * per_token + self.model.n_outputs)

    @property
    def bound_cells(self) -> int:
        """Numbers per example in the largest array of the proof."""
        return self._bounds.cells_per_example

    def forward_blocks(self) -> Iterable[RowBlock]:
        """Yield blocks of examples in order, padded to few different sizes to limit compilation."""
        return row_blocks(self.n_facts, self.forward_cells, BLOCK_STEP)

    @cached_property
    def _placed(self) -> Memoriser:
        dtype = dtype_of(self.precision)
        rounded: Memoriser = jax.tree.map(lambda part: np.asarray(part).astype(dtype), self.model)
        return on_device(rounded)

    def forward(self, block: RowBlock) -> Float[np.ndarray, " rows"]:
        """Return the margins computed by the model's own forward pass; minus infinity instead of NaN."""
        examples, rows, dtype = self._vectors, block.padded, dtype_of(self.precision)
        queries, contexts = examples.queries[rows], examples.contexts[examples.context_of[rows]]
        here = jnp.asarray(queries.astype(dtype)), jnp.asarray(contexts.astype(dtype))
        outputs = np.asarray(_outputs(self._placed, *here)).astype(np.float64)[: len(block.rows)]
        found = margins_of(outputs, examples.labels[block.rows], self.tolerance)
        return np.where(np.isnan(found), -inf, found)

    @cached_property
    def _bounds(self) -> OutputProver:
        plain = plain_memoriser(self.model, self.data.context_size, dtype_of(self.precision))
        return OutputProver(plain, ARITHMETIC[self.precision])

    @cached_property
    def _largest(self) -> float:
        return largest_vector(self._vectors)

    def obstacle(self) -> str:
        """Return why no bounds exist: weights or vectors that are infinite, NaN or too large."""
        return self._bounds.obstacle(self._vectors)

    def bound(self, block: RowBlock) -> MarginBounds:
        """Return the proved margins of a block, by `memoriser_proof`."""
        proved, labels = self._bounds.proved(self._vectors, block.rows, self._largest), self._vectors.labels[block.rows]
        if self.data.n_classes is None:
            return MarginBounds(self.tolerance - np.abs(proved.outputs[:, 0] - labels) - proved.errors[:, 0])
        return MarginBounds(leads(proved, labels))

    def worst(self, row: int) -> int:
        """Return the index of the example."""
        return row

    def details(self, proof: Proof, recall: float) -> Mapping[str, Any]:
        """Return tolerance and proved error (None for classes), the number of parameters, and the bits of classes."""
        real = self.data.n_classes is None
        errors = {"tolerance": self.tolerance, "proved_error": self.tolerance - proof.margin}
        about = errors if real else dict.fromkeys(errors)
        return about | storage(self.model.parameters, None if real else self.data.bits, recall)

    @property
    def _labels(self) -> str:
        return "labels" if self.data.n_classes is None else "classes"

    def why_not_recalled(self, n_wrong: int) -> str:
        """Return a message with the number of incorrect labels."""
        return f"{n_wrong:,} of {self.n_facts:,} {self._labels} are not recalled"

    def why_not_proved(self, n_open: int, arithmetic: ArithmeticUsed) -> str:  # noqa: ARG002
        """Return a message with the number of unproved labels."""
        return f"{n_open:,} of {self.n_facts:,} {self._labels} are not proved to be recalled"


def require_memoriser(model: Memoriser, examples: Examples) -> None:
    """Raise an `InputError` if the examples do not match the model.

    Subclasses of `Memoriser` are refused: they may compute something else, which the proof would not cover.
    """
    if type(model) is not Memoriser:
        raise InputError(f"expected a Memoriser, not a subclass; got {type(model).__name__}")
    sizes, expected = (model.d_input, model.n_outputs), (examples.d_input, examples.n_outputs)
    if sizes != expected:
        raise InputError(
            f"the model has {sizes[0]} input dimensions and {sizes[1]} outputs, but the examples need {expected[0]} "
            f"and {expected[1]}"
        )


def require_number(name: str, value: object, *, or_zero: bool = False) -> None:
    """Raise an `InputError` unless the value is a positive number, or 0 if `or_zero`.

    >>> require_number("a tolerance", "x")
    Traceback (most recent call last):
    factrank.errors.InputError: a tolerance must be a positive number; got 'x'
    """
    real = isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)
    if not (real and isfinite(cast("float", value)) and (cast("float", value) > 0 or (or_zero and value == 0))):
        raise InputError(f"{name} must be {'0 or ' if or_zero else ''}a positive number; got {value!r}")


def _rounded(examples: VectorExamples, precision: Precision) -> VectorExamples:
    """Return the vectors rounded to the precision, with unchanged labels."""
    dtype = dtype_of(precision)
    if examples.queries.dtype.itemsize <= dtype.itemsize:
        return examples
    with np.errstate(over="ignore"):  # `obstacle` reports overflow
        queries, contexts = (part.astype(dtype).astype(np.float64) for part in (examples.queries, examples.contexts))
    return VectorExamples(queries, contexts, examples.context_of, examples.labels, examples.n_classes)


# -------------------------------------------------------------------- the forward pass


@eqx.filter_jit
def _outputs(
    model: Memoriser, queries: Float[Array, "n d_input"], contexts: Float[Array, "n context d_input"]
) -> Float[Array, "n outputs"]:
    return model.outputs(queries, contexts)


def margins_of(
    outputs: Float[np.ndarray, "n outputs"], labels: Shaped[np.ndarray, " n"], tolerance: float
) -> Float[np.ndarray, " n"]:
    """Return margins: the lead of the class logit, or the tolerance minus the error of a real label."""
    if labels.dtype.kind == "f":
        return np.asarray(tolerance - np.abs(outputs[:, 0] - labels))
    rows, others = np.arange(len(labels)), outputs.copy()
    others[rows, labels] = -inf
    return np.asarray(outputs[rows, labels] - others.max(axis=1))
