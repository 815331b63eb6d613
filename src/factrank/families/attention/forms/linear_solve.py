r"""Linear solve: random embeddings and attention, and one least-squares problem for everything else.

Embeddings (d coordinates), W_Q and W_K are random, so the attention weights $A^h[k,q]$ are known numbers. Heads of
width 1 read $x_t \cdot w_h$ and write it to one more coordinate, in which every query has a free number $g_q$:

$$y(k,q) = g_q + \sum_h \bigl(A^h x_k + (1 - A^h) x_q\bigr) \cdot w_h$$

is linear in $(g, w_1, \dots, w_H)$. Its features have generic rank $\min(KQ, H \min(d, K + Q - 1) + Q)$ (theorem of
Mahdavi, Liao and Thrampoulidis, arXiv 2306.02010, for contexts of two tokens; there x_q is the last feature, here g_q),
which is the number of facts that can be solved for: $y(k,q) = x_{f(k,q)}$ with centred integer labels x_v, by least
norm. The last of the d coordinates is 1 for queries, and the unembedding

$$L[k,q,v] = 1 + 2 x_v y - x_v^2$$

has a margin of at least $1 - 2|y - x_f|$, also over values that no fact uses, whose logits are 0. There is one fact per
solved number and about seven parameters per fact: the reference cost of storing facts with untrained attention.

Cancellation of large terms rules out a proof in float32 (although the forward pass recalls nearly all facts): float64
only.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float

from factrank.databases import Database
from factrank.errors import InputError
from factrank.families.attention.attention_layer import AttentionLayer
from factrank.families.attention.forms.binary_codes import used_values
from factrank.families.attention.forms.construction import Built, ClosedForm, FormSearch, host_layer
from factrank.families.attention.layer_shape import LayerShape
from factrank.nn import Precision

MOST_FACTS = 2_000
"""The time of the solve grows with the cube of the number of facts."""

SPARE = 1.1
"""Unknowns per fact: at 1 the problem is ill-conditioned."""

FEATURES = (8, 16, 32)
SCORE_SPREAD = 2.0
"""Standard deviation of the scores."""

LARGEST_ERROR = 0.1
TRIES = 3


class LinearSolve(ClosedForm):
    """The form `linear-solve`."""

    name = "linear-solve"

    def _limit(self, database: Database, precision: Precision) -> str | None:
        if precision != "float64":
            return f"large terms that cancel cannot be proved right in {precision}; it takes float64"
        if database.n_facts > MOST_FACTS:
            return f"{database.n_facts:,} facts are too many for a dense solve; at most {MOST_FACTS:,}"
        return None

    def shape(self, database: Database, precision: Precision) -> LayerShape:
        """Return the features and heads with the fewest parameters among those with spare unknowns."""
        wanted = SPARE * database.n_facts - database.n_queries
        shapes = []
        for d in FEATURES:
            per_head = min(d, database.n_keys + database.n_queries - 1)
            shapes.append(LayerShape(d + 1, max(int(np.ceil(wanted / per_head)), 1), 1, 1))
        return min(shapes, key=lambda shape: shape.parameters(*database.shape))

    def _build(self, database: Database, precision: Precision, search: FormSearch) -> Built:
        rng, shape = np.random.default_rng(search.seed), self.shape(database, precision)
        errors = []
        for _ in range(TRIES):
            layer, error = solved_layer(database, shape, precision, rng)
            if error <= LARGEST_ERROR:
                return Built(layer, self.name)
            errors.append(error)
        raise InputError(f"{self.name}: no random attention solves this table; the least error was {min(errors):.2g}")


def solved_layer(
    database: Database, shape: LayerShape, precision: Precision, rng: np.random.Generator
) -> tuple[AttentionLayer, float]:
    """Return a layer with random attention and the least-squares solution, and the largest error of y on the facts."""
    d, n_keys = shape.d_model - 1, database.n_keys
    tokens = rng.normal(size=(n_keys + database.n_queries, d))
    tokens[n_keys:, -1] = 1.0
    w_q, w_k = rng.normal(size=(2, shape.n_heads, d, shape.d_qk))
    # A score is a sum of d_qk products of variance d x 2d, over sqrt(d_qk).
    w_q *= SCORE_SPREAD / (d * np.sqrt(2.0))
    labels = np.zeros(database.n_values)
    used = used_values(database)
    labels[used] = np.arange(len(used)) - len(used) // 2
    features, target = _features(database, tokens, w_q, w_k), labels[database.triples[:, 2]]
    solution = np.linalg.lstsq(features, target, rcond=None)[0]
    error = float(np.abs(features @ solution - target).max())
    embedding = np.zeros((len(tokens), d + 1))
    embedding[:, :d], embedding[n_keys:, d] = tokens, solution[shape.n_heads * d :]
    unembedding = np.zeros((d + 1, database.n_values))
    unembedding[d - 1, used], unembedding[d, used] = 1 - labels[used] ** 2, 2 * labels[used]
    w_v = solution[: shape.n_heads * d].reshape(shape.n_heads, d, 1)
    w_o = np.zeros((shape.n_heads, 1, d + 1))
    w_o[:, :, d] = 1.0
    heads = {"w_q": _unread(w_q), "w_k": _unread(w_k), "w_v": _unread(w_v), "w_o": w_o}
    return host_layer(n_keys, precision, {"embedding": embedding, **heads, "unembedding": unembedding}), error


def _features(
    database: Database,
    tokens: Float[np.ndarray, "tokens d"],
    w_q: Float[np.ndarray, "heads d d_qk"],
    w_k: Float[np.ndarray, "heads d d_qk"],
) -> Float[np.ndarray, "facts features"]:
    """Return the inputs of the heads for every fact, and a one-hot code of its query."""
    keys, queries, _ = database.triples.T
    rows = database.n_keys + queries
    asked = np.einsum("qd,hde->qhe", tokens[database.n_keys :], w_q)[queries]
    offered = np.einsum("td,hde->the", tokens, w_k)
    scores = np.einsum("nhe,nhe->nh", asked, offered[keys] - offered[rows]) / np.sqrt(w_q.shape[2])
    weights = (1 / (1 + np.exp(-scores)))[..., None]
    read = weights * tokens[keys][:, None] + (1 - weights) * tokens[rows][:, None]
    return np.concatenate([read.reshape(len(keys), -1), np.eye(database.n_queries)[queries]], axis=1)


def _unread(weights: Float[np.ndarray, "heads d width"]) -> Float[np.ndarray, "heads d_model width"]:
    """Append a row of zeros for the last coordinate, which heads write but do not read."""
    return np.pad(weights, ((0, 0), (0, 1), (0, 0)))
