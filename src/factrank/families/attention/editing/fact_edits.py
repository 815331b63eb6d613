"""Set and delete facts in a constructed layer without affecting other facts.

A fact is stored only in the row of its key, in the block of its query. Setting it writes the word of the value there;
deleting it writes the blank. A new key adds a row, and a new value adds a column to the unembedding, if the code has a
free place (see `fact_places`). All logits of all other facts stay the same bit for bit, with two exceptions that change
no answer. A value that is new to the range of a query gets new logits there. And if queries share a head, their words
are copied together, so the other queries of the same key see new logits for values outside their range, still below
those inside. For a missing entry, binary words tie, and the parabola returns the value with label 0.

If the layer abstains by a reserved value, a deleted fact gets that value, and so do all queries of a new key that are
not set. If the logits were multiplied by a power of two, they still are.

A value that no longer occurs in any fact keeps its place; only rebuilding the layer frees it.

Layers without such places, by `logits` or by training, are edited by solving the rows of keys again (`row_edits`).

Changes are atomic, and afterwards the whole layer is certified again: the previous certificate is not used.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Bool, Int, Shaped

from factrank.certificates import ConfidenceClaim, certify, precision_of
from factrank.databases import Database
from factrank.errors import InputError
from factrank.experiments.models import notes_of
from factrank.families.attention.attention_layer import AttentionLayer
from factrank.families.attention.editing.changes import (
    ALL_DELETED,
    REBUILD,
    Change,
    Edited,
    claim_of,
    extended,
    require_names,
    where_of,
)
from factrank.families.attention.editing.fact_places import FactPlaces, free_columns, layout_of
from factrank.families.attention.editing.row_edits import SOLVED_FORMS, edit_rows
from factrank.families.attention.forms import CONSTRUCTIONS, construction_of, places_of
from factrank.families.attention.forms.building import LARGEST_EXPONENT, completed, scaled, without_reserved
from factrank.families.attention.layer_files import SavedLayer, load_layer, write_layer
from factrank.families.attention.proof import AttentionProver
from factrank.host import locked, require_file
from factrank.nn import to_arrays

FREES = "Only rebuilding frees such places."

MOST_NAMED = 3
"""Number of names that a message lists."""


@dataclass(frozen=True, eq=False)
class _Coded:
    """Changes as codes in the vocabularies with the new names; value -1 deletes."""

    triples: Int[np.ndarray, "changes 3"]
    changes: tuple[Change, ...]
    before: Int[np.ndarray, " changes"]
    after: Database

    @property
    def moved(self) -> Int[np.ndarray, "effective 3"]:
        return np.asarray(self.triples[self.triples[:, 2] != self.before])


def edit(saved: SavedLayer, changes: Iterable[Change | Sequence[str | None]]) -> Edited:
    """Apply changes to a constructed layer and certify the result.

    Arguments:
        saved: a layer from `construct`, as returned by `load_layer` or `Constructed.to_saved`.
        changes: (key, query, value) to set, and (key, query) or (key, query, None) to delete.

    Raises:
        InputError: a change cannot be made; then none is made.
        SearchError: the layer is solved again for its changes (`row_edits`), and no solution was found.

    >>> from factrank import construct
    >>> facts = Database.from_facts([("Oslo", "country", "Norway"), ("Lima", "country", "Chile")])
    >>> edited = edit(construct(facts).to_saved(), [("Lima", "country", "Peru"), ("Rome", "country", "Norway")])
    >>> edited.certificate.certified, list(edited.saved.database)[1:], edited.new_values
    (True, [('Lima', 'country', 'Peru'), ('Rome', 'country', 'Norway')], ('Peru',))
    """
    construction, editing = construction_of(saved)
    if construction in SOLVED_FORMS and isinstance(saved.layer, AttentionLayer):
        asked = require_names([Change(*change) for change in changes])
        return edit_rows(saved, saved.layer, construction, asked)
    if not editing or not isinstance(saved.layer, AttentionLayer):
        raise InputError(f"facts of a layer of form {construction} cannot be edited one by one: {REBUILD}")
    if not saved.database.functional:
        raise InputError(f"the layer stores several values for one (key, query): {REBUILD}")
    layout = layout_of(editing, saved.layer.shape, saved.database.n_queries, precision_of(saved.layer))
    claim, exponent = claim_of(saved), _exponent(editing)
    asked = _distinct([Change(*change) for change in changes])
    coded = _coded(completed(saved.database, claim), _with_reserved(asked, saved.database, claim), layout)
    layer = scaled(_written(scaled(saved.layer, -exponent), layout, coded, construction), exponent)
    before, after = saved.database, without_reserved(coded.after, claim)
    if not len(after):
        raise InputError(ALL_DELETED)
    certificate = certify(AttentionProver(layer, after, claim))
    moved, previous = coded.moved, coded.before[coded.triples[:, 2] != coded.before]
    reserved = -1 if claim is None or claim.unknown is None else after.values.index(claim.unknown)
    is_set, is_deleted = moved[:, 2] != reserved, (moved[:, 2] == reserved) & (previous >= 0)
    return Edited(
        saved=SavedLayer(layer, after, saved.notes | notes_of(construction, places_of(editing), certificate)),
        certificate=certificate,
        n_set=int(is_set.sum()),
        n_deleted=int(is_deleted.sum()),
        n_unchanged=len(asked) - int(is_set.sum() + is_deleted.sum()),
        new_keys=after.keys[before.n_keys :],
        new_values=after.values[before.n_values :],
        deleted=moved[is_deleted, :2],
    )


def _exponent(editing: Mapping[str, Any]) -> int:
    """Return the exponent of the power of two by which the logits were multiplied."""
    exponent = editing.get("exponent", 0)
    if type(exponent) is not int or abs(exponent) > LARGEST_EXPONENT:
        raise InputError(f"invalid exponent in the construction note: {str(exponent)[:60]!r}")
    return exponent


def _with_reserved(
    changes: tuple[Change, ...], database: Database, claim: ConfidenceClaim | None
) -> tuple[Change, ...]:
    """Return the changes of the completed table of a layer that abstains.

    Deleting a fact sets the reserved value, and a new key has it for all queries that are not set.
    """
    if claim is None or claim.unknown is None:
        return changes
    for change in changes:
        if change.value == claim.unknown:
            reserves = f"the layer reserves {change.value!r} for pairs without a fact"
            raise InputError(f"{where_of(change)}{reserves}: delete the fact instead")
        known = change.key in database.keys and change.query in database.queries
        if change.value is None and not (known and database.fiber(change.key, change.query)):
            raise InputError(f"{where_of(change)}there is no fact for ({change.key!r}, {change.query!r}) to delete")
    new = dict.fromkeys(change.key for change in changes if change.key not in database.keys)
    given = {(change.key, change.query) for change in changes}
    rest = [Change(key, query, claim.unknown) for key in new for query in database.queries if (key, query) not in given]
    kept = [change if change.value is not None else change._replace(value=claim.unknown) for change in changes]
    return (*kept, *rest)


def edit_file(
    path: str | os.PathLike[str], changes: Iterable[Change | Sequence[str | None]], *, force: bool = False
) -> Edited:
    """Edit a layer file in place, atomically, if the edited layer is certified.

    The file stays locked from reading to writing, so concurrent edits are applied one after another.

    Arguments:
        path: the layer file.
        changes: as for `edit`.
        force: write the file even if the edited layer is not certified.

    Raises:
        InputError: a change cannot be made, or a program that ignores locks changed the file in the meantime. The
            file is left as it was.
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


