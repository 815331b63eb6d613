r"""From a CP decomposition: a layer whose logits are the 0/1 tensor of the database.

Terms $\sum_r a_r[k]\, b_r[q]\, c_r[v]$ (see `cp_terms`) become coordinates: a key stores $a_r[k]$ in coordinate r, the
unembedding has the row $c_r$ there, and heads multiply by $b_r[q]$ through their attention to the key, which depends on
the query alone. Queries have a one-hot code with one coordinate per distinct row of b, and W_K is constant on it. There
are three ways to express $b_r$ by attention weights between 0 and 1:

- *Switches*, for terms with integer entries: if $b_r$ has the levels $\beta$, then
  $b_r = \sum_\beta \beta\, [b_r = \beta]$, and each indicator is saturated attention, exactly 0 or 1. Equal indicators
  share heads, which copy coordinate r to itself with weight $\beta$. All numbers are integers and the logits are
  exactly 0 and 1 on valid fibers: margin 1 in every precision, even if a fiber has several values.
- *Dials*, for any terms: after scaling to $\max_q |b_r[q]| = 1$, a head for each r has the attention
  $1/2 + \alpha b_r[q]$, $\alpha = 0.45$, and keys store $a_r / \alpha$. The heads then write
  $\sum_r (b_r[q] + 1/(2\alpha))\, a_r[k]\, c_r[v] = D + G[k,v]$, and one more head with constant attention 1/2
  subtracts G: with $A = [a_r/\alpha]$, $C = [c_r]$ and the singular value decomposition $A C^\top = P S$ it has
  $W_V = -A^+ P$ and $W_O = S (C^\top)^+$, of width rank G. Heads with equal $b_r$ are merged.
- *Small angles*, for any terms: the bent logits of `logits_layer`, with $|a_r b_r|$ scaled to a small angle, have one
  head and one coordinate per term. The angle is the largest that is proved.

Heads of switches and dials are split to the best common width, and d_model = R + number of distinct rows of b. The
layer is large, at least R(K + V) numbers. If the terms add up to the whole tensor, not only on valid fibers, missing
entries tie, except with small angles.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from factrank.certificates import prove
from factrank.databases import Database
from factrank.families.attention.attention_layer import AttentionLayer
from factrank.families.attention.forms.building import (
    D_QK,
    STRENGTHS,
    Terms,
    about_terms,
    best_width,
    exact_terms,
    measured_terms,
    numerical_terms,
)
from factrank.families.attention.forms.construction import Built, ClosedForm, FormSearch, host_layer
from factrank.families.attention.forms.terms.logits_layer import bent_layer
from factrank.families.attention.layer_shape import LayerShape
from factrank.families.attention.proof import AttentionProver
from factrank.nn import Precision

ALPHA = 0.45
"""Range of a dial around 1/2."""

ANGLES = tuple(2.0**-power for power in (3, 5, 7, 9, 12))
"""Small angles to try: logits are off by their square, and by rounding errors divided by them."""

MOST_PARAMETERS = 5_000_000
"""Larger layers are left to other forms."""

Weights = tuple[Float[np.ndarray, "read width"], Float[np.ndarray, "width written"]]


class TermBundle(NamedTuple):
    """Heads with equal attention: the score of each distinct row of b, and W_V and W_O on the terms."""

    scores: Float[np.ndarray, " rows"]
    w_v: Float[np.ndarray, "terms width"]
    w_o: Float[np.ndarray, "width terms"]


class FromCP(ClosedForm):
    """The form `cp`."""

    name, functional = "cp", False
    estimated = True
    """A search may find fewer terms than `shape` assumes, never more."""

    def _limit(self, database: Database, precision: Precision) -> str | None:
        n_terms = about_terms(database)
        n_parameters = n_terms * (sum(database.shape) + 4 * n_terms)
        if n_parameters > MOST_PARAMETERS:
            return f"{n_terms:,} terms would make a layer of about {n_parameters:,} parameters"
        return None

    def shape(self, database: Database, precision: Precision) -> LayerShape:
        """Return the shape of the best exact witness."""
        return _best_exact(database, precision)[0].shape

    def _build(self, database: Database, precision: Precision, search: FormSearch) -> Built:
        layer, n_terms = _best_exact(database, precision)
        if search.seconds > 0 and precision != "bfloat16":
            for terms in _fewest_terms(database, n_terms, search):
                ways = (with_dials(terms, precision), *(with_angles(terms, angle, precision) for angle in ANGLES))
                smaller = [way for way in ways if way.parameters < layer.parameters]
                for way in sorted(smaller, key=lambda one: one.parameters):
                    if prove(AttentionProver(way, database)).holds:
                        layer = way
                        break
        return Built(layer, self.name)


def _fewest_terms(database: Database, n_terms: int, search: FormSearch) -> Iterator[Terms]:
    """Yield the decomposition of the best known bound, and a numerical one if it has fewer terms."""
    half, rng = search.seconds / 2, np.random.default_rng(search.seed)
    measured = measured_terms(database, half)
    if measured is not None:
        yield measured
        n_terms = min(n_terms, measured.n_terms)
    numerical = numerical_terms(database, n_terms, half, rng)
    if numerical is not None:
        yield numerical


def _best_exact(database: Database, precision: Precision) -> tuple[AttentionLayer, int]:
    found = [(with_switches(terms, precision), terms.n_terms) for terms in exact_terms(database)]
    return min((layer for layer, _ in found), key=lambda layer: layer.parameters), min(size for _, size in found)


def with_switches(terms: Terms, precision: Precision) -> AttentionLayer:
    """Return the layer whose attention is exactly 0 or 1; exact for terms with integer entries."""
    rows, row_of = np.unique(terms.queries, axis=0, return_inverse=True)
    indicators: dict[bytes, list[tuple[int, float]]] = {}
    for r, column in enumerate(rows.T):
        for level in np.unique(column[column != 0]).tolist():
            indicators.setdefault((column == level).tobytes(), []).append((r, level))
    towards_key, _ = STRENGTHS[precision]
    bundles = []
    for pattern, members in indicators.items():
        at, weights = np.array([r for r, _ in members]), np.array([level for _, level in members])
        copy = np.eye(terms.n_terms)[at]
        signs = np.where(np.frombuffer(pattern, dtype=bool), 1.0, -1.0)
        bundles.append(TermBundle(towards_key * signs, copy.T, weights[:, None] * copy))
    return _assembled(terms, row_of.reshape(-1), bundles, STRENGTHS[precision][1], precision)


def with_dials(terms: Terms, precision: Precision) -> AttentionLayer:
    """Return the layer with attention weights 1/2 + alpha b, and a correction by constant attention."""
    largest = np.abs(terms.queries).max(axis=0)
    largest[largest == 0] = 1.0
    queries, keys = terms.queries / largest, terms.keys * largest / ALPHA
    scaled = Terms(keys, queries, terms.values)
    rows, row_of = np.unique(queries, axis=0, return_inverse=True)
    scores = np.log((0.5 + ALPHA * rows) / (0.5 - ALPHA * rows))
    dials, dial_of = np.unique(scores, axis=1, return_inverse=True)
    bundles = []
    for number, dial in enumerate(dials.T):
        copy = np.eye(terms.n_terms)[dial_of.reshape(-1) == number]
        bundles.append(TermBundle(dial, copy.T, copy))
    bundles.append(TermBundle(np.zeros(len(rows)), *_correction(keys, terms.values)))
    return _assembled(scaled, row_of.reshape(-1), bundles, 1, precision)


def with_angles(terms: Terms, angle: float, precision: Precision) -> AttentionLayer:
    """Return the layer with the bent logits of the terms, where all a_r b_r / 2 are at most an angle."""
    sizes = [np.abs(factor).max(axis=0) for factor in (terms.keys, terms.queries)]
    sizes = [np.where(size > 0, size, 1.0) for size in sizes]
    keys, queries = terms.keys / sizes[0] * 2 * angle, terms.queries / sizes[1]
    values = terms.values * (sizes[0] * sizes[1] / angle)
    return bent_layer(Terms(keys, queries, values), np.zeros(len(values)), precision)


def _correction(keys: Float[np.ndarray, "keys terms"], values: Float[np.ndarray, "values terms"]) -> Weights:
    """Return W_V and W_O on the terms with A W_V W_O C^T = -A C^T, of width rank(A C^T)."""
    left, sizes, right = np.linalg.svd(keys @ values.T, full_matrices=False)
    rank = max(int((sizes > sizes[0] * 1e-11).sum()), 1)
    if rank >= keys.shape[1]:
        return -np.eye(keys.shape[1]), np.eye(keys.shape[1])
    w_v = -np.linalg.pinv(keys) @ left[:, :rank] * np.sqrt(sizes[:rank])
    return w_v, (np.sqrt(sizes[:rank])[:, None] * right[:rank]) @ np.linalg.pinv(values.T)


def _assembled(
    terms: Terms,
    row_of: Int[np.ndarray, " queries"],
    bundles: Sequence[TermBundle],
    towards_query: int,
    precision: Precision,
) -> AttentionLayer:
    """Assemble the layer: coordinates of the terms first, then one per distinct row of b."""
    (n_keys, n_terms), n_queries, n_values = terms.keys.shape, len(row_of), len(terms.values)
    d_model = n_terms + int(row_of.max()) + 1
    width = best_width(np.array([bundle.w_v.shape[1] for bundle in bundles]))
    embedding, unembedding = np.zeros((n_keys + n_queries, d_model)), np.zeros((d_model, n_values))
    embedding[:n_keys, :n_terms] = terms.keys
    embedding[n_keys + np.arange(n_queries), n_terms + row_of] = 1.0
    unembedding[:n_terms] = terms.values.T
    heads = [(bundle, start) for bundle in bundles for start in range(0, bundle.w_v.shape[1], width)]
    w_q, w_k = np.zeros((2, len(heads), d_model, D_QK))
    w_v, w_o = np.zeros((len(heads), d_model, width)), np.zeros((len(heads), width, d_model))
    w_k[:, n_terms:] = -towards_query
    for head, (bundle, start) in enumerate(heads):
        part = slice(start, min(start + width, bundle.w_v.shape[1]))
        size = part.stop - part.start
        w_q[head, n_terms:, 0] = bundle.scores
        w_v[head, :n_terms, :size] = bundle.w_v[:, part]
        w_o[head, :size, :n_terms] = bundle.w_o[part]
    parts = {"embedding": embedding, "w_q": w_q, "w_k": w_k, "w_v": w_v, "w_o": w_o, "unembedding": unembedding}
    return host_layer(n_keys, precision, parts)
