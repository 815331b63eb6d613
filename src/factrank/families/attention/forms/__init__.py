"""Closed forms: attention layers whose weights are given by a formula, for a given database.

Contains: one module per closed form, the choice between them, and the result of a construction; `building` contains
their shared parts. Add here: another closed form.
"""

from typing import TYPE_CHECKING

from factrank.lazy_face import lazy_face

if TYPE_CHECKING:
    from factrank.families.attention.forms.attention_map import AttentionMap as AttentionMap
    from factrank.families.attention.forms.attention_map import score_of as score_of
    from factrank.families.attention.forms.binary_codes import BinaryCodes as BinaryCodes
    from factrank.families.attention.forms.binary_codes import code_words as code_words
    from factrank.families.attention.forms.candidates import Candidate as Candidate
    from factrank.families.attention.forms.candidates import construction_of as construction_of
    from factrank.families.attention.forms.candidates import places_of as places_of
    from factrank.families.attention.forms.candidates import refused_forms as refused_forms
    from factrank.families.attention.forms.choose import construct_by_formula as construct_by_formula
    from factrank.families.attention.forms.circle_layer import Circle as Circle
    from factrank.families.attention.forms.construction import Built as Built
    from factrank.families.attention.forms.construction import Construction as Construction
    from factrank.families.attention.forms.construction import host_layer as host_layer
    from factrank.families.attention.forms.digits_layer import Digits as Digits
    from factrank.families.attention.forms.digits_layer import digits as digits
    from factrank.families.attention.forms.linear_solve import LinearSolve as LinearSolve
    from factrank.families.attention.forms.mixed import Mixed as Mixed
    from factrank.families.attention.forms.parabola_layer import Parabola as Parabola
    from factrank.families.attention.forms.registry import CONSTRUCTIONS as CONSTRUCTIONS
    from factrank.families.attention.forms.registry import register_form as register_form
    from factrank.families.attention.forms.registry import registered_form as registered_form
    from factrank.families.attention.forms.set_valued import SetValued as SetValued
    from factrank.families.attention.forms.shared_heads import SharedHeads as SharedHeads
    from factrank.families.attention.forms.terms.from_cp import FromCP as FromCP
    from factrank.families.attention.forms.terms.logits_layer import Logits as Logits
else:
    __getattr__, __dir__, __all__ = lazy_face(__name__)
