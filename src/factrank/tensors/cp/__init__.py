"""CP decompositions: numerical searches, and proofs that the decompositions found by them exist.

Contains: Levenberg-Marquardt with dense steps and with conjugate gradients, alternating least squares, variable
projection, rational rounding, interval proofs.
"""

from typing import TYPE_CHECKING

from factrank.lazy_face import lazy_face

if TYPE_CHECKING:
    from factrank.tensors.cp.cp_equations import Factors as Factors
    from factrank.tensors.cp.cp_equations import Fibers as Fibers
    from factrank.tensors.cp.cp_fit import Problem as Problem
    from factrank.tensors.cp.cp_fit import random_start as random_start
    from factrank.tensors.cp.cp_search import MOST_EQUATIONS as MOST_EQUATIONS
    from factrank.tensors.cp.cp_search import MOST_UNKNOWNS as MOST_UNKNOWNS
    from factrank.tensors.cp.cp_search import CPBound as CPBound
    from factrank.tensors.cp.cp_search import CpSearch as CpSearch
    from factrank.tensors.cp.cp_search import cp_bound as cp_bound
    from factrank.tensors.cp.cp_search import generic_rank as generic_rank
    from factrank.tensors.cp.interval_proof import IntervalProof as IntervalProof
    from factrank.tensors.cp.interval_proof import valid_fibers as valid_fibers
    from factrank.tensors.cp.planted import approximate_rank as approximate_rank
    from factrank.tensors.cp.planted import planted_rank as planted_rank
    from factrank.tensors.cp.projected_proof import ProjectedProof as ProjectedProof
    from factrank.tensors.cp.projected_search import MOST_UNFOLDED as MOST_UNFOLDED
    from factrank.tensors.cp.projected_search import Elimination as Elimination
    from factrank.tensors.cp.projected_search import least_terms as least_terms
    from factrank.tensors.cp.projected_search import projected_bound as projected_bound
    from factrank.tensors.cp.shorter_fits import fit_seconds as fit_seconds
    from factrank.tensors.cp.shorter_fits import shortened as shortened
else:
    __getattr__, __dir__, __all__ = lazy_face(__name__)
