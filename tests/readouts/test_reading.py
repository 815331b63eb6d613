"""Readings against a slow NumPy reference, their ranks against dense ones."""

from dataclasses import dataclass, replace

import equinox as eqx
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest

from factrank.errors import InputError
from factrank.families.attention.circuits.attribution import additive_numbers, attribute_facts
from factrank.families.attention.pair_transformer import TransformerShape, init_transformer
from factrank.readouts import evaluation_blocks as blocks
from factrank.readouts.reading import readings_of, rounded_to, softmax
from factrank.readouts.readout import threshold_tensor
from factrank.readouts.recall_report import margins_of
from factrank.tensors.bounds import Ledger, rank_bounds
from factrank.tensors.core import Core
from factrank.tensors.core.zero_one import ZeroOneTensor
from planted_layers import Table, numbered, random_facts, random_layer

SHAPE = (7, 5, 6)


@dataclass(frozen=True)
class Choice:
    taus: tuple = (0.3, 0.6, 0.95)
    temperatures: tuple = (0.5, 1.0, 2.0)
    precisions: tuple = ("float32", "float64", "bfloat16")
    ranks: bool = True
    cp: bool = False


@pytest.fixture(scope="module")
def layer():
    layer = random_layer((6, 2, 3, 2), SHAPE, seed=1)
    return eqx.tree_at(lambda x: x.unembedding, layer, 2 * layer.unembedding)


def slow_logits(layer, real):
    """All logits from the weights rounded to a format, every step rounded to it."""
    e, u, w_q, w_k, w_v, w_o = (
        np.asarray(part).astype(real)
        for part in (layer.embedding, layer.unembedding, layer.w_q, layer.w_k, layer.w_v, layer.w_o)
    )
    wide = np.result_type(real, np.float32)

    def product(x, y):
        return (x.astype(wide) @ y.astype(wide)).astype(real)

    logits = np.zeros(SHAPE, dtype=real)
    for k in range(SHAPE[0]):
        for q in range(SHAPE[1]):
            x_k, x_q = e[k], e[SHAPE[0] + q]
            stream = x_q
            for h in range(len(w_q)):
                score = product(product(x_q, w_q[h]), product(x_k, w_k[h]) - product(x_q, w_k[h]))
                score = score / np.sqrt(np.array(w_q.shape[2], dtype=real))
                weight = real(1) / (real(1) + np.exp(-score))
                at_key, at_query = (product(product(x, w_v[h]), w_o[h]) for x in (x_k, x_q))
                stream = stream + weight * at_key + (real(1) - weight) * at_query
            logits[k, q] = product(stream, u)
    return logits


def slow_softmax(logits, temperature, real):
    """Row by row and entry by entry."""
    rows = np.empty(logits.shape, dtype=real)
    for at in np.ndindex(logits.shape[:-1]):
        scaled = [real(z / real(temperature)) for z in logits[at]]
        powers = [real(np.exp(np.float64(real(z - max(scaled))))) for z in scaled]
        total = real(sum(np.float64(power) for power in powers))
        rows[at] = [real(power / total) for power in powers]
    return rows


def test_readings_against_a_slow_reference(layer, monkeypatch):
    monkeypatch.setattr(blocks, "BLOCK_CELLS", 60)  # many blocks
    database = random_facts(SHAPE, 20, seed=4, most=2)
    facts = tuple(database.triples.T)
    formats = {"float32": np.float32, "float64": np.float64}
    rows = readings_of(layer, database, Choice(precisions=(*formats,), ranks=False), 0.0)
    assert len(rows) == 18
    for row in rows:
        real = formats[row["precision"]]
        logits = slow_logits(layer, real)
        reached = slow_softmax(logits, row["temperature"], real).astype(np.float64) >= row["tau"]
        assert row["ones"] == reached.sum()
        assert row["recall"] == reached[facts].mean()
        assert row["argmax"] == (margins_of(layer, database).margins > 0).mean()


@pytest.mark.optimised
def test_bfloat16_rounds_weights_pass_and_softmax(layer):
    database, spec = random_facts(SHAPE, 20, seed=4), Choice(precisions=("bfloat16",), ranks=False)
    expected = slow_logits(layer, ml_dtypes.bfloat16).astype(np.float64)
    exact = slow_logits(layer, np.float64)
    table = table_of(rounded_to(layer, "bfloat16")).astype(np.float64)
    assert np.abs(table - exact).max() > 1e-3
    np.testing.assert_allclose(table, expected, atol=0.05 * np.abs(exact).max())
    # Given the logits, the softmax is the reference to the last bit.
    short = table.astype(ml_dtypes.bfloat16)
    for row in readings_of(Table(jnp.asarray(short)), database, spec, 0.0):
        probabilities = slow_softmax(short, row["temperature"], ml_dtypes.bfloat16).astype(np.float64)
        assert row["ones"] == (probabilities >= row["tau"]).sum()
        assert row["recall"] == (probabilities >= row["tau"])[tuple(database.triples.T)].mean()


@eqx.filter_jit
def logits_of(model, keys, queries):
    return model.logits(keys, queries)


def table_of(model):
    keys, queries = np.indices(SHAPE[:2]).reshape(2, -1)
    return np.asarray(logits_of(model, jnp.asarray(keys), jnp.asarray(queries))).reshape(SHAPE)


