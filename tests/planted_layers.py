"""Models with known answers: a table of logits, and layers built by hand."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from factrank.databases.database import Database
from factrank.databases.vocabulary import Vocabulary
from factrank.families.attention.attention_layer import AttentionLayer, init_layer, layer_from_arrays
from factrank.families.attention.layer_shape import LayerShape


class Table(eqx.Module):
    """The plainest model: its logits are a table."""

    table: Float[Array, "keys queries values"]

    @property
    def n_keys(self):
        return self.table.shape[0]

    @property
    def n_queries(self):
        return self.table.shape[1]

    @property
    def n_values(self):
        return self.table.shape[2]

    def logits(self, keys, queries):
        return self.table[keys, queries]


def numbered(triples, shape):
    vocabularies = (Vocabulary.numbered(prefix, size) for prefix, size in zip("kqv", shape, strict=True))
    return Database(np.array(triples, dtype=np.int32).reshape(-1, 3), *vocabularies)


def random_facts(shape, n_fibers, seed=0, most=1):
    """A database on random fibers; each has 1 to `most` values."""
    rng = np.random.default_rng(seed)
    fibers = rng.choice(shape[0] * shape[1], n_fibers, replace=False)
    triples = [
        (pair // shape[1], pair % shape[1], value)
        for pair in fibers
        for value in rng.choice(shape[2], rng.integers(1, most + 1), replace=False)
    ]
    return numbered(triples, shape)


def random_layer(shape, database_shape, seed=0) -> AttentionLayer:
    return init_layer(LayerShape(*shape), *database_shape, key=jax.random.key(seed))


def circle_layer(database, scale=1.0, sharpness=104.0):
    """One head per query, values as points on a circle, zero where there is no fact: logits scale * cos(t_f - t_v)."""
    n_keys, n_queries, n_values = database.shape
    angles = 2 * np.pi * np.arange(n_values) / n_values
    codes = np.column_stack([np.cos(angles), np.sin(angles)])
    width = 3 * n_queries
    embedding = np.zeros((n_keys + n_queries, width))
    for key, query, value in database.triples:
        embedding[key, 2 * query : 2 * query + 2] = codes[value]
    one_hot = slice(2 * n_queries, width)
    embedding[n_keys:, one_hot] = np.eye(n_queries)
    w_q, w_k = np.zeros((n_queries, width, 1)), np.zeros((n_queries, width, 1))
    w_v, w_o = np.zeros((n_queries, width, 2)), np.zeros((n_queries, 2, width))
    for head in range(n_queries):
        w_q[head, one_hot, 0], w_k[head, one_hot, 0] = -sharpness, -1.0
        w_q[head, 2 * n_queries + head, 0] = sharpness
        w_v[head, 2 * head : 2 * head + 2] = np.eye(2)
        w_o[head, :, :2] = np.eye(2)
    unembedding = np.zeros((width, n_values))
    unembedding[:2] = scale * codes.T
    weights = {
        "embedding": embedding,
        "w_q": w_q,
        "w_k": w_k,
        "w_v": w_v,
        "w_o": w_o,
        "unembedding": unembedding,
    }
    return layer_from_arrays(n_keys, **{name: jnp.asarray(part, jnp.float32) for name, part in weights.items()})


def sufficient_scale(n_values, tau):
    """Twice what makes softmax>=tau of the circle code right."""
    return 2 * np.log((n_values - 1) * tau / (1 - tau)) / (2 * np.sin(np.pi / n_values) ** 2)
