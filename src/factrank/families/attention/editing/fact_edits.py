"""Edits: facts set and deleted in a constructed layer, without touching any other.

A fact lives in the row of its key, in the block of its query, alone. To set it is to write the word of the value there;
to delete it is to write what stands for no fact. A new key is a new row, a new value a new column of the unembedding,
while the code has room (see `editing`). So all logits of all other facts stay what they were bit for bit, but for two
cases that no other fact's answer feels: a value that is new to the range of a query has new logits there; and queries
that share a head have their words copied together, so that the same key's other queries see other logits for values
outside their range, still below those inside. Where there is no fact, binary words tie, the parabola has the value with
the label 0.

Places of values that no fact has any more stay taken: to free them is to rebuild the layer.

Changes are made together or not at all, and then the whole layer is verified: nothing is taken from the certificate
that it had before.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
import pyarrow as pa
from jaxtyping import Bool, Int, Shaped

from factrank.certificates import Certificate, certify, precision_of
from factrank.databases import NAME_TYPE, Database, Vocabulary
from factrank.errors import InputError
from factrank.experiments.models import notes_of
from factrank.families.attention.attention_layer import AttentionLayer
from factrank.families.attention.editing.fact_places import FactPlaces, free_columns, layout_of
from factrank.families.attention.editing.some_keys import of_keys
from factrank.families.attention.forms import CONSTRUCTIONS, construction_of, places_of
from factrank.families.attention.layer_files import SavedLayer, load_layer, write_layer
from factrank.families.attention.proof import AttentionProver
from factrank.host import locked, require_file
from factrank.nn import on_device, to_arrays
from factrank.readouts import full_precision

REBUILD = "rebuild it with factrank construct"

FREES = "Edits keep such places, rebuilding frees them."

MOST_NAMED = 3
"""Names in a list in a message."""


class Change(NamedTuple):
    """A value to set for a (key, query), or with None the fact to delete; `where` is for messages."""

    key: str
    query: str
    value: str | None = None
    where: str = ""


@dataclass(frozen=True, eq=False)
class Edited:
    """A layer after its edits.

    Arguments:
        saved: the layer, the facts it now holds, the notes with its certificate.
        certificate: of the whole.
        n_set: facts that are new or have another value than before.
        n_deleted: facts that are gone.
        n_unchanged: changes that said what was so already.
        new_keys: the names that became keys.
        new_values: the names that became values.
        deleted: codes (key, query) of the facts that are gone.
    """

    saved: SavedLayer
    certificate: Certificate
    n_set: int
    n_deleted: int
    n_unchanged: int
    new_keys: tuple[str, ...]
    new_values: tuple[str, ...]
    deleted: Int[np.ndarray, "n 2"]

    def answers_after_deletion(self, most: int | None = None) -> list[tuple[int, int, int | None]]:
        """For deleted facts the codes (key, query) and of what the layer answers there; None where values tie."""
        pairs = self.deleted[:most]
        if not len(pairs):
            return []
        layer, _ = of_keys(self.saved.layer, self.saved.database, np.unique(pairs[:, 0]))
        rows = np.searchsorted(np.unique(pairs[:, 0]), pairs[:, 0])
        with full_precision(layer):
            logits = np.asarray(on_device(layer).logits(jnp.asarray(rows), jnp.asarray(pairs[:, 1])))
        best = logits.argmax(axis=1)
        alone = (logits == logits.max(axis=1, keepdims=True)).sum(axis=1) == 1
        return [
            (int(key), int(query), int(value) if is_alone else None)
            for (key, query), value, is_alone in zip(pairs, best, alone, strict=True)
        ]


@dataclass(frozen=True, eq=False)
class _Coded:
    """Changes in the codes of the vocabularies with the new names; value -1 deletes."""

    triples: Int[np.ndarray, "changes 3"]
    changes: tuple[Change, ...]
    before: Int[np.ndarray, " changes"]
    after: Database

    @property
    def different(self) -> np.ndarray:
        """Which of them change anything."""
        return np.asarray(self.triples[:, 2] != self.before)


def edit(saved: SavedLayer, changes: Iterable[Change | Sequence[str | None]]) -> Edited:
    """The layer with these changes; an `InputError` says which of them cannot be made, and then none is.

    Arguments:
        saved: a layer made by `construct`, as `load_layer` or `Constructed.to_saved` give it.
        changes: (key, query, value) to set and (key, query) or (key, query, None) to delete.

    >>> from factrank import construct
    >>> facts = Database.from_facts([("Oslo", "country", "Norway"), ("Lima", "country", "Chile")])
    >>> edited = edit(construct(facts).to_saved(), [("Lima", "country", "Peru"), ("Rome", "country", "Norway")])
    >>> edited.certificate.certified, list(edited.saved.database)[1:], edited.new_values
    (True, [('Lima', 'country', 'Peru'), ('Rome', 'country', 'Norway')], ('Peru',))
    """
    construction, editing = construction_of(saved)
    if not editing or not isinstance(saved.layer, AttentionLayer):
        raise InputError(f"facts of a layer of the construction {construction} cannot be edited one by one: {REBUILD}")
    if not saved.database.functional:
        raise InputError(f"the layer holds several values for one (key, query): {REBUILD}")
    shape, precision = saved.layer.shape, precision_of(saved.layer)
    layout = layout_of(editing, shape, saved.database.n_queries, precision)
    coded = _coded(saved.database, _distinct([Change(*change) for change in changes]), layout)
    layer = _written(saved.layer, layout, coded, construction)
    moved = coded.triples[coded.different]
    certificate = certify(AttentionProver(layer, coded.after))
    before, after = saved.database, coded.after
    return Edited(
        saved=SavedLayer(layer, after, saved.notes | notes_of(construction, places_of(editing), certificate)),
        certificate=certificate,
        n_set=int((moved[:, 2] >= 0).sum()),
        n_deleted=int((moved[:, 2] < 0).sum()),
        n_unchanged=len(coded.triples) - len(moved),
        new_keys=after.keys[before.n_keys :],
        new_values=after.values[before.n_values :],
        deleted=moved[moved[:, 2] < 0, :2],
    )


def edit_file(
    path: str | os.PathLike[str], changes: Iterable[Change | Sequence[str | None]], *, force: bool = False
) -> Edited:
    """Edit a layer file. It is replaced in one step: whatever happens, the old file or the new one is there.

    The file is locked from reading to writing: edits of several processes follow each other, and none is lost. An
    `InputError` says so if a program that takes no locks has changed it in the meantime, and nothing is written.

    Nothing is written where the edited layer is not certified, unless `force`.
    """
    path = Path(path)
    try:
        require_file(path)
        with locked(path) as require_unchanged:
            edited = edit(load_layer(path), changes)
            if edited.certificate.certified or force:
                require_unchanged()
                write_layer(path, edited.saved)
    except InputError as error:
        text = str(error)
        raise InputError(text if text.startswith(f"{path}: ") else f"{path}: {text}") from None
    return edited


# ---------------------------------------------------------------- what is to be changed


def _distinct(changes: Sequence[Change]) -> tuple[Change, ...]:
    """The changes once each, or an `InputError` for two that contradict each other or have no names."""
    found: dict[tuple[str, str], Change] = {}
    for change in changes:
        for column, name in zip(("key", "query", "value"), change[:3], strict=True):
            if not (isinstance(name, str) and name) and not (column == "value" and name is None):
                raise InputError(f"{_where(change)}the {column} of a change must be a text; got {name!r}")
        other = found.setdefault((change.key, change.query), change)
        if other.value != change.value:
            asked = " and ".join("a deletion" if one.value is None else repr(one.value) for one in (other, change))
            raise InputError(f"{_where(change)}({change.key!r}, {change.query!r}) is changed twice, by {asked}")
    if not found:
        raise InputError("there are no changes to make")
    return tuple(found.values())


def _coded(database: Database, changes: tuple[Change, ...], layout: FactPlaces) -> _Coded:
    """The changes in codes, with the facts before and after."""
    keys = _extended(database.keys, [change.key for change in changes if change.value is not None])
    values = _extended(database.values, [change.value for change in changes if change.value is not None])
    triples = np.empty((len(changes), 3), dtype=np.int64)
    for row, change in enumerate(changes):
        if change.query not in database.queries or layout.group_of[database.queries.index(change.query)] < 0:
            raise InputError(f"{_where(change)}no head of the layer answers the query {change.query!r}: {REBUILD}")
        if change.key not in keys:
            raise InputError(f"{_where(change)}there is no fact for ({change.key!r}, {change.query!r}) to delete")
        value = -1 if change.value is None else values.index(change.value)
        triples[row] = keys.index(change.key), database.queries.index(change.query), value
    pairs = database.triples[:, 0].astype(np.int64) * database.n_queries + database.triples[:, 1]
    wanted = triples[:, 0] * database.n_queries + triples[:, 1]
    rows, present = np.searchsorted(pairs, wanted), np.isin(wanted, pairs)
    before = np.full(len(wanted), -1, dtype=np.int64)
    before[present] = database.triples[rows[present], 2]
    absent = np.flatnonzero((triples[:, 2] < 0) & ~present)
    if len(absent):
        change = changes[absent[0]]
        raise InputError(f"{_where(change)}there is no fact for ({change.key!r}, {change.query!r}) to delete")
    kept = np.ones(len(pairs), dtype=bool)
    kept[rows[present]] = False
    facts = np.concatenate([database.triples[kept], triples[triples[:, 2] >= 0].astype(np.int32)])
    if not len(facts):
        raise InputError("nothing would be left of the facts: delete the file instead")
    return _Coded(triples, changes, before, Database(facts, keys, database.queries, values))


def _extended(vocabulary: Vocabulary, names: Sequence[str | None]) -> Vocabulary:
    """The vocabulary with the names that it lacks, in the order of their coming."""
    new = [name for name in dict.fromkeys(names) if name is not None and name not in vocabulary]
    return (
        Vocabulary(pa.concat_arrays([vocabulary.names, Vocabulary(new).names.cast(NAME_TYPE)])) if new else vocabulary
    )


def _where(change: Change) -> str:
    return f"{change.where}: " if change.where else ""


# ---------------------------------------------------------------- the weights


def _written(layer: AttentionLayer, layout: FactPlaces, coded: _Coded, construction: str) -> AttentionLayer:
    """The layer with new rows, columns and words."""
    parts, after = to_arrays(layer), coded.after
    n_new = after.n_keys - layer.n_keys
    fresh = np.full((n_new, layer.shape.d_model), layout.code.blank, parts["embedding"].dtype)
    embedding = np.concatenate([parts["embedding"][: layer.n_keys], fresh, parts["embedding"][layer.n_keys :]])
    unembedding = _with_columns(parts["unembedding"], layout, coded, construction)
    moved = coded.triples[coded.different]
    for group, place in enumerate(layout.groups):
        mine = moved[layout.group_of[moved[:, 1]] == group]
        words = np.full((len(mine), place.width), layout.code.blank)
        present = mine[:, 2] >= 0
        words[present] = layout.words(unembedding, group, mine[present, 2])
        columns = layout.starts[mine[:, 1]][:, None] + np.arange(place.width)
        embedding[mine[:, :1], columns] = words.astype(embedding.dtype)
    changes: dict[str, Any] = {"embedding": embedding, "unembedding": unembedding, "n_keys": after.n_keys}
    return replace(layer, **changes)


def _with_columns(
    unembedding: Shaped[np.ndarray, "d_model values"], layout: FactPlaces, coded: _Coded, construction: str
) -> Shaped[np.ndarray, "d_model more"]:
    """The unembedding with columns for the values that are new to a range."""
    n_new = coded.after.n_values - unembedding.shape[1]
    wider = np.pad(unembedding, ((0, 0), (0, n_new)))
    ranges = layout.ranges(wider)
    setting = coded.triples[coded.triples[:, 2] >= 0]
    groups = layout.group_of[setting[:, 1]]
    outside = ~ranges[groups, setting[:, 2]]
    for group in np.unique(groups[outside]).tolist():
        values = np.unique(setting[(groups == group) & outside, 2])
        place = layout.groups[group]
        columns = free_columns(layout, group, wider, len(values))
        if columns is None:
            change = _asking(int(values[-1]), group, layout, coded)
            unused = np.flatnonzero(ranges[group] & ~_in_use(layout, group, coded.after))
            fitting = _what_would_fit(coded.after, construction, wider.dtype.name)
            room = layout.code.places(place.width) or int(ranges[group].sum())
            raise _no_room(change, room, [coded.after.values[value] for value in unused.tolist()], fitting)
        wider[np.ix_(place.rows[:-1], values)] = columns[:, :-1].T.astype(wider.dtype)
        for constant in place.constants:
            wider[constant, values] = columns[:, -1].astype(wider.dtype)
        ranges[group, values] = True
        clashing = ranges[layout.neighbours(group)][:, values].any(axis=0)
        if clashing.any():
            value, others = int(values[clashing.argmax()]), layout.neighbours(group).tolist()
            in_use = any(_in_use(layout, other, coded.after)[value] for other in others)
            fitting = _what_would_fit(coded.after, construction, wider.dtype.name)
            raise _clash(_asking(value, group, layout, coded), in_use, fitting)
    return wider


def _in_use(layout: FactPlaces, group: int, database: Database) -> Bool[np.ndarray, " values"]:
    """Which values the facts of a group have."""
    mine = layout.group_of[database.triples[:, 1]] == group
    return np.bincount(database.triples[mine, 2], minlength=database.n_values) > 0


def _no_room(change: Change, room: int, unused: Sequence[str], fitting: str) -> InputError:
    """The message names places that values without facts keep: the size that would fit may be the present one."""
    taken = (
        f"{_where(change)}no room for {change.value!r}: the code of {change.query!r} has {room:,} places for values, "
        "and all are taken"
    )
    if not unused:
        return InputError(f"{taken}. {fitting}")
    named = ", ".join(repr(name) for name in unused[:MOST_NAMED])
    more = f" and {len(unused) - MOST_NAMED:,} more" if len(unused) > MOST_NAMED else ""
    return InputError(f"{taken}, {len(unused):,} by values that no fact would have: {named}{more}. {FREES} {fitting}")


def _clash(change: Change, in_use: bool, fitting: str) -> InputError:
    other = "has this value." if in_use else f"keeps a place for this value, though no fact has it. {FREES}"
    return InputError(
        f"{_where(change)}{change.value!r} cannot answer {change.query!r}, which shares a head with a query that "
        f"{other} {fitting}"
    )


def _asking(value: int, group: int, layout: FactPlaces, coded: _Coded) -> Change:
    """The first change that sets this value in this group."""
    rows = np.flatnonzero((coded.triples[:, 2] == value) & (layout.group_of[coded.triples[:, 1]] == group))
    return coded.changes[int(rows[0])]


def _what_would_fit(database: Database, construction: str, precision: Any) -> str:
    """The size of a layer for the edited table, or where to look for one."""
    form = CONSTRUCTIONS.get(construction)
    if form is None or form.refusal(database, precision) is not None:
        return f"Nothing was changed; {REBUILD}"
    shape = form.shape(database, precision)
    size = f"d_model {shape.d_model:,}, d_vo {shape.d_vo}, {shape.parameters(*database.shape):,} parameters"
    return f"A layer of {size} would fit: {REBUILD}. Nothing was changed"
