"""Bounds of what a memoriser answers: against the formula in plain Python, and where certificates must be refused."""

from dataclasses import replace
from math import cos, exp, log1p, sin, sqrt

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from factrank.certificates.arithmetic import ARITHMETIC
from factrank.certificates.certification import MarginBounds
from factrank.errors import InputError
from factrank.experiments.models.verification import verify
from factrank.families.memoriser.examples.examples import VectorExamples
from factrank.families.memoriser.memoriser import Memoriser, draw_memoriser, memoriser_of
from factrank.families.memoriser.memoriser_shape import MemoriserShape
from factrank.families.memoriser.solving import memoriser_certificate
from factrank.families.memoriser.solving.memoriser_proof import OutputProver, plain_memoriser
from factrank.nn.weights import on_device

SHAPE = MemoriserShape(n_heads=2, d_model=3, d_qk=2, d_vo=2)
SIZES = {"d_input": 4, "n_outputs": 2}
CONTEXT = 3
UNITS = {"float32": 2.0**-24, "bfloat16": 2.0**-8 * (1 + 2.0**-10)}
LEAST = 2.0**-126  # of both


def some_parts(rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Dimension 3 is not embedded and coordinate 2 is 0: what multiplies them counts for underflow only."""
    parts = {name: rng.normal(size=size) for name, size in SHAPE.part_sizes(**SIZES).items()}
    parts["embedding"][3], parts["embedding"][:, 2], parts["embedding_bias"][2] = 0, 0, 0
    parts["w_o"][:, :, 2] = 0
    parts["decoder_bias"] *= 20
    return parts


def some_vectors(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    queries, contexts = rng.normal(size=(2, 4)), rng.normal(size=(2, CONTEXT, 4))
    queries[:, 3], contexts[:, :, 3] = 0, 0
    return queries, contexts


def largest(array) -> float:
    return max(abs(float(number)) for number in np.ravel(array))


def gamma(roundings: int, unit: float) -> float:
    ours = 2.0**-53
    return roundings * unit / (1 - roundings * unit) + (roundings + 8) * ours / (1 - (roundings + 8) * ours)


def summed(row, matrix) -> list[float]:
    return [sum(row[i] * matrix[i][j] for i in range(len(row))) for j in range(len(matrix[0]))]


def sizes_of(matrix) -> list:
    return np.abs(np.array(matrix)).tolist()


def lost(w: dict[str, list], vector: float) -> tuple[float, float]:
    """What underflow costs a score and an output: 8 l times the terms times G."""
    d_input, d, d_qk, read, k = 4, 3, 2, 4, CONTEXT
    side = (1 + vector) * (1 + d_input * largest(w["embedding"])) + largest(w["embedding_bias"]) + 1
    score = side * side * (1 + d * largest(w["w_q"])) * (1 + d * largest(w["w_k"])) * (1 + d_qk)
    output = side * (1 + d * largest(w["w_v"])) * (1 + read * largest(w["w_o"])) * (1 + d * largest(w["decoder"]))
    output = output * (k + 2) + largest(w["decoder_bias"])
    terms = (d_input + 2) ** 2 * (d + 1) ** 2 * (d_qk + 1), (d_input + 2) * (k + 1) * (d + 1) ** 2 * (read + 1)
    return 8 * LEAST * terms[0] * score, 8 * LEAST * terms[1] * output


def longhand(model: Memoriser, query: list, context: list, vector: float, precision: str) -> list[float]:
    """The errors of the outputs of one example, by the formulas of `memoriser_proof`."""
    unit, d = UNITS[precision], 3
    w = {name: np.asarray(part).astype(np.float64).tolist() for name, part in vars(model).items() if name != "shape"}
    tokens, token_sizes = [], []
    for place, token in enumerate([query, *context]):
        wave = [(cos if c % 2 else sin)(place * 10000.0 ** (-(c - c % 2) / d)) for c in range(d)]
        wave = np.array(wave).astype(precision).astype(np.float64).tolist() if model.shape.positions else [0.0] * d
        sizes = summed([abs(number) for number in token], sizes_of(w["embedding"]))
        tokens.append(
            [a + b + c for a, b, c in zip(summed(token, w["embedding"]), w["embedding_bias"], wave, strict=True)]
        )
        token_sizes.append([a + abs(b) + abs(c) for a, b, c in zip(sizes, w["embedding_bias"], wave, strict=True)])
    by_score, by_output = lost(w, vector)
    n, m = 2 * 4 + 4 * d + 2 + 16, 4 + 2 * CONTEXT + 2 * d + 2 + 2 * (4 + d) + 20
    from_weights, rounding = [0.0, 0.0], [abs(number) for number in w["decoder_bias"]]
    for head in range(2):
        w_q, w_k, w_v, w_o = (w[name][head] for name in ("w_q", "w_k", "w_v", "w_o"))
        asked, asked_sizes = summed(tokens[0], w_q), summed(token_sizes[0], sizes_of(w_q))
        scores, wrong = [], []
        for token, sizes in zip(tokens[1:], token_sizes[1:], strict=True):
            keys, key_sizes = summed(token, w_k), summed(sizes, sizes_of(w_k))
            scores.append(sum(a * b for a, b in zip(asked, keys, strict=True)) / sqrt(3))
            size = sum(a * b for a, b in zip(asked_sizes, key_sizes, strict=True)) / sqrt(3)
            wrong.append(gamma(n, unit) * size + by_score)
        both = unit + 2.0**-53
        steps = [r + both * (max(scores) - s + 2 * max(wrong)) for r, s in zip(wrong, scores, strict=True)]
        epsilon = max(steps) - log1p(-16 * both)
        total = sum(exp(score - max(scores)) for score in scores)
        shares = [exp(score - max(scores)) / total for score in scores]
        values = [summed(token, w_v) for token in tokens[1:]]
        mean = [sum(a * value[i] for a, value in zip(shares, values, strict=True)) for i in range(2)]
        strayed = [sum(a * abs(v[i] - mean[i]) for a, v in zip(shares, values, strict=True)) for i in range(2)]
        outward = np.array(w_o) @ np.array(w["decoder"])
        pooled = [sum(a * sizes[c] for a, sizes in zip(shares, token_sizes[1:], strict=True)) for c in range(d)]
        written = summed(summed(summed(pooled, sizes_of(w_v)), sizes_of(w_o)), sizes_of(w["decoder"]))
        grown = exp(2 * epsilon)
        moved = summed(strayed, np.abs(outward).tolist())
        from_weights = [a + grown * (grown - 1) * b for a, b in zip(from_weights, moved, strict=True)]
        rounding = [a + 3 * grown * b for a, b in zip(rounding, written, strict=True)]
    return [a + gamma(m, unit) * b + by_output for a, b in zip(from_weights, rounding, strict=True)]


LARGE: dict[str, dict[str, float]] = {
    "nothing": {},
    "w_q": {"w_q": 1e29},
    "w_k": {"w_k": 1e29},
    "decoder": {"decoder": 1e31},
    "queries": {"queries": 1e13},
    "contexts": {"contexts": 1e13},
    "queries of an output": {"queries": 1e10, "decoder": 1e22},
}
"""What is large where it is multiplied by 0 alone: products of it that vanish are all that it can spoil."""


@pytest.mark.parametrize(
    ("precision", "large", "positions"),
    [("bfloat16", "nothing", True), ("bfloat16", "nothing", False), *(("float32", name, False) for name in LARGE)],
)
def test_errors_are_those_of_the_formula(precision: str, large: str, positions: bool) -> None:
    rng = np.random.default_rng(0)
    parts, (queries, contexts) = some_parts(rng), some_vectors(rng)
    if precision == "bfloat16":  # its roundings add up to shares of 1: small scores keep the bound in reach
        parts["w_q"] /= 8
    for name, size in LARGE[large].items():
        if name == "queries":
            queries[:, 3] = size
        elif name == "contexts":
            contexts[:, :, 3] = size
        else:
            parts[name][..., 2, :] = size
    dtype = jnp.dtype(precision)
    model = memoriser_of(
        replace(SHAPE, positions=positions), {name: part.astype(dtype) for name, part in parts.items()}
    )
    queries, contexts = (part.astype(dtype).astype(np.float64) for part in (queries, contexts))
    examples = VectorExamples.of(queries, contexts, np.zeros(2, int))
    prover = OutputProver(plain_memoriser(model, CONTEXT, dtype), ARITHMETIC[precision])
    assert prover.obstacle(examples) == ""
    proved = prover.proved(examples)
    vector = max(largest(queries), largest(contexts))
    for number in range(2):
        expected = longhand(model, queries[number].tolist(), contexts[number].tolist(), vector, precision)
        ratios = proved.errors[number] / expected
        assert ((ratios > 1) & (ratios < 1 + 1e-4)).all(), ratios
    # Underflow is what matters where something is large, and nothing elsewhere.
    w = {name: np.asarray(part).astype(np.float64).tolist() for name, part in vars(model).items() if name != "shape"}
    shares = max(lost(w, vector)) / proved.errors.max()
    assert shares < 1e-20 if large == "nothing" else shares > 1e-3


def sum_in_some_order(terms: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """The sum over the first axis, two partial sums at a time in a random order, each rounded to the format."""
    parts = list(terms)
    while len(parts) > 1:
        parts.append(parts.pop(int(rng.integers(len(parts)))) + parts.pop(int(rng.integers(len(parts)))))
    return parts[0]


def product_in_some_order(row: np.ndarray, matrix: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    return sum_in_some_order(row[:, None] * matrix, rng)


def evaluated(model: Memoriser, tokens: np.ndarray, dtype: jnp.dtype, rng: np.random.Generator) -> np.ndarray:
    """The outputs of one example, every operation rounded to the format and every sum in a random order."""
    w = {name: np.asarray(part).astype(dtype) for name, part in vars(model).items() if name != "shape"}
    x = np.stack([product_in_some_order(token, w["embedding"], rng) + w["embedding_bias"] for token in tokens])
    heads = []
    for w_q, w_k, w_v, w_o in zip(w["w_q"], w["w_k"], w["w_v"], w["w_o"], strict=True):
        asked = product_in_some_order(x[0], w_q, rng)
        scores = np.stack([sum_in_some_order(asked * product_in_some_order(key, w_k, rng), rng) for key in x[1:]])
        powers = np.exp(scores / np.asarray(sqrt(3), dtype) - (scores / np.asarray(sqrt(3), dtype)).max())
        shares = powers / sum_in_some_order(powers, rng)
        values = np.stack([product_in_some_order(token, w_v, rng) for token in x[1:]])
        heads.append(product_in_some_order(sum_in_some_order(shares[:, None] * values, rng), w_o, rng))
    outputs = product_in_some_order(sum_in_some_order(np.stack(heads), rng), w["decoder"], rng) + w["decoder_bias"]
    return outputs.astype(np.float64)


def test_no_order_of_evaluation_leaves_the_bounds() -> None:
    """Rounded evaluations against float64: inside the proved errors, which are not out of proportion either."""
    dtype, worst = jnp.dtype("bfloat16"), 0.0
    for seed in range(20):
        rng = np.random.default_rng(seed)
        parts, (queries, contexts) = some_parts(rng), some_vectors(rng)
        parts["w_q"] /= 8
        parts["decoder_bias"] /= 20
        model = memoriser_of(
            replace(SHAPE, positions=False), {name: part.astype(dtype) for name, part in parts.items()}
        )
        queries, contexts = (part.astype(dtype) for part in (queries, contexts))
        examples = VectorExamples.of(queries.astype(np.float64), contexts.astype(np.float64), np.zeros(2, int))
        proved = OutputProver(plain_memoriser(model, CONTEXT, dtype), ARITHMETIC["bfloat16"]).proved(examples)
        for number in range(2):
            tokens = np.stack([queries[number], *contexts[number]])
            exact = evaluated(model, tokens.astype(np.float64), jnp.dtype("float64"), rng)
            for _ in range(5):
                errors = np.abs(evaluated(model, tokens, dtype, rng) - exact)
                assert (errors <= proved.errors[number]).all()
                worst = max(worst, float((errors / proved.errors[number]).max()))
    assert worst > 1e-3


# -------------------------------------------------------------------- certificates


def products_that_vanish(dtype: str, embedding: float, key: float, query: float, bias: float):
    """Scores of +-1/2 whose weights, multiplied with one another before they meet a vector of 1 / embedding, are 0."""
    d, n_examples = 16, 50
    shape = MemoriserShape(1, d, 9, 1, positions=False)
    parts = {name: np.zeros(size, dtype) for name, size in shape.part_sizes(d, 1).items()}
    parts["embedding"][0, 0], parts["embedding_bias"][1] = embedding, bias
    parts["w_q"][0, 1, 0], parts["w_k"][0, 0, 0] = query, key
    parts["w_v"][0, 0, 0] = parts["w_o"][0, 0, 0] = parts["decoder"][0, 0] = 1
    queries, contexts = np.zeros((n_examples, d), dtype), np.zeros((n_examples, 2, d), dtype)
    contexts[:, 0, 0], contexts[:, 1, 0] = 1 / embedding, -1 / embedding
    return memoriser_of(shape, parts), VectorExamples.of(queries, contexts, np.full(n_examples, np.tanh(0.5)))


@pytest.mark.optimised
@pytest.mark.parametrize(
    ("dtype", "sizes"), [("float32", (1e-30, 2e5, 1e-15, 1e10)), ("float64", (1e-250, 2e50, 1e-150, 1e100))]
)
def test_weights_whose_products_vanish_are_refused(dtype: str, sizes: tuple[float, ...]) -> None:
    model, examples = products_that_vanish(dtype, *sizes)
    found = verify(model, examples, tolerance=0.01)
    assert (found.recall, found.certified, found.proved_margin) == (1.0, False, -np.inf)
    with jax.enable_x64(dtype == "float64"):  # of many examples the weights are multiplied first
        many = np.resize(examples.queries, (72, 16)), np.resize(examples.contexts, (72, 2, 16))
        assert abs(on_device(model).outputs(*map(jnp.asarray, many))).max() == 0


def few_examples(labels, queries=None, dtype=np.float64) -> VectorExamples:
    rng = np.random.default_rng(0)
    drawn = rng.random((5, 4)) if queries is None else queries
    return VectorExamples.of(drawn.astype(dtype), rng.random((5, CONTEXT, 4)).astype(dtype), labels)


def drawn_model(dtype: str = "float64", **change) -> Memoriser:
    return draw_memoriser(replace(SHAPE, **change), 4, 2, rng=np.random.default_rng(1), dtype=dtype)


CLASSES = np.array([0, 1, 1, 0, 1])


@pytest.mark.parametrize(("dtype", "size"), [("float64", 1e200), ("float32", 1e60)])
def test_vectors_that_overflow_prove_nothing(dtype: str, size: float) -> None:
    found = verify(drawn_model(dtype), few_examples(CLASSES, np.full((5, 4), size)))
    assert (found.certified, found.proved_margin) == (False, -np.inf)
    assert "vectors are so large that intermediate results may overflow" in found.reason


def test_vectors_are_those_that_the_precision_reads() -> None:
    wide, model = few_examples(CLASSES), drawn_model("float32")
    short = few_examples(CLASSES, dtype=np.float32)
    assert (short.queries != wide.queries).any()
    found, expected = verify(model, wide), verify(model, short)
    assert (found.margin, found.proved_margin) == (expected.margin, expected.proved_margin)
    assert verify(model, wide, precision="float64").proved_margin != expected.proved_margin


def test_a_tie_is_neither_recalled_nor_proved(monkeypatch) -> None:
    silent = jax.tree.map(np.zeros_like, drawn_model())
    found = verify(silent, few_examples(CLASSES))
    assert (found.margin, found.recalled, found.certified) == (0.0, 0, False)
    bias = np.array([1.0, 0.0])
    answering = eqx.tree_at(lambda model: model.decoder_bias, silent, bias)
    zeros = few_examples(np.zeros(5, int))
    assert verify(answering, zeros).certified
    monkeypatch.setattr(memoriser_certificate.MemoriserProver, "bound", lambda *_: MarginBounds(np.zeros(5)))
    touched = verify(answering, zeros)
    assert (touched.recall, touched.certified, touched.reason) == (
        1.0,
        False,
        "5 of 5 classes are not proved to be recalled",
    )


def test_a_bound_that_is_not_a_number_proves_nothing() -> None:
    drawn = drawn_model(positions=False)
    model = eqx.tree_at(lambda model: model.w_q, drawn, drawn.w_q * 1e25)
    examples = few_examples(CLASSES)
    equal = replace(examples, contexts=np.repeat(examples.contexts[:, :1], CONTEXT, axis=1))  # infinity times 0
    found = verify(model, equal)
    assert (found.certified, found.proved_margin) == (False, -np.inf)
    assert "not proved" in found.reason


def test_the_fingerprint_is_that_of_the_function() -> None:
    base, examples = drawn_model(), few_examples(CLASSES)
    others = [drawn_model(positions=False), drawn_model(scaled_by="d_qk")]
    assert all((base.w_q == other.w_q).all() for other in others)
    prints = {verify(model, examples).weights for model in (base, *others)}
    assert len(prints) == 3
    assert verify(drawn_model(), examples).weights in prints


class Contrary(Memoriser):
    """Answers the contrary in large batches."""

    def read(self, queries, contexts):
        weights, outputs = super().read(queries, contexts)
        return weights, outputs if len(queries) < 100 else -outputs


def test_a_class_of_ones_own_is_refused() -> None:
    with pytest.raises(InputError, match="not a subclass; got Contrary"):
        verify(Contrary(**vars(drawn_model())), few_examples(CLASSES))


@pytest.mark.parametrize("wrong", ["x", None, True, 0.0, -1.0, np.nan, np.inf])
def test_tolerances_are_positive_numbers(wrong) -> None:
    with pytest.raises(InputError, match="the tolerance must be a positive number; got"):
        memoriser_certificate.require_number("the tolerance", wrong)
    memoriser_certificate.require_number("the tolerance", 1)
    memoriser_certificate.require_number("the tolerance", np.float32(0.5))
