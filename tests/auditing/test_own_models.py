"""Language models of our own, whose facts are known: the audit against the truth and against their own forward pass."""

import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from typer.testing import CliRunner

from factrank import save, train_many
from factrank.auditing import audit, extract, facts_in_weights, open_language_model
from factrank.auditing.token_circuits import token_circuits
from factrank.auditing.token_names import TokenTable, token_numbers
from factrank.cli import app
from factrank.databases import Database
from factrank.errors import InputError
from factrank.experiments.specs import Training, Trial, generated
from factrank.families.language import LanguageShape, Sentences, export_language_model, init_language_model, token_words
from factrank.nn import on_device

DATA = Sentences(generated("uniform", n_keys=6, n_queries=2, n_values=4, seed=0), templates=1, shuffled=True)
SHAPE = LanguageShape(16, 2, 4, 6, context=10)
LLAMA = LanguageShape(12, 3, 4, 4, n_layers=2, mlp_width=8, context=10)


@pytest.fixture(scope="module")
def trained():
    """A model with d_qk = 4 and d_vo = 6 that has learned 12 facts."""
    training = Training(epochs=400, batch_size=32, learning_rate=0.02)
    (result,) = train_many([Trial(DATA, SHAPE, training, (), seed=0)])
    assert result.metrics["recall"] == 1
    return result


def random_model(shape):
    model, rng = init_language_model(shape, 14, key=1), np.random.default_rng(0)
    return jax.tree.map(lambda leaf: leaf * jnp.asarray(rng.uniform(0.5, 2, leaf.shape), leaf.dtype), model)


def own_logits(model, tokens, removed=()):
    """Logits of the model after two tokens, without parts, times the root mean square of its last state."""
    with jax.default_matmul_precision("highest"):
        model = on_device(model)
        return np.asarray(model.states(jnp.asarray(tokens)[None], removed)[0, -1] @ model.outputs.T)


def test_a_trained_table_is_recalled_by_the_path_as_by_the_model(trained):
    database = DATA.build()
    opened = open_language_model(trained, DATA)
    found = facts_in_weights(opened, table=database).recalls[0]
    numbers = token_numbers(opened)
    keys, queries, values = TokenTable(database).numbers(numbers)
    logits = [own_logits(trained.weights, [keys[k], queries[q]])[values] for k, q, _ in database.triples]
    right = [row.argmax() == v for row, v in zip(logits, database.triples[:, 2], strict=True)]
    assert np.array_equal(found.right[:, -2], right)
    assert found.whole == 1
    assert found.direct < 0.6  # the direct path does not read the key
    other = [(k, q, database.values[(database.values.index(v) + 1) % 4]) for k, q, v in named(database)]
    assert facts_in_weights(opened, table=Database.from_facts(other)).recalls[0].whole < 0.5  # some tables lack a value


def named(database):
    return [
        tuple(axis[code] for axis, code in zip(database.vocabularies, fact, strict=True))
        for fact in database.triples.tolist()
    ]


@pytest.mark.parametrize("shape", [SHAPE, LLAMA], ids=["d_vo above d_qk", "Llama"])
def test_paths_are_the_forward_pass_without_other_parts(shape):
    """The path of a layer is the model without its MLPs and its other layers, on two tokens."""
    model = random_model(shape)
    opened = open_language_model(model)
    for layer in range(shape.n_layers):
        others = [
            (part, n)
            for n in range(shape.n_layers)
            for part in ("attention", "mlp")
            if (part, n) != ("attention", layer)
        ]
        found = token_circuits(opened, layer, [3, 7], [5], range(14)).logits(slice(0, 2))[:, 0]
        for key, row in zip([3, 7], found, strict=True):
            theirs = own_logits(model, [key, 5], others)
            scale = (row @ theirs) / (theirs @ theirs)
            assert scale > 0  # the length of the last state, which no answer depends on
            np.testing.assert_allclose(row, scale * theirs, atol=2e-5 * np.abs(row).max())


def test_spectra_are_those_of_the_weights():
    """QK and OV as dense matrices, from the weights of the model itself."""
    model = random_model(SHAPE)
    for head, found in enumerate(audit(model).heads):
        qk = np.asarray(model.w_q[0, head], float) @ np.asarray(model.w_k[0, head], float).T / 2
        ov = np.asarray(model.w_v[0, head], float) @ np.asarray(model.w_o[0, head], float)
        np.testing.assert_allclose(found.qk.values, np.linalg.svd(qk, compute_uv=False)[:4], rtol=1e-6)
        np.testing.assert_allclose(found.ov.values, np.linalg.svd(ov, compute_uv=False)[:6], rtol=1e-6)
    learned = audit(random_model(LanguageShape(12, 2, 4, 6, context=10, positions="learned")))
    assert "learned positions are left out" in learned.layers[0].convention
    assert not learned.heads[0].distances


def test_files_and_folders_are_audited_like_the_model(trained, tmp_path):
    database = DATA.build()
    save(tmp_path / "own.safetensors", trained, DATA)
    inside, saved = audit(trained), audit(tmp_path / "own.safetensors")
    assert [head.ov.values for head in saved.heads] == [head.ov.values for head in inside.heads]
    assert facts_in_weights(tmp_path / "own.safetensors", table=database).recalls[0].whole == 1
    (tmp_path / "facts.csv").write_text("key,query,value\n" + "".join(f"{','.join(f)}\n" for f in named(database)))
    run = CliRunner().invoke(
        app, ["audit", str(tmp_path / "own.safetensors"), "--table", str(tmp_path / "facts.csv"), "--json"]
    )
    assert json.loads(run.stdout)["facts"]["recalls"][0]["whole"] == 1
    model = random_model(LLAMA)
    export_language_model(tmp_path / "llama", model, DATA)
    folder, memory = audit(tmp_path / "llama"), audit(model)
    assert [head.qk.values for head in folder.heads] == [head.qk.values for head in memory.heads]
    opened = open_language_model(model, DATA)
    assert extract(tmp_path / "llama", 1, tokens=["k0", "k1", "v2"]) == extract(opened, 1, tokens=["k0", "k1", "v2"])


def test_a_name_that_is_also_a_value_is_no_single_token(tmp_path):
    """The tokens of both roles differ; the one of the name would answer for the value."""
    database = Database.from_facts([("Oslo", "near", "Bergen"), ("Bergen", "near", "Oslo")])
    model = init_language_model(LLAMA, 7, key=0)
    expected = ("<blank>", "Bergen (1)", "Oslo (2)", ".", "near", "Bergen (5)", "Oslo (6)")
    assert token_words(model, database) == expected
    for source in (open_language_model(model, database), export_language_model(tmp_path, model, database)):
        with pytest.raises(InputError, match=r"'(Oslo|Bergen)' is not a single token of the model"):
            facts_in_weights(source, table=database)


def test_other_objects_are_refused(tmp_path):
    with pytest.raises(InputError, match="expected a checkpoint or a language model; got int"):
        audit(7)
    CliRunner().invoke(app, ["construct", "sample:astrid", "-o", str(tmp_path / "layer.safetensors")])
    with pytest.raises(InputError, match=r"layer.safetensors: the model is no language model"):
        audit(tmp_path / "layer.safetensors")
