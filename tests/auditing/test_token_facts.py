"""Facts in the weights: the path of one layer against `transformers`, planted copying heads, and tables."""

import json

import numpy as np
import pytest
from typer.testing import CliRunner

from factrank.auditing import most_facts
from factrank.auditing.token_circuits import token_circuits
from factrank.auditing.token_facts import extract, facts_in_weights
from factrank.auditing.token_names import TokenTable, frequent_tokens, token_numbers
from factrank.checkpoints.heads import open_model
from factrank.cli import app
from factrank.databases import Database
from factrank.databases.files import read
from factrank.errors import InputError
from planted_models import D_HEAD, HEADS, KV_HEADS, WIDTH, llama_tensors, write_model

WORDS = [f"Ġ{letter}word" for letter in "abcdefghijklmnopqrstuvwxyz"] + ["the", "of", "!", "Ġsolo"]


def named(folder):
    vocabulary = {"model": {"vocab": {word: i for i, word in enumerate(WORDS)}}}
    (folder / "tokenizer.json").write_text(json.dumps(vocabulary), encoding="utf-8")
    return folder


@pytest.mark.parametrize("family", ["Llama", "Qwen3", "Qwen2", "Gemma"])
def test_the_path_of_a_layer_is_that_of_transformers(family, tmp_path):
    """Gemma multiplies embeddings by the root of the width, and its gains are 1 + w."""
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    sizes = {"hidden_size": 24, "intermediate_size": 16, "num_hidden_layers": 1, "vocab_size": 30, "head_dim": 6}
    config = getattr(transformers, f"{family}Config")(
        **sizes, num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=16
    )
    torch.manual_seed(0)
    reference = getattr(transformers, f"{family}ForCausalLM")._from_config(config, attn_implementation="eager").eval()
    with torch.no_grad():
        for weight in reference.parameters():
            weight.copy_(0.5 * torch.randn(weight.shape) + (0.5 if weight.ndim == 1 else 0))
    reference.save_pretrained(tmp_path)
    keys, queries, values = [3, 7, 11], [5, 2], [1, 2, 3, 5, 8]
    found = token_circuits(open_model(tmp_path), 0, keys, queries, values)
    seen = []
    hook = reference.model.layers[0].self_attn.register_forward_hook(lambda _m, _a, out: seen.append(out[0]))
    scale, more = (24**0.5, 1) if family == "Gemma" else (1, 0)
    unembedding = reference.lm_head.weight.double() * (more + reference.model.norm.weight.double())
    for k, key in enumerate(keys):
        for q, query in enumerate(queries):
            with torch.no_grad():
                reference(torch.tensor([[key, query]]))
                written = (seen.pop()[0, -1].double() @ unembedding.T)[values].numpy()
                embedded = scale * reference.model.embed_tokens.weight[query].double()
                direct = (embedded @ unembedding.T)[values].numpy()
            np.testing.assert_allclose(found.logits(slice(k, k + 1))[0, q], written + direct, rtol=1e-4, atol=1e-4)
            heads = sum(found.head_logits(head, slice(k, k + 1))[0, q] for head in range(4))
            np.testing.assert_allclose(heads, written, rtol=1e-4, atol=1e-4)
    hook.remove()


def test_a_planted_copying_head_is_found(tmp_path):
    """OV = embedding-space identity on the head's coordinates: each token raises itself."""
    tensors = llama_tensors()
    basis = np.linalg.qr(np.random.default_rng(3).normal(size=(WIDTH, WIDTH)))[0]
    tensors["model.embed_tokens.weight"] = np.concatenate([basis, basis[:6]]) * 5
    value = tensors["model.layers.0.self_attn.v_proj.weight"].reshape(KV_HEADS, D_HEAD, WIDTH)
    output = tensors["model.layers.0.self_attn.o_proj.weight"].reshape(WIDTH, HEADS, D_HEAD)
    value[0] = basis[:D_HEAD]
    output[:, 1] = 7 * basis[:D_HEAD].T
    output[:, 0] = -7 * basis[:D_HEAD].T
    tensors["model.layers.0.input_layernorm.weight"][:] = 1
    folder = named(write_model(tmp_path / "m", tensors | {"model.norm.weight": np.ones(WIDTH)}))
    (tmp_path / "tokens.txt").write_text("\n".join(word.removeprefix("Ġ") for word in WORDS[:D_HEAD]), encoding="utf-8")
    found = facts_in_weights(folder, layers=[0], tokens=tmp_path / "tokens.txt")
    against, copying = found.heads[0], found.heads[1]
    assert copying.copying == pytest.approx(1)
    assert copying.copied == 1
    assert {entry.key == entry.value for entry in copying.entries} == {True}
    assert against.copying == pytest.approx(-1)
    assert against.copied == 0


