"""Slow and exact layers: evaluation in ball arithmetic, evaluation in every order of summation, and planted layers."""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from flint import arb, ctx
from scipy.special import expit

from factrank.certificates.arithmetic import ARITHMETIC, LOGISTIC_UNITS
from factrank.databases.database import Database
from factrank.databases.vocabulary import Vocabulary
from factrank.families.attention.attention_layer import AttentionLayer
from factrank.nn.part_arrays import to_arrays

NAMES = ("embedding", "w_q", "w_k", "w_v", "w_o", "unembedding")


def dtype_of(precision):
    return np.dtype(jnp.bfloat16) if precision == "bfloat16" else np.dtype(precision)


def numbered(triples, shape):
    """The database of these codes."""
    keys, queries, values = (Vocabulary.numbered(letter, size) for letter, size in zip("kqv", shape, strict=True))
    return Database(np.asarray(triples, np.int32).reshape(-1, 3), keys, queries, values)


def random_table(rng, n_keys, n_queries, n_values, share=1.0):
    """A functional database with a random value for a share of the pairs."""
    pairs = [(k, q) for k in range(n_keys) for q in range(n_queries) if rng.random() < share]
    return numbered([(k, q, rng.integers(n_values)) for k, q in pairs], (n_keys, n_queries, n_values))


# ---------------------------------------------------------------- exact evaluation


def ball_logits(layer, key, query):
    """The logits of one pair as balls of 200 bits, straight from the formula of the layer."""
    with ctx.workprec(200):
        parts = {name: _balls(part) for name, part in to_arrays(layer).items()}
        x_k, x_q = parts["embedding"][key], parts["embedding"][layer.n_keys + query]
        stream = list(x_q)
        for w_q, w_k, w_v, w_o in zip(*(parts[name] for name in ("w_q", "w_k", "w_v", "w_o")), strict=True):
            asked, at_key, at_query = _row(x_q, w_q), _row(x_k, w_k), _row(x_q, w_k)
            root = arb(len(asked)).sqrt()
            score = sum((a * (k - q) for a, k, q in zip(asked, at_key, at_query, strict=True)), arb(0)) / root
            weight = 1 / (1 + (-score).exp())
            read = [weight * k + (1 - weight) * q for k, q in zip(_row(x_k, w_v), _row(x_q, w_v), strict=True)]
            stream = [s + o for s, o in zip(stream, _row(read, w_o), strict=True)]
        return _row(stream, parts["unembedding"])


def ball_margin(logits, fiber):
    """A ball around the margin."""
    with ctx.workprec(200):
        own = [logits[v] for v in fiber]
        others = [z for v, z in enumerate(logits) if v not in fiber]
        return min(float((a - b).lower()) for a in own for b in others)


def _balls(part):
    if part.ndim > 1:
        return [_balls(row) for row in part]
    return [arb(float(x)) for x in part]


def _row(vector, matrix):
    return [sum((x * row[at] for x, row in zip(vector, matrix, strict=True)), arb(0)) for at in range(len(matrix[0]))]


# ---------------------------------------------------------------- every order


class Form(NamedTuple):
    """How a program adds up a layer: see `factrank.families.attention.proof.roundings`.

    `heads`: "concatenated", "one by one", "unembedded" one by one, "at once" with the coordinates of the stream, or
    "folded" with W_O U. `differences`: attention weighs o_k - o_q, as it does for few heads. `late`: what heads write
    is weighed, not their values.
    """

    heads: str
    differences: bool
    late: bool = False


FORMS = [
    Form(heads, differences)
    for heads in ("concatenated", "one by one", "unembedded", "at once", "folded")
    for differences in (False, True)
]
FORMS += [Form(heads, True, late=True) for heads in ("one by one", "unembedded")]


