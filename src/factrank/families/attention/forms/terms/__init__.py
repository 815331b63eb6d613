"""Closed forms made of rank-one terms: exact decompositions of the table, and logits with few terms.

Contains: one module per form. Add here: another form whose coordinates are the terms of a tensor.
"""

from typing import TYPE_CHECKING

from factrank.lazy_face import lazy_face

if TYPE_CHECKING:
    from factrank.families.attention.forms.terms.from_cp import FromCP as FromCP
    from factrank.families.attention.forms.terms.logits_layer import Logits as Logits
    from factrank.families.attention.forms.terms.logits_layer import bent_layer as bent_layer
    from factrank.families.attention.forms.terms.logits_layer import logits_shape as logits_shape
else:
    __getattr__, __dir__, __all__ = lazy_face(__name__)
