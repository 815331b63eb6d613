"""Path analysis: the contribution of each path of a layer, and why a fact is missing.

Contains: the decomposition of a layer's tensor, attribution, routing, diagnosis and answers. Add here: another analysis
of a single layer.
"""

from typing import TYPE_CHECKING

from factrank.lazy_face import lazy_face

if TYPE_CHECKING:
    from factrank.families.attention.circuits.answers import Answer as Answer
    from factrank.families.attention.circuits.answers import answer as answer
    from factrank.families.attention.circuits.attribution import Attribution as Attribution
    from factrank.families.attention.circuits.attribution import PairAttribution as PairAttribution
    from factrank.families.attention.circuits.attribution import additive_numbers as additive_numbers
    from factrank.families.attention.circuits.attribution import attribute as attribute
    from factrank.families.attention.circuits.attribution import attribute_facts as attribute_facts
    from factrank.families.attention.circuits.diagnosis import Diagnosis as Diagnosis
    from factrank.families.attention.circuits.diagnosis import diagnose as diagnose
    from factrank.families.attention.circuits.layer_parts import has_parts as has_parts
    from factrank.families.attention.circuits.layer_parts import parts_of as parts_of
else:
    __getattr__, __dir__, __all__ = lazy_face(__name__)
