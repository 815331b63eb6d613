"""Certificates of memorisers: every example answered and its label proved for every order of evaluation.

Two parts that share no code: the model's own forward pass answers every example, and `memoriser_proof` bounds what any
evaluation can answer, from the weights and the vectors alone. So trained memorisers are certified as solved ones are. A
class is right when its logit is above all others, a real label when the answer is within a tolerance of it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import astuple, dataclass, field, replace
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
"""How far from a real label an answer may be. Solved answers are off by 1e-13 or so; what is proved of every order of
evaluation grows to 1e-5 at the authors' sizes, and one label too many leaves errors of 1e-3 or more there."""

BLOCK_STEP = 64
"""Blocks of examples have multiples of this many rows."""


@dataclass(frozen=True, eq=False)
class MemoriserProver(Prover):
    """What `certify` needs of a memoriser and its examples.

    The certificate holds for an evaluation in `precision` on vectors rounded to it. For weights of float64 that is
    `model(query, context)`, and `outputs` inside `with jax.enable_x64(True):`. A margin is that of the logit of the
    class above all others, or of the tolerance above the error of a real label; `proved_error` is the largest error of
    a real label in any evaluation. The fingerprint of the weights is also one of the shape, which says what is computed
    with them.

    Arguments:
        model: trained or solved.
        data: vectors of the model's dimensions, labels of its outputs.
        tolerance: how far from a real label an answer may be.
        evaluated_in: the precision of the evaluation; None is that of the weights. Weights of float32 may be proved in
            float64, if float32 would leave nothing to prove.
        arrays: the examples, if they are at hand.
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
            raise InputError(f"weights of {own} are other weights in {wanted}; the precision must hold them exactly")

    @property
    def n_facts(self) -> int:
        """Number of examples."""
        return self.data.n_examples

    @property
    def precision(self) -> Precision:
        """Of the evaluation."""
        own = self.evaluated_in is None
        return precision_of(self.model) if own else cast("Precision", dtype_of(cast("str", self.evaluated_in)).name)

    @property
    def weights(self) -> str:
        """Of the function: the weights, and the shape but for its start."""
        shape = astuple(replace(self.model.shape, start="random"))
        return hashlib.sha256(f"factrank memoriser 1 {shape} {fingerprint_of(self.model)}".encode("ascii")).hexdigest()

    @cached_property
    def _vectors(self) -> VectorExamples:
        """The vectors as the evaluation has them."""
        return _rounded(stored(self.data) if self.arrays is None else self.arrays, self.precision)

    @property
    def forward_cells(self) -> int:
        """Contexts, weights and values of all heads, outputs."""
        heads, _, d_vo = self.model.w_v.shape
        per_token = self.data.d_input + heads * (1 + d_vo)
        return int(self.data.context_size * per_token + self.model.n_outputs)

    @property
    def bound_cells(self) -> int:
        """The largest array of the proof."""
        return self._bounds.cells_per_example

    def forward_blocks(self) -> Iterable[RowBlock]:
        """Examples in order, padded so that few sizes are compiled."""
        return row_blocks(self.n_facts, self.forward_cells, BLOCK_STEP)

    @cached_property
    def _placed(self) -> Memoriser:
        dtype = dtype_of(self.precision)
        rounded: Memoriser = jax.tree.map(lambda part: np.asarray(part).astype(dtype), self.model)
        return on_device(rounded)

    def forward(self, block: RowBlock) -> Float[np.ndarray, " rows"]:
        """The margins in the model's own forward pass; minus infinity if they are not a number."""
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
        """Weights or vectors that are not finite or too large."""
        return self._bounds.obstacle(self._vectors)

    def bound(self, block: RowBlock) -> MarginBounds:
        """By `memoriser_proof`."""
        proved, labels = self._bounds.proved(self._vectors, block.rows, self._largest), self._vectors.labels[block.rows]
        if self.data.n_classes is None:
            return MarginBounds(self.tolerance - np.abs(proved.outputs[:, 0] - labels) - proved.errors[:, 0])
        return MarginBounds(leads(proved, labels))

    def worst(self, row: int) -> int:
        """The number of the example."""
        return row

    def details(self, proof: Proof, recall: float) -> Mapping[str, Any]:
        """The tolerance and the proved error, None for classes; the scalars, and the bits of classes."""
        real = self.data.n_classes is None
        errors = {"tolerance": self.tolerance, "proved_error": self.tolerance - proof.margin}
        about = errors if real else dict.fromkeys(errors)
        return about | storage(self.model.parameters, None if real else self.data.bits, recall)

    @property
    def _labels(self) -> str:
        return "labels" if self.data.n_classes is None else "classes"

    def why_not_recalled(self, n_wrong: int) -> str:
        """In words, that so many labels are wrong."""
        return f"{n_wrong:,} of {self.n_facts:,} {self._labels} are not recalled"

    def why_not_proved(self, n_open: int, arithmetic: ArithmeticUsed) -> str:  # noqa: ARG002
        """In words, that so many labels are not proved."""
        return f"{n_open:,} of {self.n_facts:,} {self._labels} are not proved to be recalled"


def require_memoriser(model: Memoriser, examples: Examples) -> None:
    """Raise an `InputError` where the examples are not a task for the model.

    A class derived from `Memoriser` may compute something else, of which the proof knows nothing.
    """
    if type(model) is not Memoriser:
        raise InputError(f"expected a Memoriser, not a class derived from it; got {type(model).__name__}")
    sizes, expected = (model.d_input, model.n_outputs), (examples.d_input, examples.n_outputs)
    if sizes != expected:
        raise InputError(
            f"the model reads {sizes[0]} dimensions and has {sizes[1]} outputs, the examples have {expected[0]} and "
            f"need {expected[1]}"
        )


def require_number(name: str, value: object, *, or_zero: bool = False) -> None:
    """Raise an `InputError` where this is not a positive number, or 0 where that is allowed.

    >>> require_number("a tolerance", "x")
    Traceback (most recent call last):
    factrank.errors.InputError: a tolerance must be a positive number; got 'x'
    """
    real = isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)
    if not (real and isfinite(cast("float", value)) and (cast("float", value) > 0 or (or_zero and value == 0))):
        raise InputError(f"{name} must be {'0 or ' if or_zero else ''}a positive number; got {value!r}")


def _rounded(examples: VectorExamples, precision: Precision) -> VectorExamples:
    """The vectors as an evaluation in this precision has them; labels stay."""
    dtype = dtype_of(precision)
    if examples.queries.dtype.itemsize <= dtype.itemsize:
        return examples
    with np.errstate(over="ignore"):  # what becomes infinite is an obstacle of the proof
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
    """By how much outputs are right: of classes above all others, of real labels within the tolerance."""
    if labels.dtype.kind == "f":
        return np.asarray(tolerance - np.abs(outputs[:, 0] - labels))
    rows, others = np.arange(len(labels)), outputs.copy()
    others[rows, labels] = -inf
    return np.asarray(outputs[rows, labels] - others.max(axis=1))
