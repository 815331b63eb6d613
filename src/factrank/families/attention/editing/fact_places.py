"""Location of each fact in a constructed layer, read from its notes and checked against its weights.

All editable codes use the plan of `block_layers`: a key stores the *word* of its value in the block of the query, and
the unembedding stores the matching columns in the output block and the constants of the query's group. A value is in
the range of a group if its column there is not 0, and the column determines its word. The note of a file therefore
records only the position of blocks; everything else is read from the weights.

The columns of a code are numbered by places 0, 1, 2, ..., and a value that is new to a range gets the first free place.
Queries that share a head must have disjoint ranges, so a value cannot enter a range while another range of the same
head contains it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import log2
from typing import Any, ClassVar, NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int, Shaped

from factrank.errors import InputError
from factrank.families.attention.forms import code_words, digits, score_of
from factrank.families.attention.forms.building import Labels, label_choices
from factrank.families.attention.layer_shape import LayerShape
from factrank.nn import Precision, dtype_of

MOST_BITS = 62
"""Longer words have more places than there can be values."""

MOST = 2**53
"""Largest integer in a note: float64 represents all up to it, and sums of a few do not overflow."""


@dataclass(frozen=True)
class Code:
    """A code, as editing needs it.

    The base class describes points on a circle: there are exactly as many points as values, so no place is free.
    """

    blank: ClassVar[float] = 0.0
    """Entry of a key without a fact."""

    def places(self, width: int) -> int:
        """Return how many values a range can have in blocks of this width; 0 if the code cannot grow."""
        return 0

    def columns(self, places: Int[np.ndarray, " n"], width: int) -> Float[np.ndarray, "n column"]:
        """Return the entries of the output block and of the constant for the values at these places."""
        return np.zeros((len(places), width + 1))

    def words(self, outputs: Float[np.ndarray, "n width"]) -> Float[np.ndarray, "n width"]:
        """Return the entries of a key for values with these columns in the output block."""
        return outputs


@dataclass(frozen=True)
class _BinaryWords(Code):
    """Words of signs, and one bias for the whole range."""

    bias: int

    def places(self, width: int) -> int:
        return int(2 ** min(width, MOST_BITS))

    def columns(self, places: Int[np.ndarray, " n"], width: int) -> Float[np.ndarray, "n column"]:
        return np.column_stack([code_words(places, width), np.full(len(places), float(self.bias))])


@dataclass(frozen=True)
class _ParabolaLabels(Code):
    """Numbers x, with 2x and s - x^2 in the unembedding."""

    labels: Labels
    precision: Precision

    def places(self, width: int) -> int:
        return self.labels.most

    def columns(self, places: Int[np.ndarray, " n"], width: int) -> Float[np.ndarray, "n column"]:
        numbers = self.labels.of(places, self.precision)
        return np.column_stack([2 * numbers, self.labels.biases(numbers)])

    def words(self, outputs: Float[np.ndarray, "n width"]) -> Float[np.ndarray, "n width"]:
        return np.asarray(outputs / 2)


@dataclass(frozen=True)
class _LatticeDigits(Code):
    """Points x of a lattice, with 2x and s - |x|^2 in the unembedding."""

    base: int
    shift: int

    def places(self, width: int) -> int:
        return int(self.base**width)

    def columns(self, places: Int[np.ndarray, " n"], width: int) -> Float[np.ndarray, "n column"]:
        points = digits(places, self.base, width)
        return np.column_stack([2 * points, self.shift - (points**2).sum(axis=1)])

    def words(self, outputs: Float[np.ndarray, "n width"]) -> Float[np.ndarray, "n width"]:
        return np.asarray(outputs / 2)


@dataclass(frozen=True)
class _AttentionLevels(Code):
    """Scores whose attention weights have exactly one level per value, so no place is free."""

    blank: ClassVar[float] = 1.0
    levels: int

    def words(self, outputs: Float[np.ndarray, "n width"]) -> Float[np.ndarray, "n width"]:
        places = np.rint(outputs[:, 0] / 2 + (self.levels - 1) / 2).astype(np.int64)  # the column is 2 x
        return score_of(places, self.levels)[:, None]


class GroupPlace(NamedTuple):
    """Position of the columns of a group."""

    output: int
    width: int
    constants: tuple[int, ...]

    @property
    def rows(self) -> Int[np.ndarray, " rows"]:
        """Return the rows of the unembedding that contain the columns, the first constant last."""
        return np.array([*range(self.output, self.output + self.width), self.constants[0]])


@dataclass(frozen=True, eq=False)
class FactPlaces:
    """Position of the facts in a layer.

    Arguments:
        code: the code of all groups.
        groups: the positions of their columns.
        group_of: the group of each query; -1 if no head answers it.
        class_of: the head or bundle of heads that serves each query.
        starts: the first coordinate of each query's block in the rows of keys.
    """

    code: Code
    groups: tuple[GroupPlace, ...]
    group_of: Int[np.ndarray, " queries"]
    class_of: Int[np.ndarray, " queries"]
    starts: Int[np.ndarray, " queries"]

    def ranges(self, unembedding: Shaped[np.ndarray, "d_model values"]) -> Bool[np.ndarray, "groups values"]:
        """Return which values are in the range of each group."""
        return np.array([(unembedding[group.rows] != 0).any(axis=0) for group in self.groups])

    def words(
        self, unembedding: Shaped[np.ndarray, "d_model values"], group: int, values: Int[np.ndarray, " n"]
    ) -> Float[np.ndarray, "n width"]:
        """Return the entries of a key for these values of a group."""
        place = self.groups[group]
        columns = unembedding[place.output : place.output + place.width, values]
        return self.code.words(columns.T.astype(np.float64))

    def neighbours(self, group: int) -> Int[np.ndarray, " others"]:
        """Return the other groups with a query that shares a head with this group; their ranges must stay disjoint."""
        classes = np.unique(self.class_of[self.group_of == group])
        others = self.group_of[np.isin(self.class_of, classes) & (self.group_of >= 0)]
        return np.setdiff1d(others, [group])


def layout_of(editing: Mapping[str, Any], shape: LayerShape, n_queries: int, precision: Precision) -> FactPlaces:
    """Read the positions of facts from a note.

    Raises:
        InputError: the note is malformed, or does not match the shape of the layer.
    """
    try:
        code = _code(editing, precision)
        groups = tuple(_group(group) for group in editing["groups"])
        by_query = editing["queries"]
        columns = [_integers(by_query[name], n_queries) for name in ("group", "class", "start")]
        layout = FactPlaces(code, groups, *columns)
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise InputError(f"the construction note does not describe how to edit the layer: {error!r}") from None
    _require_inside(layout, shape)
    return layout


def _code(editing: Mapping[str, Any], precision: Precision) -> Code:
    if editing["code"] == "binary words":
        return _BinaryWords(_integer(editing["bias"]))
    if editing["code"] == "parabola":
        labels = Labels(**editing["labels"])
        # One query that writes to no output: the largest number of labels proved for any layer.
        most = {choice.kind: choice.most for choice in label_choices(1, precision)}
        if not 1 <= _integer(labels.most) <= most.get(labels.kind, 0):
            raise ValueError(f"{labels.most} labels of kind {str(labels.kind)[:60]!r} in {precision}")
        return _ParabolaLabels(Labels(labels.kind, _integer(labels.shift), labels.most), precision)
    if editing["code"] == "digits":
        return _LatticeDigits(_integer(editing["base"]), _integer(editing["shift"]))
    if editing["code"] == "circle":
        return Code()
    if editing["code"] == "attention map":
        return _AttentionLevels(_integer(editing["levels"]))
    raise ValueError(f"unknown code {str(editing['code'])[:60]!r}")


def _group(group: Mapping[str, Any]) -> GroupPlace:
    constants = group["constants"] if "constants" in group else [group["constant"]]
    return GroupPlace(
        _integer(group["output"]), _integer(group.get("bits", 1)), tuple(_integer(place) for place in constants)
    )


def _integer(number: object) -> int:
    if not isinstance(number, int) or isinstance(number, bool) or abs(number) > MOST:
        raise ValueError(f"expected an integer of size at most 2^53; got {str(number)[:60]}")
    return number


def _integers(numbers: Sequence[object], size: int) -> Int[np.ndarray, " n"]:
    if len(numbers) != size:
        raise ValueError(f"expected {size} integers")
    return np.array([_integer(number) for number in numbers], dtype=np.int64)


def _require_inside(layout: FactPlaces, shape: LayerShape) -> None:
    """Check that every coordinate that an edit may touch exists."""
    used = layout.group_of >= 0
    sound = bool((layout.group_of < len(layout.groups)).all() and len(layout.groups))
    if sound:
        widths = np.array([group.width for group in layout.groups])
        places = [place for group in layout.groups for place in (group.output, *group.constants)]
        starts = layout.starts[used]
        ends = starts + widths[layout.group_of[used]]
        outputs = [group.output + group.width for group in layout.groups]
        sound = bool(
            (widths >= 1).all()
            and all(group.constants for group in layout.groups)
            and min([*places, *starts.tolist()]) >= 0
            and max([*places, *starts.tolist()]) < shape.d_model
            and max([*outputs, *ends.tolist()]) <= shape.d_model
        )
    if sound and isinstance(layout.code, _LatticeDigits):  # powers of the base must stay exact
        sound = layout.code.base >= 2 and (int(widths.max()) - 1) * log2(layout.code.base) <= log2(MOST)
    if not sound:
        raise InputError("the construction note does not match the size of the layer")


def free_columns(
    layout: FactPlaces, group: int, unembedding: Shaped[np.ndarray, "d_model values"], count: int
) -> Float[np.ndarray, "count column"] | None:
    """Return the columns of the first free places of a group; None if there are fewer than `count`."""
    place = layout.groups[group]
    taken = unembedding[place.rows][:, (unembedding[place.rows] != 0).any(axis=0)].T.astype(np.float64)
    n_known = min(layout.code.places(place.width), len(taken) + count)
    known = layout.code.columns(np.arange(n_known), place.width)
    stored = known.astype(dtype_of(unembedding.dtype.name)).astype(np.float64)  # storing may round the bias
    seen = {column.tobytes() for column in taken + 0.0}
    free = np.array([column.tobytes() not in seen for column in stored + 0.0])
    return known[free][:count] if free.sum() >= count else None
