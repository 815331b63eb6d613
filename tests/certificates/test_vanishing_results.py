"""Results below the least normal number may become 0: what they would have been is never counted on."""

from dataclasses import replace

import numpy as np
import pytest

from attention_proofs import margin_bounds
from exact_layers import parabola_layer, random_table
from factrank.certificates.arithmetic import ARITHMETIC
from factrank.databases.database import Database
from factrank.experiments.models.verification import verify
from factrank.families.attention.proof.plain_weights import PlainWeights
from factrank.families.attention.proof.proved_attention import ProvedScores
from factrank.families.factual_recall.proof.factual_recall_proof import FactualRecallProver
from factrank.families.factual_recall.proof.proved_pooling import PlainSequence, Pooling
from factrank.families.factual_recall.sequence_layout import FactualRecallLayout
from factrank.families.memory.associative_memory import LinearMemory

FLOAT32 = ARITHMETIC["float32"]
LAYOUT = FactualRecallLayout(n_keys=2, n_queries=1, n_values=2, n_noise=1)


@pytest.mark.parametrize(("scale", "proved"), [(2.0**-40, True), (2.0**-140, False)])
def test_logits_of_a_layer(scale, proved):
    facts = random_table(np.random.default_rng(0), 3, 2, 4)
    layer = parabola_layer(facts)
    scaled = replace(layer, unembedding=(layer.unembedding * scale).astype(np.float32))
    assert (margin_bounds(scaled, facts).margins > 0).all() == proved


@pytest.mark.parametrize(("scale", "proved"), [(2.0**-40, True), (2.0**-140, False)])
def test_logits_of_a_memory(scale, proved):
    one = np.eye(2, dtype=np.float32)
    facts = Database.from_facts([("a", "q", "x"), ("b", "q", "y")])
    found = verify(LinearMemory(one, one, (scale * one).astype(np.float32)), facts)
    assert (found.proved_margin > 0) == proved


def test_scores_of_a_layer():
    """x_q W_Q is 2^-134 and vanishes or not; times 2^127 it makes a score of 1/128."""
    tokens, w_q, w_k = np.array([[0.0, 2.0**60], [2.0**-67, 0.0]]), np.zeros((1, 2, 1)), np.zeros((1, 2, 1))
    w_q[0, 0], w_k[0, 1] = 2.0**-67, 2.0**67
    weights = PlainWeights(tokens[:1], tokens[1:], w_q, w_k, w_q, w_k.swapaxes(1, 2), np.eye(2))
    first = np.zeros(1, int)
    found = ProvedScores(weights, FLOAT32).attention(first, first)
    assert found.weights[0, 0] == pytest.approx(1 / (1 + np.exp(-1 / 128)))
    assert found.errors[0, 0] >= found.weights[0, 0] - 0.5


def reader(far, small):
    """Key 0 writes value 0 and key 1 value 1; key 0 scores `far` above all others, what is read is `small`."""
    key, other, end = range(3)
    embedding = np.zeros((LAYOUT.n_tokens, 4))
    embedding[0, key] = embedding[1, other] = embedding[LAYOUT.end, end] = 1
    w_q, w_k, w_v, w_o = (np.zeros(size) for size in ((1, 4, 1), (1, 4, 1), (1, 4, 2), (1, 2, 4)))
    w_q[0, end], w_k[0, :2, 0] = 1, [far + 20, 20]
    w_v[0, [key, other], [0, 1]] = small
    w_o[0, [0, 1], [0, 1]] = 1 / small
    nothing = np.zeros((4, 0)), np.zeros(0), np.zeros((0, 4))
    return PlainSequence(embedding, w_q, w_k, w_v, w_o, *nothing, np.eye(4, LAYOUT.n_outputs))


@pytest.mark.parametrize(("far", "small", "proved"), [(2, 2.0**-70, True), (120, 1.0, True), (120, 2.0**-70, False)])
def test_values_of_a_sequence_reader(far, small, proved):
    """Weights are relative to the largest of all tokens: e^-45 times 2^-70 vanishes, each alone does not."""
    prover = FactualRecallProver(Pooling(reader(far, small), LAYOUT, FLOAT32, 0))
    assert (prover.margins(np.array([1]), np.array([0]), np.array([1]))[0] > 0) == proved


def test_scores_of_a_sequence_reader():
    """x W_Q is 2^-134; times 2^127 it would put the key 1/128 above the query."""
    w = reader(0, 1.0)
    embedding, w_q, w_k = w.embedding.copy(), w.w_q.copy(), w.w_k.copy()
    embedding[LAYOUT.end, 2], w_q[0, 2], w_k[0, :2], embedding[1, 1] = 2.0**-67, 2.0**-67, 2.0**67, 2.0**60
    pooling = Pooling(w._replace(embedding=embedding, w_q=w_q, w_k=w_k), LAYOUT, FLOAT32, 0)
    with np.errstate(all="ignore"):  # what is not a number proves nothing
        found = pooling.pooled(0, np.array([[1, LAYOUT.first_query, LAYOUT.end]]))
    assert found.shares[0, 0] > 1 / 3 + 1e-3
    assert not found.shares[0, 0] - found.errors[0, 0] > 1 / 3
