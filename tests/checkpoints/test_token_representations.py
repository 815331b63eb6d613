"""ViT, BERT and GPT-2 up to their first layer against transformers; checkpoint folders; random weights."""

import json
import pickle

import numpy as np
import pytest
from safetensors.numpy import save_file

from factrank.checkpoints.checkpoint import TokenModel, bundled_folder, random_weights, read_model
from factrank.checkpoints.layers import STAGES, attention
from factrank.checkpoints.token_representations import representations, tokens_of
from factrank.errors import InputError
from factrank.families.memoriser.ranks.assumptions import check_assumptions, queries_of
from tiny_checkpoints import SETTINGS, drawn_weights, family_of, inputs_of, write_checkpoint

KINDS = ("bert", "gpt2", "vit")


def transformers_or_skip():
    reason = "extra 'torch' is not installed: pip install 'factrank[torch]'"
    pytest.importorskip("torch", reason=reason)
    return pytest.importorskip("transformers", reason=reason)


def reference(kind, folder, inputs):
    """What transformers says at each stage, in float64."""
    transformers = transformers_or_skip()
    import torch

    name = {"bert": "BertModel", "gpt2": "GPT2Model", "vit": "ViTModel"}[kind]
    model = getattr(transformers, name).from_pretrained(folder).double().eval()
    first = {"bert": "encoder.layer.0.attention", "gpt2": "h.0.attn", "vit": "layers.0.attention"}[kind]
    seen = {}
    modules = dict(model.named_modules())
    modules[first if first in modules else "encoder.layer.0.attention"].register_forward_hook(
        lambda _module, _inputs, output: seen.update(attention=output[0] if isinstance(output, tuple) else output)
    )
    with torch.no_grad():
        if kind == "vit":
            pixels = torch.tensor(inputs)
            states = model(pixel_values=pixels, output_hidden_states=True).hidden_states
            patches = model.embeddings.patch_embeddings(pixels)
            embedded = torch.cat([model.embeddings.cls_token.expand(len(pixels), -1, -1), patches], dim=1)
        else:
            ids = torch.tensor(inputs)
            states = model(input_ids=ids, output_hidden_states=True).hidden_states
            embedded = (model.embeddings.word_embeddings if kind == "bert" else model.wte)(ids)
    after = seen["attention"] if kind == "bert" else states[0] + seen["attention"]
    found = {"embedding": embedded, "positions": states[0], "attention": after, "block": states[1]}
    return {stage: vectors.numpy() for stage, vectors in found.items()}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::UserWarning")
def test_every_stage_is_that_of_transformers(kind, tmp_path):
    transformers_or_skip()
    folder = write_checkpoint(tmp_path / kind, kind, drawn_weights(kind))
    inputs = inputs_of(kind)
    expected = reference(kind, folder, inputs)
    model = read_model(folder)
    for stage in STAGES:
        found = tokens_of(model, inputs, stage)
        np.testing.assert_allclose(found, expected[stage], rtol=1e-10, atol=1e-10, err_msg=stage)


def test_attention_by_its_formula():
    rng = np.random.default_rng(0)
    q, k, v = rng.normal(size=(3, 1, 4, 6))
    for causal in (False, True):
        expected = np.zeros((4, 6))
        for h in range(2):
            part = slice(3 * h, 3 * h + 3)
            for i in range(4):
                seen = range(i + 1) if causal else range(4)
                weights = np.exp([q[0, i, part] @ k[0, j, part] / 3**0.5 for j in seen])
                expected[i, part] = sum(w * v[0, j, part] for w, j in zip(weights, seen, strict=True)) / weights.sum()
        np.testing.assert_allclose(attention(q, k, v, 2, causal=causal)[0], expected, rtol=1e-12)


# ---------------------------------------------------------------- folders


def old_names(weights):
    return {
        name.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta"): array
        for name, array in weights.items()
    }


@pytest.mark.parametrize("kind", KINDS)
def test_prefixes_shards_and_old_names_give_the_same_weights(kind, tmp_path):
    weights = drawn_weights(kind)
    prefix = {"bert": "bert.", "gpt2": "transformer.", "vit": "vit."}[kind]
    named = {prefix + name: array for name, array in old_names(weights).items()}
    more = named | {"pooler.dense.weight": np.zeros((2, 2), np.float32)}
    read = read_model(write_checkpoint(tmp_path / "prefixed", kind, more)).weights
    shards = write_checkpoint(tmp_path / "shards", kind, {"nothing": np.zeros(1)})
    (shards / "model.safetensors").unlink()
    places = {name: f"model-{i % 2}.safetensors" for i, name in enumerate(weights)}
    for file in set(places.values()):
        save_file({name: weights[name] for name in weights if places[name] == file}, shards / file)
    (shards / "model.safetensors.index.json").write_text(json.dumps({"weight_map": places}))
    sharded = read_model(shards).weights
    for name, array in weights.items():
        assert (read[name] == array).all()
        assert (sharded[name] == array).all()


