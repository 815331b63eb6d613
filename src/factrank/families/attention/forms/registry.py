"""The registry: every closed form by its name, equals in the order of preference.

A closed form of this package is an entry here; others are added by `register_form`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from factrank.errors import InputError
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


def register_form(form: Construction) -> Construction:
    """Add a closed form: `construct` considers it from now on. Gives it back."""
    if form.name in CONSTRUCTIONS:
        raise InputError(f"there is already a construction {form.name!r}: give it another name")
    CONSTRUCTIONS[form.name] = form
    return form


def unregister_form(form: Construction) -> None:
    """Take away what was added."""
    del CONSTRUCTIONS[form.name]


@contextmanager
def registered_form(form: Construction) -> Iterator[Construction]:
    """Register a closed form for the time of a `with` block."""
    register_form(form)
    try:
        yield form
    finally:
        unregister_form(form)
