"""Weights of trials in a store: one sealed safetensors file per trial, named after its hash.

The tensors are the parts of the model. The metadata contain the trial and the sizes that, with its specification,
determine all shapes (`Family.size_names`).
"""

from __future__ import annotations

import hashlib
import os
import re
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open

from factrank.errors import InputError
from factrank.experiments.registry import family_of
from factrank.experiments.specs import canonical_json
from factrank.experiments.store.columns import trial_of
from factrank.experiments.training import TrialResult
from factrank.host import require_file
from factrank.nn import SUFFIX, Sealed, read_sealed, to_arrays, unreadable, write_sealed

FORMAT, VERSION = "factrank.weights", 1
NAME = re.compile("[0-9a-f]{64}")


def weights_path(folder: Path, trial_hash: str) -> Path:
    """Return the file of a trial's weights."""
    if not NAME.fullmatch(trial_hash):
        raise InputError(f"the hash of a trial must have 64 hexadecimal digits; got {trial_hash[:80]!r}")
    return folder / f"{trial_hash}{SUFFIX}"


def write_weights(path: Path, result: TrialResult) -> None:
    """Write the weights of a trained model and flush them to disk."""
    model = result.weights
    sizes = family_of(result.trial.model).sizes(model)
    metadata = {"trial": canonical_json(result.trial.to_dict()), "sizes": " ".join(map(str, sizes))}
    write_sealed(path, Sealed(to_arrays(model), metadata), FORMAT, VERSION)
    with path.open("rb") as file:
        os.fsync(file.fileno())


def read_weights(folder: Path, trial_hash: str) -> Any:
    """Return the trained model of a trial, bit for bit.

    Raises:
        InputError: If the file is missing or damaged, or belongs to another trial.
    """
    path = weights_path(folder, trial_hash)
    sealed = read_sealed(path, FORMAT, VERSION)
    text, sizes = sealed.metadata.get("trial", ""), sealed.metadata.get("sizes", "")
    if set(sealed.metadata) != {"trial", "sizes"} or not re.fullmatch("[0-9]{1,9}( [0-9]{1,9})*", sizes):
        raise InputError(f"{path}: not the weights of a trial")
    trial = trial_of(text)
    if trial.hash != trial_hash:
        raise InputError(f"{path}: weights of another trial, {trial.hash}")
    numbers, family = tuple(map(int, sizes.split())), family_of(trial.model)
    if len(numbers) != len(family.size_names):
        raise InputError(f"{path}: {len(numbers)} sizes do not describe the model of its trial")
    return family.from_parts(trial.model, numbers, sealed.tensors)


def weights_problems(folder: Path) -> list[str]:
    """Describe the problems of all files in a folder, given their names and headers; checksums are not verified."""
    try:
        names = sorted(name for name in os.listdir(folder) if not name.startswith("."))
    except FileNotFoundError:
        return []
    except OSError as error:
        return [f"{folder}: cannot be read: {error.strerror or error}"]
    return [problem for name in names if (problem := weights_problem(folder / name))]


def weights_problem(path: Path) -> str | None:
    """Describe the problem of a file of weights, given its name and header; None if the file is valid."""
    if path.suffix != SUFFIX or not NAME.fullmatch(path.stem):
        return f"{path}: not the weights of a trial: its name is not a hash with {SUFFIX}"
    try:
        require_file(path)
        with safe_open(path, framework="numpy") as file:
            metadata = file.metadata() or {}
    except (SafetensorError, OSError, ValueError, MemoryError) as error:
        return str(unreadable(path, error))
    except InputError as error:
        return str(error)
    if metadata.get("format") != FORMAT:
        return f"{path}: a safetensors file, but not of the format {FORMAT!r}"
    is_named = hashlib.sha256(metadata.get("trial", "").encode()).hexdigest() == path.stem
    return None if is_named else f"{path}: the name does not match the trial in the file"