@pytest.mark.parametrize("tied", [True, False])
def test_the_direct_path_is_embedding_times_unembedding(tied, tmp_path):
    rng = np.random.default_rng(5)
    tensors = llama_tensors() | {"model.norm.weight": rng.uniform(0.5, 2, WIDTH)}
    tensors |= {} if tied else {"lm_head.weight": rng.normal(size=(30, WIDTH))}
    folder = named(write_model(tmp_path / "m", tensors))
    words = WORDS[3:20]
    found = facts_in_weights(folder, layers=[0], tokens=words).direct
    outer = {name: tensors[name].astype(np.float32).astype(float) for name in tensors if "layers" not in name}
    unembedding = outer.get("lm_head.weight", outer["model.embed_tokens.weight"])[3:20] * outer["model.norm.weight"]
    logits = outer["model.embed_tokens.weight"][3:20] @ unembedding.T
    lead = logits - logits.mean(axis=1, keepdims=True)
    order = np.argsort(-lead, axis=None)[:20]
    expected = [(words[i // 17], words[i % 17], lead.flat[i]) for i in order.tolist()]
    assert [(each.query, each.value) for each in found.entries] == [each[:2] for each in expected]
    np.testing.assert_allclose([each.lead for each in found.entries], [each[2] for each in expected], rtol=1e-6)
    assert found.copied == np.mean(logits.argmax(axis=1) == np.arange(17))
    table = Database.from_facts([(WORDS[0][1:], WORDS[1][1:], WORDS[2][1:])])
    assert facts_in_weights(folder, layers=[0], table=table).direct is None


def test_recall_of_a_table_counts_the_argmax(tmp_path):
    folder = named(write_model(tmp_path / "m", llama_tensors() | {"model.norm.weight": np.ones(WIDTH)}))
    rng = np.random.default_rng(0)
    words = [word.removeprefix("Ġ") for word in WORDS[:9]]
    facts = [(words[k], words[q], words[rng.integers(9)]) for k in range(3) for q in range(3, 6)]
    table = Database.from_facts(facts)
    found = facts_in_weights(folder, table=table).recalls[1]
    model = open_model(folder)
    ids = TokenTable(table).numbers(token_numbers(model))
    circuits = token_circuits(model, 1, *ids)
    whole = circuits.logits(slice(0, 3))
    right = [whole[k, q].argmax() == v for k, q, v in table.triples]
    assert found.whole == np.mean(right)
    alone = circuits.head_logits(2, slice(0, 3))
    assert found.heads[2] == np.mean([alone[k, q].argmax() == v for k, q, v in table.triples])


def test_extracted_tables_are_read_again(tmp_path):
    folder = named(write_model(tmp_path / "m", llama_tensors() | {"model.norm.weight": np.ones(WIDTH)}))
    run = CliRunner().invoke(app, ["extract", str(folder), "-o", str(tmp_path / "facts.parquet"), "--layer", "1"])
    assert run.exit_code == 0
    table = read(tmp_path / "facts.parquet")
    assert table == extract(folder, 1)
    assert table.functional
    assert table.n_facts == len(frequent_tokens(token_numbers(open_model(folder)), 100)) ** 2
    with pytest.raises(InputError, match="the layers are 0 to 1"):
        extract(folder, 5)


def test_names_that_are_no_tokens_are_named(tmp_path):
    folder = named(write_model(tmp_path / "m", llama_tensors() | {"model.norm.weight": np.ones(WIDTH)}))
    (tmp_path / "tokens.txt").write_text("aword\nnowhere\n", encoding="utf-8")
    with pytest.raises(InputError, match=r"tokens.txt, line 2: 'nowhere' is not a single token"):
        facts_in_weights(folder, tokens=tmp_path / "tokens.txt")
    with pytest.raises(InputError, match=r"none.txt: no such file"):
        facts_in_weights(folder, tokens=tmp_path / "none.txt")
    (folder / "tokenizer.json").unlink()
    with pytest.raises(InputError, match="facts need the strings of the tokens"):
        facts_in_weights(folder)


def test_the_command_lists_facts(tmp_path):
    folder = named(write_model(tmp_path / "m", llama_tensors() | {"model.norm.weight": np.ones(WIDTH)}))
    (tmp_path / "facts.csv").write_text("key,query,value\naword,bword,cword\n", encoding="utf-8")
    run = CliRunner().invoke(app, ["audit", str(folder), "--facts", "--table", str(tmp_path / "facts.csv")])
    assert run.exit_code == 0
    assert "Recall of the table by the path of each layer" in run.stdout
    run = CliRunner().invoke(app, ["audit", str(folder), "--facts", "--json", "--layers", "0"])
    assert len(json.loads(run.stdout)["facts"]["heads"]) == HEADS
    both = CliRunner().invoke(app, ["audit", str(folder), "--facts", "--table", str(tmp_path / "facts.csv"), "--json"])
    found = json.loads(both.stdout)["facts"]
    assert len(found["heads"]) == 2 * HEADS
    assert len(found["recalls"]) == 2


@pytest.mark.parametrize(
    ("name", "shape", "message"),
    [
        ("lm_head.weight", (10, WIDTH), "'lm_head.weight' has 10 rows"),
        ("lm_head.weight", (30, 3), r"'lm_head.weight' has shape \(30, 3\); expected rows of 24"),
        ("model.norm.weight", (2,), r"'model.norm.weight' has shape \(2,\)"),
        ("model.norm.weight", (1,), r"'model.norm.weight' has shape \(1,\)"),
    ],
)
def test_outer_tensors_of_other_sizes_are_named(tmp_path, name, shape, message):
    """No number is read from the bytes of the next tensor, and none is broadcast."""
    outer = {"lm_head.weight": np.ones((30, WIDTH)), "model.norm.weight": np.ones(WIDTH), name: np.ones(shape)}
    folder = named(write_model(tmp_path / "model", llama_tensors() | outer))
    with pytest.raises(InputError, match=message):
        extract(folder, 0)
    with pytest.raises(InputError, match=message):
        facts_in_weights(folder)


def test_the_epsilon_of_norms_is_that_of_the_settings(tmp_path):
    tensors = llama_tensors() | {"model.norm.weight": np.ones(WIDTH)}
    tensors["model.embed_tokens.weight"] *= 1e-3  # as large as the epsilon
    weights = [
        token_circuits(
            open_model(write_model(tmp_path / str(epsilon), tensors, rms_norm_eps=epsilon)), 0, [1], [2], [3]
        )
        .head(0)
        .attention(slice(0, 1))
        for epsilon in (1e-6, 1e-5)
    ]
    assert not np.allclose(*weights, rtol=1e-3)
    for wrong in ("x", -1.0, 2, True):
        model = open_model(write_model(tmp_path / "wrong", tensors, rms_norm_eps=wrong))
        with pytest.raises(InputError, match="expected rms_norm_eps to be a small number"):
            token_circuits(model, 0, [1], [2], [3])


def full_table(words):
    rng = np.random.default_rng(1)
    return Database.from_facts([(words[k], words[q], words[rng.integers(9)]) for k in range(3) for q in range(3, 6)])


def test_every_fact_has_the_heads_that_recall_it(tmp_path):
    """The facts x heads table and the circuits on the table, against the dense tensors of every head."""
    folder = named(write_model(tmp_path / "m", llama_tensors() | {"model.norm.weight": np.ones(WIDTH)}))
    table = full_table([word.removeprefix("Ġ") for word in WORDS])
    found = facts_in_weights(folder, table=table)
    model, rows = open_model(folder), list(found.fact_rows())
    assert (found.n_tokens, found.heads, len(rows)) == (0, (), table.n_facts)
    ids = TokenTable(table).numbers(token_numbers(model))
    for layer, recall in enumerate(found.recalls):
        circuits = token_circuits(model, layer, *ids)
        for head in range(HEADS):
            logits = circuits.head_logits(head, slice(0, 3))
            for row, (k, q, v) in zip(rows, table.triples, strict=True):
                assert ((layer, head) in row["heads"]) == (logits[k, q].argmax() == v)
            one = circuits.head(head)
            dense = one.moved(slice(0, 3))
            values = np.linalg.svd(dense - dense.mean(axis=1, keepdims=True), compute_uv=False)
            np.testing.assert_allclose(recall.circuits[head].ov.values[:3], values, rtol=1e-8)
            scores = np.linalg.svd(one.asked @ one.offered.T, compute_uv=False)
            np.testing.assert_allclose(recall.circuits[head].qk.values[:3], scores, rtol=1e-8)
            assert recall.circuits[head].ov.rank == 3
        whole = circuits.logits(slice(0, 3))
        for row, (k, q, v) in zip(rows, table.triples, strict=True):
            assert (layer in row["whole"]) == (whole[k, q].argmax() == v)
            assert (layer in row["direct"]) == (circuits.direct[q].argmax() == v)
        assert np.linalg.matrix_rank(whole.reshape(3, -1)) <= recall.rank_at_most
        assert recall.most_facts == most_facts(32 * WIDTH * D_HEAD * 2 * (HEADS + KV_HEADS), table.n_values)
    data = found.to_dict()
    assert data["recalls"][0]["circuits"][0]["ov_rank"] == 3
    assert json.loads(json.dumps(data))["facts"][0]["key"] == rows[0]["key"]


def test_large_vocabularies_are_read_block_by_block(tmp_path, monkeypatch):
    folder = named(write_model(tmp_path / "m", llama_tensors() | {"model.norm.weight": np.ones(WIDTH)}))
    table = full_table([word.removeprefix("Ġ") for word in WORDS])
    whole = facts_in_weights(folder, tokens=WORDS, table=table).to_dict(), extract(folder, 1)
    monkeypatch.setattr("factrank.auditing.token_circuits.BLOCK", 64)
    cut = facts_in_weights(folder, tokens=WORDS, table=table).to_dict(), extract(folder, 1)
    assert cut[1] == whole[1]
    assert cut[0]["recalls"] == whole[0]["recalls"]
    for ours, theirs in zip(cut[0]["heads"], whole[0]["heads"], strict=True):
        assert (ours["copied"], ours["copying"]) == (theirs["copied"], theirs["copying"])
        pairs = zip(ours["entries"], theirs["entries"], strict=True)
        assert all({**a, "lead": 0} == {**b, "lead": 0} and np.isclose(a["lead"], b["lead"]) for a, b in pairs)


@pytest.mark.parametrize(
    ("suffix", "text", "message"),
    [
        (".csv", "key,query,value\naword,bword,cword\naword,dword,nowhere\n", "facts.csv, line 3, value: 'nowhere'"),
        (".jsonl", '{"key": "gone", "query": "bword", "value": "cword"}\n', "facts.jsonl, line 1, key: 'gone'"),
        (".tsv", "key\tquery\tvalue\naword\tno no\tcword\n", "facts.tsv, line 2, query: 'no no'"),
    ],
)
def test_names_of_a_table_that_are_no_tokens(suffix, text, message, tmp_path):
    folder = named(write_model(tmp_path / "m", llama_tensors() | {"model.norm.weight": np.ones(WIDTH)}))
    path = tmp_path / f"facts{suffix}"
    path.write_text(text, encoding="utf-8")
    run = CliRunner().invoke(app, ["audit", str(folder), "--table", str(path)])
    assert isinstance(run.exception, InputError)
    assert f"{message} is not a single token of the model" in str(run.exception)
    with pytest.raises(InputError, match="the table, key: 'x' is not a single token"):
        facts_in_weights(folder, table=Database.from_facts([("x", "aword", "bword")]))
