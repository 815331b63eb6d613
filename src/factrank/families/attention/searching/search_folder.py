"""The folder of a search: which sizes were tried, and the best layer so far, so that a killed search can go on.

`search.json` names the table and what is asked, and lists the sizes that were tried to their end. `best.safetensors` is
a layer file. Both are replaced in one step. Nothing in the folder is trusted: a layer that is read is certified again.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from factrank.errors import InputError
from factrank.families.attention.layer_files import SavedLayer, load_layer, write_layer
from factrank.families.attention.layer_shape import LayerShape
from factrank.host import replacing

FORM = "trained"
"""Name of trained layers among the constructions."""

STATE, BEST = "search.json", "best.safetensors"


@dataclass(frozen=True)
class TriedSize:
    """A size that was tried to its end.

    Arguments:
        shape: the size.
        parameters: number of stored scalars.
        certified: whether a layer of this size was certified.
        wrong: number of pairs that the best layer got wrong, 0 if it only could not be certified.
        steps: training steps.
        seconds: time that it took.
    """

    shape: LayerShape
    parameters: int
    certified: bool
    wrong: int
    steps: int
    seconds: float


@dataclass(frozen=True)
class SearchFolder:
    """A folder, or None to keep nothing, and what the search is for."""

    path: Path | None
    asked: Mapping[str, Any]

    def probes(self) -> list[TriedSize]:
        """Return the sizes that were tried before.

        Raises:
            InputError: If the folder is of another search, or cannot be read.
        """
        if self.path is None or not (self.path / STATE).exists():
            return []
        state = self._state(self.path / STATE)
        if state["asked"] != dict(self.asked):
            raise InputError(
                f"{self.path}: the folder of another search (other facts or options): remove it, or name another output"
            )
        try:
            return [TriedSize(**{**probe, "shape": LayerShape(**probe["shape"])}) for probe in state["probes"]]
        except (TypeError, KeyError) as error:
            raise InputError(f"{self.path / STATE}: not the state of a search: {error}") from None

    def best(self) -> SavedLayer | None:
        """Return the layer in the folder, which has to be certified again."""
        if self.path is None or not (self.path / BEST).exists():
            return None
        return load_layer(self.path / BEST)

    def keep(self, probes: list[TriedSize], best: SavedLayer | None) -> None:
        """Write the sizes that were tried and, if it is new, the best layer."""
        if self.path is None:
            return
        try:
            self.path.mkdir(exist_ok=True)
            if best is not None:
                write_layer(self.path / BEST, best)
            with replacing(self.path / STATE) as stream:
                state = {"asked": dict(self.asked), "probes": [asdict(probe) for probe in probes]}
                stream.write(json.dumps(state).encode())
        except OSError as error:
            raise InputError(f"{self.path}: cannot be written: {error.strerror or error}") from None

    def remove(self) -> None:
        """Remove the folder, if it contains nothing but a search."""
        if self.path is None or not self.path.is_dir():
            return
        if {file.name for file in self.path.iterdir()} <= {STATE, BEST}:
            shutil.rmtree(self.path)

    def _state(self, path: Path) -> dict[str, Any]:
        try:
            state = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError, RecursionError) as error:
            raise InputError(f"{path}: not the state of a search: {error}") from None
        if not isinstance(state, dict) or set(state) != {"asked", "probes"} or not isinstance(state["probes"], list):
            raise InputError(f"{path}: not the state of a search: expected asked and probes")
        return state
