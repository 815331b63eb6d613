"""Layer files: a trained layer with its vocabularies and the facts it was trained on, in one safetensors file.

The facts are kept beside the weights so that an answer can be called a fact, an error or an artifact. docs/files.md
describes the format. Nothing in a file is executed, and whatever is wrong with one is an `InputError`.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import MISSING, asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, Literal, get_args, get_type_hints

import numpy as np

from factrank.databases import COLUMNS, Database
from factrank.errors import InputError
from factrank.families.attention.attention_arrays import model_from_arrays, require_parts
from factrank.families.attention.attention_layer import AttentionLayer
from factrank.families.attention.layer_shape import LayerShape
from factrank.families.attention.pair_transformer import AnyLayer, PairTransformer, TransformerShape
from factrank.host import waiting_for_others
from factrank.nn import FACT_TENSORS, Sealed, facts_from_tensors, facts_to_tensors, read_sealed, to_arrays, write_sealed
from factrank.readouts import AnyModel, with_facts

FORMAT, VERSION = "factrank.layer", 1
SHAPE_OF_MODEL: dict[str, type[LayerShape] | type[TransformerShape]] = {
    AttentionLayer.__name__: LayerShape,
    PairTransformer.__name__: TransformerShape,
}
"""The models that can be saved, and what describes their shape."""

Verdict = Literal["fact", "error", "artifact"]


@dataclass(frozen=True, eq=False)
class SavedLayer:
    """A layer, the database whose codes it speaks and whose facts it was trained on, and free notes about it."""

    layer: AnyLayer
    database: Database
    notes: dict[str, str] = field(default_factory=dict)

    @property
    def model(self) -> AnyLayer:
        """The layer, by the name that files of all families share."""
        return self.layer

    @property
    def data(self) -> Database:
        """The database, likewise."""
        return self.database

    @property
    def spec(self) -> LayerShape | TransformerShape:
        """The sizes of the layer."""
        return self.layer.shape


def save_layer(
    path: str | os.PathLike[str],
    given: AnyModel,
    database: Database | None = None,
    *,
    notes: Mapping[str, str] | None = None,
) -> None:
    """Save a layer with its database; the name ends in .safetensors. An error leaves the file that was there.

    `given` is a layer, or something trained, constructed or loaded that has one. What came with its own database and
    notes is saved with them, unless others are given. Waits while another process edits the file that was there.

    >>> import pathlib, tempfile
    >>> from factrank import init_layer
    >>> facts = Database.from_facts([("Oslo", "country", "Norway"), ("Lima", "country", "Peru")])
    >>> layer = init_layer(LayerShape(2, 1, 1, 1), *facts.shape, key=0)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "cities.safetensors")
    ...     save_layer(path, layer, facts, notes={"trained by": "nobody"})
    ...     saved = load_layer(path)
    >>> saved.database == facts, saved.notes, bool((saved.layer.tensor() == layer.tensor()).all())
    (True, {'trained by': 'nobody'}, True)
    """
    layer, facts = with_facts(given, database)
    if not isinstance(layer, AttentionLayer | PairTransformer):
        raise InputError(f"{path}: layer files hold attention layers; got {type(layer).__name__}")
    own_notes = getattr(given, "notes", {})
    path, saved = Path(path), SavedLayer(layer, facts, dict(own_notes if notes is None else notes))
    with waiting_for_others(path):
        write_layer(path, saved)


def write_layer(path: Path, saved: SavedLayer) -> None:
    """Write a layer file that is locked, or that nobody else can know of."""
    layer, database, notes = saved.layer, saved.database, saved.notes
    if not all(isinstance(text, str) for note in notes.items() for text in note):
        raise InputError(f"{path}: notes must be texts by name; got {notes!r}")
    parts = to_arrays(layer)
    try:
        require_parts(layer.shape, database.shape, parts)
    except InputError as error:
        raise InputError(f"{path}: the layer does not fit the database {database.shape}: {error}") from None
    metadata = {
        "model": type(layer).__name__,
        "shape": json.dumps(asdict(layer.shape)),
        "notes": json.dumps(notes),
    }
    write_sealed(path, Sealed(parts | facts_to_tensors(database), metadata), FORMAT, VERSION)


def load_layer(path: str | os.PathLike[str]) -> SavedLayer:
    """The layer of a file, its database and notes; bit for bit what was saved, also NaN.

    float64 weights stay float64. JAX computes with them in 64 bits only inside `with jax.enable_x64(True):`; outside it
    warns and computes in 32.
    """
    path = Path(path)
    sealed = read_sealed(path, FORMAT, VERSION)
    try:
        shape = _shape(sealed.metadata)
        notes = _json_object(sealed.metadata, "notes")
        if not all(isinstance(note, str) for note in notes.values()):
            raise InputError("the notes must be texts by name")
        database = facts_from_tensors(sealed.tensors)
        parts = {name: tensor for name, tensor in sealed.tensors.items() if name not in FACT_TENSORS}
        return SavedLayer(model_from_arrays(shape, database.shape, parts), database, notes)
    except InputError as error:
        raise InputError(f"{path}: not a sound layer file: {error}") from None


def verdict(database: Database, key_code: int, query_code: int, value_code: int) -> Verdict:
    """What a database says of an answer.

    A fact when it has this very triple, an error when it has another value for the (key, query), an artifact when it
    says nothing there. How confident the answer was is the caller's matter.
    """
    codes = (key_code, query_code, value_code)
    for column, code, size in zip(COLUMNS, codes, database.shape, strict=True):
        if not 0 <= code < size:
            raise InputError(f"the code of the {column} must lie between 0 and {size - 1}; got {code}")
    rows = database.triples  # sorted by (key, query, value)
    for axis, code in enumerate(codes[:2]):
        first, last = np.searchsorted(rows[:, axis], [code, code + 1])
        rows = rows[first:last]
    if not len(rows):
        return "artifact"
    return "fact" if value_code in rows[:, 2] else "error"


def _shape(metadata: Mapping[str, str]) -> LayerShape | TransformerShape:
    """The shape that the metadata describe: exactly the known fields, each of its type."""
    if set(metadata) != {"model", "shape", "notes"}:
        raise InputError("expected the metadata model, shape and notes, and no other")
    if metadata["model"] not in SHAPE_OF_MODEL:
        raise InputError(f"expected the model {' or '.join(SHAPE_OF_MODEL)}; got {metadata['model'][:60]!r}")
    kind = SHAPE_OF_MODEL[metadata["model"]]
    values, hints = _json_object(metadata, "shape"), get_type_hints(kind)
    needed = {
        size.name for size in fields(kind) if size.default is MISSING
    }  # an option of a later version has a default
    if not needed <= set(values) <= set(hints):
        raise InputError(f"the shape must hold {', '.join(hints)} and nothing else; got {metadata['shape'][:200]!r}")
    for name, value in values.items():
        choices = get_args(hints[name])
        if value not in choices if choices else type(value) is not hints[name]:
            wanted = " or ".join(choices) or f"of type {hints[name].__name__}"
            raise InputError(f"{name} in the shape must be {wanted}; got {str(value)[:60]!r}")
    return kind(**values)


def _json_object(metadata: Mapping[str, str], name: str) -> dict[str, Any]:
    try:
        value = json.loads(metadata[name])
    except (ValueError, RecursionError) as error:
        raise InputError(f"the {name} must be JSON: {error}") from None
    if not isinstance(value, dict):
        raise InputError(f"the {name} must be a JSON object")
    return value
