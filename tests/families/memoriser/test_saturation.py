"""Saturation: planted attention, and the largest weights of a slow model."""

import jax
import numpy as np
import pytest

from factrank.families.memoriser import saturation as module
from factrank.families.memoriser.examples.example_vectors import stored
from factrank.families.memoriser.examples.examples import RandomExamples, VectorExamples
from factrank.families.memoriser.memoriser import draw_memoriser, memoriser_of
from factrank.families.memoriser.memoriser_shape import MemoriserShape
from factrank.families.memoriser.saturation import saturation_of
from slow_memoriser import slow_read

PLAIN = MemoriserShape(n_heads=2, d_model=2, d_qk=1, embedded=False, positions=False)


def test_a_head_that_picks_one_token_is_saturated_and_one_that_looks_at_all_is_not():
    """The first head attends by the first entry of the query, the second to all tokens alike."""
    w_q, w_k = np.zeros((2, 2, 1), np.float32), np.zeros((2, 2, 1), np.float32)
    w_q[0, 0, 0], w_k[0, 0, 0] = 2**0.5, 1
    values = np.zeros((2, 2, 1), np.float32), np.zeros((2, 1, 2), np.float32)
    parts = dict(zip(("w_q", "w_k", "w_v", "w_o"), (w_q, w_k, *values), strict=True))
    parts |= {"decoder": np.zeros((2, 1), np.float32), "decoder_bias": np.zeros(1, np.float32)}
    model = memoriser_of(PLAIN, parts)
    # The scores of two tokens differ by the query's first entry: weights 1 / (1 + e^-x).
    examples = VectorExamples.of(
        np.array([[0.0, 1.0], [3.0, 0.0], [6.0, 0.0]]), np.array([[1.0, 0.0], [0.0, 1.0]]), np.zeros(3)
    )
    found = saturation_of(model, examples, 0.99)
    expected = [[0.5, 0.5], [1 / (1 + np.exp(-3)), 0.5], [1 / (1 + np.exp(-6)), 0.5]]
    np.testing.assert_allclose(found.largest, expected, atol=1e-6)
    assert found.saturated.tolist() == [[False, False], [False, False], [True, False]]
    assert found.share == pytest.approx(1 / 6)
    assert found.by_head.tolist() == pytest.approx([1 / 3, 0])
    assert found.by_example.tolist() == [0, 0, 0.5]
    assert saturation_of(model, examples, 0.9).share == pytest.approx(2 / 6)


@pytest.mark.parametrize("n_contexts", [1, 3])
def test_largest_weights_are_those_of_a_slow_model_in_blocks(n_contexts, monkeypatch):
    monkeypatch.setattr(module, "BLOCK", 4)
    examples = RandomExamples(10, 5, 4, n_contexts=n_contexts)
    model = draw_memoriser(MemoriserShape(3, 6, 2), 4, 1, rng=np.random.default_rng(0), dtype="float64")
    known = stored(examples)
    with jax.enable_x64(True):
        vectors = (part.astype(np.float64) for part in (known.queries, known.contexts[known.context_of]))
        weights = np.asarray(jax.jit(slow_read)(model, *vectors)[0])
    found = saturation_of(model, examples)
    assert found.largest.dtype == np.float64
    np.testing.assert_allclose(found.largest, weights.max(axis=-1), atol=1e-12)