@pytest.mark.parametrize("kind", KINDS)
def test_missing_tensors_are_named(kind, tmp_path):
    weights = drawn_weights(kind)
    gone = sorted(weights)[4]
    del weights[gone]
    with pytest.raises(InputError, match=f"tensors are missing: {gone}"):
        read_model(write_checkpoint(tmp_path / kind, kind, weights))


def test_bad_folders_are_refused_with_the_reason(tmp_path):
    weights = drawn_weights("gpt2")

    def refused(message, folder):
        with pytest.raises(InputError, match=message):
            read_model(folder)

    refused("no such folder", tmp_path / "none")
    empty = tmp_path / "empty"
    empty.mkdir()
    refused("config.json: no such file", empty)
    (empty / "config.json").write_text("[1]")
    refused("expected a JSON object", empty)
    (empty / "config.json").write_text("{")
    refused("not readable as JSON", empty)
    (empty / "config.json").write_text('{"model_type": "llama"}')
    refused("unknown model_type 'llama'; expected one of vit, bert, gpt2", empty)
    (empty / "config.json").write_text(json.dumps(SETTINGS["gpt2"]))
    refused(r"expected model\.safetensors or", empty)
    (empty / "pytorch_model.bin").write_bytes(pickle.dumps({}))
    refused("may run code", empty)
    (empty / "model.safetensors.index.json").write_text('{"weight_map": {"wte.weight": "../x.safetensors"}}')
    refused("names of safetensors files in the same folder", empty)
    (empty / "model.safetensors.index.json").write_text('{"weight_map": 3}')
    refused("expected a weight_map", empty)

    folder = write_checkpoint(tmp_path / "gpt2", "gpt2", weights)
    file = folder / "model.safetensors"
    whole = file.read_bytes()
    file.write_bytes(whole[:-10])
    refused("truncated: it has", folder)
    file.write_bytes(b"")
    refused("empty or truncated", folder)
    refused("has shape .30, 12.; config.json implies", write_checkpoint(folder, "gpt2", weights, vocab_size=31))
    bad = weights | {"wpe.weight": np.full((16, 12), np.nan, np.float32)}
    refused("'wpe.weight' contains NaN or infinite numbers", write_checkpoint(folder, "gpt2", bad))
    bad = weights | {"wpe.weight": np.ones((16, 12), np.int32)}
    refused("is of type I32; expected one of F64, F32, F16, BF16", write_checkpoint(folder, "gpt2", bad))


def test_tensors_of_eight_bits_and_strange_shards_are_refused(tmp_path):
    weights = drawn_weights("gpt2")
    folder = write_checkpoint(tmp_path / "gpt2", "gpt2", weights)
    ends = np.cumsum([0, *(array.size for array in weights.values())]).tolist()
    header = {
        name: {"dtype": "F8_E4M3", "shape": array.shape, "data_offsets": ends[i : i + 2]}
        for i, (name, array) in enumerate(weights.items())
    }
    text = json.dumps(header).encode()
    (folder / "model.safetensors").write_bytes(len(text).to_bytes(8, "little") + text + bytes(ends[-1]))
    with pytest.raises(InputError, match=r"'wte.weight' cannot be read: its scales are missing"):
        read_model(folder)
    (folder / "model.safetensors").unlink()
    places = {"weight_map": {"wte.weight": "a\n\x1b[31m.safetensors"}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(places))
    with pytest.raises(InputError, match=r"got 'a.n.x1b\[31m.safetensors'"):
        read_model(folder)


@pytest.mark.parametrize(
    ("kind", "changes", "message"),
    [
        ("gpt2", {"n_head": 5}, "cannot be divided among 5 heads"),
        ("gpt2", {"n_embd": None}, "n_embd is missing"),
        ("gpt2", {"n_embd": 2.5}, "n_embd to be a positive integer"),
        ("gpt2", {"activation_function": "swish"}, "unknown activation 'swish'"),
        ("gpt2", {"scale_attn_weights": False}, "scale_attn_weights false"),
        ("gpt2", {"layer_norm_epsilon": "x"}, "a positive number"),
        ("gpt2", {"activation_function": 3}, "to be a string"),
        ("bert", {"position_embedding_type": "relative_key"}, "expected 'absolute'"),
        ("bert", {"pad_token_id": -1}, "a non-negative integer or null"),
        ("bert", {"pad_token_id": 30}, "within the vocabulary of 30 tokens; got 30"),
        ("bert", {"is_decoder": True}, "is_decoder true"),
        ("vit", {"patch_size": 3}, "do not divide"),
        ("vit", {"qkv_bias": 1}, "true or false"),
    ],
)
def test_bad_settings_are_named(kind, changes, message):
    with pytest.raises(InputError, match=message):
        family_of(kind, **changes)


