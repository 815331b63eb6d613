"""Memories, sequence readers and memorisers near the bound: sums that lose all that rounding can take.

As in `adversarial_layers`: the right answer is 1 + lead and many terms that vanish beside it one by one, the wrong one
1 and as many that are rounded up.
"""

from dataclasses import replace

import numpy as np
import pytest

from adversarial_layers import total
from factrank.certificates.arithmetic import ARITHMETIC
from factrank.certificates.certification import prove
from factrank.databases.database import Database
from factrank.experiments.models.verification import verify
from factrank.families.factual_recall.proof.factual_recall_proof import FactualRecallProver
from factrank.families.factual_recall.proof.proved_pooling import PlainSequence, Pooling
from factrank.families.factual_recall.sequence_layout import FactualRecallLayout
from factrank.families.memoriser.examples.examples import VectorExamples
from factrank.families.memoriser.memoriser import memoriser_of
from factrank.families.memoriser.memoriser_shape import MemoriserShape
from factrank.families.memoriser.solving.memoriser_proof import OutputProver, leads, plain_memoriser
from factrank.families.memory import memory_proof
from factrank.families.memory.associative_memory import LinearMemory, MlpMemory

U = 2.0**-24
MORE = U * (1 + 2 * U)
SHARES = (0.3, 0.6, 0.9, 1.5, 3.0, 4.5, 9.0)
NOTHING = np.random.default_rng(0)  # descending sums draw nothing


def lead_of(share, terms):
    """So much of what a sum of so many terms takes from the lead, as an even multiple of the last place."""
    return 4 * U * max(round(share * 2 * (terms - 1) / 4), 1)


def worst_sum(terms):
    """Largest first, in float32, for each column."""
    return total(np.asarray(terms, np.float32)[None], "descending", NOTHING)[0]


def product(vector, matrix):
    return worst_sum(np.asarray(vector, np.float32)[:, None] * np.asarray(matrix, np.float32))


def margin(logits):
    return float(logits[0]) - float(logits[1])


def planted(matrix, right, wrong, lead):
    """Terms that vanish or are rounded up, behind one that does not."""
    matrix[right[0]], matrix[wrong[0]] = U, MORE
    matrix[right[1]], matrix[wrong[1]] = 1 + lead, 1


# ---------------------------------------------------------------- memories


def memory(kind, share, d_model=32, width=64):
    """What one product loses in a sum over its rows, and the next one in a sum over half of the coordinates."""
    half, rows = d_model // 2, d_model if kind == "linear" else width
    lead = lead_of(share, rows + half - 1)
    last = np.zeros((rows, d_model))
    last[0, :half], last[0, half:] = U, MORE
    planted(last, (np.s_[:, 0], (0, 0)), (np.s_[:, half], (0, half)), lead)
    outputs = np.repeat(np.eye(2), half, axis=1)
    inputs = np.ones((1, d_model)) if kind == "linear" else np.eye(1, d_model)
    parts = [inputs, last] if kind == "linear" else [inputs, np.ones((d_model, width)), last]
    made = [np.asarray(part, np.float32) for part in (*parts, outputs)]
    logits = made[0][0]
    for matrix in (*made[1:-1], made[-1].T):
        logits = product(logits, matrix)
    fields = ("inputs", "weights", "outputs") if kind == "linear" else ("inputs", "w_in", "w_out", "outputs")
    return (LinearMemory if kind == "linear" else MlpMemory)(**dict(zip(fields, made, strict=True))), margin(logits)


ONE_FACT = Database.from_facts([("key", "query", "0"), ("other", "query", "1")])


def memory_bound(model):
    """Of the one fact that is attacked; a second, plain one gives the database its second value."""
    both = replace(model, inputs=np.concatenate([model.inputs, model.inputs]))
    return float(prove(memory_proof.MemoryProver(both, ONE_FACT)).bounds[0])


