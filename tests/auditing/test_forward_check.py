"""The self-check names the layer and the part that differ, executes nothing, and reads no pickle."""

import json
from dataclasses import replace

import numpy as np
import pytest
from typer.testing import CliRunner

from factrank.auditing import audit, check_forward
from factrank.checkpoints.heads import ARCHITECTURES, AttentionModel
from factrank.cli import app
from factrank.errors import InputError
from planted_models import LLAMA, llama_tensors, write_model

torch = pytest.importorskip("torch", reason="extra 'torch' is not installed: pip install 'factrank[torch]'")
pytest.importorskip("transformers")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A whole model: transformers wants MLPs and norms as well."""
    tensors, rng = llama_tensors(), np.random.default_rng(0)
    for layer in range(2):
        stem = f"model.layers.{layer}."
        tensors |= {f"{stem}mlp.{name}_proj.weight": rng.normal(size=(8, 24)) for name in ("gate", "up")}
        tensors |= {f"{stem}mlp.down_proj.weight": rng.normal(size=(24, 8))}
        tensors |= {f"{stem}post_attention_layernorm.weight": np.ones(24)}
    tensors |= {"model.norm.weight": np.ones(24)}
    sizes = {"vocab_size": 30, "intermediate_size": 8, "tie_word_embeddings": True, "rms_norm_eps": 1e-5}
    return write_model(tmp_path_factory.mktemp("checked") / "m", tensors, **sizes)


def run(*words):
    return CliRunner().invoke(app, ["audit", *map(str, words)])


def test_the_command_says_that_all_layers_agree(folder, tmp_path):
    shown = run(folder, "--check", "--html", tmp_path / "page.html")
    assert shown.exit_code == 0
    assert "8 tokens: all 2 layers agree" in " ".join(shown.stdout.split())
    assert "Check of the factors" in (tmp_path / "page.html").read_text(encoding="utf-8")
    found = json.loads(run(folder, "--check", "--json", "--layers", "1").stdout)["check"]
    assert found["agrees"]
    assert [layer["layer"] for layer in found["layers"]] == [1]
    assert "all 2 layers agree" in check_forward(folder)._repr_html_()


@pytest.mark.parametrize(
    ("change", "parts"),
    [
        ({"rotary": "adjacent"}, {"scores"}),
        ({"scale": lambda *_: 0.3}, {"scores"}),
        ({"norm": "post_attention_layernorm"}, {"norm"}),
        ({"projections": ("self_attn.q_proj", "self_attn.v_proj", "self_attn.k_proj")}, {"scores", "outputs"}),
    ],
)
def test_a_wrong_entry_of_the_table_is_found(change, parts, folder, monkeypatch):
    """What the entry gets wrong is what differs."""
    monkeypatch.setitem(ARCHITECTURES._entries, "llama", replace(ARCHITECTURES["llama"], **change))
    found = check_forward(folder)
    assert found.differing == (0, 1)
    for layer in found.layers:
        assert {name for name in ("norm", "scores", "outputs") if getattr(layer, name) > 1e-4} == parts


def test_the_layer_that_differs_is_named(folder, monkeypatch):
    read = AttentionModel.layer

    def altered(self, layer, **options):
        factors = read(self, layer, **options)
        return replace(factors, output=factors.output[::-1]) if layer == 1 else factors

    monkeypatch.setattr(AttentionModel, "layer", altered)
    shown = run(folder, "--check")
    assert shown.exit_code == 1
    assert "1 of 2 layers differ" in " ".join(shown.stdout.split())
    assert check_forward(folder).differing == (1,)


def test_nothing_of_a_checkpoint_is_executed(folder, tmp_path):
    """Code that comes with a checkpoint is ignored, and pickled weights are refused."""
    copy = tmp_path / "with code"
    copy.mkdir()
    code = f"open({str(tmp_path / 'executed')!r}, 'w').close()\n"
    for name in ("modeling.py", "configuration.py"):
        (copy / name).write_text(code)
    settings = json.loads((folder / "config.json").read_text())
    places = {"AutoModel": "modeling.Model", "AutoConfig": "configuration.Config"}
    (copy / "config.json").write_text(json.dumps(settings | {"auto_map": places}))
    (copy / "model.safetensors").write_bytes((folder / "model.safetensors").read_bytes())
    assert check_forward(copy).agrees
    assert not (tmp_path / "executed").exists()
    (copy / "model.safetensors").unlink()
    torch.save({}, copy / "pytorch_model.bin")
    with pytest.raises(InputError, match=r"pytorch_model.bin is not supported, because reading it may run code"):
        check_forward(copy)


def test_what_cannot_be_checked_is_said(tmp_path, folder):
    other = write_model(tmp_path / "no mlp", llama_tensors(), intermediate_size=7)
    settings = json.loads((other / "config.json").read_text())
    (other / "config.json").write_text(json.dumps(settings | {"hidden_act": "none such"}))
    with pytest.raises(InputError, match="no mlp: transformers cannot load this checkpoint"):
        check_forward(other)
    adapter = tmp_path / "lora"
    adapter.mkdir()
    (adapter / "adapter_config.json").write_text("{}")
    with pytest.raises(InputError, match="no forward pass of its own"):
        check_forward(adapter)
    with pytest.raises(InputError, match="the layers are 0 to 1"):
        check_forward(folder, layers=[4])
    assert audit(folder).architecture == ARCHITECTURES[LLAMA["model_type"]].title
