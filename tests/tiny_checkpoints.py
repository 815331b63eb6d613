"""Tiny checkpoint folders as Hugging Face writes them, without its libraries."""

import json

import numpy as np
from safetensors.numpy import save_file

from factrank.checkpoints.architectures import architecture_of
from factrank.checkpoints.configuration import Settings

SETTINGS = {
    "bert": {
        "model_type": "bert",
        "hidden_size": 12,
        "num_attention_heads": 3,
        "intermediate_size": 20,
        "vocab_size": 30,
        "max_position_embeddings": 16,
        "num_hidden_layers": 2,
    },
    "gpt2": {
        "model_type": "gpt2",
        "n_embd": 12,
        "n_head": 3,
        "n_layer": 2,
        "vocab_size": 30,
        "n_positions": 16,
        "bos_token_id": 0,
        "eos_token_id": 0,
    },
    "vit": {
        "model_type": "vit",
        "hidden_size": 12,
        "num_attention_heads": 3,
        "intermediate_size": 20,
        "image_size": 8,
        "patch_size": 4,
        "num_channels": 2,
        "num_hidden_layers": 2,
    },
}


def family_of(kind, **changes):
    return architecture_of(Settings("config.json", SETTINGS[kind] | changes))


def drawn_weights(kind, seed=0):
    """Weights in which every number matters: nothing starts at zero or one."""
    rng = np.random.default_rng(seed)
    parts = family_of(kind).parts()
    return {name: rng.normal(0.5, 0.5, part.shape).astype(np.float32) for name, part in parts.items()}


def inputs_of(kind, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(3, 2, 8, 8)) if kind == "vit" else rng.integers(0, 30, size=(3, 7))


def write_checkpoint(folder, kind, weights, **changes):
    folder.mkdir(exist_ok=True)
    (folder / "config.json").write_text(json.dumps(SETTINGS[kind] | changes))
    save_file(weights, folder / "model.safetensors")
    return folder
