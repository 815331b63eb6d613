"""Changes to facts, the result of an edit, and what every way of editing shares."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
import pyarrow as pa
from jaxtyping import Int

from factrank.certificates import Certificate, ConfidenceClaim
from factrank.databases import NAME_TYPE, Vocabulary
from factrank.display import Shown
from factrank.errors import InputError
from factrank.families.attention.attention_layer import AttentionLayer
from factrank.families.attention.layer_files import SavedLayer
from factrank.nn import on_device, to_arrays
from factrank.readouts import full_precision

REBUILD = "rebuild it with factrank construct"

ALL_DELETED = "these changes delete every fact: delete the file instead"


class Change(NamedTuple):
    """A value to set for a (key, query), or a fact to delete if the value is None. Messages start with `where`.

    In a set-valued table, all values that are set for a (key, query) together replace those it had.
    """

    key: str
    query: str
    value: str | None = None
    where: str = ""


@dataclass(frozen=True, eq=False)
class Edited(Shown):
    """A layer after editing.

    Arguments:
        saved: the layer, the facts that it now stores, and notes with its certificate.
        certificate: the certificate of the whole layer.
        n_set: number of facts that are new or have a new value.
        n_deleted: number of deleted facts.
        n_unchanged: number of changes without effect.
        new_keys: names added to the keys.
        new_values: names added to the values.
        deleted: codes (key, query) of the deleted facts.
        n_moved: number of facts that keep their answers but not their logits.
    """

    saved: SavedLayer
    certificate: Certificate
    n_set: int
    n_deleted: int
    n_unchanged: int
    new_keys: tuple[str, ...]
    new_values: tuple[str, ...]
    deleted: Int[np.ndarray, "n 2"]
    n_moved: int = 0

    def __repr__(self) -> str:
        return f"Edited({self.n_set:,} set, {self.n_deleted:,} deleted, {self.certificate!r})"

    def answers_after_deletion(self, most: int | None = None) -> list[tuple[int, int, int | None]]:
        """Return (key, query, answer) of deleted facts in codes; the answer is None if values tie."""
        pairs = self.deleted[:most]
        if not len(pairs):
            return []
        keys, rows = np.unique(pairs[:, 0], return_inverse=True)
        layer = of_keys(self.saved.layer, keys)
        with full_precision(layer):
            logits = np.asarray(on_device(layer).logits(jnp.asarray(rows), jnp.asarray(pairs[:, 1])))
        best = logits.argmax(axis=1)
        alone = (logits == logits.max(axis=1, keepdims=True)).sum(axis=1) == 1
        return [
            (int(key), int(query), int(value) if is_alone else None)
            for (key, query), value, is_alone in zip(pairs, best, alone, strict=True)
        ]


def claim_of(saved: SavedLayer) -> ConfidenceClaim | None:
    """Return the claim to prove again, all that is taken from the certificate; an unreadable one claims nothing."""
    try:
        return saved.claim
    except InputError:
        return None


def of_keys(layer: Any, keys: Int[np.ndarray, " some"]) -> AttentionLayer:
    """Return the layer restricted to these keys; their logits do not depend on the rows of other keys."""
    rows = np.concatenate([keys, np.arange(layer.n_keys, layer.n_keys + layer.n_queries)])
    restricted: AttentionLayer = replace(layer, embedding=to_arrays(layer)["embedding"][rows], n_keys=len(keys))
    return restricted


def extended(vocabulary: Vocabulary, names: Sequence[str | None]) -> Vocabulary:
    """Return the vocabulary with the names that it lacks, in order of appearance."""
    new = [name for name in dict.fromkeys(names) if name is not None and name not in vocabulary]
    if not new:
        return vocabulary
    return Vocabulary(pa.concat_arrays([vocabulary.names, Vocabulary(new).names.cast(NAME_TYPE)]))


def where_of(change: Change) -> str:
    """Return the start of a message about a change: its file and line, if it came from a file."""
    return f"{change.where}: " if change.where else ""


def require_names(changes: Sequence[Change]) -> Sequence[Change]:
    """Return the changes; an `InputError` if a name is not a string, or empty."""
    for change in changes:
        for column, name in zip(("key", "query", "value"), change[:3], strict=True):
            if not (isinstance(name, str) and name) and not (column == "value" and name is None):
                raise InputError(f"{where_of(change)}the {column} of a change must be a non-empty string; got {name!r}")
    return changes
