"""The count of roundings against every program that the assumptions allow, one by one.

A program sends each head, for each of the groups of `roundings`, either into a block, whose value coordinates are added
up with W_O, or through W_O U formed first. The blocks, what is folded and the direct path meet in one sum with U; the
direct path may be part of a block instead. Sums by themselves are trees over the same terms. So the additions that a
term undergoes are counted from the places of the weights alone, and no arithmetic is needed.
"""

from itertools import product

import numpy as np
import pytest

from attention_proofs import margin_bounds
from exact_layers import numbered
from factrank.certificates.arithmetic import ARITHMETIC
from factrank.families.attention.attention_layer import AttentionLayer
from factrank.families.attention.proof.plain_weights import PlainWeights
from factrank.families.attention.proof.proved_attention import ProvedAttention
from factrank.families.attention.proof.proved_streams import Streams
from factrank.families.attention.proof.roundings import roundings_of_logits

FOLDED = -1


def weights_of(w_o, direct, unembedding, *, by_query):
    """A layer whose key, and its query too where that is wanted, fill all value coordinates with 1."""
    n_heads, d_vo, d_model = w_o.shape
    tokens, w_v = np.zeros((2, d_model + 1)), np.zeros((n_heads, d_model + 1, d_vo))
    tokens[0, -1], tokens[1, -1], tokens[1, :-1], w_v[:, -1] = 1, by_query, direct, 1
    w_q = np.zeros((n_heads, d_model + 1, 1))
    wider = np.concatenate([w_o, np.zeros((n_heads, d_vo, 1))], axis=2)
    unembedding = np.concatenate([unembedding, np.zeros((1, unembedding.shape[1]))])
    return PlainWeights(tokens[:1], tokens[1:], w_q, w_q, w_v, wider, unembedding)


def counted(weights, error=0.0):
    """What the proof counts for the one pair, attention being 1 on the key, or within an error of it."""
    streams, here = Streams(weights, ARITHMETIC["float32"]), np.zeros(1, int)
    attention = ProvedAttention(np.ones((1, len(weights.w_v))), np.full((1, len(weights.w_v)), error))
    return float(roundings_of_logits(streams.streams(attention, here, here).terms, streams.layer_terms)[0])


def additions(units, direct, read, places, at_direct):
    """The most that a term of one value's logit undergoes in one program.

    `units`: [value coordinates, stream] of each head and group, where they are not 0; `read`: the coordinates of the
    value; `places`: the block of each unit; `at_direct`: the block of the direct path, or FOLDED for the last sum.
    """
    blocks = {place: np.concatenate([unit for unit, at in zip(units, places, strict=True) if at == place])
              for place in set(places) - {FOLDED}}  # fmt: skip
    first = {place: leaves.sum(axis=0) for place, leaves in blocks.items()}
    if at_direct != FOLDED:
        first[at_direct] = first.get(at_direct, 0) + direct
    folded = [unit[:, read].sum(axis=1) for unit, at in zip(units, places, strict=True) if at == FOLDED]
    folded = np.concatenate([fan[fan > 0] for fan in folded]) if folded else np.zeros(0, int)
    last = sum(int((terms[read] > 0).sum()) for terms in first.values()) + len(folded)
    last += int(direct[read].sum()) if at_direct == FOLDED else 0
    within = [int(terms[read].max(initial=0)) for terms in first.values()] + folded.tolist()
    return max([*within, 1]) - 1 + max(last - 1, 0)


def most_additions(weights, *, by_query):
    """The same over all values and programs."""
    units = [head != 0 for head in weights.w_o] * (3 if by_query else 1)
    direct, most = (weights.queries[0] != 0).astype(int), 0
    direct[-1] = 0
    for value in weights.unembedding.T:
        read = np.flatnonzero(value)
        for places in product(range(FOLDED, len(units)), repeat=len(units)):
            for at_direct in range(FOLDED, len(units)):
                most = max(most, additions(units, direct, read, places, at_direct))
    return most


def mixed(rng, n_heads):
    """Heads of many value coordinates that meet in few places, and heads of few that spread."""
    d_vo, width = 8, 10
    w_o = np.zeros((n_heads, d_vo, width))
    for head in range(n_heads):
        coordinates, reached = rng.permutation([rng.integers(1, 4), rng.integers(1, d_vo + 1)])
        w_o[head, :coordinates, :reached] = rng.random((coordinates, reached)) < rng.choice([0.5, 1.0])
    direct = rng.random(width) < rng.choice([0.0, 0.5, 1.0])
    return w_o, direct.astype(float), np.ones((width, 1))


@pytest.mark.parametrize("by_query", [False, True], ids=["key", "both tokens"])
def test_no_program_adds_more_often_than_is_counted(by_query):
    rng = np.random.default_rng(0)
    for _ in range(25):
        weights = weights_of(*mixed(rng, 1 if by_query else 3), by_query=by_query)
        assert counted(weights) >= most_additions(weights, by_query=by_query)


