r"""Shared tokens: binary codes in which a name that is both key and query has a single embedding row.

The row of such a token t contains its facts as a key, the blocks $u_{f(t,h)}$ for every query h, and its routing as a
query. To keep the two from interfering (one head per query, words of b signs as in `binary_codes`):

Routing. Each shared token has its own sign vector $r_t \in \{-1, 1\}^w$; all other queries share one more, since they
are never keys; pure keys are at the origin. A one-hot code of the query in Q coordinates gives
$x_q W_K = r_q$ and $x_q W_Q^h = -c\, s^h_q\, r_q$ with $s = \pm 1$ as in `query_routing`, so the score

$$-c\, s^h_q\, r_q \cdot (r_k - r_q)/\sqrt w = c\, s^h_q\, \delta/\sqrt w$$

has the right sign and saturates, unless k = q: $\delta$ is twice the distance between $r_q$ and $r_k$, or w for pure
keys.

Direct path. Heads copy to a separate output block. For every query h other than q they read the query and write
$u_{f(q,h)}$, which the row of q cancels by storing $-\sum_{h \ne q} u_{f(q,h)}$ in the output block, so the final
stream is $u_{f(k,q)}$. If k = q, attention does not matter: every head writes $u_{f(q,h)}$, and the remainder is again
$u_{f(q,q)}$.

The margin is exactly the margin of the words, 2 dist >= 2 (values that no fact uses have logit 0, the others an
additional bias of b + 1, read from the one-hot code). d_model = (Q + 1) b + Q, d_qk = w = max(1, ceil(log2 m)) for m
distinct vectors, d_vo = b, H = Q. For a missing entry, all values in use tie.
"""

from __future__ import annotations

from math import ceil, sqrt
from typing import Any, cast

import numpy as np
from jaxtyping import Float, Int

from factrank.databases import Database
from factrank.errors import InputError
from factrank.families.attention.forms.binary_codes import code_words, used_queries, used_values
from factrank.families.attention.forms.building import SATURATION, STRENGTHS, bits_for
from factrank.families.attention.forms.construction import table_refusal
from factrank.families.attention.pair_transformer import Block, PairTransformer, TransformerShape, shared_rows
from factrank.nn import SIGNIFICAND, Precision, dtype_of


def _sizes(database: Database) -> tuple[int, int, int]:
    """Return the number of heads, and the lengths of words and of sign vectors."""
    rows = shared_rows(tuple(database.keys), tuple(database.queries))
    n_shared = sum(row < database.n_keys for row in rows)
    n_vectors = n_shared + (n_shared < database.n_queries)
    return len(used_queries(database)), bits_for(len(used_values(database))), bits_for(n_vectors)


def shared_token_refusal(database: Database, precision: Precision) -> str | None:
    """Return why the database cannot be stored with shared tokens in this precision; None if it can.

    Scores must stay saturated, and integers exact, under any evaluation order.
    """
    refused = table_refusal(database)
    if refused is not None:
        return refused
    n_heads, bits, d_qk = _sizes(database)
    rounding = (d_qk + 3) * 2.0 ** -SIGNIFICAND[precision]
    if rounding * d_qk > (1 - rounding) / 2:
        return f"attention between tokens with sign vectors of length {d_qk} is not exact in {precision}"
    if 2 * bits * (n_heads + 1) > 2 ** SIGNIFICAND[precision]:
        return f"sums over {n_heads} queries are not exact in {precision}"
    return None


def shared_token_shape(database: Database) -> TransformerShape:
    """Return the shape of the model."""
    n_heads, bits, d_qk = _sizes(database)
    return TransformerShape((n_heads + 1) * bits + database.n_queries, n_heads, d_qk, bits, share_tokens=True)


