r"""Solve: a memoriser in closed form, whose query and key weights are drawn and whose values are one linear solve.

With the attention fixed, an answer is linear in the values: $y_i = b + \sum_h z^h_i \cdot w_h$ with
$z^h_i = \sum_j \alpha^h_{ij} x_{ij}$ what head h reads and $w_h = W_V^h W_O^h D \in R^d$. `memoriser_fit` solves for
$(w, b)$ by one regularised least squares in float64, on a GPU where JAX has one. It fits arbitrary labels up to
N = rank (`tensors.memoriser_rank`); beyond it is the best approximation, which recalls little: train instead.

*Labels.* A real one is y itself. A class is the integer $c$ around 0 that stands for it, and the logit of class c is
$16\,(2 c y - c^2)$, largest for the integer nearest to y and by 16 above the next, so that softmax is sure too. Heads
with d_vo = 1 suffice for any number of classes; one-hot labels would need d_vo >= min(d_model, classes).

*Weights.* The random start's, changed as far as conditioning needs: embedded vectors are centred by the bias and
scaled to variance 1; W_Q gives the mean query no score, which would prefer the same tokens in all examples (with the
authors' sizes and one context the condition number falls from 1e9 to 1e6 by both); each head's scores, relative to
their mean over a context, have the standard deviation that is asked for. All heads write y to coordinate 0 of the
stream. What else was drawn is read by nothing or writes 0, so that training can go on from here.
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
"""Standard deviation of the scores: at 0.3 the features of narrow heads are all but dependent."""

SHARPNESS = 16.0
"""The margin of a class that is fitted exactly."""

NARROW = 4
"""From this d_qk on the condition number is that of wide heads."""

LARGE_CONDITION = 1e9
MOST_CELLS = 2**28
"""Features that fit into memory, with what the decomposition needs beside them."""

SAMPLE = 1024
"""Examples from which the scale of vectors and scores is taken."""

LEAST_VARIETY = 0.01
"""Of queries about their mean, below which the mean is all there is to score by."""

TINY = 1e-12
"""What is smaller than this in comparison is rounding."""


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
    """A memoriser of this shape whose values are solved for, with its certificate.

    Arguments:
        examples: what to memorise; beyond the rank it is approximated.
        shape: its sizes; `start` is not looked at.
        seed: of the weights that are drawn.
        logit_std: standard deviation of the scores; about 2 is best conditioned.
        ridge: lambda above, relative to the square of the largest singular value; None is the square of the unit
            roundoff of the precision, below which values only fit the rounding of what is read.
        tolerance: how far from a real label an answer may be.
        precision: of the weights and of the evaluation that is certified. In float32 little can be proved.

    Returns:
        The memoriser with its certificate. Its details are `fit`: rank, condition number and residual as found in
        float64, before weights are rounded to their precision; `predicted`: the rank of exact arithmetic in general
        position, with its conditions; `advice`: in words, what may be wrong with the numbers and what to change.

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
    """The model that a shape with the start "solved" starts from, on the host; least squares beyond the rank."""
    problem = _Problem(examples, shape, LOGIT_STD, None)
    _require(problem)
    return _solved(problem, stored(examples), rng, dtype_of(dtype))[0]


class _Problem(NamedTuple):
    examples: Examples
    shape: MemoriserShape
    logit_std: float
    ridge: float | None


def _require(problem: _Problem) -> MemoriserRank:
    """The predicted rank, or an `InputError` where there is nothing to solve or too much."""
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
        # The features are those of the rounded weights, so that the solution makes up for the rounding.
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
    """The vectors as a model in this precision reads them, in float64."""
    queries, contexts = (part.astype(dtype).astype(np.float64) for part in (examples.queries, examples.contexts))
    return VectorExamples(queries, contexts, examples.context_of, examples.labels, examples.n_classes)


def _codes(
    examples: VectorExamples,
) -> tuple[Float[np.ndarray, " classes"] | None, Float[np.ndarray, " examples"]]:
    """The integers that stand for classes, None where labels are real; and what y should be for every example."""
    if examples.n_classes is None:
        return None, examples.labels
    codes = np.arange(examples.n_classes) - float(examples.n_classes // 2)
    return codes, codes[examples.labels]


# -------------------------------------------------------------------- weights


def _conditioned(drawn: PartArrays, examples: VectorExamples, shape: MemoriserShape, logit_std: float) -> PartArrays:
    """The drawn weights, with vectors centred and scaled, mean queries ignored and scores of the spread asked for."""
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
    varied = spreads > TINY * sizes.max(axis=(0, 2))  # else tokens are equal but for rounding
    parts["w_q"] = parts["w_q"] * np.where(varied, logit_std / np.where(varied, spreads, 1.0), 1.0)[:, None, None]
    return parts


def _values(
    parts: PartArrays,
    solution: Float[np.ndarray, " features"],
    codes: Float[np.ndarray, " classes"] | None,
) -> PartArrays:
    """The solution as weights: heads write y without its constant to coordinate 0, which the decoder reads."""
    w_v, w_o, decoder = (parts[name].astype(np.float64) for name in ("w_v", "w_o", "decoder"))
    w_v[:, :, 0] = solution[:-1].reshape(w_v.shape[:2])
    w_o[:] = 0.0
    w_o[:, 0, 0] = 1.0
    decoder[0] = 1.0 if codes is None else SHARPNESS * 2 * codes
    constant = solution[-1] * decoder[0] - (0.0 if codes is None else SHARPNESS * codes**2)
    return {"w_v": w_v, "w_o": w_o, "decoder": decoder, "decoder_bias": constant}


# -------------------------------------------------------------------- words


def _advice(problem: _Problem, fit: LinearFit, predicted: MemoriserRank) -> tuple[str, ...]:
    """What the numbers say, in words."""
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
    """Whether real labels are so large that the precision itself misses the tolerance."""
    if examples.n_classes is not None:
        return ()
    spacing = float(np.abs(examples.labels).max()) * 2.0 ** -SIGNIFICAND[cast("Precision", dtype.name)]
    if spacing <= tolerance:
        return ()
    found = f"labels of this size are {spacing:.1e} off in {dtype.name} by rounding alone"
    return (f"{found}, more than the tolerance {tolerance:g}: scale the labels, or allow more",)
