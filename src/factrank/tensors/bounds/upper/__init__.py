"""Upper bounds on the three ranks, each with a witness: a decomposition to multiply out, or a proof to repeat.

Contains: slices, fibers, spanning trees, reference values, CP searches, and codes for the effective rank.
"""

from typing import TYPE_CHECKING

from factrank.lazy_face import lazy_face

if TYPE_CHECKING:
    from factrank.tensors.bounds.upper.by_component import UpperBound as UpperBound
    from factrank.tensors.bounds.upper.by_component import best_upper as best_upper
    from factrank.tensors.bounds.upper.plain_bounds import proposition_bound as proposition_bound
    from factrank.tensors.bounds.upper.plain_bounds import slices_bound as slices_bound
    from factrank.tensors.bounds.upper.reference_values import completion_bound as completion_bound
    from factrank.tensors.bounds.upper.spanning_tree import spanning_tree_bound as spanning_tree_bound
else:
    __getattr__, __dir__, __all__ = lazy_face(__name__)
