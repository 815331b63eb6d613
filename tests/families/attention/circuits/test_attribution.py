import jax
import jax.numpy as jnp
import numpy as np
import pytest

from factrank.errors import InputError
from factrank.families.attention.attention_layer import layer_from_arrays
from factrank.families.attention.circuits.attribution import attribute, attribute_facts
from factrank.families.attention.pair_transformer import TransformerShape, init_transformer
from factrank.readouts import evaluation_blocks as blocks
from factrank.readouts.recall_report import margins_of
from planted_layers import Table, circle_layer, numbered, random_facts, random_layer

SHAPE = (7, 5, 6)


def slow_paths(layer, key, query):
    """What each path writes at one pair, straight from the weights."""
    e, u = np.asarray(layer.embedding, dtype=np.float64), np.asarray(layer.unembedding, dtype=np.float64)
    w_q, w_k, w_v, w_o = (np.asarray(w, dtype=np.float64) for w in (layer.w_q, layer.w_k, layer.w_v, layer.w_o))
    x_k, x_q = e[key], e[layer.n_keys + query]
    paths = [x_q @ u]
    for head in range(len(w_q)):
        score = (x_q @ w_q[head]) @ ((x_k - x_q) @ w_k[head]) / np.sqrt(w_q.shape[2])
        weight = 1 / (1 + np.exp(-score))
        paths.append((weight * x_k + (1 - weight) * x_q) @ w_v[head] @ w_o[head] @ u)
    return np.array(paths)


@pytest.mark.parametrize("most", [1, 3])
@pytest.mark.parametrize("cells", [2**22, 50])
def test_contributions_add_up_to_the_margin(most, cells, monkeypatch):
    monkeypatch.setattr(blocks, "BLOCK_CELLS", cells)
    database, layer = random_facts(SHAPE, 23, most=most), random_layer((6, 3, 3, 2), SHAPE)
    found = attribute_facts(layer, database)
    np.testing.assert_allclose(found.direct + found.heads.sum(axis=1), found.margins, atol=1e-5)
    np.testing.assert_allclose(found.margins, margins_of(layer, database).margins, atol=1e-5)


@pytest.mark.parametrize("most", [1, 3])
def test_contributions_and_lone_paths_against_a_loop(most):
    database, layer = random_facts(SHAPE, 23, seed=2, most=most), random_layer((6, 3, 3, 2), SHAPE, seed=5)
    found, additive = attribute_facts(layer, database), 0
    for fact, (key, query, _) in enumerate(database.triples.tolist()):
        fiber = [v for k, q, v in database.triples.tolist() if (k, q) == (key, query)]
        rest = [v for v in range(6) if v not in fiber]
        paths = slow_paths(layer, key, query)
        total = paths.sum(axis=0)
        value, rival = min(fiber, key=lambda v: total[v]), max(rest, key=lambda v: total[v])
        np.testing.assert_allclose(found.direct[fact], paths[0, value] - paths[0, rival], atol=1e-4)
        np.testing.assert_allclose(found.heads[fact], paths[1:, value] - paths[1:, rival], atol=1e-4)
        alone = [min(path[fiber]) > max(path[rest]) for path in paths]
        assert found.right_alone[fact].tolist() == alone
        additive += min(total[fiber]) > max(total[rest]) and not any(alone)
    assert found.additive_share == additive / len(database)
    assert found.direct_alone == found.right_alone[:, 0].mean()
    assert found.to_dict()["heads_alone"] == [found.right_alone[:, head].mean() for head in (1, 2, 3)]


def planted(direct, at_key):
    """A layer for one query: direct logits, and one saturated head per row of `at_key` that reads the only key."""
    n_heads, n_values = at_key.shape
    width = (n_heads + 1) * n_values + 1  # the query's logits, what each head reads, the constant of the query
    embedding = np.zeros((2, width))
    embedding[1, :n_values], embedding[1, -1] = direct, 1.0
    embedding[0, n_values:-1] = at_key.ravel()
    w_q, w_k = np.zeros((n_heads, width, 1)), np.zeros((n_heads, width, 1))
    w_q[:, -1, 0], w_k[:, -1, 0] = 104.0, -1.0
    w_v, w_o = np.zeros((n_heads, width, n_values)), np.zeros((n_heads, n_values, width))
    for head in range(n_heads):
        w_v[head, (head + 1) * n_values : (head + 2) * n_values] = np.eye(n_values)
        w_o[head, :, :n_values] = np.eye(n_values)
    unembedding = np.zeros((width, n_values))
    unembedding[:n_values] = np.eye(n_values)
    parts = {"embedding": embedding, "w_q": w_q, "w_k": w_k, "w_v": w_v, "w_o": w_o, "unembedding": unembedding}
    return layer_from_arrays(1, **{name: jnp.asarray(part, jnp.float32) for name, part in parts.items()})


