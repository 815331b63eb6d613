"""Hostile layer files: weights, facts, names and notes changed, and sealed again with a valid checksum."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

import numpy as np

from factrank.databases.sample_tables import sample
from factrank.families.attention.layer_files import FORMAT, VERSION
from factrank.families.attention.searching import construct
from factrank.nn.sealed_file import Sealed, read_sealed, write_sealed
from fuzz.hostile import NUMBERS, changed_bytes, changed_plain, encodable_text, written

TYPES = ["float32", "float64", "int32", "int64", "uint8"]
COMMANDS = [
    ["ask", "LAYER", "Astrid", "born_in"],
    ["ask", "LAYER", "Astrid", "born_in", "--json"],
    ["verify", "LAYER", "sample:astrid"],
    ["verify", "LAYER"],
    ["recall", "LAYER", "sample:astrid"],
    ["edit", "LAYER", "--set", "Astrid", "born_in", "Malaysia"],
    ["edit", "LAYER", "--delete", "Astrid", "born_in"],
]


def make(random: Random, folder: Path) -> list[str]:
    """A layer file with a few changes, and a command that opens it."""
    path = folder / "layer.safetensors"
    write_changed(random, path, _original(), FORMAT, VERSION)
    if random.random() < 0.05:
        path.write_bytes(changed_bytes(random, path.read_bytes()))
    command = random.choice(COMMANDS)
    return [str(path) if word == "LAYER" else word for word in command]


@cache
def _original() -> Sealed:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "layer.safetensors"
        construct(sample("astrid"), only=["parabola"]).save(path)
        return read_sealed(path, FORMAT, VERSION)


def write_changed(random: Random, path: Path, content: Sealed, file_format: str, version: int) -> None:
    """Write a sealed file with a few changes, or without any if they cannot be written."""
    tensors, metadata = dict(content.tensors), dict(content.metadata)
    for _ in range(random.choice([1, 1, 2, 4])):
        change(random, tensors, metadata)
    try:
        write_sealed(path, Sealed(tensors, metadata), file_format, version)
    except Exception:
        write_sealed(path, content, file_format, version)


def change(random: Random, tensors: dict[str, np.ndarray], metadata: dict[str, str]) -> None:
    """Change one tensor or one text of the metadata."""
    if random.random() < 0.3:
        name = random.choice([*sorted(metadata), *["notes"] * 4])
        metadata[name] = _changed_note(random, metadata[name])
        return
    name = random.choice([*sorted(tensors), *["support"] * (3 if "support" in tensors else 0)])
    tensor, draw = tensors[name], random.random()
    if draw < 0.02:
        del tensors[name]
    elif draw < 0.04:
        tensors[encodable_text(random) or "x"] = tensor
    elif draw < 0.1:
        with np.errstate(all="ignore"):
            tensors[name] = tensor.astype(random.choice(TYPES))
    elif draw < 0.15:
        tensors[name] = tensor.reshape(random.choice([(-1,), (1, *tensor.shape), (*tensor.shape, 1)]))
    elif draw < 0.3:
        tensors[name] = tensor[: random.choice([0, 0, 1, 3])] if tensor.ndim else tensor
    elif name.endswith(".text"):
        texts = written(encodable_text(random)) or b"a"
        tensors[name] = np.resize(np.frombuffer(texts, np.uint8), tensor.shape)
    else:
        tensors[name] = _with_odd_numbers(random, tensor)


def _with_odd_numbers(random: Random, tensor: np.ndarray) -> np.ndarray:
    changed = tensor.copy()
    with np.errstate(all="ignore"):
        for _ in range(random.choice([1, 3, 50])):
            if changed.size:
                number = random.choice([n for n in NUMBERS if changed.dtype.kind == "f" or abs(n) < 2**31])
                changed.flat[random.randrange(changed.size)] = np.array(number, "f8").astype(changed.dtype)
    return changed


def _changed_note(random: Random, note: str) -> str:
    try:
        plain = json.loads(note)
    except ValueError:
        return encodable_text(random)
    if isinstance(plain, dict) and plain and random.random() < 0.9:
        name = random.choice(sorted(plain))
        if isinstance(plain[name], str):
            return json.dumps({**plain, name: _changed_note(random, plain[name])})
    return json.dumps(changed_plain(random, plain))
