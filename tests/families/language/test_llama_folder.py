"""Language models as folders of Hugging Face: the logits of LlamaForCausalLM, or our own file."""

import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from factrank.errors import InputError
from factrank.experiments.models import load
from factrank.families.language import InContextRecall, LanguageShape, init_language_model
from factrank.families.language.llama_folder import export_language_model, llama_refusal


@pytest.mark.parametrize("tied", [True, False])
def test_llama_computes_the_same_logits(tied, tmp_path):
    torch, transformers = pytest.importorskip("torch"), pytest.importorskip("transformers")
    shape = LanguageShape(12, 3, 4, 4, n_layers=2, mlp_width=10, tied=tied, context=16, rope_base=500.0)
    model, rng = init_language_model(shape, 7, key=3), np.random.default_rng(0)
    model = jax.tree.map(lambda leaf: leaf * jnp.asarray(rng.uniform(0.5, 2, leaf.shape), leaf.dtype), model)
    tokens = rng.integers(7, size=16)
    assert export_language_model(tmp_path / "llama", model) == tmp_path / "llama"
    assert sorted(path.name for path in (tmp_path / "llama").iterdir()) == ["config.json", "model.safetensors"]
    theirs = transformers.LlamaForCausalLM.from_pretrained(tmp_path / "llama", dtype=torch.float32)
    with torch.no_grad():
        logits = theirs(torch.tensor(tokens)[None]).logits[0].numpy()
    np.testing.assert_allclose(model(tokens), logits, atol=1e-5)
    assert sum(part.numel() for part in theirs.parameters()) == model.parameters
    assert json.loads((tmp_path / "llama" / "config.json").read_text())["tie_word_embeddings"] is tied


def test_what_is_no_llama_is_saved_in_our_own_format(tmp_path):
    shapes = {
        "d_qk = 2 and d_vo = 4 differ": LanguageShape(4, 1, 2, 4, mlp_width=4),
        "it has no MLP": LanguageShape(4, 1, 2, 2),
        "its positions are learned, not rotary": LanguageShape(4, 1, 2, 2, mlp_width=4, positions="learned", context=8),
    }
    data = InContextRecall(pairs=(2,), n_keys=3, n_values=3)
    for why, shape in shapes.items():
        model = init_language_model(shape, 7, key=0)
        assert llama_refusal(shape) == why
        with pytest.raises(InputError, match=f"no Llama, because {why}; also pass the data"):
            export_language_model(tmp_path, model)
        saved = load(export_language_model(tmp_path, model, data))
        assert (saved.spec, saved.data) == (shape, data)
        assert all(map(np.array_equal, jax.tree.leaves(saved.model), jax.tree.leaves(model)))


def test_bad_input_is_refused(tmp_path):
    with pytest.raises(InputError, match="expected a language model; got dict"):
        export_language_model(tmp_path, {})
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="file: cannot create the folder"):
        export_language_model(tmp_path / "file", init_language_model(LanguageShape(4, 1, 2, 2), 3, key=0))
