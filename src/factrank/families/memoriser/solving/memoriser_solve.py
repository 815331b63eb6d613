r"""Memorisers in closed form: random query and key weights, and values from one linear solve.

With fixed attention, the answer is linear in the values: $y_i = b + \sum_h z^h_i \cdot w_h$, where
$z^h_i = \sum_j \alpha^h_{ij} x_{ij}$ is read by head h and $w_h = W_V^h W_O^h D \in R^d$. `memoriser_fit` solves for
$(w, b)$ by regularised least squares in float64, on a GPU if JAX has one. The solution fits arbitrary labels up to
N = rank (`memoriser_rank`). Beyond the rank it is the best approximation, which recalls little: train instead.

*Labels.* A real label is y itself. A class is encoded as an integer $c$ around 0; its logit is $16\,(2 c y - c^2)$,
which is largest for the integer nearest to y, by 16 over the next, so the softmax is also close to 1. Heads with
d_vo = 1 suffice for any number of classes, whereas one-hot labels would need d_vo >= min(d_model, classes).

*Weights.* The random weights are changed only as much as conditioning requires. Embedded vectors are centred by the
bias and scaled to variance 1. W_Q ignores the mean query, which would prefer the same tokens in all examples; with the
authors' sizes and one context, these two steps reduce the condition number from 1e9 to 1e6. The scores of each head,
relative to their mean over a context, are scaled to standard deviation `logit_std`. All heads write y to coordinate 0
of the stream. The remaining random weights are unused or multiplied by 0, so training can continue from this start.
"""

from __future__ import annotations

from typing import Any, NamedTuple, cast

import jax
import numpy as np
from jaxtyping import Float

from factrank.certificates import certify
from factrank.errors import InputError
from factrank.experiments.models import Constructed
from factrank.families.memoriser.examples import Examples, VectorExamples, stored
from factrank.families.memoriser.memoriser import Memoriser, draw_memoriser, memoriser_of, sinusoids
from factrank.families.memoriser.memoriser_shape import MemoriserShape
from factrank.families.memoriser.ranks import MemoriserRank, memoriser_rank
from factrank.families.memoriser.solving.memoriser_certificate import (
    TOLERANCE,
    MemoriserProver,
    require_number,
)
from factrank.families.memoriser.solving.memoriser_fit import LinearFit, features_of, fitted
from factrank.families.memoriser.solving.memoriser_proof import raw_scores
from factrank.families.memoriser.solving.memoriser_range import in_range, require_finite, rounded_parts, vanishes
from factrank.nn import SIGNIFICAND, PartArrays, Precision, dtype_of, require_sizes, to_arrays

LOGIT_STD = 2.0
"""Default standard deviation of the scores; at 0.3 the features of narrow heads are nearly dependent."""

SHARPNESS = 16.0
"""Margin of a class that is fitted exactly."""

NARROW = 4
"""Smallest d_qk at which the condition number is as good as for wide heads."""

LARGE_CONDITION = 1e9
MOST_CELLS = 2**28
"""Largest number of features that fits into memory, including the workspace of the decomposition."""

SAMPLE = 1024
"""Number of examples used to estimate the scale of vectors and scores."""

LEAST_VARIETY = 0.01
"""Smallest relative variation of the queries for which their mean is projected out."""

TINY = 1e-12
"""Relative size below which a number is considered rounding error."""


def solve(
    examples: Examples,
    shape: MemoriserShape,
    *,
    seed: int = 0,
    logit_std: float = LOGIT_STD,
    ridge: float | None = None,
    tolerance: float = TOLERANCE,
    precision: str = "float64",
) -> Constructed:
    """Solve for a memoriser of the given shape, and certify it.

    Arguments:
        examples: Examples to memorise; approximated if there are more than the rank.
        shape: Sizes of the memoriser.
        seed: Seed of the random weights.
        logit_std: Standard deviation of the scores; conditioning is best at about 2.
        ridge: Lambda in `memoriser_fit`, relative to the square of the largest singular value. By default the square of
            the unit roundoff of the precision; with less, the values would only fit the rounding of the features.
        tolerance: Largest allowed error of a real label.
        precision: Precision of the weights and of the certified evaluation. Little can be proved in float32.

    Returns:
        The memoriser with its certificate. Its details are `fit`, with rank, condition number and residual in float64,
        before the weights are rounded; `predicted`, the rank in exact arithmetic and general position, with its
        conditions; and `advice`, messages about numerical problems and how to fix them.

    >>> from factrank import RandomExamples
    >>> examples = RandomExamples(n_examples=15, context_size=8, d_input=16, n_contexts=1)  # 2 heads x 7 + 1
    >>> solved = solve(examples, MemoriserShape(n_heads=2, d_model=16, d_qk=4))
    >>> solved.certified, solved["fit"].rank, solved["predicted"].rank
    (True, 15, 15)
    """
    require_sizes({"seed": seed}, least=0)
    require_number("logit_std", logit_std)
    require_number("tolerance", tolerance)
    require_number("ridge", 0 if ridge is None else ridge, or_zero=True)
    dtype = dtype_of(precision)
    problem = _Problem(examples, shape, logit_std, ridge)
    predicted = _require(problem)
    arrays = stored(examples)
    model, fit = _solved(problem, arrays, np.random.default_rng(seed), dtype)
    advice = _advice(problem, fit, predicted) + _advice_on_labels(arrays, tolerance, dtype)
    certificate = certify(MemoriserProver(model, examples, tolerance, arrays=arrays))
    details = {"fit": fit, "predicted": predicted, "advice": advice}
    return Constructed(
        model=model, data=examples, spec=shape, form="linear solve", certificate=certificate, details=details
    )


