"""The registry: every closed form by its name, equals in the order of preference; a new one is an entry here."""

from __future__ import annotations

from factrank.families.attention.forms.attention_map import AttentionMap
from factrank.families.attention.forms.binary_codes import BinaryCodes
from factrank.families.attention.forms.circle_layer import Circle
from factrank.families.attention.forms.construction import Construction
from factrank.families.attention.forms.digits_layer import Digits
from factrank.families.attention.forms.from_cp import FromCP
from factrank.families.attention.forms.linear_solve import LinearSolve
from factrank.families.attention.forms.mixed import Mixed
from factrank.families.attention.forms.parabola_layer import Parabola
from factrank.families.attention.forms.set_valued import SetValued
from factrank.families.attention.forms.shared_heads import SharedHeads

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
