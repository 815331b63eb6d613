from math import nan

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import pytest

from factrank.errors import InputError
from factrank.readouts import evaluation_blocks as blocks
from factrank.readouts.readout import logits_at, softmax_at, threshold_tensor
from factrank.tensors.core.zero_one import ZeroOneTensor
from planted_layers import Table, circle_layer, random_facts, random_layer, sufficient_scale

SHAPE = (7, 5, 6)


def entries(tensor):
    return {tuple(row) for row in tensor.coordinates.tolist()}


def softmax(z):
    powers = np.exp(z - z.max())
    return powers / powers.sum()


@pytest.fixture(params=[2**22, 60], ids=["one block", "many blocks"])
def layer(request, monkeypatch):
    monkeypatch.setattr(blocks, "BLOCK_CELLS", request.param)
    layer = random_layer((6, 2, 3, 2), SHAPE, seed=1)
    return eqx.tree_at(lambda x: x.unembedding, layer, 2 * layer.unembedding)


@pytest.mark.parametrize("tau", [0.02, 0.1, 0.3, 0.5, 0.8])
def test_threshold_against_a_loop(layer, tau):
    logits, found = np.asarray(layer.tensor(), dtype=np.float64), threshold_tensor(layer, tau)
    expected = {(k, q, v) for k in range(7) for q in range(5) for v in range(6) if softmax(logits[k, q])[v] >= tau}
    assert entries(found) == expected
    assert expected
    assert len(found) == len(expected)
    if tau > 0.5:
        assert found.determined[2]


def test_ties_and_what_is_not_a_number_give_no_entry():
    table = Table(jnp.array([[[1.0, 1.0, 0.0], [3.0, 0.0, 0.0], [nan, 0.0, 0.0], [9.0, nan, 0.0]]]))
    assert entries(threshold_tensor(table, 0.3)) == {(0, 0, 0), (0, 0, 1), (0, 1, 0)}


def test_one_value_is_always_the_answer():
    table = Table(jnp.zeros((2, 1, 1)))
    assert entries(threshold_tensor(table, 0.95)) == {(0, 0, 0), (1, 0, 0)}


def test_probabilities_and_logits_of_some_pairs(layer):
    keys, queries = np.array([0, 6, 3, 3]), np.array([4, 0, 2, 2])
    logits = np.asarray(layer.tensor(), dtype=np.float64)
    np.testing.assert_allclose(logits_at(layer, keys, queries), logits[keys, queries], atol=1e-5)
    expected = [softmax(logits[k, q]) for k, q in zip(keys, queries, strict=True)]
    np.testing.assert_allclose(softmax_at(layer, keys, queries), expected, atol=1e-6)
    assert softmax_at(layer, keys[:0], queries[:0]).shape == (0, 6)


@pytest.mark.parametrize("seed", range(3))
def test_the_threshold_tensor_of_a_planted_layer_is_the_database(seed):
    database = random_facts((6, 4, 5), 17, seed=seed)
    tensor = threshold_tensor(circle_layer(database, sufficient_scale(5, 0.95)), 0.95)
    assert entries(tensor) == entries(ZeroOneTensor.of(database))


def test_nothing_is_confident_enough():
    assert len(threshold_tensor(Table(jnp.zeros((2, 3, 4))), 0.95)) == 0


@pytest.mark.parametrize("tau", [-0.1, 0.0, 1.0, nan])
def test_tau_is_a_probability_strictly_between(tau):
    with pytest.raises(InputError, match="tau must be between 0 and 1"):
        threshold_tensor(Table(jnp.zeros((1, 1, 2))), tau)


def test_codes_that_do_not_exist_are_refused():
    """JAX would take the last key for any beyond it."""
    layer, good = random_layer((6, 2, 3, 2), SHAPE), np.array([0, 6])
    assert logits_at(layer, good, np.array([0, 4])).shape == (2, 6)
    for keys, queries, words in (
        (np.array([0, 7]), good * 0, "keys must be integer codes from 0 to 6.* got 0 to 7"),
        (good, np.array([-1, 0]), "queries must be integer codes from 0 to 4.* got -1 to 0"),
    ):
        for read in (logits_at, softmax_at):
            with pytest.raises(InputError, match=words):
                read(layer, keys, queries)
    with pytest.raises(InputError, match="numbers of type float64"):
        blocks.require_pairs(layer, np.array([0.5]), np.array([0]))