@pytest.mark.parametrize(
    ("direct", "heads", "alone", "additive"),
    [
        ([3, 0, 0], [[0, 1, 0], [0, 0, 1]], [1, 0, 0], 0.0),
        ([0, 1, 0], [[3, 0, 0], [0, 0, 1]], [0, 1, 0], 0.0),
        ([2, 3, 0], [[2, 0, 3], [0, 0, 0]], [0, 0, 0], 1.0),
        ([2, 2, 0], [[2, 0, 2], [0, 0, 0]], [0, 0, 0], 1.0),  # ties alone are wrong
        ([0, 3, 0], [[1, 0, 0], [0, 0, 0]], [0, 1, 0], 0.0),  # the head is right, the sum is not
    ],
)
def test_direct_alone_one_head_alone_only_the_sum(direct, heads, alone, additive):
    layer = planted(np.array(direct), np.array(heads))
    found = attribute_facts(layer, numbered([(0, 0, 0)], (1, 1, 3)))
    assert [found.direct_alone, *found.heads_alone] == alone
    assert found.additive_share == additive
    pair = attribute(layer, 0, 0, 0)
    assert pair.margin == found.margins[0] == pair.direct + sum(pair.heads)
    paths = np.array([direct, *heads])
    assert pair.direct == paths[0, 0] - paths[0, pair.competitor]
    assert list(pair.heads) == (paths[1:, 0] - paths[1:, pair.competitor]).tolist()


def test_heads_of_a_planted_layer_hold_one_query_each():
    database = random_facts((9, 4, 6), 30, seed=3)
    found = attribute_facts(circle_layer(database), database)
    assert found.direct_alone == 0.0
    assert found.additive_share == 0.0
    assert found.heads_alone == pytest.approx([np.mean(database.triples[:, 1] == head) for head in range(4)])


def test_one_pair_defaults_to_the_answer():
    layer = random_layer((6, 3, 3, 2), SHAPE, seed=6)
    logits = np.asarray(layer.tensor())
    for key, query in ((0, 0), (6, 4), (2, 3)):
        found = attribute(layer, key, query)
        order = np.argsort(-logits[key, query])
        assert (found.value, found.competitor) == tuple(order[:2])
        assert found.margin == pytest.approx(logits[key, query][order[0]] - logits[key, query][order[1]], abs=1e-5)
        assert found.margin == pytest.approx(found.direct + sum(found.heads), abs=1e-5)
        assert attribute(layer, key, query, int(order[0])) == found
        assert attribute(layer, key, query, int(order[3])).competitor == order[0]


def test_without_a_competitor_the_margin_is_infinite():
    layer = random_layer((4, 1, 2, 2), (3, 2, 1))
    found = attribute(layer, 1, 1)
    assert (found.value, found.competitor, found.margin) == (0, None, np.inf)
    assert np.isnan(found.direct)
    assert attribute_facts(layer, numbered([(0, 0, 0)], (3, 2, 1))).direct_alone == 1.0


def test_a_competitor_of_ones_own():
    layer = random_layer((6, 3, 3, 2), SHAPE, seed=6)
    paths = slow_paths(layer, 2, 3)
    for value, competitor in ((0, 4), (5, 1)):
        found = attribute(layer, 2, 3, value, competitor)
        assert (found.value, found.competitor) == (value, competitor)
        np.testing.assert_allclose([found.direct, *found.heads], paths[:, value] - paths[:, competitor], atol=1e-4)
        assert found.margin == pytest.approx(found.direct + sum(found.heads), abs=1e-5)
    with pytest.raises(InputError, match="must differ"):
        attribute(layer, 2, 3, 1, 1)


def test_no_facts():
    """As in recall, of no facts all are right, and none needs more than one path."""
    found = attribute_facts(random_layer((4, 2, 2, 2), SHAPE), numbered([], SHAPE))
    assert found.to_dict() == {"facts": 0, "additive_share": 0.0, "direct_alone": 1.0, "heads_alone": [1.0, 1.0]}


def test_linear_attention_adds_up_too():
    model = init_transformer(TransformerShape(6, 2, 3, 2, attention="linear"), *SHAPE, key=jax.random.key(1))
    database = random_facts(SHAPE, 20)
    found = attribute_facts(model, database)
    np.testing.assert_allclose(found.margins, margins_of(model, database).margins, atol=1e-5)
    np.testing.assert_allclose(found.direct + found.heads.sum(axis=1), found.margins, atol=1e-5)


def test_mistakes_are_named():
    layer = random_layer((6, 2, 3, 2), SHAPE)
    for wrong, name in (((7, 0), "key"), ((0, -1), "query"), ((0, 0, 6), "value"), ((0, 0, 0, 6), "value")):
        with pytest.raises(InputError, match=f"the {name} must be an integer code"):
            attribute(layer, *wrong)
    with pytest.raises(InputError, match="not a sum of a direct path and heads"):
        attribute(Table(jnp.zeros((2, 2, 2))), 0, 0)
    with pytest.raises(InputError, match="the database has"):
        attribute_facts(layer, random_facts((3, 3, 3), 2))
    deep = init_transformer(TransformerShape(4, 1, 2, 2, n_layers=2), *SHAPE, key=jax.random.key(0))
    with pytest.raises(InputError, match="several layers"):
        attribute_facts(deep, random_facts(SHAPE, 2))


@pytest.mark.parametrize("code", [0.5, 1.0, True, "0", None, np.float32(1)])
def test_codes_are_integers(code):
    """Checked without runtime annotations, as users run it; JAX would clamp what does not exist."""
    with pytest.raises(InputError, match="the key must be an integer code from 0 to 6"):
        blocks.require_code("key", code, 7)
    assert blocks.require_code("key", np.int64(6), 7) == 6
