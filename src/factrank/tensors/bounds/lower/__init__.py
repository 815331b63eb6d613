"""Lower bounds on the three ranks, each with its proof in the module docstring.

Contains: flattenings, Koszul flattenings, substitution, spans of fibers, counting; and for the effective rank sets of
values and their traces, pairs of labels, Forster's bound.
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
