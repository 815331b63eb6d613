"""Closed forms: attention layers written down by a formula, for a given database.

What lives here: a module per closed form, the choice among them, and what a construction returns. What may enter:
another closed form. What they are built from is in `building`.
"""

from typing import TYPE_CHECKING

from factrank.lazy_face import lazy_face

if TYPE_CHECKING:
    from factrank.families.attention.forms.attention_map import score_of as score_of
    from factrank.families.attention.forms.candidates import Candidate as Candidate
    from factrank.families.attention.forms.candidates import construction_of as construction_of
    from factrank.families.attention.forms.candidates import places_of as places_of
    from factrank.families.attention.forms.choose import construct as construct
    from factrank.families.attention.forms.digits_layer import digits as digits
    from factrank.families.attention.forms.registry import CONSTRUCTIONS as CONSTRUCTIONS
else:
    __getattr__, __dir__, __all__ = lazy_face(__name__, __file__)