class Disorder:
    """Evaluation of a layer's formula with sums in random order and grouping, rounded after every step or at the end.

    `wide` accumulates in a longer format and rounds sums once, as machines do with bfloat16.
    """

    def __init__(self, layer, rng, form, wide=None):
        self.parts = [np.asarray(getattr(layer, name)) for name in NAMES]
        self.n_keys, self.rng, self.wide, self.dtype = layer.n_keys, rng, wide, self.parts[0].dtype
        self.form = form

    def add(self, one, other):
        return one + other

    def times(self, one, other):
        return one * other

    def logistic(self, score):
        one = np.asarray(1, self.dtype)
        with np.errstate(over="ignore"):
            return one / (one + np.exp(-score))

    def sum(self, terms):
        terms = [np.asarray(term, self.wide or self.dtype) for term in terms]
        while len(terms) > 1:
            one = terms.pop(self.rng.integers(len(terms)))
            at = self.rng.integers(len(terms))
            terms[at] = self.add(terms[at], one)
        return terms[0].astype(self.dtype)

    def terms(self, vector, matrix):
        """The rows of a product before they are added."""
        vector, matrix = (x.astype(self.wide or self.dtype) for x in (vector, matrix))
        return [self.times(x, row) for x, row in zip(vector, matrix, strict=True)]

    def product(self, vector, matrix):
        return self.sum(self.terms(vector, matrix))

    def logits(self, key, query):
        """The logits of a pair, with all the freedom that the layer's evaluation may take."""
        embedding, w_q, w_k, w_v, w_o, unembedding = self.parts
        x_k, x_q = embedding[key], embedding[self.n_keys + query]
        parts = []  # of every head, what is weighed and the matrix that it still meets
        for head in range(len(w_q)):
            weight = self.weight(x_k, x_q, w_q[head], w_k[head])
            at_key, at_query = (self.product(x, w_v[head]) for x in (x_k, x_q))
            outward = w_o[head]
            if self.form.late:
                at_key, at_query, outward = self.product(at_key, outward), self.product(at_query, outward), None
            if self.form.differences:
                weighed = [at_query, self.times(weight, self.add(at_key, -at_query))]
            else:
                rest = self.add(np.asarray(1, self.dtype), -weight)
                weighed = [self.times(weight, at_key), self.times(rest, at_query)]
            parts += [(values, outward) for values in weighed]
        return self.added(x_q, parts, unembedding)

    def weight(self, x_k, x_q, w_q, w_k):
        scale = np.asarray(w_q.shape[1] ** -0.5, self.dtype)
        asked = self.times(self.product(x_q, w_q), scale)
        on_key, on_query = (self.product(asked, self.product(x, w_k)[:, None])[0] for x in (x_k, x_q))
        return self.logistic(self.add(on_key, -on_query))

    def added(self, x_q, parts, unembedding):
        direct = self.terms(x_q, unembedding)
        if self.form.heads == "concatenated":
            stream = self.sum([x_q, *(term for values, outward in parts for term in self.terms(values, outward))])
            return self.product(stream, unembedding)
        if self.form.heads == "folded":
            folded = [(values, [self.product(row, unembedding) for row in outward]) for values, outward in parts]
            every = [term for values, outward in folded for term in self.terms(values, np.stack(outward))]
            return self.sum(direct + every)
        written = [values if outward is None else self.product(values, outward) for values, outward in parts]
        if self.form.heads == "at once":
            return self.sum(direct + [term for values in written for term in self.terms(values, unembedding)])
        if self.form.heads == "one by one":
            return self.product(self.sum([x_q, *written]), unembedding)
        return self.sum([self.sum(direct), *(self.product(values, unembedding) for values in written)])


class Malice(Disorder):
    """The same in float64 with the largest errors that are allowed, of one sign or of random ones."""

    def __init__(self, layer, rng, form, sign):
        super().__init__(layer, rng, form)
        arithmetic = ARITHMETIC[self.dtype.name]
        self.sign, self.unit, self.saturation = sign, arithmetic.unit, arithmetic.saturation
        self.parts, self.dtype = [part.astype(np.float64) for part in self.parts], np.dtype(np.float64)

    def wrong(self, result, exact):
        signs = self.rng.choice([-1, 1], np.shape(result)) if self.sign == 0 else self.sign
        return np.where(exact, result, result * (1 + self.unit * signs))

    def add(self, one, other):
        return self.wrong(one + other, (np.asarray(one) == 0) | (np.asarray(other) == 0))

    def times(self, one, other):
        simple = [np.isin(np.abs(np.frexp(x)[0]), (0, 0.5)) for x in (one, other)]
        return self.wrong(one * other, simple[0] | simple[1])

    def logistic(self, score):
        if abs(score) >= self.saturation:
            return np.asarray(float(score > 0))
        sign = self.sign or self.rng.choice([-1, 1])
        return np.asarray(expit(score) + LOGISTIC_UNITS * self.unit * sign)


