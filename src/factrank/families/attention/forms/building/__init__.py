"""Shared parts of closed forms: blocks, routing, colours and labels.

Contains: parts that several closed forms use. Add here: a part that a second closed form needs.
"""

from typing import TYPE_CHECKING

from factrank.lazy_face import lazy_face

if TYPE_CHECKING:
    from factrank.families.attention.forms.building.block_layers import D_QK as D_QK
    from factrank.families.attention.forms.building.block_layers import BlockPlan as BlockPlan
    from factrank.families.attention.forms.building.block_layers import Contents as Contents
    from factrank.families.attention.forms.building.block_layers import QueryGroup as QueryGroup
    from factrank.families.attention.forms.building.block_layers import RoutedQueries as RoutedQueries
    from factrank.families.attention.forms.building.block_layers import StoredMarks as StoredMarks
    from factrank.families.attention.forms.building.block_layers import StoredWords as StoredWords
    from factrank.families.attention.forms.building.block_layers import best_width as best_width
    from factrank.families.attention.forms.building.block_layers import block_layer as block_layer
    from factrank.families.attention.forms.building.block_layers import contents_by_value as contents_by_value
    from factrank.families.attention.forms.building.block_layers import own_coordinates as own_coordinates
    from factrank.families.attention.forms.building.circle_routing import CIRCLE_COORDINATES as CIRCLE_COORDINATES
    from factrank.families.attention.forms.building.circle_routing import compact_refusal as compact_refusal
    from factrank.families.attention.forms.building.circle_routing import compact_routing as compact_routing
    from factrank.families.attention.forms.building.colouring import coloured as coloured
    from factrank.families.attention.forms.building.colouring import overlap_graph as overlap_graph
    from factrank.families.attention.forms.building.confident_layers import LARGEST_EXPONENT as LARGEST_EXPONENT
    from factrank.families.attention.forms.building.confident_layers import certified_claim as certified_claim
    from factrank.families.attention.forms.building.confident_layers import claim_for as claim_for
    from factrank.families.attention.forms.building.confident_layers import completed as completed
    from factrank.families.attention.forms.building.confident_layers import scaled as scaled
    from factrank.families.attention.forms.building.confident_layers import with_reserved as with_reserved
    from factrank.families.attention.forms.building.confident_layers import without_reserved as without_reserved
    from factrank.families.attention.forms.building.cp_terms import Terms as Terms
    from factrank.families.attention.forms.building.cp_terms import about_terms as about_terms
    from factrank.families.attention.forms.building.cp_terms import exact_terms as exact_terms
    from factrank.families.attention.forms.building.cp_terms import measured_terms as measured_terms
    from factrank.families.attention.forms.building.cp_terms import numerical_terms as numerical_terms
    from factrank.families.attention.forms.building.cp_terms import spread_rows as spread_rows
    from factrank.families.attention.forms.building.parabola_labels import Labels as Labels
    from factrank.families.attention.forms.building.parabola_labels import label_choices as label_choices
    from factrank.families.attention.forms.building.parabola_labels import labels_for as labels_for
    from factrank.families.attention.forms.building.parabola_labels import most_values as most_values
    from factrank.families.attention.forms.building.query_routing import SATURATION as SATURATION
    from factrank.families.attention.forms.building.query_routing import STRENGTHS as STRENGTHS
    from factrank.families.attention.forms.building.query_routing import block_routing as block_routing
    from factrank.families.attention.forms.building.value_limits import FEWEST_DIGITS as FEWEST_DIGITS
    from factrank.families.attention.forms.building.value_limits import bits_for as bits_for
    from factrank.families.attention.forms.building.value_limits import digits_for as digits_for
    from factrank.families.attention.forms.building.value_limits import largest_digit as largest_digit
    from factrank.families.attention.forms.building.value_limits import most_points as most_points
else:
    __getattr__, __dir__, __all__ = lazy_face(__name__)
