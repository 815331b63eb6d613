"""Layer files with other content and a checksum that fits it: what somebody who wants to deceive would write.

The checksum is that of docs/files.md, written from its text, so that it shares no code with the one in the package.
"""

import hashlib
import json
from itertools import pairwise

import safetensors.numpy
from safetensors import safe_open

CODES = {"float32": "F32", "float64": "F64", "float16": "F16", "bfloat16": "BF16"} | {
    "int32": "I32",
    "int64": "I64",
    "uint8": "U8",
}


def content(path):
    """Tensors and metadata as plain safetensors sees them."""
    with safe_open(path, framework="numpy") as file:
        return {name: file.get_tensor(name) for name in file.keys()}, file.metadata()  # noqa: SIM118


def documented_checksum(tensors, metadata):
    """The checksum of these tensors and metadata."""
    kinds = {name: [CODES[tensor.dtype.name], list(tensor.shape)] for name, tensor in tensors.items()}
    rest = {key: text for key, text in metadata.items() if key != "sha256"}
    head = json.dumps({"metadata": rest, "tensors": kinds}, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(
        head.encode("ascii") + b"".join(tensors[name].tobytes() for name in sorted(tensors))
    ).hexdigest()


def write(path, tensors, metadata, *, seal=True):
    """A file with this content and, unless it keeps the old one, the checksum that fits it."""
    if seal:
        metadata = metadata | {"sha256": documented_checksum(tensors, metadata)}
    path.write_bytes(safetensors.numpy.save(tensors, metadata))


def reseal(path, change):
    """Alter a file: `change(tensors, metadata)` alters both in place."""
    tensors, metadata = content(path)
    tensors = {name: tensor.copy() for name, tensor in tensors.items()}
    change(tensors, metadata)
    write(path, tensors, metadata)


def names_of(tensors, axis):
    """The names of "keys", "queries" or "values"."""
    text, offsets = tensors[f"vocabulary.{axis}.text"].tobytes(), tensors[f"vocabulary.{axis}.offsets"]
    return [text[start:end].decode() for start, end in pairwise(offsets)]
