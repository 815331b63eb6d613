"""Tiny checkpoints whose heads have known ranks."""

import json

import numpy as np
from safetensors.numpy import save_file

WIDTH, HEADS, KV_HEADS, D_HEAD, LAYERS = 24, 4, 2, 6, 2
LLAMA = {
    "model_type": "llama",
    "hidden_size": WIDTH,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": HEADS,
    "num_key_value_heads": KV_HEADS,
    "head_dim": D_HEAD,
    "max_position_embeddings": 50,
    "rope_theta": 100.0,
}


def low_rank(rng, rows, columns, rank):
    return rng.normal(size=(rows, rank)) @ rng.normal(size=(rank, columns))


def llama_tensors(qk_rank=D_HEAD, ov_rank=D_HEAD, seed=0):
    """A model whose query heads have rank `qk_rank` and whose output heads have rank `ov_rank`."""
    rng = np.random.default_rng(seed)
    tensors = {"model.embed_tokens.weight": rng.normal(size=(30, WIDTH))}
    for layer in range(LAYERS):
        stem = f"model.layers.{layer}."
        queries = [low_rank(rng, D_HEAD, WIDTH, qk_rank) for _ in range(HEADS)]
        outputs = [low_rank(rng, WIDTH, D_HEAD, ov_rank) for _ in range(HEADS)]
        tensors |= {
            f"{stem}self_attn.q_proj.weight": np.concatenate(queries),
            f"{stem}self_attn.k_proj.weight": rng.normal(size=(KV_HEADS * D_HEAD, WIDTH)),
            f"{stem}self_attn.v_proj.weight": rng.normal(size=(KV_HEADS * D_HEAD, WIDTH)),
            f"{stem}self_attn.o_proj.weight": np.concatenate(outputs, axis=1),
            f"{stem}input_layernorm.weight": rng.uniform(0.5, 2, size=WIDTH),
        }
    return tensors


def write_model(folder, tensors, dtype=np.float32, **changes):
    folder.mkdir(exist_ok=True)
    (folder / "config.json").write_text(json.dumps(LLAMA | changes))
    save_file({name: array.astype(dtype) for name, array in tensors.items()}, folder / "model.safetensors")
    return folder


def write_raw(path, tensors):
    """Write safetensors of any type by hand: (type, array) by name."""
    header, data = {}, b""
    for name, (kind, array) in tensors.items():
        content = array.tobytes()
        header[name] = {"dtype": kind, "shape": array.shape, "data_offsets": [len(data), len(data) + len(content)]}
        data += content
    text = json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + data)
