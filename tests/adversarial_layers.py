"""Layers near the bound of their proof, and the programs that may evaluate them.

A sum that starts at 1 and adds n times u (half of the last place of 1) stays at 1; one that adds a little more than u
each time gains u with each step. So the logit of the right value loses n u and that of the wrong one gains n u, which
is all that n roundings can do. `attacks` plants such sums wherever a program adds up, with a lead of the right value
near what they take; `programs` evaluate whole batches of layers in the layer's own precision.
"""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np

from exact_layers import dtype_of
from factrank.certificates.arithmetic import ARITHMETIC
from factrank.families.attention.attention_layer import AttentionLayer


class Batch(NamedTuple):
    """Layers of one shape with one key and one query; the right value is 0, the wrong one 1."""

    keys: np.ndarray  # layers x d_model
    queries: np.ndarray
    w_q: np.ndarray  # layers x heads x d_model x d_qk
    w_k: np.ndarray
    w_v: np.ndarray
    w_o: np.ndarray
    unembedding: np.ndarray

    def layer(self, at):
        embedding = np.stack([self.keys[at], self.queries[at]])
        return AttentionLayer(embedding, *(part[at] for part in self[2:]), n_keys=1)


# ---------------------------------------------------------------- attacks

SCORES = 1000.0
"""Saturates in every precision."""


class Plan(NamedTuple):
    """Which sum is attacked, and its sizes: heads, d_vo, and coordinates of the stream per value."""

    place: str
    heads: int
    d_vo: int
    width: int

    @property
    def terms(self):
        """Of the sum that is attacked."""
        return {
            "concatenated": self.heads * self.d_vo,
            "direct": self.heads * self.d_vo + 1,
            "folded": self.heads * self.d_vo + self.width,
            "folded twice": self.heads * self.d_vo + 2 * self.width - 1,
            "heads": self.heads * self.width,
            "read": self.width,
            "values": self.width,
            "both tokens": 3 * self.heads * self.d_vo,
        }[self.place]


def attacks(plan, precision, shares):
    """One layer per share: the lead of the right value is so much of what the attacked sum takes from it."""
    u, n = ARITHMETIC[precision].unit, len(shares)
    u = 2.0 ** round(np.log2(u))
    heads, d_vo, width = plan.heads, plan.d_vo, plan.width
    d_model = 2 * width + 2
    right, wrong = slice(0, width), slice(width, 2 * width)
    # Leads are even multiples of the last place, so that ties are rounded down.
    leads = 4 * u * np.maximum(np.round(np.asarray(shares) * 2 * (plan.terms - 1) / 4), 1)
    small, more = u, u * (1 + 2 * u)
    keys, queries = np.zeros((n, d_model)), np.zeros((n, d_model))
    w_q, w_k = np.zeros((n, heads, d_model, 1)), np.zeros((n, heads, d_model, 1))
    w_v, w_o = np.zeros((n, heads, d_model, d_vo)), np.zeros((n, heads, d_vo, d_model))
    unembedding = np.zeros((n, d_model, 2))
    keys[:, -2] = queries[:, -1] = 1
    w_q[:, :, -1], w_k[:, :, -2] = SCORES, 1
    w_v[:, :, -2] = 1
    unembedding[:, 0, 0] = unembedding[:, width, 1] = 1

    def fill(part, at_right, at_wrong, large_at_right, large_at_wrong):
        part[at_right], part[at_wrong] = small, more
        part[large_at_right], part[large_at_wrong] = 1 + leads, 1

    every, first = slice(None), 0
    if plan.place in ("concatenated", "both tokens"):
        fill(w_o, np.s_[:, :, :, 0], np.s_[:, :, :, width], np.s_[:, 0, 0, 0], np.s_[:, 0, 0, width])
        if plan.place == "both tokens":  # what the query writes is taken back
            queries[:, -2] = 0.5
    elif plan.place == "direct":
        w_o[:, :, :, 0], w_o[:, :, :, width] = small, more
        queries[:, 0], queries[:, width] = 1 + leads, 1
    elif plan.place == "folded":
        fill(w_o, np.s_[:, :, :, 0], np.s_[:, :, :, width], np.s_[:, 0, 0, 0], np.s_[:, 0, 0, width])
        queries[:, right], queries[:, wrong] = small, more
        unembedding[:, right, 0] = unembedding[:, wrong, 1] = 1
    elif plan.place == "folded twice":  # in W_O U, and in the sum of products with it
        w_o[:, :, :, 0], w_o[:, :, :, width] = small, more
        fill(w_o, np.s_[:, 0, 0, right], np.s_[:, 0, 0, wrong], np.s_[:, 0, 0, 0], np.s_[:, 0, 0, width])
        queries[:, right], queries[:, wrong] = small, more
        unembedding[:, right, 0] = unembedding[:, wrong, 1] = 1
    elif plan.place == "heads":
        fill(w_o, np.s_[:, :, 0, right], np.s_[:, :, 0, wrong], np.s_[:, 0, 0, 0], np.s_[:, 0, 0, width])
        unembedding[:, right, 0] = unembedding[:, wrong, 1] = 1
    elif plan.place == "read":
        fill(queries, np.s_[:, right], np.s_[:, wrong], np.s_[:, 0], np.s_[:, width])
        unembedding[:, right, 0] = unembedding[:, wrong, 1] = 1
    else:  # values: one head of two coordinates, which the key fills
        keys[:, right] = keys[:, wrong] = 1
        w_v[every], w_o[:, first, 0, 0], w_o[:, first, 1, width] = 0, 1, 1
        fill(w_v, np.s_[:, 0, right, 0], np.s_[:, 0, wrong, 1], np.s_[:, 0, 0, 0], np.s_[:, 0, width, 1])
    dtype = dtype_of(precision)
    return Batch(*(part.astype(dtype) for part in (keys, queries, w_q, w_k, w_v, w_o, unembedding)))


