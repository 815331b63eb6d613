"""TransformerLens models: recorded state dicts give the recorded logits, and what cannot be folded is refused.

The files were written by tools/record_transformer_lens.py with the versions in their names.
"""

import json
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

import factrank
from factrank.bridges.transformer_lens import from_transformer_lens
from factrank.databases.database import Database
from factrank.databases.vocabulary import Vocabulary
from factrank.errors import InputError

FOLDER = Path(__file__).parents[1] / "data" / "transformer_lens"
KINDS = ("hooked-3.9.0", "bridge-4.3.0")
TRIPLES = [(0, 0, 0), (0, 1, 1), (1, 0, 0), (1, 1, 1), (2, 0, 1), (2, 1, 0), (3, 2, 2), (4, 2, 3)]


def facts(triples=TRIPLES):
    return Database(
        np.array(triples),
        *(Vocabulary(f"{axis}{at}" for at in range(n)) for axis, n in zip("kqv", (5, 3, 4), strict=True)),
    )


def recorded(name):
    """State dict, configuration and logits of a model."""
    state = load_file(FOLDER / f"{name}.safetensors")
    return state, json.loads((FOLDER / f"{name}.json").read_text())["config"], state.pop("logits")


@pytest.mark.parametrize("kind", KINDS)
def test_a_trained_model_has_its_logits_and_is_certified(kind):
    state, config, logits = recorded(f"{kind}-trained")
    layer = from_transformer_lens(state, facts(), config=config)
    assert np.abs(np.asarray(layer.tensor()) - logits).max() <= 1e-5 * np.abs(logits).max()
    assert layer.shape.d_model == config["d_model"] + 1
    found = factrank.verify(layer, facts())
    assert found.certified, found.reason
    assert not factrank.verify(layer, facts([(0, 0, 2), *TRIPLES[1:]])).certified


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.filterwarnings("ignore:at . of 8 facts:factrank.errors.InputWarning")
def test_values_among_all_tokens_and_another_scale(kind):
    state, config, logits = recorded(f"{kind}-vocabulary")
    assert config["attn_scale"] == 2.5
    layer = from_transformer_lens(state, facts(), config=config, other_outputs="ignore")
    assert np.abs(np.asarray(layer.tensor()) - logits[..., 8:]).max() <= 1e-5 * np.abs(logits).max()
    standard = from_transformer_lens(state, facts(), config=config | {"attn_scale": -1.0}, other_outputs="ignore")
    assert np.abs(np.asarray(standard.tensor()) - logits[..., 8:]).max() > 0.01


@pytest.mark.parametrize("kind", KINDS)
def test_norms_without_biases_become_a_pair_transformer(kind):
    state, config, logits = recorded(f"{kind}-norms")
    model = from_transformer_lens(state, facts(), config=config)
    assert isinstance(model, factrank.PairTransformer)
    assert np.abs(np.asarray(model.tensor()) - logits).max() <= 1e-5 * np.abs(logits).max()
    assert "no proof is known for a transformer with layer norm" in factrank.verify(model, facts()).reason
    bias = "blocks.0.attn.b_Q" if kind.startswith("hooked") else "blocks.0.attn.q.bias"
    with pytest.raises(InputError, match="the model has layer norms and its biases b_Q are not zero"):
        from_transformer_lens(state | {bias: state[bias] + 1}, facts(), config=config)
    with pytest.raises(InputError, match=r"the norms must have eps=1e-05; got 0\.001"):
        from_transformer_lens(state, facts(), config=config | {"eps": 1e-3})


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"n_layers": 2}, "the model has n_layers=2: a layer of factrank is one attention layer"),
        ({"attn_only": False}, "has no MLP"),
        ({"normalization_type": "RMS"}, "'RMS': this norm cannot be folded"),
        ({"normalization_type": "LN"}, "says normalization_type='LN', but there is no tensor blocks.0.ln1"),
        ({"positional_embedding_type": "rotary"}, "'rotary': only learned positions"),
        ({"positional_embedding_type": "shortformer"}, "'shortformer'"),
        ({"output_logits_soft_cap": 30.0}, "output_logits_soft_cap=30.0"),
        ({"n_key_value_heads": 1}, "grouped heads are not supported"),
        ({"d_head": 2}, "the configuration is of another model"),
        ({"d_head": "3"}, "d_head in the configuration must be a positive integer"),
        ({"attn_scale": "big"}, "attn_scale in the configuration must be a number"),
        ({"new_trick": 3}, "the settings 'new_trick' are unknown and may change the logits"),
    ],
)
def test_settings_that_change_the_logits_are_refused(kind, changes, message):
    state, config, _ = recorded(f"{kind}-trained")
    with pytest.raises(InputError, match=message):
        from_transformer_lens(state, facts(), config=config | changes)


