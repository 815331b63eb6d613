"""Model files: a model of any family with its specification, its data and its certificate, in one safetensors file.

docs/files.md describes the format. Nothing in a file is executed, and whatever is wrong with one is an `InputError`. A
family may have a format of its own, as attention layers do, which `save` and `load` reach through the family.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from factrank.errors import InputError
from factrank.experiments.models.handed_models import handed_model
from factrank.experiments.registry import families, family_of
from factrank.experiments.specs import ModelSpec, canonical_json, from_plain, to_plain
from factrank.host import waiting_for_others
from factrank.nn import Sealed, format_of, read_sealed, to_arrays, write_sealed

if TYPE_CHECKING:
    from factrank.experiments.family import Family

FORMAT, VERSION = "factrank.model", 1
MODEL, DATA = "model.", "data."
"""What the names of the tensors of the model and of its data begin with."""
METADATA = {"spec", "sizes", "data", "notes"}


@dataclass(frozen=True, eq=False)
class SavedModel:
    """A model, the data that it should recall, its specification, and free notes about it."""

    model: Any
    data: Any
    spec: Any
    notes: Mapping[str, str] = field(default_factory=dict)


def save(
    path: str | os.PathLike[str],
    given: Any,
    data: Any = None,
    *,
    spec: Any = None,
    notes: Mapping[str, str] | None = None,
) -> None:
    """Save a model of any family with its data; the name ends in .safetensors.

    An error leaves the file that was there. Waits while another process edits it.

    Arguments:
        path: where to.
        given: a layer, a memory, a factual recall transformer, a memoriser, or a model of another family; or something
            trained, constructed or loaded that has one.
        data: what it should recall, a database or examples, if not what it came with.
        spec: its specification, if more is known than the model knows itself, such as the length of sequences.
        notes: texts by name, if not those that it came with.

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
    """Write what `load` gives or `Constructed.to_saved`."""
    with waiting_for_others(Path(path)):
        family_of(saved.spec).write(Path(path), saved)


def load(path: str | os.PathLike[str]) -> Any:
    """What a file of any family holds, bit for bit: its `model`, `data`, `spec` and `notes`."""
    path = Path(path)
    family = _family_by_format(path)
    return read_model_file(path) if family is None else family.read(path)


def family_of_file(path: Path) -> Family:
    """The family of the model in a file."""
    return _family_by_format(path) or family_of(read_model_file(path).spec)


def _family_by_format(path: Path) -> Family | None:
    """The family whose own format a file has; None if it has the format of all."""
    mark, owners = format_of(path), {one.file_format: one for one in families().values() if one.file_format}
    if mark != FORMAT and mark not in owners:
        formats = " or ".join(repr(name) for name in (*owners, FORMAT))
        raise InputError(f"{path}: a safetensors file, but not of the format {formats}")
    return None if mark == FORMAT else owners[mark]


def write_model_file(path: Path, saved: SavedModel, family: Family) -> None:
    """Write the format of all families that have none of their own."""
    notes = dict(saved.notes)
    if not all(isinstance(text, str) for note in notes.items() for text in note):
        raise InputError(f"{path}: notes must be texts by name; got {notes!r}")
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
    """Read that format."""
    sealed = read_sealed(path, FORMAT, VERSION)
    try:
        if set(sealed.metadata) != METADATA:
            raise InputError(f"expected the metadata {', '.join(sorted(METADATA))}, and no other")
        plain = {name: _json(sealed.metadata[name], name) for name in ("spec", "data", "notes")}
        families()  # whose specifications are known from here on
        spec: Any = from_plain(cast("type", ModelSpec), plain["spec"], "spec")
        notes, family = plain["notes"], family_of(spec)
        if not isinstance(notes, dict) or not all(isinstance(note, str) for note in notes.values()):
            raise InputError("the notes must be texts by name")
        model = family.from_parts(spec, _sizes(sealed.metadata["sizes"], family), _named(sealed, MODEL))
        unknown = [name for name in sealed.tensors if not name.startswith((MODEL, DATA))]
        if unknown:
            raise InputError(f"unknown tensor {unknown[0][:60]!r}")
        return SavedModel(model, family.data_from_parts(_named(sealed, DATA), plain["data"]), spec, notes)
    except InputError as error:
        raise InputError(f"{path}: not a sound model file: {error}") from None


def _named(sealed: Sealed, prefix: str) -> dict[str, Any]:
    return {name.removeprefix(prefix): part for name, part in sealed.tensors.items() if name.startswith(prefix)}


def _sizes(text: str, family: Family) -> tuple[int, ...]:
    if not re.fullmatch("[0-9]{1,9}( [0-9]{1,9})*", text) or len(text.split()) != len(family.size_names):
        raise InputError(f"the sizes must be those of {', '.join(family.size_names)}; got {text[:60]!r}")
    return tuple(map(int, text.split()))


def _json(text: str, name: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(f"the {name} must be JSON: {error}") from None
