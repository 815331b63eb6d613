"""The bounds of layers, memories and sequence readers against their formulas in plain Python, term by term.

A bound that is too small by one rounding, or that forgets what one weight may be off by, passes every test by
evaluation that does not hit the worst case; here it is another number. How many roundings a logit of a layer undergoes
is tested elsewhere.
"""

from math import exp, log1p, sqrt

import jax.numpy as jnp
import numpy as np
import pytest

from attention_proofs import margin_bounds
from exact_layers import numbered
from factrank.certificates.arithmetic import ARITHMETIC
from factrank.certificates.certification import prove
from factrank.databases.generators.association_tables import associations
from factrank.families.attention.attention_layer import draw_layer
from factrank.families.attention.layer_shape import LayerShape
from factrank.families.attention.proof.plain_weights import plain_weights
from factrank.families.attention.proof.proved_attention import ProvedScores
from factrank.families.attention.proof.proved_streams import Streams
from factrank.families.attention.proof.roundings import roundings_of_logits
from factrank.families.factual_recall.proof.factual_recall_proof import FactualRecallProver
from factrank.families.factual_recall.proof.proved_pooling import PlainSequence, Pooling
from factrank.families.factual_recall.sequence_layout import FactualRecallLayout
from factrank.families.memory import memory_proof
from factrank.families.memory.associative_memory import MlpMemory

UNITS = {"float32": 2.0**-24, "bfloat16": 2.0**-8 * (1 + 2.0**-10)}


def gamma(roundings, precision):
    return sum(n * u / (1 - n * u) for n, u in ((roundings, UNITS[precision]), (roundings + 8, 2.0**-53)))


def assert_no_less(errors, expected):
    """Errors are those that are expected, and a little more for their own rounding."""
    ratios = np.asarray(errors) / np.asarray(expected)
    assert ((ratios > 1 - 1e-12) & (ratios < 1 + 1e-4)).all(), ratios


def row(vector, matrix):
    return [sum(x * weights[at] for x, weights in zip(vector, matrix, strict=True)) for at in range(len(matrix[0]))]


def absolute(numbers):
    return np.abs(np.asarray(numbers)).tolist()


@pytest.mark.parametrize(("precision", "unit"), [("float64", 2.0**-53 * (1 + 2.0**-10)), *UNITS.items()])
def test_gamma_is_that_of_the_evaluation_and_of_ours(precision, unit):
    for n in (1.0, 100.0):
        assert_no_less(
            [ARITHMETIC[precision].gamma(np.array([n]))[0]],
            [sum(m * u / (1 - m * u) for m, u in ((n, unit), (n + 8, 2.0**-53)))],
        )
    assert ARITHMETIC[precision].gamma(np.array([0.5 / unit]))[0] == np.inf


# ---------------------------------------------------------------- attention layers


def proved_weight(x_q, x_k, w_q, w_k, precision):
    """The weight of a head on the key and its error; all weights count and none are powers of two."""
    asked, on_key, on_query = row(x_q, w_q), row(x_k, w_k), row(x_q, w_k)
    sizes = [row(absolute(x), absolute(w)) for x, w in ((x_q, w_q), (x_k, w_k), (x_q, w_k))]
    d_model, d_qk = len(x_q), len(asked)
    score = sum(a * (k - q) for a, k, q in zip(asked, on_key, on_query, strict=True)) / sqrt(d_qk)
    size = sum(a * (k + q) for a, k, q in zip(*sizes, strict=True)) / sqrt(d_qk)
    wrong = gamma(2 * d_model + 2 * d_qk + 4, precision) * size
    slope = min(0.25, exp(-max(abs(score) - wrong, 0.0)))
    return 1 / (1 + exp(-score)), wrong * slope + 4 * (UNITS[precision] + 2.0**-53)


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_bounds_of_layers(precision):
    rng = np.random.default_rng(0)
    layer = draw_layer(LayerShape(4, 2, 3, 2), 3, 2, 4, rng=rng, dtype=precision)
    weights = plain_weights(layer)
    keys, queries, *heads, unembedding = (part.tolist() for part in weights)
    streams, scores = Streams(weights, ARITHMETIC[precision]), ProvedScores(weights, ARITHMETIC[precision])
    by_value, by_row = [], []
    for key in range(3):
        for query in range(2):
            x_k, x_q, here = keys[key], queries[query], np.array([[key], [query]])
            values, sizes, spreads = list(x_q), absolute(x_q), [0.0] * 4
            for w_q, w_k, w_v, w_o in zip(*heads, strict=True):
                weight, error = proved_weight(x_q, x_k, w_q, w_k, precision)
                at_key, at_query = (row(row(x, w_v), w_o) for x in (x_k, x_q))
                of_key, of_query = (row(row(absolute(x), absolute(w_v)), absolute(w_o)) for x in (x_k, x_q))
                for at in range(4):
                    values[at] += weight * at_key[at] + (1 - weight) * at_query[at]
                    sizes[at] += of_query[at] + (weight + error) * (of_key[at] + of_query[at])
                    spreads[at] += error * (of_key[at] + of_query[at])
            terms = streams.streams(scores.attention(*here), *here).terms
            grown = gamma(float(roundings_of_logits(terms, streams.layer_terms)[0]), precision)
            logits, radius = np.array(row(values, unembedding)), grown * np.array(row(sizes, absolute(unembedding)))
            right = int(logits.argmax())
            others = [value for value in range(4) if value != right]
            moved = [
                (1 + grown) * sum(r * abs(u[right] - u[v]) for r, u in zip(spreads, unembedding, strict=True))
                for v in others
            ]
            leads = logits[right] - logits[others]
            fine = min(leads - radius[right] - radius[others] - moved)
            largest = [max(absolute(u)) for u in unembedding]
            rough = min(leads) - 2 * sum(
                (grown * size + (1 + grown) * spread) * most
                for size, spread, most in zip(sizes, spreads, largest, strict=True)
            )
            bound = margin_bounds(layer, numbered([(key, query, right)], (3, 2, 4))).margins[0]
            refined = rough < min(leads) / 2
            (by_value if refined else by_row).append((min(leads) - bound, min(leads) - (fine if refined else rough)))
    assert by_row if precision == "float32" else by_value  # errors are small in one and large in the other
    for found in filter(None, (by_value, by_row)):
        assert_no_less(*zip(*found, strict=True))