def test_bad_inputs_are_named():
    for kind, inputs, message in (
        ("bert", np.array([[30, 1]]), "token number 30: the vocabulary has 30"),
        ("gpt2", np.array([[-1, 1]]), "token number -1"),
        ("gpt2", np.zeros((1, 17), int), "the model has 16 positions"),
        ("gpt2", np.zeros(3, int), "token numbers .examples, tokens."),
        ("vit", np.zeros((1, 2, 8, 9)), "expected images of shape .2, 8, 8."),
        ("vit", np.zeros((1, 2)), "images .examples, channels"),
    ):
        model = TokenModel(family_of(kind), random_weights(family_of(kind), 0))
        with pytest.raises(InputError, match=message):
            tokens_of(model, inputs, "attention")
    for attempt, message in (
        (lambda: representations("passage", "vit"), "ViT reads images"),
        (lambda: representations("passage", "t5"), "unknown family 't5'"),
        (lambda: representations("passage", context_size=1), "at least one more token"),
        (lambda: representations("passage", "gpt2", context_size=1000), "tokens; a context needs 1000"),
    ):
        with pytest.raises(InputError, match=message):
            attempt()


# ---------------------------------------------------------------- random weights, real text and images


@pytest.mark.parametrize("kind", KINDS)
def test_random_weights_start_as_the_family_does(kind):
    transformers = transformers_or_skip()
    import torch

    torch.manual_seed(0)
    sizes = {"vocab_size": 2000} if kind != "vit" else {}
    settings = {name: value for name, value in (SETTINGS[kind] | sizes).items() if name != "model_type"}
    config, model = {
        "bert": (transformers.BertConfig, transformers.BertModel),
        "gpt2": (transformers.GPT2Config, transformers.GPT2Model),
        "vit": (transformers.ViTConfig, transformers.ViTModel),
    }[kind]
    started = model(config(**settings)).state_dict().values()
    theirs = [float(array.std()) for array in started if array.numel() > 200]
    family = family_of(kind, **sizes)
    ours = random_weights(family, 1)
    spread = {name: array.std() for name, array in ours.items() if array.size > 200 or array.ndim == 1}
    assert all(spread[name] == 0 for name in spread if ours[name].ndim == 1)
    for std in (value for value in spread.values() if value):
        assert any(abs(std - other) < 0.15 * other for other in theirs)
    assert (random_weights(family, 1)[sorted(ours)[0]] == ours[sorted(ours)[0]]).all()


def verdicts(contexts, position):
    found = check_assumptions(queries_of(contexts, position), contexts, subsets=100)
    return found.queries_verdict, found.contexts_verdict, found.tokens.holds


def test_the_passage_fails_as_words_and_holds_after_attention():
    for family, position in (("bert", 0), ("gpt2", -1)):
        found = {stage: verdicts(representations("passage", family, stage), position) for stage in STAGES}
        assert found["embedding"] == ("fails", "fails", False)  # words repeat
        assert found["positions"] == ("fails", "proved", False)  # one [CLS], or one word at one place
        assert found["attention"][:2] == found["block"][:2] == ("not refuted", "proved")
        assert found["attention"][2] is False  # BERT: a layer norm leaves d - 1 dimensions; GPT-2: first tokens repeat


def test_the_digits_fail_as_patches_and_hold_after_attention():
    pytest.importorskip("sklearn", reason="extra 'audit' is not installed: pip install 'factrank[audit]'")
    found = {stage: verdicts(representations("digits", "vit", stage, examples=60), 0) for stage in STAGES}
    assert found["embedding"] == ("fails", "fails", False)
    assert found["positions"] == ("fails", "proved", False)
    assert found["attention"][:2] == found["block"][:2] == ("proved", "proved")
    assert representations("digits", "vit", examples=60).shape == (60, 17, 64)


def test_uniform_vectors_hold():
    contexts = representations("uniform", examples=30)
    assert contexts.shape == (30, 16, 64)
    assert verdicts(contexts, 0) == ("proved", "proved", None)
    assert (representations("uniform", seed=1, examples=3) != contexts[:3]).all()


def test_the_bundled_encoder():
    """A real pretrained model; words fail, and after one attention layer the assumptions are proved."""
    pytest.importorskip("tokenizers", reason="extra 'audit' is not installed: pip install 'factrank[audit]'")
    try:
        folder = bundled_folder()
    except InputError as error:
        pytest.skip(str(error))
    contexts = {stage: representations("passage", stage=stage, folder=folder, examples=40) for stage in STAGES[:3]}
    assert contexts["attention"].shape == (40, 16, 384)
    assert verdicts(contexts["embedding"], 0)[:2] == ("fails", "fails")
    assert verdicts(contexts["positions"], 0)[:2] == ("fails", "proved")
    assert verdicts(contexts["attention"], 0)[:2] == ("proved", "proved")
