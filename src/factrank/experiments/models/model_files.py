"""Model files: a model of any family with its specification, data and certificate, in one safetensors file.

The format is documented in docs/files.md. Reading a file never executes code, and every problem is an `InputError`. A
family may define another format, as attention layers do; `save` and `load` call the family.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from factrank.display import Drawn
from factrank.errors import InputError
from factrank.experiments.models.handed_models import handed_model
from factrank.experiments.registry import families, family_of
from factrank.experiments.specs import CONVERTER, ModelSpec, canonical_json, from_plain, to_plain
from factrank.foreign_text import shown_name
from factrank.host import waiting_for_others
from factrank.nn import Sealed, format_of, read_sealed, to_arrays, write_sealed

if TYPE_CHECKING:
    from factrank.experiments.family import Family

FORMAT, VERSION = "factrank.model", 1
MODEL, DATA = "model.", "data."
"""Prefixes of tensor names for the model and its data."""
METADATA = {"spec", "sizes", "data", "notes"}


@dataclass(frozen=True, eq=False)
class SavedModel(Drawn):
    """A model, the data that it should recall, its specification, and notes."""

    model: Any
    data: Any
    spec: Any
    notes: Mapping[str, str] = field(default_factory=dict)

    def __repr__(self) -> str:
        return f"SavedModel({self.model!r}, notes: {', '.join(map(shown_name, self.notes)) or 'none'})"


def save(
    path: str | os.PathLike[str],
    given: Any,
    data: Any = None,
    *,
    spec: Any = None,
    notes: Mapping[str, str] | None = None,
) -> None:
    """Save a model of any family with its data.

    If there is an error, an existing file is left unchanged. Waits while another process edits the file.

    Arguments:
        path: File name, ending in .safetensors.
        given: A layer, memory, factual recall transformer, memoriser, or model of another family; or a training result,
            constructed or loaded object that contains one.
        data: Database or examples that it should recall; by default, the data of `given`.
        spec: Specification, if it contains more than the model knows, such as the sequence length.
        notes: Strings by name; by default, the notes of `given`.

    Raises:
        InputError: If specification, data and model do not match, or the file cannot be written.

    >>> import pathlib, tempfile
    >>> from factrank import Database, MemoryShape, construct_memory, verify
    >>> facts = Database.from_facts([("Oslo", "country", "Norway"), ("Lima", "country", "Peru")])
    >>> found = construct_memory(facts, MemoryShape(d_model=4), form="two-sided")
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "cities.safetensors")
    ...     save(path, found.model, facts)
    ...     saved = load(path)
    >>> saved.data == facts, verify(saved.model, saved.data) == found.certificate
    (True, True)
    """
    model, data, family, known = handed_model(given, data)
    described = known if spec is None else spec
    if family_of(described) is not family:
        raise InputError(f"{path}: a {type(described).__name__} does not describe a {type(model).__name__}")
    try:
        family.from_parts(described, family.sizes(model), to_arrays(model))
    except InputError as error:
        raise InputError(f"{path}: the model does not fit its specification: {error}") from None
    refusal = family.refusal(described, data)
    if refusal is not None:
        raise InputError(f"{path}: {refusal}")
    kept = notes if notes is not None else getattr(given, "notes", {})
    write_saved(path, family.to_saved(model, data, described, dict(kept)))


def write_saved(path: str | os.PathLike[str], saved: Any) -> None:
    """Write the result of `load` or `Constructed.to_saved`."""
    with waiting_for_others(Path(path)):
        family_of(saved.spec).write(Path(path), saved)


def load(path: str | os.PathLike[str]) -> Any:
    """Return the contents of a model file of any family, bit for bit: `model`, `data`, `spec` and `notes`.

    >>> import tempfile
    >>> from factrank import construct, sample
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save(f"{folder}/layer.safetensors", construct(sample("astrid")))
    ...     load(f"{folder}/layer.safetensors").model.shape
    LayerShape(d_model=4, n_heads=1, d_qk=3, d_vo=1)
    """
    path = Path(path)
    family = _family_by_format(path)
    return read_model_file(path) if family is None else family.read(path)


def family_of_file(path: Path) -> Family:
    """Return the family of the model in a file."""
    return _family_by_format(path) or family_of(read_model_file(path).spec)


def _family_by_format(path: Path) -> Family | None:
    """Find the family that defines the format of a file; None for the common format."""
    mark, owners = format_of(path), {one.file_format: one for one in families().values() if one.file_format}
    if mark != FORMAT and mark not in owners:
        formats = " or ".join(repr(name) for name in (*owners, FORMAT))
        raise InputError(f"{path}: a safetensors file, but not of the format {formats}")
    return None if mark == FORMAT else owners[mark]


def write_model_file(path: Path, saved: SavedModel, family: Family) -> None:
    """Write a file in the common format of all families."""
    notes = dict(saved.notes)
    if not all(isinstance(text, str) for note in notes.items() for text in note):
        raise InputError(f"{path}: notes must map strings to strings; got {notes!r}")
    held, described = family.data_parts(saved.data)
    tensors = {f"{MODEL}{name}": part for name, part in to_arrays(saved.model).items()}
    tensors |= {f"{DATA}{name}": part for name, part in held.items()}
    metadata = {
        "spec": canonical_json(to_plain(saved.spec)),
        "sizes": " ".join(map(str, family.sizes(saved.model))),
        "data": canonical_json(to_plain(described)),
        "notes": json.dumps(notes),
    }
    write_sealed(path, Sealed(tensors, metadata), FORMAT, VERSION)


def read_model_file(path: Path) -> SavedModel:
    """Read a file in the common format."""
    sealed = read_sealed(path, FORMAT, VERSION)
    try:
        if set(sealed.metadata) != METADATA:
            raise InputError(f"expected exactly the metadata {', '.join(sorted(METADATA))}")
        plain = {name: _json(sealed.metadata[name], name) for name in ("spec", "data", "notes")}
        if isinstance(plain["spec"], dict) and "start" in plain["spec"]:
            raise InputError(f"written by factrank 0.1; {CONVERTER}")
        families()  # registers their specifications
        spec: Any = from_plain(cast("type", ModelSpec), plain["spec"], "spec")
        notes, family = plain["notes"], family_of(spec)
        if not isinstance(notes, dict) or not all(isinstance(note, str) for note in notes.values()):
            raise InputError("the notes must map strings to strings")
        model = family.from_parts(spec, _sizes(sealed.metadata["sizes"], family), _named(sealed, MODEL))
        unknown = [name for name in sealed.tensors if not name.startswith((MODEL, DATA))]
        if unknown:
            raise InputError(f"unknown tensor {unknown[0][:60]!r}")
        return SavedModel(model, family.data_from_parts(_named(sealed, DATA), plain["data"]), spec, notes)
    except InputError as error:
        raise InputError(f"{path}: not a valid model file: {error}") from None


def _named(sealed: Sealed, prefix: str) -> dict[str, Any]:
    return {name.removeprefix(prefix): part for name, part in sealed.tensors.items() if name.startswith(prefix)}


def _sizes(text: str, family: Family) -> tuple[int, ...]:
    if not re.fullmatch("[0-9]{1,9}( [0-9]{1,9})*", text) or len(text.split()) != len(family.size_names):
        raise InputError(f"expected the sizes {', '.join(family.size_names)}; got {text[:60]!r}")
    return tuple(map(int, text.split()))


def _json(text: str, name: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(f"the {name} must be JSON: {error}") from None