@pytest.mark.parametrize("inexact", [*product([False, True], repeat=3)])
@pytest.mark.parametrize("error", [0.0, 0.1])
def test_products_and_weighing_are_counted(inexact, error):
    """One value coordinate that two coordinates of the key fill and that writes to two: one addition each."""
    plain = weights_of(np.ones((1, 1, 2)), np.zeros(2), np.ones((2, 1)), by_query=False)
    keys, w_v = plain.keys.copy(), plain.w_v.copy()
    keys[0, 0] = w_v[0, 0, 0] = 1
    of_values, of_outputs, of_unembedding = (3.0 if chosen else 1.0 for chosen in inexact)
    weights = plain._replace(
        keys=keys, w_v=w_v * of_values, w_o=plain.w_o * of_outputs, unembedding=plain.unembedding * of_unembedding
    )
    more = inexact[0] + (inexact[1] and inexact[2]) + 3 * (error > 0)
    exact = counted(plain._replace(keys=keys, w_v=w_v))
    assert exact >= 3  # W_O U, formed first, is no power of two
    assert counted(weights, error) - exact == more


# ---------------------------------------------------------------- layers that such programs get wrong

U = 2.0**-24
SMALL, MORE = np.array([U, U * (1 + 2 * U)], np.float32)  # beside 1 one vanishes, the other is rounded up


def attacked(places, direct, lead):
    """A layer of float32 with two values: `places` are read by one as `SMALL`, by the other as `MORE`, but the first.

    `places`: [heads, d_vo, width] where heads write for either value, `direct`: [width] where the query does.
    """
    n_heads, d_vo, width = places.shape
    d_model, right, wrong = 2 * width + 2, slice(0, width), slice(width, 2 * width)
    embedding, unembedding = np.zeros((2, d_model)), np.zeros((d_model, 2))
    w_q, w_k, w_v = (np.zeros((n_heads, d_model, size)) for size in (1, 1, d_vo))
    w_o = np.zeros((n_heads, d_vo, d_model))
    embedding[0, -2] = embedding[1, -1] = 1
    embedding[1, right], embedding[1, wrong] = SMALL * direct, MORE * direct
    w_q[:, -1], w_k[:, -2], w_v[:, -2] = 1000, 1, places.any(axis=2)
    w_o[:, :, right], w_o[:, :, wrong] = SMALL * places, MORE * places
    w_o[0, 0, 0], w_o[0, 0, width] = 1 + lead, 1
    unembedding[right, 0] = unembedding[wrong, 1] = 1
    parts = (embedding, w_q, w_k, w_v, w_o, unembedding)
    return AttentionLayer(*(part.astype(np.float32) for part in parts), n_keys=1)


def one_after_another(terms):
    """The sum over the first axis, in order."""
    found = terms[0]
    for term in terms[1:]:
        found = found + term
    return found


def computed(layer, concatenated):
    """The lead of value 0 where the first heads are concatenated and all others, and the direct path, join at U."""
    values = np.einsum("d,hde->he", layer.embedding[0], layer.w_v)
    written = values[:, :, None] * layer.w_o
    first = one_after_another(written[:concatenated].reshape(-1, written.shape[2]))
    streams = [first, *(one_after_another(head) for head in written[concatenated:]), layer.embedding[1]]
    logits = one_after_another(np.concatenate([stream[:, None] * layer.unembedding for stream in streams]))
    return float(logits[0]) - float(logits[1])


def heads_that_spread_out():
    """All heads concatenated; half of their value coordinates write to a place of their own, too."""
    n_heads, d_vo = 10, 24
    places = np.zeros((n_heads, d_vo, 1 + n_heads * d_vo // 2))
    places[:, :, 0] = 1
    own = places[:, ::2, 1:].reshape(-1, n_heads * d_vo // 2)
    places[:, ::2, 1:] = np.eye(len(own)).reshape(n_heads, d_vo // 2, -1)
    return places, np.ones(places.shape[2]), n_heads


def heads_of_two_kinds():
    """Ten heads of many value coordinates that write to one place, concatenated; ten of one that write to many."""
    places = np.zeros((20, 20, 21))
    places[:10, :, 0] = places[10:, 0, 1:] = 1
    return places, np.zeros(21), 10


@pytest.mark.parametrize("attack", [heads_that_spread_out, heads_of_two_kinds])
def test_no_bound_lies_above_what_such_programs_compute(attack):
    places, direct, concatenated = attack()
    fact, n_wrong = numbered([(0, 0, 0)], (1, 1, 2)), 0
    for lead in range(400, 1100, 100):
        layer = attacked(places, direct, lead * U)
        found = computed(layer, concatenated)
        assert margin_bounds(layer, fact).margins[0] <= found
        n_wrong += found <= 0
    assert n_wrong