# ---------------------------------------------------------------- memories


def test_bounds_of_memories_with_a_hidden_layer():
    """Small spreads of everything: all three sums count, and what the hidden layer may be off by counts again."""
    rng, d, width, precision = np.random.default_rng(1), 3, 5, "bfloat16"
    facts = associations(4, 4, kind="injective", seed=0)
    sizes = ((4, d), (4, d), (d, width), (width, d))
    memory = MlpMemory(*(rng.normal(size=size).astype(jnp.bfloat16) for size in sizes))
    inputs, outputs, w_in, w_out = (np.asarray(part, np.float64) for part in vars(memory).values())
    found = prove(memory_proof.MemoryProver(memory, facts)).bounds
    for fact, (key, _, value) in enumerate(facts.triples):
        reached = row(inputs[key], w_in)
        off = [gamma(d, precision) * size for size in row(absolute(inputs[key]), absolute(w_in))]
        hidden = [max(x, 0.0) for x in reached]
        rho = [gamma(width + d, precision) * (x + e) + e for x, e in zip(hidden, off, strict=True)]
        logits = row(row(hidden, w_out), outputs.T)
        errors = row(row(rho, absolute(w_out)), absolute(outputs.T))
        leads = [logits[value] - logits[v] - errors[value] - errors[v] for v in range(4) if v != value]
        exact = min(logits[value] - logits[v] for v in range(4) if v != value)
        assert_no_less([exact - found[fact]], [exact - min(leads)])


# ---------------------------------------------------------------- sequence readers

LAYOUT = FactualRecallLayout(n_keys=2, n_queries=2, n_values=3, n_noise=3)
N_NOISE = 2


def sequence(rng, d_model=3, heads=2, d_qk=2, d_vo=2, width=3):
    """Small weights, so that some facts are settled at once, some token by token and some not at all."""
    shapes = [(LAYOUT.n_tokens, d_model), *[(heads, d_model, d_qk)] * 2, (heads, d_model, d_vo), (heads, d_vo, d_model)]
    shapes += [(d_model, width), (width,), (width, d_model), (d_model, LAYOUT.n_outputs)]
    return PlainSequence(*((0.5 * rng.normal(size=size)).astype(np.float32).astype(np.float64) for size in shapes))