@pytest.mark.parametrize("kind", ["linear", "mlp"])
def test_memories(monkeypatch, kind):
    found = [memory(kind, share) for share in SHARES]
    bounds = [memory_bound(model) for model, _ in found]
    assert all(bound <= computed for bound, (_, computed) in zip(bounds, found, strict=True))
    assert bounds[-1] > 0
    assert found[0][1] < 0
    real = memory_proof._gamma
    monkeypatch.setattr(memory_proof, "_gamma", lambda arithmetic, n: real(arithmetic, n // 2))
    assert any(memory_bound(model) > 0 and computed <= 0 for model, computed in found)


def test_a_memory_that_is_lost_is_not_certified():
    model, computed = memory("linear", 0.6)
    assert computed < 0
    both = replace(model, inputs=np.concatenate([model.inputs, -model.inputs]))
    assert not verify(both, ONE_FACT).certified


# ---------------------------------------------------------------- factual recall

HEADS, WIDE = 16, 32
LAYOUT = FactualRecallLayout(n_keys=1, n_queries=1, n_values=2, n_noise=1)


def sequence(share):
    """Every head reads 1 from the key and writes to many coordinates; heads and coordinates are one sum."""
    lead = lead_of(share, HEADS * WIDE)
    d_model = 2 * WIDE + 2
    embedding = np.zeros((LAYOUT.n_tokens, d_model))
    embedding[0, -2] = embedding[LAYOUT.end, -1] = 1
    w_q, w_k, w_v = (np.zeros((HEADS, d_model, 1)) for _ in range(3))
    w_q[:, -1], w_k[:, -2], w_v[:, -2] = 200, 1, 1
    w_o, unembedding = np.zeros((HEADS, 1, d_model)), np.zeros((d_model, LAYOUT.n_outputs))
    planted(w_o, (np.s_[:, 0, :WIDE], (0, 0, 0)), (np.s_[:, 0, WIDE : 2 * WIDE], (0, 0, WIDE)), lead)
    unembedding[:WIDE, 0] = unembedding[WIDE : 2 * WIDE, 1] = 1
    nothing = np.zeros((d_model, 0)), np.zeros(0), np.zeros((0, d_model))
    parts = [embedding, w_q, w_k, w_v, w_o, *nothing, unembedding]
    weights = PlainSequence(*(part.astype(np.float32).astype(np.float64) for part in parts))
    logits = worst_sum((weights.w_o[:, 0, :, None] * weights.unembedding).reshape(-1, LAYOUT.n_outputs))
    return weights, margin(logits)


def sequence_bound(weights):
    prover = FactualRecallProver(Pooling(weights, LAYOUT, ARITHMETIC["float32"], 0))
    zero = np.zeros(1, np.int64)
    return float(prover.margins(zero, zero, zero)[0])


def test_heads_of_a_sequence_reader_in_one_sum(monkeypatch):
    found = [sequence(share) for share in SHARES]
    bounds = [sequence_bound(weights) for weights, _ in found]
    assert all(bound <= computed for bound, (_, computed) in zip(bounds, found, strict=True))
    assert bounds[-1] > 0
    assert found[0][1] < 0
    d_model = 2 * WIDE + 2
    monkeypatch.setattr(FactualRecallProver, "roundings", 3 * d_model + HEADS + 6 + 16)  # heads concatenated alone
    assert any(sequence_bound(weights) > 0 and computed <= 0 for weights, computed in found)


# ---------------------------------------------------------------- memorisers

SHAPE = MemoriserShape(n_heads=64, d_model=32, d_qk=1, d_vo=2, embedded=False, positions=False)


def memoriser(share):
    """One token of ones; with W_V W_O D formed first, heads and coordinates are one sum."""
    lead = lead_of(share, SHAPE.n_heads * SHAPE.d_model)
    parts = {name: np.zeros(size, np.float32) for name, size in SHAPE.part_sizes(SHAPE.d_model, 2).items()}
    planted(parts["w_v"], (np.s_[:, :, 0], (0, 0, 0)), (np.s_[:, :, 1], (0, 0, 1)), lead)
    parts["w_o"][:, 0, 0] = parts["w_o"][:, 1, 1] = parts["decoder"][0, 0] = parts["decoder"][1, 1] = 1
    folded = parts["w_v"] @ parts["w_o"] @ parts["decoder"]
    return memoriser_of(SHAPE, parts), margin(worst_sum(folded.reshape(-1, 2)))


def memoriser_bound(model):
    vectors = np.ones((1, SHAPE.d_model), np.float32)
    examples = VectorExamples.of(vectors, vectors, np.array([0]), n_classes=2)
    prover = OutputProver(plain_memoriser(model, 1, np.dtype(np.float32)), ARITHMETIC["float32"])
    assert not prover.obstacle(examples)
    proved = prover.proved(examples)
    return float(leads(proved, examples.labels)[0])


def test_heads_of_a_memoriser_in_one_sum(monkeypatch):
    found = [memoriser(share) for share in SHARES]
    bounds = [memoriser_bound(model) for model, _ in found]
    assert all(bound <= computed for bound, (_, computed) in zip(bounds, found, strict=True))
    assert bounds[-1] > 0
    assert found[0][1] < 0
    alone = 3 * SHAPE.d_model + 2 + SHAPE.n_heads * SHAPE.d_vo + 20  # heads concatenated alone
    gamma = float(ARITHMETIC["float32"].gamma(np.array([alone], np.float64))[0])
    monkeypatch.setattr(OutputProver, "_output_gamma", lambda *_: gamma)
    assert any(memoriser_bound(model) > 0 and computed <= 0 for model, computed in found)


def test_places_of_a_memoriser_in_one_sum_with_vectors():
    """Vectors go through W_e W_K and W_e Z, Z = W_Q (W_e W_K)^T, and b + p is added to them: four sums over d_model."""
    d_model = 64
    shape = MemoriserShape(n_heads=1, d_model=d_model, d_qk=1, d_vo=1, positions=False)
    parts = {name: np.zeros(size, np.float32) for name, size in shape.part_sizes(1, 2).items()}
    parts["embedding"][:], parts["embedding_bias"][:], parts["w_q"][:], parts["w_k"][:] = MORE, MORE, 1, 1
    parts["embedding"][0, 0] = 1
    prover = OutputProver(plain_memoriser(memoriser_of(shape, parts), 1, np.dtype(np.float32)), ARITHMETIC["float32"])
    vector, place = parts["embedding"].T, parts["embedding_bias"][:, None]
    key = worst_sum(vector)
    asked = worst_sum(np.concatenate([worst_sum(vector * key)[None], place * key]))
    score = float(worst_sum(np.concatenate([asked[None], place * asked]))[0])
    exact = (1 + (2 * d_model - 1) * MORE) ** 2  # and its size: no term is negative
    assert score - exact > (2 * d_model + 3 + 16) * U * exact  # embedded before all else
    assert score - exact <= prover._score_gamma * exact