def score_attack(d_qk, shares, precision="float32"):
    """Soft attention whose score is lost: 2 d_qk terms of which the largest two cancel."""
    u, n = 2.0 ** -ARITHMETIC[precision].bits, len(shares)
    large = 2.0**-4 / u
    keys, queries = np.zeros((n, 4)), np.zeros((n, 4))
    w_q, w_k = np.zeros((n, 1, 4, d_qk)), np.zeros((n, 1, 4, d_qk))
    w_v, w_o, unembedding = np.zeros((n, 1, 4, 1)), np.zeros((n, 1, 1, 4)), np.zeros((n, 4, 2))
    keys[:, 0] = queries[:, 1] = queries[:, 2] = 1
    scale = d_qk**0.5
    w_q[:, 0, 1], w_k[:, 0, 0], w_k[:, 0, 1] = scale, large * u, -large * u
    w_k[:, 0, 0, 0] = w_k[:, 0, 1, 0] = large
    score = 2 * (d_qk - 1) * large * u
    w_v[:, 0, 0] = w_o[:, 0, 0, 3] = unembedding[:, 3, 0] = 1
    at, off = 1 / (1 + np.exp(-score)), 0.5
    unembedding[:, 2, 1] = off + (at - off) * np.asarray(shares)
    dtype = dtype_of(precision)
    return Batch(*(part.astype(dtype) for part in (keys, queries, w_q, w_k, w_v, w_o, unembedding)))


# ---------------------------------------------------------------- sums

ORDERS = ("descending", "forward", "backward", "random", "pairwise", "blocked", "library")


def total(terms, order, rng):
    """The sum over the second axis, layer by layer, every partial sum rounded to the format of the terms."""
    if order == "library":
        return terms.sum(axis=1).astype(terms.dtype)
    if order == "descending":  # the worst of all: what is small is added to what is large
        terms = np.take_along_axis(terms, np.argsort(-np.abs(terms), axis=1, kind="stable"), axis=1)
    elif order == "backward":
        terms = terms[:, ::-1]
    elif order == "random":
        terms = terms[:, rng.permutation(terms.shape[1])]
    elif order == "pairwise":
        while terms.shape[1] > 1:
            paired = terms[:, 0 : terms.shape[1] - 1 : 2] + terms[:, 1::2]
            terms = np.concatenate([paired, terms[:, 2 * paired.shape[1] :]], axis=1)
        return terms[:, 0]
    elif order == "blocked":  # as vector units add: eight sums side by side
        terms = np.stack([_forward(terms[:, start::8]) for start in range(min(8, terms.shape[1]))], axis=1)
    return _forward(terms)


def _forward(terms):
    found = terms[:, 0]
    for at in range(1, terms.shape[1]):
        found = found + terms[:, at]
    return found


# ---------------------------------------------------------------- programs

FORMS = ("stream", "folded", "heads", "one by one", "unembedded")


