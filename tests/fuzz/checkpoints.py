"""Hostile checkpoint folders: settings, tensors and indices of BERT, GPT-2 and ViT changed."""

from __future__ import annotations

import json
import struct
from functools import cache
from pathlib import Path
from random import Random

import numpy as np
from safetensors.numpy import save

from fuzz.hostile import changed_bytes, changed_plain, some_plain, some_text
from tiny_checkpoints import SETTINGS, drawn_weights, inputs_of


def make(random: Random, folder: Path) -> list[str]:
    """A checkpoint with its inputs, and the command that reads them."""
    kind = random.choice(sorted(SETTINGS))
    settings = dict(SETTINGS[kind])
    for _ in range(random.choice([0, 0, 0, 1, 1, 2])):
        settings = changed_plain(random, settings)
    content = json.dumps(settings).encode()
    (folder / "config.json").write_bytes(changed_bytes(random, content) if random.random() < 0.1 else content)
    (folder / "model.safetensors").write_bytes(_weights(random, kind))
    if random.random() < 0.15:
        index = {"weight_map": {some_text(random): random.choice(["model.safetensors", "../x", 3])}}
        (folder / "model.safetensors.index.json").write_text(json.dumps(changed_plain(random, index)))
    np.save(folder / "inputs.npy", inputs_of(kind))
    inputs = "--images" if kind == "vit" else "--ids"
    stage = random.choice([[], ["--stage", "embedding"], ["--stage", "block"], ["--random"]])
    return ["assumptions", str(folder), inputs, str(folder / "inputs.npy"), "--subsets", "3", *stage]


@cache
def _original(kind: str) -> dict[str, np.ndarray]:
    return drawn_weights(kind)


def _weights(random: Random, kind: str) -> bytes:
    tensors = dict(_original(kind))
    draw = random.random()
    name = random.choice(sorted(tensors))
    if draw < 0.2:
        del tensors[name]
    elif draw < 0.4:
        tensors[name] = tensors[name][..., :-1].copy()
    elif draw < 0.5:
        tensors[name] = np.full_like(tensors[name], random.choice([np.nan, np.inf, 1e38]))
    elif draw < 0.6:
        tensors[name] = tensors[name].astype(random.choice(["f8", "i4", "u1", "f2"]))
    packed = save(tensors)
    if draw > 0.85:
        return changed_bytes(random, packed)
    return _with_changed_head(random, packed) if draw > 0.7 else packed


def _with_changed_head(random: Random, packed: bytes) -> bytes:
    """The file with another description of its tensors in front of the same bytes."""
    (size,) = struct.unpack("<Q", packed[:8])
    head = json.loads(packed[8 : 8 + size])
    name = random.choice(sorted(head))
    head[name] = {**head[name], random.choice(["dtype", "shape", "data_offsets"]): some_plain(random)}
    text = json.dumps(head).encode()
    return struct.pack("<Q", len(text)) + text + packed[8 + size :]