@pytest.mark.optimised
@pytest.mark.parametrize("real", [np.float32, np.float64, ml_dtypes.bfloat16])
def test_the_softmax_of_a_format(real):
    logits = (4 * np.random.default_rng(0).normal(size=(40, 9))).astype(real)
    for temperature in (0.5, 1.0, 3.0):
        found, slow = softmax(logits, temperature), slow_softmax(logits, temperature, real)
        assert found.dtype == real
        np.testing.assert_allclose(
            found.astype(np.float64), slow.astype(np.float64), rtol=4 * float(ml_dtypes.finfo(real).eps)
        )


def test_a_threshold_is_not_rounded_to_the_precision():
    """0.949... is a number of bfloat16, and so is the nearest to 0.95: below the threshold all the same."""
    short = np.array(np.log(0.949 / 0.051)).astype(ml_dtypes.bfloat16)
    table = Table(jnp.array([[[short, 0.0]]], dtype=jnp.bfloat16))
    probability = float(softmax(np.asarray(table.table)[0], 1.0)[0, 0])
    assert float(ml_dtypes.bfloat16(0.95)) == probability < 0.95
    (row,) = readings_of(table, numbered([(0, 0, 0)], (1, 1, 2)), Choice((0.95,), (1.0,), ("bfloat16",)), 0.0)
    assert (row["recall"], row["argmax"], row["ones"]) == (0.0, 1.0, 0.0)


def test_ranks_of_the_tensors(layer):
    database = random_facts(SHAPE, 30, seed=4)
    for row in readings_of(layer, database, Choice(temperatures=(1.0,), precisions=("float32",)), 5.0):
        tensor = threshold_tensor(layer, row["tau"])
        assert row["ones"] == len(tensor)
        flattenings = [np.moveaxis(tensor.dense(), axis, 0).reshape(SHAPE[axis], -1) for axis in range(3)]
        assert row["flattening"] == max(map(np.linalg.matrix_rank, flattenings))
        bounds = rank_bounds(Core.of(tensor), Ledger(0.0, lambda _: None))
        assert bounds.lower.value <= row["upper"] <= bounds.upper.value
        values = [{(c[axis], c[2]) for c in tensor.coordinates.tolist()} for axis in (0, 1)]
        assert row["proposition"] == min(map(len, values))
        assert row["violates"] == 0.0


def test_a_violation_needs_full_recall_and_too_small_a_rank():
    diagonal = numbered([(i, i, 0) for i in range(3)], (3, 3, 2))
    everywhere = Table(jnp.full((3, 3, 2), 10.0).at[..., 1].set(0.0))
    spec = Choice((0.95,), (1.0, 10.0), ("float32",), cp=True)
    shown, hidden = readings_of(everywhere, diagonal, spec, 3.0)
    names = ("recall", "argmax", "ones", "flattening", "upper", "proposition", "violates", "cp")
    assert [shown[name] for name in names] == [1.0, 1.0, 9.0, 1.0, 1.0, 3.0, 1.0, 1.0]
    assert [hidden[name] for name in names] == [0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]
    assert [row["violates"] for row in readings_of(everywhere, diagonal, spec, 1.0)] == [0.0, 0.0]


def test_a_diverged_model_has_no_numbers(layer):
    broken = eqx.tree_at(lambda x: x.embedding, layer, layer.embedding.at[0, 0].set(jnp.nan))
    for row in readings_of(broken, random_facts(SHAPE, 9), Choice(cp=True), 1.0):
        assert {name for name, number in row.items() if number != number} == set(row) - {
            "precision",
            "temperature",
            "tau",
        }
    assert all(np.isnan(number) for number in additive_numbers(broken, random_facts(SHAPE, 35)).values())


def test_mistakes(layer):
    database = random_facts(SHAPE, 9)
    for wrong, message in (({"taus": (1.5,)}, "tau"), ({"temperatures": (0.0,)}, "temperature")):
        with pytest.raises(InputError, match=message):
            readings_of(layer, database, replace(Choice(), **wrong), 0.0)


def test_additive_numbers_are_those_of_the_attribution(layer):
    database = random_facts(SHAPE, 20, seed=2)
    found, paths = additive_numbers(layer, database), attribute_facts(layer, database)
    assert found == {
        "additive_share": paths.additive_share,
        "direct_alone": paths.direct_alone,
        "heads_alone": max(paths.heads_alone),
    }
    assert additive_numbers(rounded_to(layer, "float64"), database) == pytest.approx(found)
    without_parts = init_transformer(TransformerShape(4, 1, 2, 2, mlp_width=3), *SHAPE, key=0)
    assert all(np.isnan(number) for number in additive_numbers(without_parts, database).values())


def test_weights_of_the_host_are_evaluated_in_their_own_format(layer):
    """NumPy weights in float64 get 64-bit logits, as weights on a device do."""
    exact = margins_of(rounded_to(layer, "float64"), random_facts(SHAPE, 20)).margins
    assert 0 < np.abs(exact - margins_of(layer, random_facts(SHAPE, 20)).margins).max() < 1e-4
    assert not np.array_equal(exact, exact.astype(np.float32))


def test_a_tensor_is_ranked_once(layer, monkeypatch):
    from factrank.readouts import reading

    reading._ranks.cache_clear()
    ranked = []
    monkeypatch.setattr(reading, "proposition_bound", lambda tensor: ranked.append(tensor) or 0)
    rows = readings_of(layer, random_facts(SHAPE, 9), Choice(taus=(0.3, 0.3001, 0.9)), 0.0)
    assert len({(row["ones"], row["flattening"]) for row in rows}) <= len(ranked) < len(rows)
    assert all(isinstance(tensor, ZeroOneTensor) for tensor in ranked)
