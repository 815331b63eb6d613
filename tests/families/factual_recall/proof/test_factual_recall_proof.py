"""Bounds over all noise contexts, against every context written out position by position."""

from __future__ import annotations

from itertools import combinations_with_replacement

import numpy as np
import pytest

from factrank.certificates.arithmetic import ARITHMETIC
from factrank.families.factual_recall.proof.factual_recall_proof import FactualRecallProver
from factrank.families.factual_recall.proof.proved_pooling import PlainSequence, Pooling
from factrank.families.factual_recall.sequence_layout import FactualRecallLayout

LAYOUT = FactualRecallLayout(n_keys=3, n_queries=2, n_values=4, n_noise=4)
N_NOISE = 3
PAIRS = [(k, q) for k in range(3) for q in range(2)]


def drawn(seed: int, *, heads: int = 1, width: int = 0, sharpness: float = 1.0, d_model: int = 6) -> PlainSequence:
    """Random weights whose heads prefer the tokens of facts by `sharpness`."""
    rng = np.random.default_rng(seed)
    size = rng.standard_normal
    embedding = size((LAYOUT.n_tokens, d_model))
    embedding[:, 0] = 0.2 * size(LAYOUT.n_tokens)
    embedding[: LAYOUT.first_noise, 0] += 1.0
    embedding[LAYOUT.end, 1] = 1.0
    w_q, w_k = 0.05 * size((heads, d_model, 2)), 0.05 * size((heads, d_model, 2))
    w_q[:, 1, 0], w_k[:, 0, 0] = 1.0, sharpness
    return PlainSequence(
        embedding, w_q, w_k, size((heads, d_model, 3)), size((heads, 3, d_model)), size((d_model, width)), size(width),
        size((width, d_model)), size((d_model, LAYOUT.n_outputs)),
    )  # fmt: skip


def slow_logits(w: PlainSequence, tokens: list[int], dtype: str = "float64", order: np.random.Generator | None = None):
    """Attention position by position, in any precision and in any order of the terms of each sum."""
    w = PlainSequence(*(part.astype(dtype) for part in w))

    def product(a, b):
        shuffled = np.arange(len(b)) if order is None else order.permutation(len(b))
        return (a[..., shuffled] @ b[shuffled]).astype(dtype)

    rows = w.embedding[tokens if order is None else order.permutation(tokens)]
    total = np.zeros(w.embedding.shape[1], dtype)
    for head in range(len(w.w_q)):
        scores = product(product(rows, w.w_k[head]), product(w.embedding[LAYOUT.end], w.w_q[head]))
        scores = (scores / np.sqrt(np.array(w.w_q.shape[2], dtype))).astype(dtype)
        weights = np.exp(scores - scores.max())
        read = (weights / weights.sum()).astype(dtype) @ product(rows, w.w_v[head])
        total = total + product(read, w.w_o[head])
    hidden = np.maximum(product(total, w.w_in) + w.b_in, 0)
    return product(total + product(hidden, w.w_out), w.unembedding)


def slow_margin(w: PlainSequence, key: int, query: int, value: int, noise: tuple[int, ...], **how) -> float:
    tokens = [key, LAYOUT.first_query + query, *(LAYOUT.first_noise + np.array(noise, int)), LAYOUT.end]
    logits = slow_logits(w, tokens, **how).astype(np.float64)
    return float(logits[value] - np.delete(logits, value).max())


def proved(w: PlainSequence, values: list[int], precision: str = "float64", n_noise: int = N_NOISE) -> np.ndarray:
    keys, queries = np.array(PAIRS).T
    return FactualRecallProver(Pooling(w, LAYOUT, ARITHMETIC[precision], n_noise)).margins(
        keys, queries, np.array(values)
    )


def answers(w: PlainSequence) -> list[int]:
    """What the model says without noise, so that something can be proved."""
    return [int(slow_logits(w, [k, LAYOUT.first_query + q, LAYOUT.end]).argmax()) for k, q in PAIRS]


CONTEXTS = list(combinations_with_replacement(range(LAYOUT.n_noise), N_NOISE))


def worst_of(w: PlainSequence, values: list[int], contexts=CONTEXTS, **how) -> np.ndarray:
    return np.array(
        [
            min(slow_margin(w, k, q, v, noise, **how) for noise in contexts)
            for (k, q), v in zip(PAIRS, values, strict=True)
        ]
    )


@pytest.mark.parametrize("seed", range(4))
def test_one_head_attains_the_bound(seed):
    w = drawn(seed, sharpness=3.0)
    values = answers(w)
    found, worst = proved(w, values), worst_of(w, values)
    assert (found <= worst + 1e-9).all()
    pure = worst_of(w, values, [(v,) * N_NOISE for v in range(LAYOUT.n_noise)])
    np.testing.assert_allclose(pure, worst, rtol=1e-9)  # one noise token, repeated, is the worst context
    positive = found > 0  # settled at the first, rougher bound
    assert positive.any()
    without = np.array([slow_margin(w, k, q, v, ()) for (k, q), v in zip(PAIRS, values, strict=True)])
    # Contexts may be shorter too: the bound is the lesser of the worst context and none.
    open_facts = ~positive & (without > 0)
    np.testing.assert_allclose(found[open_facts], np.minimum(worst, without)[open_facts], rtol=1e-4)