def disorders(layer, rng):
    """Evaluations of each kind; malicious ones for precisions that leave float64 room to play them."""
    coarse = np.asarray(layer.embedding).dtype == jnp.bfloat16
    wides = (None, np.float32) if coarse else (None,)
    found = [Disorder(layer, rng, form, wide) for form in FORMS for wide in wides]
    if np.asarray(layer.embedding).dtype != np.float64:
        found += [Malice(layer, rng, form, sign) for form in FORMS for sign in (-1, 0, 1)]
    return found


def margin(logits, fiber):
    """The margin, in float64 from what was computed."""
    logits = np.asarray(logits).astype(np.float64)
    return logits[fiber].min() - np.delete(logits, fiber).max(initial=-np.inf)


# ---------------------------------------------------------------- planted layers


def parabola_layer(database, precision="float32", score=None, times=1):
    """One head per query, codes x_v = v - floor(V / 2): logits `times` (x_f^2 - (x_v - x_f)^2), so that is the margin.

    Coordinates: one per query for codes, one per query as its mark.
    """
    n_keys, n_queries, n_values = database.shape
    score = score or (800 if precision == "float64" else 120)
    codes = np.arange(n_values) - n_values // 2
    embedding = np.zeros((n_keys + n_queries, 2 * n_queries))
    keys, queries, values = database.triples.T
    embedding[keys, queries] = codes[values]
    marks = np.arange(n_queries, 2 * n_queries)
    embedding[n_keys + np.arange(n_queries), marks] = 1
    w_q, w_k = (np.zeros((n_queries, 2 * n_queries, 1)) for _ in range(2))
    w_v, w_o = np.zeros((n_queries, 2 * n_queries, 1)), np.zeros((n_queries, 1, 2 * n_queries))
    for query in range(n_queries):
        w_q[query, marks, 0] = -score
        w_q[query, marks[query], 0] = score
        w_k[query, marks, 0] = -1
        w_v[query, query, 0] = w_o[query, 0, 0] = 1
    unembedding = np.zeros((2 * n_queries, n_values))
    unembedding[0], unembedding[marks] = 2 * times * codes, -times * codes**2
    parts = (part.astype(dtype_of(precision)) for part in (embedding, w_q, w_k, w_v, w_o, unembedding))
    return AttentionLayer(*parts, n_keys=n_keys)


def sets_layer(database, precision="float32"):
    """Every key holds a 0/1 vector of values per query, which one head per query copies: margin 1 for any sets."""
    n_keys, n_queries, n_values = database.shape
    width = n_queries * n_values
    embedding = np.zeros((n_keys + n_queries, width + n_queries + n_values))
    keys, queries, values = database.triples.T
    embedding[keys, queries * n_values + values] = 1
    marks = np.arange(width, width + n_queries)
    embedding[n_keys + np.arange(n_queries), marks] = 1
    size = (n_queries, width + n_queries + n_values)
    w_q, w_k, w_v, w_o = (np.zeros((*size, last)) for last in (1, 1, n_values, n_values))
    for query in range(n_queries):
        w_q[query, marks, 0], w_k[query, marks, 0] = -120, -1
        w_q[query, marks[query], 0] = 120
        w_v[query, query * n_values : (query + 1) * n_values] = np.eye(n_values)
        w_o[query, -n_values:] = np.eye(n_values)
    unembedding = np.concatenate([np.zeros((width + n_queries, n_values)), np.eye(n_values)])
    parts = (part.astype(dtype_of(precision)) for part in (embedding, w_q, w_k, w_v, w_o.swapaxes(1, 2), unembedding))
    return AttentionLayer(*parts, n_keys=n_keys)