@pytest.mark.parametrize("kind", KINDS)
def test_tensors_that_do_not_fit_are_refused(kind):
    state, config, _ = recorded(f"{kind}-trained")
    with pytest.raises(InputError, match="pass the configuration too"):
        from_transformer_lens(state, facts())
    with pytest.raises(InputError, match="does not tell n_layers"):
        from_transformer_lens(state, facts(), config={"attn_only": True})
    with pytest.raises(InputError, match="it has an MLP, which cannot be folded"):
        from_transformer_lens(state | {"blocks.0.mlp.W_in": np.ones(3, "f4")}, facts(), config=config)
    with pytest.raises(InputError, match="it has 2 layers"):
        from_transformer_lens(state | {"blocks.1.attn.x": np.ones(3, "f4")}, facts(), config=config)
    with pytest.raises(InputError, match=r"these are unknown .*extra"):
        from_transformer_lens(state | {"extra": np.ones(3, "f4")}, facts(), config=config)
    positions = next(name for name in state if name.startswith("pos_embed"))
    with pytest.raises(InputError, match="no tensor pos_embed"):
        from_transformer_lens({k: v for k, v in state.items() if k != positions}, facts(), config=config)
    bias = next(name for name in state if name.endswith(("attn.b_O", "attn.o.bias")))
    with pytest.raises(InputError, match=rf"no tensor {bias} in the state dict"):
        from_transformer_lens({k: v for k, v in state.items() if k != bias}, facts(), config=config)
    with pytest.raises(InputError, match="contains NaN"):
        from_transformer_lens(state | {positions: state[positions] * np.nan}, facts(), config=config)


def test_other_models_are_pointed_to_the_right_function():
    state, _, _ = recorded("hooked-3.9.0-trained")
    with pytest.raises(InputError, match="use from_transformer_lens"):
        factrank.from_torch(state, facts())
    with pytest.raises(InputError, match="not a TransformerLens model"):
        from_transformer_lens({"emb.weight": np.ones((2, 2), "f4")}, facts())


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", ["HookedTransformer", "TransformerBridge"])
def test_an_installed_transformer_lens_is_compared_with_its_own_forward_pass(kind):
    pytest.importorskip("transformer_lens", reason="extra 'transformer-lens' is not installed")
    import torch
    import transformer_lens as lens
    from transformer_lens.model_bridge import TransformerBridge

    sizes = {"n_layers": 1, "d_model": 6, "n_ctx": 4, "d_head": 3, "n_heads": 2, "d_vocab": 8, "d_vocab_out": 4}
    settings = {**sizes, "attn_only": True, "normalization_type": None, "seed": 0, "device": "cpu"}
    if kind == "HookedTransformer" and int(version("transformer-lens").split(".")[0]) >= 4:
        pytest.skip("HookedTransformer was removed in version 4")
    if kind == "HookedTransformer":
        model = lens.HookedTransformer(lens.HookedTransformerConfig(**settings))
    else:
        model = TransformerBridge.boot_native(settings)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_()
    layer = from_transformer_lens(model, facts())
    logits = model(torch.tensor([[1, 6]]))[0, -1].detach().numpy()
    assert np.abs(np.asarray(layer(1, 1)) - logits).max() <= 1e-5 * np.abs(logits).max()
    assert factrank.examine(model, facts()).recall.n_facts == 8