def _distinct(changes: Sequence[Change]) -> tuple[Change, ...]:
    """Return the changes without repetitions; an `InputError` if two conflict or a name is not a string."""
    found: dict[tuple[str, str], Change] = {}
    for change in require_names(changes):
        other = found.setdefault((change.key, change.query), change)
        if other.value != change.value:
            asked = " and ".join("a deletion" if one.value is None else repr(one.value) for one in (other, change))
            raise InputError(
                f"{where_of(change)}({change.key!r}, {change.query!r}) has two conflicting changes: {asked}"
            )
    if not found:
        raise InputError("no changes given")
    return tuple(found.values())


def _coded(database: Database, changes: tuple[Change, ...], layout: FactPlaces) -> _Coded:
    keys = extended(database.keys, [change.key for change in changes if change.value is not None])
    values = extended(database.values, [change.value for change in changes if change.value is not None])
    triples = np.empty((len(changes), 3), dtype=np.int64)
    for row, change in enumerate(changes):
        if change.query not in database.queries or layout.group_of[database.queries.index(change.query)] < 0:
            raise InputError(f"{where_of(change)}no head of the layer answers the query {change.query!r}: {REBUILD}")
        if change.key not in keys:
            raise InputError(f"{where_of(change)}there is no fact for ({change.key!r}, {change.query!r}) to delete")
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
        raise InputError(f"{where_of(change)}there is no fact for ({change.key!r}, {change.query!r}) to delete")
    kept = np.ones(len(pairs), dtype=bool)
    kept[rows[present]] = False
    facts = np.concatenate([database.triples[kept], triples[triples[:, 2] >= 0].astype(np.int32)])
    if not len(facts):
        raise InputError(ALL_DELETED)
    return _Coded(triples, changes, before, Database(facts, keys, database.queries, values))