def pooled(w, head, tokens, precision):
    """Shares of the tokens of a fact, what each may be off by, the most that it can be; weights of noise and of all."""
    u, d_model, d_qk = UNITS[precision], w.w_q.shape[1], w.w_q.shape[2]
    asked, sizes = (
        row(w.embedding[LAYOUT.end], w.w_q[head]),
        row(absolute(w.embedding[LAYOUT.end]), absolute(w.w_q[head])),
    )
    scores, wrong = [], []
    for token in w.embedding:
        keys, key_sizes = row(token, w.w_k[head]), row(absolute(token), absolute(w.w_k[head]))
        scores.append(sum(a * b for a, b in zip(asked, keys, strict=True)) / sqrt(d_qk))
        size = sum(a * b for a, b in zip(sizes, key_sizes, strict=True)) / sqrt(d_qk)
        wrong.append(gamma(2 * d_model + d_qk + 6, precision) * size)
    below = [score - max(scores) for score in scores]
    off = [r + u * (2 * abs(s) + 4 * max(wrong) + 75) - log1p(-16 * u) for s, r in zip(below, wrong, strict=True)]
    low, middle, high = ([exp(s + sign * e) for s, e in zip(below, off, strict=True)] for sign in (-1, 0, 1))
    shares = [middle[t] / sum(middle[o] for o in tokens) for t in tokens]
    most = [high[t] / (high[t] + sum(low[o] for o in tokens if o != t)) for t in tokens]
    least = [low[t] / (low[t] + sum(high[o] for o in tokens if o != t)) for t in tokens]
    errors = [max(m - s, s - n) for m, s, n in zip(most, shares, least, strict=True)]
    total = sum(low[t] for t in tokens)
    leaks = [N_NOISE * high[v] / (total + N_NOISE * high[v]) for v in range(LAYOUT.first_noise, LAYOUT.end)]
    return shares, errors, most, leaks


def sequence_bound(w, key, query, value, precision):
    """The margin without noise and rounding, and its bound: by the worst of all noise, or token by token."""
    heads, d_model, d_vo = w.w_v.shape
    width, outputs, tokens = w.w_in.shape[1], range(LAYOUT.n_outputs), [key, LAYOUT.first_query + query, LAYOUT.end]
    noise = range(LAYOUT.first_noise, LAYOUT.end)
    grown = gamma(3 * d_model + d_vo + heads * max(d_model, d_vo) + width + 2 * (N_NOISE + 3) + 16, precision)
    z, sizes, moves = np.zeros(d_model), np.zeros(d_model), np.zeros(width)
    losses, to_noise, to_worst = np.zeros((3, len(outputs)))
    for head in range(heads):
        shares, errors, most, leaks = pooled(w, head, tokens, precision)
        out = np.array([row(row(token, w.w_v[head]), w.w_o[head]) for token in w.embedding])
        size = np.array([row(row(absolute(t), absolute(w.w_v[head])), absolute(w.w_o[head])) for t in w.embedding])
        mean = sum(share * out[t] for share, t in zip(shares, tokens, strict=True))
        z += mean
        sizes += sum(m * size[t] for m, t in zip(most, tokens, strict=True)) + max(leaks) * size[list(noise)].max(
            axis=0
        )
        away = np.array([row(x, w.unembedding) for x in out - mean])
        for b in outputs:
            apart = away[:, value] - away[:, b]
            losses[b] += sum(e * abs(apart[t]) for e, t in zip(errors, tokens, strict=True))
            to_noise[b] -= min(0.0, *(leak * apart[v] for leak, v in zip(leaks, noise, strict=True)))
            to_worst[b] += max(leaks) * max(max(away[v, b] for v in noise) - min(away[v, value] for v in noise), 0.0)
        inner = np.abs([row(x, w.w_in) for x in out - mean])
        moves += sum(e * inner[t] for e, t in zip(errors, tokens, strict=True))
        moves += max(leaks) * inner[list(noise)].max(axis=0)
    hidden = np.array(row(z, w.w_in)) + w.b_in
    wrong = moves + grown * (np.array(row(sizes, absolute(w.w_in))) + np.abs(w.b_in))
    moved = np.minimum(wrong, np.maximum(hidden + wrong, 0))
    active = np.maximum(hidden, 0)
    logits = np.array(row(z + np.array(row(active, w.w_out)), w.unembedding))
    reach = sizes + np.array(row(active + moved, absolute(w.w_out)))
    radius = grown * np.array(row(reach, absolute(w.unembedding)))
    radius += np.array(row(moved, absolute([row(x, w.unembedding) for x in w.w_out])))
    leads = logits[value] - logits
    others = [b for b in outputs if b != value]
    alone = (leads - losses - radius[value] - radius)[others]
    rough, fine = min(alone - to_worst[others]), min(alone - to_noise[others])
    return min(leads[others]), fine if rough <= 0 < min(alone) else rough


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_bounds_of_sequence_readers(precision):
    """In float32 it is noise that counts, in bfloat16 rounding, too."""
    rng = np.random.default_rng(2)
    for _ in range(8):
        w = sequence(rng)
        prover = FactualRecallProver(Pooling(w, LAYOUT, ARITHMETIC[precision], N_NOISE))
        for key, query, value in ((0, 0, 0), (1, 1, 2), (0, 1, 1)):
            found = float(prover.margins(*(np.array([code]) for code in (key, query, value)))[0])
            margin, expected = sequence_bound(w, key, query, value, precision)
            assert_no_less([margin - found], [margin - expected])