@pytest.mark.parametrize(("heads", "width"), [(1, 5), (3, 0), (2, 4)])
@pytest.mark.parametrize("sharpness", [1.0, 6.0, 25.0])
def test_no_context_falls_below_the_bound(heads, width, sharpness):
    w = drawn(heads + width, heads=heads, width=width, sharpness=sharpness)
    values = answers(w)
    found = proved(w, values)
    assert (found <= worst_of(w, values) + 1e-9).all()
    shorter = [(v,) * n for v in range(LAYOUT.n_noise) for n in range(N_NOISE)]
    assert (found <= worst_of(w, values, shorter) + 1e-9).all()
    if sharpness == 25.0:  # saturated: the bound is the margin without noise
        without = [slow_margin(w, k, q, v, ()) for (k, q), v in zip(PAIRS, values, strict=True)]
        np.testing.assert_allclose(found, without, rtol=0.05)


def test_wrong_answers_are_never_proved():
    w = drawn(0, sharpness=25.0)
    wrong = [(value + 1) % 4 for value in answers(w)]
    assert (proved(w, wrong) < 0).all()


@pytest.mark.parametrize("width", [0, 6])
def test_no_order_of_evaluation_in_float32_falls_below(width):
    w = PlainSequence(*(part.astype(np.float32).astype(np.float64) for part in drawn(7, heads=2, width=width)))
    w = w._replace(w_k=w.w_k * 16.0)  # large scores, so that their rounding counts
    values = answers(w)
    found = proved(w, values, "float32")
    exact = worst_of(w, values)
    rng = np.random.default_rng(0)
    for _ in range(5):
        assert (found <= worst_of(w, values, CONTEXTS[::4], dtype="float32", order=rng)).all()
    assert (found < proved(w, values, "float64")).all()
    assert (found > exact - 0.5 * np.abs(exact) - 0.5).any()  # and it is not empty


def test_scores_that_cancel_are_rounded():
    """Score = 20,011 (x_3 - x_2) of nearly equal coordinates: in float32 it is off by more than any logit is."""
    w = drawn(5, sharpness=4.0)
    embedding, w_k = w.embedding.astype(np.float32), w.w_k.copy()
    rng = np.random.default_rng(0)
    embedding[:, 2] = rng.uniform(1, 2, len(embedding))
    embedding[:, 3] = embedding[:, 2] + 1e-4 * rng.standard_normal(len(embedding))
    w_k[0, 2:4, 0] = -20_011, 20_011
    w = PlainSequence(
        *(part.astype(np.float32).astype(np.float64) for part in w._replace(embedding=embedding, w_k=w_k))
    )
    values = answers(w)
    found, order = proved(w, values, "float32", n_noise=0), np.random.default_rng(1)
    rounded = np.min([worst_of(w, values, [()], dtype="float32", order=order) for _ in range(40)], axis=0)
    assert (found <= rounded).all()
    assert (found > 0).any()
    exact = worst_of(w, values, [()])
    assert (rounded < exact - 1e-5 * np.abs(exact).max()).any()  # a proof of the logits' own rounding alone would fail


def test_noise_is_lifted_to_the_least_weight():
    """The model's weights are at least e^-150 of the largest, also those of noise that scores 200 below it."""
    w = drawn(1, sharpness=1.0)
    embedding = w.embedding.copy()
    embedding[:, 0] = -200.0
    embedding[: LAYOUT.first_noise, 0] = embedding[LAYOUT.end, 0] = -140.0
    embedding[0, 0] = 0.0  # an absent key decides what is largest
    w_k = np.zeros_like(w.w_k)
    w_k[:, 0, 0] = np.sqrt(2) / (embedding[LAYOUT.end] @ w.w_q[0, :, 0])
    pooling = Pooling(w._replace(embedding=embedding, w_k=w_k), LAYOUT, ARITHMETIC["float64"], N_NOISE)
    assert (pooling.noise >= np.exp(-150.0)).all()
    key = np.array([[1, LAYOUT.first_query, LAYOUT.end]])
    assert pooling.pooled(0, key).leak[0] >= N_NOISE * np.exp(-10.0) / (3 + N_NOISE * np.exp(-10.0))


def test_weights_that_the_model_cuts_off():
    """Keys that score 200 apart: where the model cuts weights off at e^-150, noise weighs as much as the lesser key."""
    w = drawn(1, sharpness=25.0)
    embedding = w.embedding.copy()
    embedding[0, 0] += 12.0  # key 0 now scores 300 above the others
    far = w._replace(embedding=embedding)
    found = proved(far, answers(far))
    others = np.array([k != 0 for k, _ in PAIRS])
    assert (found[others] <= 0).all()
    embedding[0, 0] -= 10.0  # 50 above: within the range
    near = w._replace(embedding=embedding)
    assert (proved(near, answers(near))[others] > 0).any()


def test_overflow_and_what_is_not_a_number_prove_nothing():
    w = drawn(2, sharpness=25.0)
    assert (proved(w._replace(w_v=w.w_v * 1e36), answers(w), "float32") == -np.inf).all()
    assert (proved(w, answers(w), "bfloat16") < 0).all()  # n u is no longer small
    # The model's weights go up to e^75: sums of weighted values overflow where logits would not.
    for scale, is_finite in ((1e2, True), (1e7, False)):
        scaled = w._replace(w_v=w.w_v * scale, w_o=w.w_o / scale)
        assert (np.isfinite(proved(scaled, answers(w), "float32")) == is_finite).all()
    # Logits below the least normal number may all become 0.
    assert (proved(w._replace(unembedding=w.unembedding * 1e-42), answers(w), "float32") <= 0).all()
    assert (proved(w._replace(unembedding=w.unembedding * 1e-20), answers(w), "float32") > 0).any()


def test_without_noise():
    w = drawn(3, sharpness=4.0)
    values = answers(w)
    without = [slow_margin(w, k, q, v, ()) for (k, q), v in zip(PAIRS, values, strict=True)]
    np.testing.assert_allclose(proved(w, values, n_noise=0), without, atol=1e-9)
