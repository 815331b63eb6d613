"""The count of roundings against random programs, nested as the assumptions allow, of random layers.

A number is None where it is 0, else the most additions that a term of it has met. A program draws how the tokens of
each head are weighed (together or apart, as a difference or not), which heads share a sum with W_O, what goes through
W_O U, which streams are added to each other, which sums with U are one, and where each coordinate of the direct path
comes in. Layers have several values, coordinates that none reads, values that cancel, and attention of all kinds.
"""

import numpy as np
import pytest

from factrank.certificates.arithmetic import ARITHMETIC
from factrank.families.attention.proof.plain_weights import PlainWeights
from factrank.families.attention.proof.proved_attention import ProvedAttention
from factrank.families.attention.proof.proved_streams import Streams
from factrank.families.attention.proof.roundings import LayerTerms, roundings_of_logits


def added(numbers):
    """One after another, the one of most additions first."""
    present = [number for number in numbers if number is not None]
    return max(present) + len(present) - 1 if present else None


def dealt(rng, things):
    """Into heaps, often one."""
    heaps = [[] for _ in range(rng.choice([1, rng.integers(1, len(things) + 1)]))] if things else []
    for thing in things:
        heaps[rng.integers(len(heaps))].append(thing)
    return [heap for heap in heaps if heap]


def random_layer(rng, *, integers):
    """Weights, and the attention of each head to the key; 0.5 stands for any that is not 0 or 1."""
    n_heads, d_vo, d_model, n_values = (int(rng.integers(*ends)) for ends in ((1, 4), (1, 6), (2, 8), (1, 4)))

    def drawn(*size):
        numbers = rng.choice([-2.0, -1.0, 1.0, 2.0], size) * (rng.random(size) < rng.choice([0.5, 0.9, 1.0]))
        return numbers if integers else 0.3 * numbers

    unread = np.zeros((n_heads, d_model, 1))
    w_o = np.stack([drawn(d_vo, d_model) for _ in range(n_heads)])
    w_o[rng.random(n_heads) < 0.3, :, 1:] = 0
    w_o[rng.random(n_heads) < 0.3, 1:] = 0
    queries = drawn(1, d_model) * rng.choice([0.0, 1.0])
    parts = drawn(1, d_model), queries, unread, unread, drawn(n_heads, d_model, d_vo), w_o
    return PlainWeights(*parts, drawn(d_model, n_values)), rng.choice([0.0, 0.5, 1.0], n_heads)


def weighed(rng, values, attention):
    """The value vectors of a program, each with its head: tokens of a head together or apart."""
    found = []
    for head, weight in enumerate(attention):
        terms = {0.0: ["q"], 0.5: ["k", "q"], 1.0: ["k"]}[float(weight)]
        if rng.random() < 0.5:  # o_q + a (o_k - o_q)
            terms = ["q", "k", "q"] if weight else ["q"]
        for heap in dealt(rng, terms):
            columns = zip(*(values[token][head] for token in heap), strict=True)
            found.append((head, [added([0 if term else None for term in terms]) for terms in columns]))
    return found


def most_additions(rng, weights, values, attention):
    """The most that a term meets in one program, over all values."""
    w_o, vectors = weights.w_o != 0, weighed(rng, values, attention)
    share = rng.choice([0.0, 0.5, 1.0])
    is_folded = rng.random(len(vectors)) < share
    folded, others = ([v for v, chosen in zip(vectors, is_folded, strict=True) if chosen == side] for side in (1, 0))
    direct, joins = set(np.flatnonzero(weights.queries[0]).tolist()), rng.choice([0.0, 0.3, 1.0])

    def stream(columns):
        here = {at for at in direct if rng.random() < joins}
        direct.difference_update(here)
        return [added([*column, 0 if at in here else None]) for at, column in enumerate(columns)]

    streams = [stream(written(heap, w_o)) for heap in dealt(rng, others)]
    while len(streams) > 1 and rng.random() < 0.5:
        streams = [*streams[2:], stream(zip(*streams[:2], strict=True))]
    heaps, logits = dealt(rng, [*streams, *folded, *direct]), []
    for value in weights.unembedding.T:
        read = set(np.flatnonzero(value).tolist())
        sums = [[term for part in heap for term in unembedded(part, read, w_o)] for heap in heaps]
        logits.append(added(map(added, sums)))
    return max(number or 0 for number in logits)


def written(vectors, w_o):
    """The terms of each coordinate of the stream in a sum with W_O."""
    return [
        [number for head, vector in vectors for number, row in zip(vector, w_o[head], strict=True) if row[at]]
        for at in range(w_o.shape[2])
    ]


def unembedded(part, read, w_o):
    """The terms of a part in a sum with U: a stream, a vector of a head through W_O U, or a coordinate of x_q."""
    if isinstance(part, int):
        return [0] if part in read else []
    if isinstance(part, list):
        return [part[at] for at in read]
    head, vector = part
    fans = [added([0 for at in read if row[at]]) for row in w_o[head]]
    return [n + fan for n, fan in zip(vector, fans, strict=True) if None not in (n, fan)]


def counted_additions(weights, attention):
    streams, here, soft = Streams(weights, ARITHMETIC["float32"]), np.zeros(1, int), attention == 0.5
    proved = ProvedAttention(attention[None], np.where(soft, 0.1, 0.0)[None])
    terms = streams.streams(proved, here, here).terms._replace(soft=np.zeros(1))
    return float(roundings_of_logits(terms, LayerTerms(of_values=0, of_products=0))[0])


@pytest.mark.parametrize("integers", [False, True], ids=["real", "integers"])
def test_no_random_program_adds_more_often_than_is_counted(integers):
    rng, n_attained = np.random.default_rng(0), 0
    for _ in range(100):
        weights, attention = random_layer(rng, integers=integers)
        tokens = {"k": weights.keys[0], "q": weights.queries[0]}
        # Integers that cancel are exactly 0; other sums are not.
        as_added = np.asarray if integers else np.abs
        values = {name: np.einsum("d,hde->he", *map(as_added, (x, weights.w_v))) != 0 for name, x in tokens.items()}
        found = max(most_additions(rng, weights, values, attention) for _ in range(20))
        counted = counted_additions(weights, attention)
        assert found <= counted
        n_attained += found == counted > 2
    assert n_attained
