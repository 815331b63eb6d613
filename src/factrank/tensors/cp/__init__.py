"""CP decompositions: numerical searches, and proofs that what they found exists.

What lives here: Levenberg-Marquardt and alternating least squares, rational rounding, interval proofs. What may enter:
another search, or another way to prove what it found.
"""

from typing import TYPE_CHECKING

from factrank.lazy_face import lazy_face

if TYPE_CHECKING:
    from factrank.tensors.cp.cp_search import MOST_UNKNOWNS as MOST_UNKNOWNS
    from factrank.tensors.cp.cp_search import CPBound as CPBound
    from factrank.tensors.cp.cp_search import CpSearch as CpSearch
    from factrank.tensors.cp.cp_search import completion_cp_bound as completion_cp_bound
    from factrank.tensors.cp.cp_search import cp_bound as cp_bound
    from factrank.tensors.cp.cp_search import generic_rank as generic_rank
    from factrank.tensors.cp.interval_proof import IntervalProof as IntervalProof
    from factrank.tensors.cp.interval_proof import valid_fibers as valid_fibers
    from factrank.tensors.cp.planted import approximate_rank as approximate_rank
    from factrank.tensors.cp.planted import planted_rank as planted_rank
else:
    __getattr__, __dir__, __all__ = lazy_face(__name__)
