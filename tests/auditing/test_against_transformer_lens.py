"""Spectra against recorded results of TransformerLens: `FactoredMatrix.svd` of a model like GPT-2, folded or not."""

import json
from pathlib import Path

import numpy as np
import pytest
from safetensors import safe_open

from factrank.auditing import audit

RECORDED = Path(__file__).parents[1] / "data" / "transformer_lens" / "factored-matrices.safetensors"


@pytest.fixture(scope="module")
def recorded():
    with safe_open(RECORDED, "np") as file:
        sizes = json.loads(file.metadata()["made_by"])["sizes"]
        return sizes, {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - no mapping


@pytest.mark.parametrize(("case", "fold"), [("plain", None), ("folded", "norm")])
def test_singular_values_agree(case, fold, recorded):
    """QK of TransformerLens has no 1 / sqrt(d_head); the tolerance is that of its float32."""
    sizes, tensors = recorded
    names = {"model_type": "gpt2", "n_embd": "d_model", "n_layer": "n_layers", "n_head": "n_heads"}
    settings = {name: sizes.get(value, value) for name, value in names.items()}
    weights = {name: array for name, array in tensors.items() if name.startswith("h.")}
    found = audit(weights, settings=settings, fold=fold)
    theirs = {name: tensors[f"{case}.{name}"].reshape(-1, sizes["d_head"]) for name in ("QK", "OV")}
    assert len(found.heads) == sizes["n_layers"] * sizes["n_heads"]
    for head, qk, ov in zip(found.heads, theirs["QK"], theirs["OV"], strict=True):
        np.testing.assert_allclose(np.sqrt(sizes["d_head"]) * np.array(head.qk.values[:5]), qk, rtol=1e-4)
        np.testing.assert_allclose(head.ov.values[:5], ov, rtol=1e-4)
    assert not np.allclose(tensors["plain.QK"], tensors["folded.QK"], rtol=0.1)
