"""The registry: every closed form by its name, equals in the order of preference; a new one is an entry here."""

from __future__ import annotations

from factrank.constructions.attention_map import AttentionMap
from factrank.constructions.binary_codes import BinaryCodes
from factrank.constructions.circle_layer import Circle
from factrank.constructions.construction import Construction
from factrank.constructions.digits_layer import Digits
from factrank.constructions.from_cp import FromCP
from factrank.constructions.linear_solve import LinearSolve
from factrank.constructions.mixed import Mixed
from factrank.constructions.parabola_layer import Parabola
from factrank.constructions.set_valued import SetValued
from factrank.constructions.shared_heads import SharedHeads

_ALONE: dict[str, Construction] = {
    form.name: form
    for form in (
        Parabola(),
        Digits(),
        SharedHeads(),
        BinaryCodes(),
        Parabola("compact"),
        Parabola("one-hot"),
        Circle(),
        AttentionMap(),
        SetValued(),
        FromCP(),
        LinearSolve(),
    )
}

CONSTRUCTIONS: dict[str, Construction] = {**_ALONE, Mixed.name: Mixed(_ALONE)}
"""Every closed form by its name."""
