"""Certified ranks and exact factorisations of integer matrices.

Contains: elimination modulo primes, peeling of sparse matrices, factorisation into rank-one terms.
"""

from typing import TYPE_CHECKING

from factrank.lazy_face import lazy_face

if TYPE_CHECKING:
    from factrank.tensors.matrix.factorisation import Factorisation as Factorisation
    from factrank.tensors.matrix.factorisation import factorise as factorise
    from factrank.tensors.matrix.factorisation import integers as integers
    from factrank.tensors.matrix.matrix_ranks import block_ranks as block_ranks
    from factrank.tensors.matrix.matrix_ranks import matrix_rank_bounds as matrix_rank_bounds
    from factrank.tensors.matrix.matrix_ranks import rational_rank as rational_rank
    from factrank.tensors.matrix.modular import PRIME as PRIME
    from factrank.tensors.matrix.modular import rank_mod_prime as rank_mod_prime
else:
    __getattr__, __dir__, __all__ = lazy_face(__name__)
