"""Certificates of memorisers: every example answered and its label proved for every order of evaluation.

Two parts that share no code: the model's own forward pass answers every example, and `memoriser_proof` bounds what any
evaluation can answer, from the weights and the vectors alone. So trained memorisers are certified as solved ones are. A
class is right when its logit is above all others, a real label when the answer is within a tolerance of it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import asdict, astuple, dataclass, replace
from math import inf, isfinite
from typing import Any, cast

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Shaped

from factrank.certificates import ARITHMETIC, fingerprint_of, precision_of, why_refuted
from factrank.errors import InputError
from factrank.families.memoriser.examples import Examples, VectorExamples, stored
from factrank.families.memoriser.memoriser import Memoriser
from factrank.families.memoriser.solving.memoriser_proof import BLOCK_CELLS, OutputProver, leads, plain_memoriser
from factrank.nn import Precision, dtype_of, on_device
from factrank.readouts import finite_data

TOLERANCE = 1e-4
"""How far from a real label an answer may be. Solved answers are off by 1e-13 or so; what is proved of every order of
evaluation grows to 1e-5 at the authors' sizes, and one label too many leaves errors of 1e-3 or more there."""

BLOCK_STEP = 64
"""Blocks of examples have multiples of this many rows."""


@dataclass(frozen=True, kw_only=True)
class MemoriserCertificate:
    """What is known of a memoriser's recall of examples.

    It holds for the weights and the examples with these fingerprints, evaluated in `precision` without shortened
    products, on vectors rounded to it; `arithmetic` and `memoriser_proof` say what is assumed of a machine. For weights
    of float64 that is `model(query, context)`, and `outputs` inside `with jax.enable_x64(True):`.

    Arguments:
        certified: every example is right in the model's own forward pass, and in every other order of evaluation.
        examples: number of examples, all of which were checked.
        recalled: examples that the forward pass gets right; ties are wrong.
        margin: the least in the forward pass: of the logit of the class above all others, or of the tolerance above
            the error of a real label.
        proved_margin: what it is at least in every evaluation; minus infinity where nothing was proved.
        tolerance: how far from a real label an answer may be; None for classes.
        worst: the number of the example with the least margin in the forward pass.
        parameters: all stored scalars.
        bits: information in the labels, N log2(classes); None for real labels.
        precision: of the evaluation.
        reason: why it is not certified; empty where it is.
        weights: SHA-256 of the weights and of the shape, which says what is computed with them.
        database: the fingerprint of the examples.
    """

    certified: bool
    examples: int
    recalled: int
    margin: float
    proved_margin: float
    tolerance: float | None
    worst: int
    parameters: int
    bits: float | None
    precision: Precision
    reason: str
    weights: str
    database: str

    @property
    def recall(self) -> float:
        """The share of examples that the forward pass gets right."""
        return self.recalled / self.examples

    @property
    def proved_error(self) -> float | None:
        """The largest error of a real label in any evaluation; None for classes."""
        return None if self.tolerance is None else self.tolerance - self.proved_margin

    @property
    def bits_per_parameter(self) -> float | None:
        """Bits of the labels that are recalled over the parameters; None for real labels."""
        return None if self.bits is None else self.recall * self.bits / self.parameters

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON; infinite margins become null."""
        beside = {"proved_error": self.proved_error, "bits_per_parameter": self.bits_per_parameter}
        plain: dict[str, Any] = finite_data(asdict(self) | beside)
        return plain


def verify_memoriser(
    model: Memoriser, examples: Examples, *, tolerance: float = TOLERANCE, precision: str | None = None
) -> MemoriserCertificate:
    """Check every example with the model's own forward pass, and prove that every other evaluation agrees.

    Arguments:
        model: trained or solved.
        examples: vectors of the model's dimensions, labels of its outputs.
        tolerance: how far from a real label an answer may be.
        precision: of the evaluation; None is that of the weights. Weights of float32 may be proved in float64, where
            float32 would leave nothing to prove.
    """
    require_memoriser(model, examples)
    return certificate_of(model, examples, stored(examples), tolerance, precision)


def certificate_of(
    model: Memoriser, examples: Examples, arrays: VectorExamples, tolerance: float, precision: str | None = None
) -> MemoriserCertificate:
    """The same for examples whose arrays are at hand."""
    require_number("the tolerance of real labels", tolerance)
    own = precision_of(model)
    wanted = cast("Precision", own if precision is None else dtype_of(precision).name)
    if ARITHMETIC[wanted].bits < ARITHMETIC[own].bits:
        raise InputError(f"weights of {own} are other weights in {wanted}; the precision must hold them exactly")
    vectors = _rounded(arrays, wanted)
    with np.errstate(over="ignore", invalid="ignore"):  # answers may overflow; they are then wrong
        computed = _forward_margins(model, vectors, tolerance, wanted)
    proved, obstacle = _proved_margins(model, vectors, tolerance, wanted)
    n_examples, recalled, n_open = len(computed), int((computed > 0).sum()), int((~(proved > 0)).sum())
    what = "labels" if examples.n_classes is None else "classes"
    reasons = [] if recalled == n_examples else [f"{n_examples - recalled:,} of {n_examples:,} {what} are not recalled"]
    if obstacle or n_open:
        reasons.append(obstacle or f"{n_open:,} of {n_examples:,} {what} are not proved to be recalled")
    reasons += [text for text in [why_refuted(computed, proved, ARITHMETIC[wanted])] if text]
    worst = int(computed.argmin())
    return MemoriserCertificate(
        certified=not reasons,
        examples=n_examples,
        recalled=recalled,
        margin=float(computed[worst]),
        proved_margin=float(proved.min()),
        tolerance=tolerance if examples.n_classes is None else None,
        worst=worst,
        parameters=model.parameters,
        bits=None if examples.n_classes is None else examples.bits,
        precision=wanted,
        reason="; ".join(reasons),
        weights=_fingerprint(model),
        database=examples.fingerprint,
    )


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


def _fingerprint(model: Memoriser) -> str:
    """Of the function: the weights, and the shape but for its start."""
    shape = astuple(replace(model.shape, start="random"))
    return hashlib.sha256(f"factrank memoriser 1 {shape} {fingerprint_of(model)}".encode("ascii")).hexdigest()


def _rounded(examples: VectorExamples, precision: Precision) -> VectorExamples:
    """The vectors as an evaluation in this precision has them; labels stay."""
    dtype = dtype_of(precision)
    if examples.queries.dtype.itemsize <= dtype.itemsize:
        return examples
    with np.errstate(over="ignore"):  # what becomes infinite is an obstacle of the proof
        queries, contexts = (part.astype(dtype).astype(np.float64) for part in (examples.queries, examples.contexts))
    return VectorExamples(queries, contexts, examples.context_of, examples.labels, examples.n_classes)


# -------------------------------------------------------------------- the forward pass


def _forward_margins(
    model: Memoriser, examples: VectorExamples, tolerance: float, precision: Precision
) -> Float[np.ndarray, " examples"]:
    """The margins in the model's own forward pass; minus infinity where they are not a number."""
    dtype, found = dtype_of(precision), np.empty(examples.n_examples)
    heads, _, d_vo = model.w_v.shape
    cells = examples.context_size * (examples.d_input + heads * (1 + d_vo)) + model.n_outputs
    with jax.enable_x64(precision == "float64"), jax.default_matmul_precision("highest"):
        placed = on_device(jax.tree.map(lambda part: np.asarray(part).astype(dtype), model))
        for rows, _ in blocks_of(examples, cells):
            queries, contexts = examples.queries[rows], examples.contexts[examples.context_of[rows]]
            here = jnp.asarray(queries.astype(dtype)), jnp.asarray(contexts.astype(dtype))
            outputs = np.asarray(_outputs(placed, *here)).astype(np.float64)
            found[rows] = margins_of(outputs, examples.labels[rows], tolerance)
    return np.where(np.isnan(found), -inf, found)