def shared_token_model(database: Database, precision: Precision) -> PairTransformer:
    """Build the model with NumPy arrays on the host; an `InputError` if it is refused.

    >>> table = [("Astrid", "mother", "Ingrid"), ("mother", "born_in", "Malmo"), ("Astrid", "born_in", "Lund")]
    >>> model = shared_token_model(Database.from_facts(table), "float32")
    >>> model.embedding.shape[0], int(model(1, 1).argmax())
    (3, 1)
    """
    reason = shared_token_refusal(database, precision)
    if reason is not None:
        raise InputError(f"shared tokens: {reason}")
    shape, dtype = shared_token_shape(database), dtype_of(precision)
    rows = np.array(shared_rows(tuple(database.keys), tuple(database.queries)), dtype=np.int32)
    heads, values = used_queries(database), used_values(database)
    words = code_words(np.arange(len(values)), shape.d_vo)
    blocks, output = np.arange(len(heads) * shape.d_vo).reshape(len(heads), -1), len(heads) * shape.d_vo
    embedding = np.zeros((max(database.n_keys, int(rows.max()) + 1), shape.d_model))
    key, query, value = database.triples.T
    columns = blocks[np.searchsorted(heads, query)]
    embedding[key[:, None], columns] = words[np.searchsorted(values, value)]
    written = embedding[:, blocks]
    embedding[rows, output : output + shape.d_vo] = _taken_back(written[rows], heads)
    one_hot = np.arange(database.n_queries) + output + shape.d_vo
    embedding[rows, one_hot] = 1.0
    unembedding = np.zeros((shape.d_model, database.n_values))
    unembedding[output : output + shape.d_vo, values] = words.T
    if len(values) < database.n_values:
        unembedding[np.ix_(one_hot, values)] = shape.d_vo + 1
    w_v, w_o = np.zeros((2, shape.n_heads, shape.d_model, shape.d_vo))
    for head, block in enumerate(blocks):
        w_v[head, block, np.arange(shape.d_vo)] = 1.0
        w_o[head, output + np.arange(shape.d_vo), np.arange(shape.d_vo)] = 1.0
    w_q, w_k = _routing(shape, rows < database.n_keys, heads, one_hot, precision)
    heads_parts = {"w_q": w_q, "w_k": w_k, "w_v": w_v, "w_o": w_o.transpose(0, 2, 1)}
    parts: dict[str, Any] = {name: part.astype(dtype) for name, part in heads_parts.items()}
    return PairTransformer(
        embedding=cast("Any", embedding.astype(dtype)),
        query_rows=cast("Any", rows),
        positions=None,
        blocks=(Block(**parts, attention_norm=None, mlp_norm=None, mlp=None, attention="softmax"),),
        final_norm=None,
        unembedding=cast("Any", unembedding.astype(dtype)),
        n_keys=database.n_keys,
        shape=shape,
    )


def _taken_back(
    written: Float[np.ndarray, "queries heads bits"], heads: Int[np.ndarray, " heads"]
) -> Float[np.ndarray, "queries bits"]:
    """Return minus the output of each query's row as a key, through all heads except its own."""
    own = np.zeros((len(written), written.shape[2]))
    own[heads] = written[heads, np.arange(len(heads))]
    return np.asarray(own - written.sum(axis=1))


def _routing(
    shape: TransformerShape,
    shared: np.ndarray,
    heads: Int[np.ndarray, " heads"],
    one_hot: Int[np.ndarray, " queries"],
    precision: Precision,
) -> tuple[Float[np.ndarray, "heads d_model d_qk"], Float[np.ndarray, "heads d_model d_qk"]]:
    """Return W_Q and W_K: sign vectors at twice the strength of saturation, half of which rounding may consume."""
    vector_of = np.where(shared, np.cumsum(shared) - 1, int(shared.sum()))
    vectors = code_words(vector_of, shape.d_qk)
    towards_query = STRENGTHS[precision][1]
    nearest = min(2, shape.d_qk)
    towards_key = ceil(2 * SATURATION[precision] * sqrt(shape.d_qk) / (nearest * towards_query))
    signs = np.full((len(heads), len(vectors)), -1.0)
    signs[np.arange(len(heads)), heads] = 1.0
    w_q, w_k = np.zeros((2, len(heads), shape.d_model, shape.d_qk))
    w_q[:, one_hot] = -towards_key * signs[:, :, None] * vectors
    w_k[:, one_hot] = towards_query * vectors
    return w_q, w_k