def started_memoriser(
    shape: MemoriserShape, examples: Examples, *, rng: np.random.Generator, dtype: str = "float32"
) -> Memoriser:
    """Return the model of the start "solved", on the host; beyond the rank, a least-squares approximation."""
    problem = _Problem(examples, shape, LOGIT_STD, None)
    _require(problem)
    return _solved(problem, stored(examples), rng, dtype_of(dtype))[0]


class _Problem(NamedTuple):
    examples: Examples
    shape: MemoriserShape
    logit_std: float
    ridge: float | None


def _require(problem: _Problem) -> MemoriserRank:
    """Return the predicted rank, or raise an `InputError` if the problem is too large."""
    examples, shape = problem.examples, problem.shape
    predicted = memoriser_rank(examples, shape)
    columns = shape.n_heads * shape.d_model + 1
    if examples.n_examples * columns > MOST_CELLS:
        raise InputError(
            f"{examples.n_examples:,} examples x {columns:,} features are too many for a dense solve; "
            f"at most {MOST_CELLS:,} in all"
        )
    return predicted


def _solved(
    problem: _Problem, arrays: VectorExamples, rng: np.random.Generator, dtype: np.dtype[Any]
) -> tuple[Memoriser, LinearFit]:
    examples, shape = problem.examples, problem.shape
    drawn = to_arrays(draw_memoriser(shape, examples.d_input, examples.n_outputs, rng=rng, dtype="float64"))
    with in_range("vectors", dtype):
        vectors = _rounded(arrays, dtype)
        # Features are computed from the rounded weights, so the solution compensates for the rounding.
        parts = rounded_parts(_conditioned(drawn, vectors, shape, problem.logit_std), dtype)
        if vanishes(vectors, parts, dtype):
            raise FloatingPointError
    with in_range("labels", dtype):
        codes, labels = _codes(vectors)
        require_finite(np.square(labels).sum(keepdims=True))
    with jax.enable_x64(True), jax.default_matmul_precision("highest"):
        model = memoriser_of(shape, {name: part.astype(np.float64) for name, part in parts.items()})
        features = features_of(model, vectors, dtype)
        unit = 2.0 ** -SIGNIFICAND[cast("Precision", dtype.name)]
        ridge = unit**2 if problem.ridge is None else problem.ridge
        fit = fitted(features, labels, ridge, memoriser_rank(examples, shape).rank)
    with in_range("labels", dtype):
        return memoriser_of(shape, parts | rounded_parts(_values(parts, fit.solution, codes), dtype)), fit


def _rounded(examples: VectorExamples, dtype: np.dtype[Any]) -> VectorExamples:
    """Return the vectors rounded to the precision, in float64."""
    queries, contexts = (part.astype(dtype).astype(np.float64) for part in (examples.queries, examples.contexts))
    return VectorExamples(queries, contexts, examples.context_of, examples.labels, examples.n_classes)


