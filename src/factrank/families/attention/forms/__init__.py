"""Closed forms: attention layers written down by a formula, for a given database.

What lives here: a module per closed form, the choice among them, and what a construction returns. What may enter:
another closed form. What they are built from is in `building`.
"""

from typing import TYPE_CHECKING

from factrank.lazy_face import lazy_face

if TYPE_CHECKING:
    from factrank.families.attention.forms.attention_map import score_of as score_of
    from factrank.families.attention.forms.choose import construct as construct
    from factrank.families.attention.forms.constructed import BITS_OF_LANGUAGE_MODELS as BITS_OF_LANGUAGE_MODELS
    from factrank.families.attention.forms.constructed import Candidate as Candidate
    from factrank.families.attention.forms.constructed import Constructed as Constructed
    from factrank.families.attention.forms.constructed import construction_of as construction_of
    from factrank.families.attention.forms.constructed import notes_of as notes_of
    from factrank.families.attention.forms.constructed import width_in_bits as width_in_bits
    from factrank.families.attention.forms.digits_layer import digits as digits
    from factrank.families.attention.forms.registry import CONSTRUCTIONS as CONSTRUCTIONS
    from factrank.families.attention.forms.registry import register_form as register_form
    from factrank.families.attention.forms.registry import registered_form as registered_form
else:
    __getattr__, __dir__, __all__ = lazy_face(__name__, __file__)
