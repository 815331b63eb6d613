"""Certified ranks and factorisations of integer matrices.

What lives here: elimination modulo primes, peeling of sparse matrices, exact factorisations. What may enter: another
exact method for matrices.
"""