def _codes(
    examples: VectorExamples,
) -> tuple[Float[np.ndarray, " classes"] | None, Float[np.ndarray, " examples"]]:
    """Return the integer codes of the classes (None for real labels), and the target y of every example."""
    if examples.n_classes is None:
        return None, examples.labels
    codes = np.arange(examples.n_classes) - float(examples.n_classes // 2)
    return codes, codes[examples.labels]


# -------------------------------------------------------------------- weights


def _conditioned(drawn: PartArrays, examples: VectorExamples, shape: MemoriserShape, logit_std: float) -> PartArrays:
    """Centre and scale the vectors, project the mean query out of W_Q, and scale the scores to `logit_std`."""
    parts = dict(drawn)
    rows = np.unique(np.linspace(0, examples.n_examples - 1, SAMPLE).astype(np.int64))
    queries, contexts = examples.queries[rows], examples.contexts[examples.context_of[rows]]
    places = sinusoids(examples.context_size + 1, shape.d_model) * shape.positions
    if shape.embedded:
        flat = np.concatenate([queries, contexts.reshape(-1, queries.shape[1])])
        embedded = flat @ parts["embedding"]
        spread = float(embedded.std(axis=0).mean())
        require_finite(np.array([spread]))
        parts["embedding"] = parts["embedding"] / (spread if spread > TINY * np.abs(embedded).max() else 1.0)
        parts["embedding_bias"] = -flat.mean(axis=0) @ parts["embedding"]
        queries, contexts = (part @ parts["embedding"] + parts["embedding_bias"] for part in (queries, contexts))
    asking, tokens = queries + places[0], contexts + places[1:]
    mean = asking.mean(axis=0)
    if np.linalg.norm((asking - mean).std(axis=0)) > LEAST_VARIETY * np.linalg.norm(mean) > 0 and shape.d_model > 1:
        onto = mean / np.linalg.norm(mean)
        parts["w_q"] = parts["w_q"] - onto[None, :, None] * (onto @ parts["w_q"])[:, None, :]
    scores = raw_scores(asking, parts["w_q"], parts["w_k"], tokens) / shape.score_divisor
    spreads = (scores - scores.mean(axis=2, keepdims=True)).std(axis=(0, 2))
    require_finite(spreads)
    sizes = raw_scores(*(np.abs(part) for part in (asking, parts["w_q"], parts["w_k"], tokens))) / shape.score_divisor
    varied = spreads > TINY * sizes.max(axis=(0, 2))  # otherwise tokens are equal up to rounding
    parts["w_q"] = parts["w_q"] * np.where(varied, logit_std / np.where(varied, spreads, 1.0), 1.0)[:, None, None]
    return parts


def _values(
    parts: PartArrays,
    solution: Float[np.ndarray, " features"],
    codes: Float[np.ndarray, " classes"] | None,
) -> PartArrays:
    """Return the solution as weights: heads write y to coordinate 0, and the decoder adds the constant."""
    w_v, w_o, decoder = (parts[name].astype(np.float64) for name in ("w_v", "w_o", "decoder"))
    w_v[:, :, 0] = solution[:-1].reshape(w_v.shape[:2])
    w_o[:] = 0.0
    w_o[:, 0, 0] = 1.0
    decoder[0] = 1.0 if codes is None else SHARPNESS * 2 * codes
    constant = solution[-1] * decoder[0] - (0.0 if codes is None else SHARPNESS * codes**2)
    return {"w_v": w_v, "w_o": w_o, "decoder": decoder, "decoder_bias": constant}


# -------------------------------------------------------------------- words


def _advice(problem: _Problem, fit: LinearFit, predicted: MemoriserRank) -> tuple[str, ...]:
    """Return advice on rank and conditioning."""
    n_examples, shape = problem.examples.n_examples, problem.shape
    advice = []
    if n_examples > predicted.rank:
        advice.append(
            f"{n_examples:,} labels are more than the rank {predicted.rank:,} can fit: least squares only approximates "
            "them; add heads, or train"
        )
    if fit.rank < predicted.rank:
        advice.append(
            f"floating point sees rank {fit.rank:,} of {predicted.rank:,}: vectors, keys or positions are nearly "
            "dependent"
        )
    if fit.rank < predicted.rank or fit.condition > LARGE_CONDITION:
        if shape.d_qk < NARROW:
            advice.append(f"d_qk = {shape.d_qk} leaves the features ill conditioned; d_qk >= {NARROW} does not")
        if not LOGIT_STD / 2 <= problem.logit_std <= 2 * LOGIT_STD:
            advice.append(f"scores of standard deviation {problem.logit_std:g} are ill conditioned; take about 2")
        if not advice:
            advice.append(f"the condition number is {fit.condition:.1e}: fewer examples, or more heads, lower it")
    return tuple(advice)


def _advice_on_labels(examples: VectorExamples, tolerance: float, dtype: np.dtype[Any]) -> tuple[str, ...]:
    """Return advice if real labels are so large that rounding alone exceeds the tolerance."""
    if examples.n_classes is not None:
        return ()
    spacing = float(np.abs(examples.labels).max()) * 2.0 ** -SIGNIFICAND[cast("Precision", dtype.name)]
    if spacing <= tolerance:
        return ()
    found = f"labels of this size are {spacing:.1e} off in {dtype.name} by rounding alone"
    return (f"{found}, more than the tolerance {tolerance:g}: scale the labels, or allow more",)
