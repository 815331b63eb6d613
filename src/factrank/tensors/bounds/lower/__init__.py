"""Lower bounds: what no decomposition of a table can do without.

What lives here: flattenings, Koszul flattenings, substitution, Forster's bound, spans of fibers and sets of values,
counting. What may enter: another bound from below, with its proof in the docstring.
"""

from typing import TYPE_CHECKING

from factrank.lazy_face import lazy_face

if TYPE_CHECKING:
    from factrank.tensors.bounds.lower.flattenings import flattening_ranks as flattening_ranks
    from factrank.tensors.bounds.lower.forster import two_value_bound as two_value_bound
    from factrank.tensors.bounds.lower.known_ranks import Flattenings as Flattenings
    from factrank.tensors.bounds.lower.known_ranks import RankedFlattening as RankedFlattening
    from factrank.tensors.bounds.lower.value_sets import rank_one_bound as rank_one_bound
else:
    __getattr__, __dir__, __all__ = lazy_face(__name__)
