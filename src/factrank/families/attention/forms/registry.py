"""The registry of closed forms, equals in the order of preference.

Other packages add theirs in the entry-point group `factrank.forms`.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import Any

from factrank.errors import InputError
from factrank.families.attention.forms.attention_map import AttentionMap
from factrank.families.attention.forms.binary_codes import BinaryCodes
from factrank.families.attention.forms.circle_layer import Circle
from factrank.families.attention.forms.construction import Construction
from factrank.families.attention.forms.digits_layer import Digits
from factrank.families.attention.forms.linear_solve import LinearSolve
from factrank.families.attention.forms.mixed import Mixed
from factrank.families.attention.forms.parabola_layer import Parabola
from factrank.families.attention.forms.set_valued import SetValued
from factrank.families.attention.forms.shared_heads import SharedHeads
from factrank.families.attention.forms.terms import FromCP, Logits
from factrank.plugins import Registry


def register_form(form: Construction) -> Construction:
    """Add a closed form that `construct` considers from now on, and return it."""
    return CONSTRUCTIONS.register(form.name, form)


def registered_form(form: Construction) -> AbstractContextManager[Construction]:
    """Register a closed form for the duration of a `with` block."""
    return CONSTRUCTIONS.registered(form.name, form)


def _built_in() -> Mapping[str, Construction]:
    forms: tuple[Construction, ...] = (
        Parabola(),
        Digits(),
        SharedHeads(),
        BinaryCodes(),
        Parabola("compact"),
        Parabola("one-hot"),
        Circle(),
        AttentionMap(),
        SetValued(),
        Logits(),
        FromCP(),
        LinearSolve(),
    )
    alone = {form.name: form for form in forms}
    return {**alone, Mixed.name: Mixed(alone)}


def _checked(_: str, form: Any) -> tuple[str, Construction]:
    if isinstance(form, type) or not isinstance(form, Construction):
        got = f"the class {form.__name__}" if isinstance(form, type) else type(form).__name__
        raise InputError(f"expected a closed form with name, estimated, refusal, shape and build; got {got}")
    return form.name, form


CONSTRUCTIONS: Registry[Construction] = Registry("construction", "factrank.forms", _built_in, _checked)
"""Every closed form by its name."""
