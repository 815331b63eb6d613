"""Editing: where a constructed layer keeps each fact, read from its notes and checked against its weights.

Codes that can be edited share one plan (see `blocks`): a key holds the *word* of its value in the block of the query,
the unembedding holds the columns that belong to the words in the output block and the constants of the query's group.
A value is in the range of a group where its column there is not 0, and its word follows from the column: so the note of
a file says where blocks lie, and the weights say the rest.

The columns of a code are numbered by places 0, 1, 2, ...; a group has room for as many values as the code has places. A
value that is new to a range gets the first place that is free. Two queries that share a head have disjoint ranges, or
one would hear the other: so a value cannot enter a range while another range of the same head has it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import log2
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Bool, Float, Int, Shaped

from factrank.errors import InputError
from factrank.families.attention.forms import digits, score_of
from factrank.families.attention.forms.building import Labels, label_choices
from factrank.families.attention.layer_shape import LayerShape
from factrank.nn import Precision, dtype_of

MOST_BITS = 62
"""Longer words have more places than values can ever take."""

MOST = 2**53
"""No integer of a note is larger: float64 holds them all, and sums of a few do not overflow."""


@runtime_checkable
class Code(Protocol):
    """What edits must know of a code."""

    @property
    def blank(self) -> float:
        """What keys hold where there is no fact."""

    def places(self, width: int) -> int:
        """How many values a range can have, in blocks of this width."""

    def columns(self, places: Int[np.ndarray, " n"], width: int) -> Float[np.ndarray, "n column"]:
        """What the output block and then the constant of a group hold for the values at these places."""

    def words(self, outputs: Float[np.ndarray, "n width"]) -> Float[np.ndarray, "n width"]:
        """What a key holds for values with these columns in the output block."""


@dataclass(frozen=True)
class BinaryWords:
    """Words of signs, and one bias for the whole range."""

    bias: int
    blank: float = 0.0

    def places(self, width: int) -> int:
        """2^b words."""
        return int(2 ** min(width, MOST_BITS))

    def columns(self, places: Int[np.ndarray, " n"], width: int) -> Float[np.ndarray, "n column"]:
        """The word, and the bias."""
        words = 2.0 * (places[:, None] >> np.arange(width) & 1) - 1.0
        return np.column_stack([words, np.full(len(places), float(self.bias))])

    def words(self, outputs: Float[np.ndarray, "n width"]) -> Float[np.ndarray, "n width"]:
        """The same word."""
        return outputs


@dataclass(frozen=True)
class ParabolaLabels:
    """Numbers x, with 2x and s - x^2 in the unembedding."""

    labels: Labels
    precision: Precision
    blank: float = 0.0

    def places(self, width: int) -> int:
        """As many as are proved to be told apart."""
        return self.labels.most

    def columns(self, places: Int[np.ndarray, " n"], width: int) -> Float[np.ndarray, "n column"]:
        """2x, and s - x^2."""
        numbers = self.labels.of(places, self.precision)
        return np.column_stack([2 * numbers, self.labels.biases(numbers)])

    def words(self, outputs: Float[np.ndarray, "n width"]) -> Float[np.ndarray, "n width"]:
        """The label."""
        return np.asarray(outputs / 2)


@dataclass(frozen=True)
class LatticeDigits:
    """Points x of a lattice, with 2x and s - |x|^2 in the unembedding."""

    base: int
    shift: int
    blank: float = 0.0

    def places(self, width: int) -> int:
        """As many as there are numbers with so many digits."""
        return int(self.base**width)

    def columns(self, places: Int[np.ndarray, " n"], width: int) -> Float[np.ndarray, "n column"]:
        """2x, and s - |x|^2."""
        points = digits(places, self.base, width)
        return np.column_stack([2 * points, self.shift - (points**2).sum(axis=1)])

    def words(self, outputs: Float[np.ndarray, "n width"]) -> Float[np.ndarray, "n width"]:
        """The point."""
        return np.asarray(outputs / 2)


@dataclass(frozen=True)
class CirclePoints:
    """Points on a circle, as many as the range had values: there is room for no other."""

    blank: float = 0.0

    def places(self, width: int) -> int:
        """None that could be free."""
        return 0

    def columns(self, places: Int[np.ndarray, " n"], width: int) -> Float[np.ndarray, "n column"]:
        """Nothing to choose from."""
        return np.zeros((len(places), width + 1))

    def words(self, outputs: Float[np.ndarray, "n width"]) -> Float[np.ndarray, "n width"]:
        """The same point."""
        return outputs


@dataclass(frozen=True)
class AttentionLevels:
    """Scores whose attention weights have as many levels as the range had values: there is room for no other."""

    levels: int
    blank: float = 1.0

    def places(self, width: int) -> int:
        """None that could be free."""
        return 0

    def columns(self, places: Int[np.ndarray, " n"], width: int) -> Float[np.ndarray, "n column"]:
        """Nothing to choose from."""
        return np.zeros((len(places), width + 1))

    def words(self, outputs: Float[np.ndarray, "n width"]) -> Float[np.ndarray, "n width"]:
        """The score of the level, which the column has as 2 x with the centred label x."""
        places = np.rint(outputs[:, 0] / 2 + (self.levels - 1) / 2).astype(np.int64)
        return score_of(places, self.levels)[:, None]


class GroupPlace(NamedTuple):
    """Where the columns of a group are."""

    output: int
    width: int
    constants: tuple[int, ...]

    @property
    def rows(self) -> Int[np.ndarray, " rows"]:
        """The rows of the unembedding that hold the columns, the first constant last."""
        return np.array([*range(self.output, self.output + self.width), self.constants[0]])


@dataclass(frozen=True, eq=False)
class FactPlaces:
    """Where a layer keeps its facts.

    Arguments:
        code: the code of all groups.
        groups: where their columns are.
        group_of: the group of each query, -1 for one that no head answers.
        class_of: which head or bundle of heads serves it.
        starts: the first coordinate of its block in the rows of keys.
    """

    code: Code
    groups: tuple[GroupPlace, ...]
    group_of: Int[np.ndarray, " queries"]
    class_of: Int[np.ndarray, " queries"]
    starts: Int[np.ndarray, " queries"]

    def ranges(self, unembedding: Shaped[np.ndarray, "d_model values"]) -> Bool[np.ndarray, "groups values"]:
        """Which values are in the range of each group."""
        return np.array([(unembedding[group.rows] != 0).any(axis=0) for group in self.groups])

    def words(
        self, unembedding: Shaped[np.ndarray, "d_model values"], group: int, values: Int[np.ndarray, " n"]
    ) -> Float[np.ndarray, "n width"]:
        """What keys hold for these values of a group."""
        place = self.groups[group]
        columns = unembedding[place.output : place.output + place.width, values]
        return self.code.words(columns.T.astype(np.float64))

    def neighbours(self, group: int) -> Int[np.ndarray, " others"]:
        """The other groups whose queries share a head with a query of this group: ranges that must stay disjoint."""
        classes = np.unique(self.class_of[self.group_of == group])
        others = self.group_of[np.isin(self.class_of, classes) & (self.group_of >= 0)]
        return np.setdiff1d(others, [group])


def layout_of(editing: Mapping[str, Any], shape: LayerShape, n_queries: int, precision: Precision) -> FactPlaces:
    """The layout that a note describes, for a layer of this shape; an `InputError` where it describes none."""
    try:
        code = _code(editing, precision)
        groups = tuple(_group(group) for group in editing["groups"])
        by_query = editing["queries"]
        columns = [_integers(by_query[name], n_queries) for name in ("group", "class", "start")]
        layout = FactPlaces(code, groups, *columns)
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise InputError(f"the note on the construction does not say how to edit the layer: {error!r}") from None
    _require_inside(layout, shape)
    return layout


def _code(editing: Mapping[str, Any], precision: Precision) -> Code:
    if editing["code"] == "binary words":
        return BinaryWords(_integer(editing["bias"]))
    if editing["code"] == "parabola":
        labels = Labels(**editing["labels"])
        # One query and nothing written besides: no layer is proved to hold more labels of a kind.
        most = {choice.kind: choice.most for choice in label_choices(1, precision)}
        if not 1 <= _integer(labels.most) <= most.get(labels.kind, 0):
            raise ValueError(f"{labels.most} labels of the kind {str(labels.kind)[:60]!r} in {precision}")
        return ParabolaLabels(Labels(labels.kind, _integer(labels.shift), labels.most), precision)
    if editing["code"] == "digits":
        return LatticeDigits(_integer(editing["base"]), _integer(editing["shift"]))
    if editing["code"] == "circle":
        return CirclePoints()
    if editing["code"] == "attention map":
        return AttentionLevels(_integer(editing["levels"]))
    raise ValueError(f"the code {str(editing['code'])[:60]!r}")


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
    if sound and isinstance(layout.code, LatticeDigits):  # places are told apart by powers of the base
        sound = layout.code.base >= 2 and (int(widths.max()) - 1) * log2(layout.code.base) <= log2(MOST)
    if not sound:
        raise InputError("the note on the construction does not fit the size of the layer")


def free_columns(
    layout: FactPlaces, group: int, unembedding: Shaped[np.ndarray, "d_model values"], count: int
) -> Float[np.ndarray, "count column"] | None:
    """The columns of the first free places of a group, None where there are fewer."""
    place = layout.groups[group]
    taken = unembedding[place.rows][:, (unembedding[place.rows] != 0).any(axis=0)].T.astype(np.float64)
    n_known = min(layout.code.places(place.width), len(taken) + count)
    known = layout.code.columns(np.arange(n_known), place.width)
    stored = known.astype(dtype_of(unembedding.dtype.name)).astype(np.float64)  # the bias may be rounded
    seen = {column.tobytes() for column in taken + 0.0}
    free = np.array([column.tobytes() not in seen for column in stored + 0.0])
    return known[free][:count] if free.sum() >= count else None