def _written(layer: AttentionLayer, layout: FactPlaces, coded: _Coded, construction: str) -> AttentionLayer:
    parts, after = to_arrays(layer), coded.after
    n_new = after.n_keys - layer.n_keys
    fresh = np.full((n_new, layer.shape.d_model), layout.code.blank, parts["embedding"].dtype)
    embedding = np.concatenate([parts["embedding"][: layer.n_keys], fresh, parts["embedding"][layer.n_keys :]])
    unembedding = _with_columns(parts["unembedding"], layout, coded, construction)
    moved = coded.moved
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
    """Return the unembedding with columns for values that are new to a range."""
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
    mine = layout.group_of[database.triples[:, 1]] == group
    return np.bincount(database.triples[mine, 2], minlength=database.n_values) > 0


def _no_room(change: Change, room: int, unused: Sequence[str], fitting: str) -> InputError:
    """Name the places of values without facts: rebuilding may need no larger layer."""
    taken = (
        f"{where_of(change)}no free place for {change.value!r}: the code of {change.query!r} has {room:,} "
        f"place{'s' * (room != 1)}, all taken"
    )
    if not unused:
        return InputError(f"{taken}. {fitting}")
    named = ", ".join(repr(name) for name in unused[:MOST_NAMED])
    more = f" and {len(unused) - MOST_NAMED:,} more" if len(unused) > MOST_NAMED else ""
    return InputError(f"{taken}, {len(unused):,} by values without facts: {named}{more}. {FREES} {fitting}")


def _clash(change: Change, in_use: bool, fitting: str) -> InputError:
    other = "has this value." if in_use else f"keeps a place for this value, although no fact uses it. {FREES}"
    return InputError(
        f"{where_of(change)}{change.value!r} cannot answer {change.query!r}, which shares a head with a query that "
        f"{other} {fitting}"
    )


def _asking(value: int, group: int, layout: FactPlaces, coded: _Coded) -> Change:
    """Return the first change that sets this value in this group."""
    rows = np.flatnonzero((coded.triples[:, 2] == value) & (layout.group_of[coded.triples[:, 1]] == group))
    return coded.changes[int(rows[0])]


def _what_would_fit(database: Database, construction: str, precision: Any) -> str:
    form = CONSTRUCTIONS.get(construction)
    if form is None or form.refusal(database, precision) is not None:
        return f"The layer is unchanged; {REBUILD}"
    shape = form.shape(database, precision)
    size = f"d_model {shape.d_model:,}, d_vo {shape.d_vo}, {shape.parameters(*database.shape):,} parameters"
    return f"A layer of {size} would fit: {REBUILD}. The layer is unchanged"
