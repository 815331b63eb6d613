"""What keeps a proof from taking sums of integers for exact: each condition by itself."""

from dataclasses import replace

import numpy as np
import pytest

from attention_proofs import margin_bounds
from exact_layers import parabola_layer, random_table
from factrank.certificates.arithmetic import ARITHMETIC
from factrank.families.attention.proof.plain_weights import PlainWeights
from factrank.families.attention.proof.proved_attention import ProvedScores

FACTS = random_table(np.random.default_rng(0), 3, 2, 5)
FLOAT32 = ARITHMETIC["float32"]


def with_changes(layer, changes):
    """The layer with some entries of some parts replaced."""
    parts = {name: getattr(layer, name).copy() for name, _, _ in changes}
    for name, at, number in changes:
        parts[name][at] = number
    return replace(layer, **parts)


@pytest.mark.parametrize(
    "changes",
    [
        [("embedding", (0, 0), 0.25)],
        [("embedding", (3, 2), 1.25)],  # a query, where the unembedding reads it
        [("w_v", (0, 0, 0), 1.25)],
        [("w_o", (0, 0, 0), 1.25)],
        [("unembedding", (0, 0), 0.1)],  # a multiple of 2^-27, so that sums would need more than 24 bits
        [  # x W_V cancels, in the one head that reads these coordinates
            ("embedding", (0, slice(0, 2)), 2.0**24),
            ("w_v", (0, 1, 0), -1.0),
            ("w_v", (1, 1, 0), 0.0),
        ],
        [("unembedding", (0, 0), 2.0**24)],
    ],
)
def test_values_that_may_be_rounded(changes):
    layer = parabola_layer(FACTS)
    assert margin_bounds(layer, FACTS).arithmetic == "exact integers"
    assert margin_bounds(with_changes(layer, changes), FACTS).arithmetic == "running error bound"


@pytest.mark.parametrize(
    ("d_qk", "asked", "at_key", "exact"),
    [
        (1, 1.0, [2.0, 0.0], True),
        (16, 1.0, [2.0, 0.0], True),
        (4, 1.0, [2.0, 0.0], False),  # a program may scale both sides by 1 / sqrt(2)
        (1, 1.0, [2.25, 0.0], False),
        (1, 2.0**23, [1.0, 0.0], True),
        (1, 2.0**23, [3.0, 0.0], False),  # the sum over both tokens
        (1, 1.0, [2.0**24 + 2, -(2.0**24)], False),  # x W_K
    ],
)
def test_scores_that_may_be_rounded(d_qk, asked, at_key, exact):
    tokens, w_q, w_k = np.array([[1.0, 1.0, 0.0], [0.0, 0.0, 1.0]]), np.zeros((1, 3, d_qk)), np.zeros((1, 3, d_qk))
    w_q[0, 2, 0], w_k[0, :2, 0] = asked, at_key
    w_k[0, 2, 0] = 1.0 if asked > 1 else 0.0
    weights = PlainWeights(tokens[:1], tokens[1:], w_q, w_k, w_q, w_k.swapaxes(1, 2), np.eye(3))
    first = np.zeros(1, int)
    scores = ProvedScores(weights, FLOAT32)
    _, error = scores._scores(scores._side(weights.keys, weights.w_k), first, first)
    assert (error[0, 0] == 0) == exact