def blocks_of(examples: VectorExamples, cells_per_row: int) -> Iterator[tuple[Int[np.ndarray, " height"], int]]:
    """The numbers of the examples of each block, padded so that few sizes are compiled, and how many are meant."""
    total, step = examples.n_examples, BLOCK_STEP
    height = min(-(-total // step) * step, max(step, BLOCK_CELLS // cells_per_row))
    for start in range(0, total, height):
        kept = min(height, total - start)
        yield np.resize(np.arange(start, start + kept), height), kept


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


def _proved_margins(
    model: Memoriser, examples: VectorExamples, tolerance: float, precision: Precision
) -> tuple[Float[np.ndarray, " examples"], str]:
    """A lower bound of each margin in every evaluation, and what keeps anything from being proved."""
    bounds = np.full(examples.n_examples, -inf)
    prover = OutputProver(plain_memoriser(model, examples.context_size, dtype_of(precision)), ARITHMETIC[precision])
    obstacle = prover.obstacle(examples)
    if obstacle:
        return bounds, obstacle
    with np.errstate(all="ignore"):  # bounds that overflow prove nothing
        for rows, proved in prover.blocks(examples):
            labels = examples.labels[rows]
            if examples.n_classes is None:
                bounds[rows] = tolerance - np.abs(proved.outputs[:, 0] - labels) - proved.errors[:, 0]
            else:
                bounds[rows] = leads(proved, labels)
    return np.where(np.isnan(bounds), -inf, bounds), ""
