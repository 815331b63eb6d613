"""Audit a synthetic checkpoint of 20 GB in 8 shards: seconds per layer and peak memory.

    python benchmarks/audit.py [--layers N] [--fold]
    python benchmarks/audit.py --stack ours|lens

With `--stack`, the spectra of QK and OV of 30 layers of 9 heads, d = 576, d_head 64 (SmolLM2-135M without shared heads)
in float32 are computed by `audit` or by `FactoredMatrix.svd` of TransformerLens, which is only installed for this. Both
print the same sums of singular values.

The shards are sparse files: only the attention weights of the audited layers are written, so the checkpoint takes a few
hundred megabytes on disk. The shape is that of an 8B Llama with 40 layers, in bfloat16.
"""

from __future__ import annotations

import argparse
import json
import resource
import tempfile
import time
from pathlib import Path

import ml_dtypes
import numpy as np

WIDTH, HEADS, KV_HEADS, D_HEAD, MLP, VOCABULARY, LAYERS, SHARDS = 4096, 32, 8, 128, 14336, 128_256, 40, 8
SETTINGS = {
    "model_type": "llama",
    "hidden_size": WIDTH,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": HEADS,
    "num_key_value_heads": KV_HEADS,
    "head_dim": D_HEAD,
    "max_position_embeddings": 8192,
    "rope_theta": 500_000.0,
}


def shapes() -> dict[str, tuple[int, ...]]:
    found: dict[str, tuple[int, ...]] = {
        "model.embed_tokens.weight": (VOCABULARY, WIDTH),
        "lm_head.weight": (VOCABULARY, WIDTH),
        "model.norm.weight": (WIDTH,),
    }
    for layer in range(LAYERS):
        stem = f"model.layers.{layer}"
        found |= {
            f"{stem}.self_attn.q_proj.weight": (HEADS * D_HEAD, WIDTH),
            f"{stem}.self_attn.k_proj.weight": (KV_HEADS * D_HEAD, WIDTH),
            f"{stem}.self_attn.v_proj.weight": (KV_HEADS * D_HEAD, WIDTH),
            f"{stem}.self_attn.o_proj.weight": (WIDTH, HEADS * D_HEAD),
            f"{stem}.mlp.gate_proj.weight": (MLP, WIDTH),
            f"{stem}.mlp.up_proj.weight": (MLP, WIDTH),
            f"{stem}.mlp.down_proj.weight": (WIDTH, MLP),
            f"{stem}.input_layernorm.weight": (WIDTH,),
        }
    return found


def write_sparse(folder: Path, filled: int) -> int:
    """Write the shards, with random attention weights in the first layers and holes elsewhere; return their bytes."""
    rng = np.random.default_rng(0)
    names = list(shapes())
    total, places = 0, {}
    for shard in range(SHARDS):
        some = names[shard * len(names) // SHARDS : (shard + 1) * len(names) // SHARDS]
        header, end = {}, 0
        for name in some:
            size = 2 * int(np.prod(shapes()[name]))
            header[name] = {"dtype": "BF16", "shape": shapes()[name], "data_offsets": [end, end + size]}
            end += size
            places[name] = f"model-{shard}.safetensors"
        text = json.dumps(header).encode()
        with (folder / f"model-{shard}.safetensors").open("wb") as file:
            file.write(len(text).to_bytes(8, "little") + text)
            for name in some:
                parts = name.split(".")
                if parts[1] == "layers" and int(parts[2]) < filled and parts[3] in ("self_attn", "input_layernorm"):
                    file.seek(8 + len(text) + header[name]["data_offsets"][0])
                    file.write(rng.standard_normal(shapes()[name], np.float32).astype(ml_dtypes.bfloat16).tobytes())
            file.truncate(8 + len(text) + end)
        total += end
    (folder / "config.json").write_text(json.dumps(SETTINGS))
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": places}))
    return total


def stack(which: str) -> None:
    """Time the spectra of a stack of heads, by our audit or by TransformerLens."""
    layers, heads, width, d_head = 30, 9, 576, 64
    rng = np.random.default_rng(0)
    query, key, value = (rng.standard_normal((layers, heads, width, d_head), np.float32) / 24 for _ in range(3))
    output = rng.standard_normal((layers, heads, d_head, width), np.float32) / 24
    if which == "lens":
        import torch
        from transformer_lens import FactoredMatrix

        torch.set_num_threads(1)
        parts = [torch.from_numpy(part) for part in (query, key, value, output)]
        before, wall, cpu = usage()
        pairs = ((parts[0], parts[1].transpose(-1, -2)), (parts[2], parts[3]))
        found = [FactoredMatrix(*pair).svd()[1].numpy() for pair in pairs]
    else:
        from factrank.auditing import audit

        weights = {}
        for layer in range(layers):
            maps = [part[layer].transpose(1, 0, 2).reshape(width, -1) for part in (query, key, value)]
            weights[f"h.{layer}.attn.c_attn.weight"] = np.concatenate(maps, axis=1)
            weights[f"h.{layer}.attn.c_proj.weight"] = output[layer].reshape(-1, width)
        settings = {"model_type": "gpt2", "n_embd": width, "n_layer": layers, "n_head": heads}
        before, wall, cpu = usage()
        audited = audit(weights, settings=settings).heads
        found = [np.array([head.qk.values for head in audited]) * 8, np.array([head.ov.values for head in audited])]
    after, ended, spent = usage()
    sums = ", ".join(f"{float(values.sum()):.2f}" for values in found)
    print(f"{which}: {ended - wall:.1f} s ({spent - cpu:.1f} s of CPU), {after - before:.2f} GiB more; sums {sums}")


def usage() -> tuple[float, float, float]:
    """Return peak memory in GiB, the time, and the CPU time."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20, time.perf_counter(), time.process_time()


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--layers", type=int, default=2)
    options.add_argument("--fold", action="store_true")
    options.add_argument("--stack", choices=("ours", "lens"))
    given = options.parse_args()
    if given.stack is not None:
        stack(given.stack)
        return
    from factrank.auditing import audit

    with tempfile.TemporaryDirectory() as name:
        size = write_sparse(Path(name), given.layers)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
        wall, cpu = time.perf_counter(), time.process_time()
        audit(name, layers=range(given.layers), fold="norm" if given.fold else None)
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    each = f"{wall / given.layers:.1f} s a layer ({cpu / given.layers:.1f} s of CPU)"
    print(f"{size / 1e9:.1f} GB in {SHARDS} shards: {each}, peak memory {peak:.2f} GiB ({before:.2f} GiB before)")


if __name__ == "__main__":
    main()
