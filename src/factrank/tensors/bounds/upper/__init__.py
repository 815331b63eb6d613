"""Upper bounds: each comes with a witness, a decomposition that can be multiplied out or proved again.

What lives here: slices, fibers, spanning trees, reference values, CP searches, and codes for the effective rank. What
may enter: another bound from above, with a witness that can be checked.
"""

from typing import TYPE_CHECKING

from factrank.lazy_face import lazy_face

if TYPE_CHECKING:
    from factrank.tensors.bounds.upper.by_component import UpperBound as UpperBound
    from factrank.tensors.bounds.upper.by_component import best_upper as best_upper
    from factrank.tensors.bounds.upper.plain_bounds import proposition_bound as proposition_bound
    from factrank.tensors.bounds.upper.plain_bounds import slices_bound as slices_bound
    from factrank.tensors.bounds.upper.reference_values import completion_bound as completion_bound
else:
    __getattr__, __dir__, __all__ = lazy_face(__name__)
