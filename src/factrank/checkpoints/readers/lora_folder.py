"""Read LoRA adapters as PEFT writes them: `adapter_config.json` and `adapter_model.safetensors`.

An adapter adds $s B A$ to a frozen matrix, with B [outputs, r], A [r, inputs] and s = alpha / r, or alpha / sqrt(r) if
`use_rslora` is true.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from factrank.checkpoints.configuration import Settings, read_settings
from factrank.checkpoints.readers.safetensors_folder import read_safetensors
from factrank.checkpoints.readers.stored_tensor import StoredTensor
from factrank.errors import InputError

LORA_CONFIGURATION, LORA_WEIGHTS = "adapter_config.json", "adapter_model.safetensors"
PREFIX = "base_model.model."
DOWN, UP = ".lora_A.weight", ".lora_B.weight"


@dataclass(frozen=True)
class LowRankUpdate:
    """Update s B A of one matrix.

    Arguments:
        name: Name of the adapted matrix, without the prefix of PEFT.
        down: A [r, inputs].
        up: B [outputs, r].
        scale: s.
    """

    name: str
    down: StoredTensor
    up: StoredTensor
    scale: float

    @property
    def rank(self) -> int:
        """r, the most that the rank of the update can be."""
        return self.down.shape[0]

    @property
    def shape(self) -> tuple[int, int]:
        """Outputs and inputs of the adapted matrix."""
        return self.up.shape[0], self.down.shape[1]

    @property
    def parameters(self) -> int:
        """Stored scalars of A and B."""
        return self.down.size + self.up.size


def read_lora(folder: Path) -> tuple[LowRankUpdate, ...]:
    """Return the updates of a LoRA folder, in the order of their names; the weights are read on demand.

    Raises:
        InputError: If the adapter is not a plain LoRA, or a matrix lacks its partner or has another rank.
    """
    settings = read_settings(folder / LORA_CONFIGURATION)
    kind = settings.text("peft_type", "LORA")
    if kind != "LORA" or settings.truth("use_dora", False):
        raise InputError(f"{settings.place}: expected a LoRA without DoRA; got peft_type {kind[:40]!r}")
    tensors = read_safetensors(folder / LORA_WEIGHTS)
    stems = sorted({_stem(name) for name in tensors if name.endswith((DOWN, UP))}, key=_natural)
    if not stems:
        raise InputError(f"{folder / LORA_WEIGHTS}: no tensor ends in {DOWN} or {UP}")
    return tuple(_update(settings, stem, tensors) for stem in stems)


def _update(settings: Settings, stem: str, tensors: Mapping[str, StoredTensor]) -> LowRankUpdate:
    for end in (DOWN, UP):
        if stem + end not in tensors:
            raise InputError(f"{settings.place}: the tensor {stem + end!r} is missing")
    down, up = tensors[stem + DOWN], tensors[stem + UP]
    if len(down.shape) != 2 or len(up.shape) != 2 or down.shape[0] != up.shape[1] or not down.size * up.size:
        raise InputError(
            f"{down.place}: {stem!r} has A of shape {down.shape} and B of shape {up.shape}; expected r alike"
        )
    name = stem.removeprefix(PREFIX)
    rank = _matching(settings, "rank_pattern", name, settings.size("r"))
    if down.shape[0] != rank:
        raise InputError(
            f"{down.place}: the tensor {down.name!r} has rank {down.shape[0]}; {LORA_CONFIGURATION} has {rank}"
        )
    alpha = _matching(settings, "alpha_pattern", name, settings.number("lora_alpha", 8.0))
    return LowRankUpdate(name, down, up, alpha / (rank**0.5 if settings.truth("use_rslora", False) else rank))


def _matching(settings: Settings, pattern: str, name: str, default: Any) -> Any:
    """Return the entry of a pattern whose key ends the name of the matrix; the default if there is none."""
    given = settings.entries.get(pattern) or {}
    if not isinstance(given, dict) or not all(type(value) in (int, float) and value > 0 for value in given.values()):
        raise InputError(f"{settings.place}: expected {pattern} to be positive numbers by name")
    expression = next((key for key in given if re.search(r"[^\w.-]", key)), None)
    if expression is not None:
        raise InputError(f"{settings.place}: {pattern} has the regular expression {expression[:60]!r}; expected names")
    return next((value for key, value in given.items() if name == key or name.endswith(f".{key}")), default)


def _stem(name: str) -> str:
    return name.removesuffix(DOWN).removesuffix(UP)


def _natural(name: str) -> list[Any]:
    """Sort layer 10 after layer 9."""
    return [(int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"(\d+)", name)]
