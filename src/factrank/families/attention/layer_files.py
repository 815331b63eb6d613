"""Layer files: a layer, its vocabularies and its facts in one safetensors file.

The facts are stored with the weights so that an answer can be classified as a fact, an error or a hallucination.
docs/files.md describes the format. Loading executes no content of the file, and a malformed file is an `InputError`.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import MISSING, asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, Literal, get_args, get_type_hints

import numpy as np

from factrank.certificates import ConfidenceClaim, claim_in
from factrank.databases import COLUMNS, Database
from factrank.display import Drawn
from factrank.errors import InputError
from factrank.families.attention.attention_arrays import model_from_arrays, require_parts
from factrank.families.attention.attention_layer import AttentionLayer
from factrank.families.attention.layer_shape import LayerShape
from factrank.families.attention.pair_transformer import AnyLayer, PairTransformer, TransformerShape
from factrank.foreign_text import shown_name
from factrank.host import waiting_for_others
from factrank.nn import FACT_TENSORS, Sealed, facts_from_tensors, facts_to_tensors, read_sealed, to_arrays, write_sealed
from factrank.readouts import AnyModel, with_facts

FORMAT, VERSION = "factrank.layer", 1
SHAPE_OF_MODEL: dict[str, type[LayerShape] | type[TransformerShape]] = {
    AttentionLayer.__name__: LayerShape,
    PairTransformer.__name__: TransformerShape,
}
"""Models that can be saved, and the class that describes their shape."""

Verdict = Literal["fact", "error", "hallucination", "abstention"]


@dataclass(frozen=True, eq=False)
class SavedLayer(Drawn):
    """A layer, the database that defines its codes and contains its training facts, and free-form notes."""

    layer: AnyLayer
    database: Database
    notes: dict[str, str] = field(default_factory=dict)

    def __repr__(self) -> str:
        return f"SavedLayer({self.layer!r}, notes: {', '.join(map(shown_name, self.notes)) or 'none'})"

    @property
    def model(self) -> AnyLayer:
        """Return the layer, under the name that files of all families use."""
        return self.layer

    @property
    def data(self) -> Database:
        """Return the database, under the name that files of all families use."""
        return self.database

    @property
    def claim(self) -> ConfidenceClaim | None:
        """Return the claim about probabilities in the certificate of the file; None if there is none.

        Raises:
            InputError: the certificate cannot be read.
        """
        return claim_in(self.notes)

    @property
    def reserved(self) -> str | None:
        """Return the value that stands for "no fact"; None if the layer has none, or its certificate is unreadable."""
        try:
            return None if self.claim is None else self.claim.unknown
        except InputError:
            return None

    @property
    def spec(self) -> LayerShape | TransformerShape:
        """Return the sizes of the layer."""
        return self.layer.shape


def save_layer(
    path: str | os.PathLike[str],
    given: AnyModel,
    database: Database | None = None,
    *,
    notes: Mapping[str, str] | None = None,
) -> None:
    """Save a layer with its database to a .safetensors file. On error, an existing file is left untouched.

    Waits while another process edits the existing file.

    Arguments:
        path: the file to write.
        given: a layer, or a trained, constructed or loaded object that contains one.
        database: defaults to the database of `given`.
        notes: texts by name; default to the notes of `given`.

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
        raise InputError(f"{path}: only attention layers can be saved to a layer file; got {type(layer).__name__}")
    own_notes = getattr(given, "notes", {})
    path, saved = Path(path), SavedLayer(layer, facts, dict(own_notes if notes is None else notes))
    with waiting_for_others(path):
        write_layer(path, saved)


def write_layer(path: Path, saved: SavedLayer) -> None:
    """Write a layer file without locking it: the caller has a lock, or no other process knows the path."""
    layer, database, notes = saved.layer, saved.database, saved.notes
    if not all(isinstance(text, str) for note in notes.items() for text in note):
        raise InputError(f"{path}: notes must map names to strings; got {notes!r}")
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
    """Load a layer file, bit for bit as it was saved (NaN included).

    float64 weights stay float64. JAX computes with them in 64 bits only inside `with jax.enable_x64(True):`; outside it
    warns and computes in 32.

    Raises:
        InputError: the file is missing, malformed or of another format.

    >>> import tempfile
    >>> from factrank import construct, recall, sample, save
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save(f"{folder}/layer.safetensors", construct(sample("astrid")))
    ...     recall(load_layer(f"{folder}/layer.safetensors")).recall
    1.0
    """
    path = Path(path)
    sealed = read_sealed(path, FORMAT, VERSION)
    try:
        shape = _shape(sealed.metadata)
        notes = _json_object(sealed.metadata, "notes")
        if not all(isinstance(note, str) for note in notes.values()):
            raise InputError("the notes must map names to strings")
        database = facts_from_tensors(sealed.tensors)
        parts = {name: tensor for name, tensor in sealed.tensors.items() if name not in FACT_TENSORS}
        return SavedLayer(model_from_arrays(shape, database.shape, parts), database, notes)
    except InputError as error:
        raise InputError(f"{path}: not a valid layer file: {error}") from None


def verdict(database: Database, key_code: int, query_code: int, value_code: int) -> Verdict:
    """Classify an answer, given by codes, against a database.

    Returns "fact" if the database contains the triple, "error" if it has other values for the (key, query), and
    "hallucination" if it has none. Confidence is not considered.

    >>> facts = Database.from_facts([("Oslo", "country", "Norway"), ("Lima", "country", "Peru")])
    >>> verdict(facts, 0, 0, 0), verdict(facts, 0, 0, 1)
    ('fact', 'error')
    """
    codes = (key_code, query_code, value_code)
    for column, code, size in zip(COLUMNS, codes, database.shape, strict=True):
        if not 0 <= code < size:
            raise InputError(f"the {column} code must be between 0 and {size - 1}; got {code}")
    rows = database.triples  # sorted by (key, query, value)
    for axis, code in enumerate(codes[:2]):
        first, last = np.searchsorted(rows[:, axis], [code, code + 1])
        rows = rows[first:last]
    if not len(rows):
        return "hallucination"
    return "fact" if value_code in rows[:, 2] else "error"


def _shape(metadata: Mapping[str, str]) -> LayerShape | TransformerShape:
    if set(metadata) != {"model", "shape", "notes"}:
        raise InputError("the metadata must be exactly model, shape and notes")
    if metadata["model"] not in SHAPE_OF_MODEL:
        raise InputError(f"the model must be {' or '.join(SHAPE_OF_MODEL)}; got {metadata['model'][:60]!r}")
    kind = SHAPE_OF_MODEL[metadata["model"]]
    values, hints = _json_object(metadata, "shape"), get_type_hints(kind)
    needed = {size.name for size in fields(kind) if size.default is MISSING}  # options added later have defaults
    if not needed <= set(values) <= set(hints):
        raise InputError(f"the fields of the shape must be {', '.join(hints)}; got {metadata['shape'][:200]!r}")
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
