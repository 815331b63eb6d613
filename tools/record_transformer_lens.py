#!/usr/bin/env python
"""Record small TransformerLens models for the tests: state dicts, configurations and logits.

python tools/record_transformer_lens.py

Records with the version of TransformerLens that is installed, HookedTransformer with 3.x and TransformerBridge with
4.x, into tests/data/transformer_lens. Continuous integration reads these files and does not install TransformerLens.
"""

from __future__ import annotations

import json
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "tests" / "data" / "transformer_lens"
FACTS = [(0, 0, 0), (0, 1, 1), (1, 0, 0), (1, 1, 1), (2, 0, 1), (2, 1, 0), (3, 2, 2), (4, 2, 3)]
"""Eight facts of 5 keys, 3 queries and 4 values."""
N_KEYS, N_QUERIES, N_VALUES = 5, 3, 4
SIZES = {
    "n_layers": 1,
    "d_model": 6,
    "n_ctx": 4,
    "d_head": 3,
    "n_heads": 2,
    "attn_only": True,
    "seed": 0,
    "device": "cpu",
}
CASES: dict[str, dict[str, Any]] = {
    "trained": {"normalization_type": None, "d_vocab": 8, "d_vocab_out": 4},
    "vocabulary": {"normalization_type": None, "d_vocab": 12, "d_vocab_out": 12, "attn_scale": 2.5},
    "norms": {"normalization_type": "LN", "d_vocab": 8, "d_vocab_out": 4},
}


def model_of(case: str) -> Any:
    """Return a model with random weights; every bias is random too, except next to norms."""
    settings: Any = SIZES | CASES[case]
    if LENS.startswith("3."):
        from transformer_lens import HookedTransformer, HookedTransformerConfig  # noqa: PLC0415 - 3.x

        model = HookedTransformer(HookedTransformerConfig(**settings))
    else:
        from transformer_lens.model_bridge import TransformerBridge  # noqa: PLC0415 - 4.x

        model = TransformerBridge.boot_native(settings)
    torch.manual_seed(0)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            bias = name.endswith(("bias", "b_Q", "b_K", "b_V", "b_O", "b_U")) and "ln" not in name
            parameter.copy_(
                torch.zeros_like(parameter) if bias and case == "norms" else 0.7 * torch.randn_like(parameter)
            )
    return model


def train(model: Any) -> None:
    """Train a model on the facts until every margin is large."""
    keys, queries, values = torch.tensor(FACTS).T
    prompts = torch.stack([keys, N_KEYS + queries], dim=1)
    optimiser = torch.optim.Adam(model.parameters(), lr=0.02)
    for _ in range(1000):
        loss = torch.nn.functional.cross_entropy(model(prompts)[:, -1], values)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()


def record(case: str, name: str) -> None:
    """Write one state dict with the logits of all pairs, and its configuration."""
    model = model_of(case)
    if case == "trained":
        train(model)
    pairs = torch.cartesian_prod(torch.arange(N_KEYS), N_KEYS + torch.arange(N_QUERIES))
    with torch.no_grad():
        logits = model(pairs)[:, -1].reshape(N_KEYS, N_QUERIES, -1)
    state = {key: tensor.detach().clone().contiguous() for key, tensor in model.state_dict().items()}
    FOLDER.mkdir(parents=True, exist_ok=True)
    save_file({**state, "logits": logits.contiguous()}, FOLDER / f"{name}.safetensors")
    settings = {key: _plain(value) for key, value in model.cfg.to_dict().items()}
    made_by = {"transformer_lens": LENS, "torch": torch.__version__}
    (FOLDER / f"{name}.json").write_text(json.dumps({"made_by": made_by, "config": settings}, indent=1) + "\n")


def _plain(value: Any) -> Any:
    if isinstance(value, float):
        return float(value)
    return value if value is None or isinstance(value, bool | int | str | list | dict) else str(value)


LENS = version("transformer-lens")
if __name__ == "__main__":
    kind = "hooked" if LENS.startswith("3.") else "bridge"
    for one in CASES:
        record(one, f"{kind}-{LENS}-{one}")
        print(f"{kind}-{LENS}-{one}", file=sys.stderr)
