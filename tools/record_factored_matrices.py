#!/usr/bin/env python
"""Record the spectra of QK and OV that TransformerLens computes with `FactoredMatrix.svd`, for the tests.

python tools/record_factored_matrices.py

A random model like GPT-2, whose biases are 0 (a `FactoredMatrix` has none), with random gains of its norms; once as it
is and once with its norms folded (`fold_ln`, which also subtracts the mean over the stream). The weights are written in
the layout of GPT-2, with the singular values of QK and OV of every head, into tests/data/transformer_lens. Continuous
integration reads this file and does not install TransformerLens 3.x.
"""

from __future__ import annotations

import json
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from transformer_lens import HookedTransformer, HookedTransformerConfig

FOLDER = Path(__file__).resolve().parents[1] / "tests" / "data" / "transformer_lens"
SIZES: dict[str, Any] = {"n_layers": 2, "d_model": 20, "n_ctx": 8, "d_head": 5, "n_heads": 4, "d_vocab": 12}


def random_model() -> HookedTransformer:
    """Return a model with random weights and gains, and without biases."""
    options = {"act_fn": "gelu_new", "normalization_type": "LN", "device": "cpu", "seed": 0}
    model = HookedTransformer(HookedTransformerConfig(**SIZES, **options))
    torch.manual_seed(0)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            part = name.rpartition(".")[2]
            gain = ".ln" in name and part == "w"
            drawn = torch.randn_like(weight) + (1 if gain else 0)
            weight.copy_(torch.zeros_like(weight) if part.startswith("b") else drawn)
    return model


def gpt2_tensors(model: HookedTransformer) -> dict[str, torch.Tensor]:
    """Return the attention of a model in the layout of GPT-2: maps of rows, queries before keys before values."""
    tensors = {}
    for layer, block in enumerate(model.blocks):
        parts = [weight.permute(1, 0, 2).flatten(1) for weight in (block.attn.W_Q, block.attn.W_K, block.attn.W_V)]
        tensors |= {
            f"h.{layer}.attn.c_attn.weight": torch.cat(parts, dim=1),
            f"h.{layer}.attn.c_proj.weight": block.attn.W_O.flatten(0, 1),
            f"h.{layer}.ln_1.weight": block.ln1.w,
            f"h.{layer}.ln_1.bias": block.ln1.b,
        }
    return tensors


def spectra(model: HookedTransformer, case: str) -> dict[str, torch.Tensor]:
    """Return the singular values of QK and OV [layers, heads, d_head]."""
    return {f"{case}.{name}": getattr(model, name).svd()[1] for name in ("QK", "OV")}


def main() -> None:
    """Write the file."""
    model = random_model()
    tensors = gpt2_tensors(model)
    tensors = {name: tensor.detach().clone().contiguous() for name, tensor in tensors.items()}
    found = spectra(model, "plain")
    model.process_weights_(
        fold_ln=True, center_writing_weights=False, center_unembed=False, refactor_factored_attn_matrices=False
    )
    found |= spectra(model, "folded")
    made_by = {"transformer_lens": version("transformer-lens"), "torch": torch.__version__, "sizes": SIZES}
    whole = tensors | {name: values.detach().clone().contiguous() for name, values in found.items()}
    save_file(whole, FOLDER / "factored-matrices.safetensors", metadata={"made_by": json.dumps(made_by)})


if __name__ == "__main__":
    main()