class Program(NamedTuple):
    """A form, an order for each of its sums, and whether attention weighs differences."""

    form: str
    orders: tuple[str, str, str]
    differences: bool
    split_scale: bool

    def logits(self, batch, rng):
        """The logits of a batch: layers x values."""

        def product(rows, matrix, order):  # layers x n times layers x n x ..., by a sum of its own
            wide = rows.reshape(rows.shape + (1,) * (matrix.ndim - 2))
            return total(wide * matrix, order, rng)

        first, second, last = self.orders
        by_token = batch.w_v.swapaxes(1, 2)  # layers x d_model x heads x d_vo
        at_key, at_query = product(batch.keys, by_token, first), product(batch.queries, by_token, first)
        weight = self.weights(batch, rng)[:, :, None]
        one = np.asarray(1, weight.dtype)
        if self.differences:
            groups = [at_query, weight * (at_key - at_query)]
        else:
            groups = [weight * at_key, (one - weight) * at_query]
        values = np.concatenate(groups, axis=1)  # layers x 2 heads x d_vo
        outputs = np.concatenate([batch.w_o] * 2, axis=1)
        n, n_heads, d_vo, d_model = outputs.shape
        flat, leaves = values.reshape(n, -1), outputs.reshape(n, n_heads * d_vo, d_model)
        direct = batch.queries[:, :, None] * batch.unembedding
        if self.form == "folded":
            spread = leaves[..., None] * batch.unembedding[:, None]
            folded = total(spread.swapaxes(1, 2), second, rng)
            return total(np.concatenate([flat[..., None] * folded, direct], axis=1), last, rng)
        if self.form == "stream":
            stream = total(np.concatenate([batch.queries[:, None], flat[..., None] * leaves], axis=1), second, rng)
            return product(stream, batch.unembedding, last)
        written = total((values[..., None] * outputs).swapaxes(1, 2), second, rng)  # layers x heads x d_model
        if self.form == "heads":
            every = written[..., None] * batch.unembedding[:, None]
            every = every.reshape(n, n_heads * d_model, -1)
            return total(np.concatenate([every, direct], axis=1), last, rng)
        if self.form == "one by one":
            stream = total(np.concatenate([batch.queries[:, None], written], axis=1), second, rng)
            return product(stream, batch.unembedding, last)
        each = total((written[..., None] * batch.unembedding[:, None]).swapaxes(1, 2), last, rng)
        own = total(direct, last, rng)
        return total(np.concatenate([own[:, None], each], axis=1), second, rng)

    def weights(self, batch, rng):
        """The weight of every head on the key: one sum over the coordinates of both tokens, then the logistic."""
        asked, on_key, on_query = (
            total(tokens[:, :, None, None] * matrix.swapaxes(1, 2), self.orders[0], rng)
            for tokens, matrix in ((batch.queries, batch.w_q), (batch.keys, batch.w_k), (batch.queries, batch.w_k))
        )
        dtype, d_qk = asked.dtype, asked.shape[2]
        if self.split_scale:
            root = np.asarray(d_qk**-0.25, dtype)
            asked, on_key, on_query, scale = asked * root, on_key * root, on_query * root, np.asarray(1, dtype)
        else:
            scale = np.asarray(d_qk**-0.5, dtype)
        terms = np.concatenate([asked * on_key, -(asked * on_query)], axis=2)
        score = total(np.moveaxis(terms, 2, 1), self.orders[1], rng) * scale
        one = np.asarray(1, dtype)
        with np.errstate(over="ignore"):
            return one / (one + np.exp(-score))


def programs(rng, forms=FORMS, extra=3):
    """Every form with the worst order, and some with orders drawn at random."""
    worst = [Program(form, ("descending",) * 3, bool(flag), bool(flag)) for form in forms for flag in (0, 1)]
    drawn = [
        Program(str(rng.choice(forms)), tuple(rng.choice(ORDERS, 3).tolist()), *(rng.random(2) < 0.5).tolist())
        for _ in range(extra)
    ]
    return worst + drawn


def leads(logits):
    """By how much the right value leads, exactly."""
    wide = np.asarray(logits).astype(np.float64)
    return wide[:, 0] - wide[:, 1]


def jax_logits(layer):
    """Those of the layer's own forward pass, for a list of pairs and for the whole table."""
    where = jnp.zeros(1, jnp.int32)
    return layer.logits(where, where), layer.tensor()[0]
