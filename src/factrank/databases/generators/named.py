"""Named databases: small tensors of the literature whose ranks are well known."""

from __future__ import annotations

from itertools import product

import numpy as np

from factrank.databases.database import Database
from factrank.databases.generators.random_tables import numbered, require_positive
from factrank.databases.vocabulary import Vocabulary
from factrank.errors import InputError


def unit(n: int) -> Database:
    r"""The unit tensor, with facts (k_i, q_i, v_i): rank n.

    $\sum_{i<n} e_i \otimes e_i \otimes e_i$

    >>> unit(2)
    Database(2 facts: 2 keys x 2 queries -> 2 values, functional)
      (k0, q0, v0)
      (k1, q1, v1)
    """
    require_positive("unit", n=n)
    return _from_codes([(i, i, i) for i in range(n)])


def matmul(n: int) -> Database:
    r"""The multiplication of two n x n matrices.

    C = A B is $\sum_{ijk} a_{ij} \otimes b_{jk} \otimes c_{ik}$, which has $n^3$ facts. Keys are the entries of A,
    queries those of B, values those of C. Its rank is the number of multiplications that suffice: 7 for n = 2 (Strassen
    1969; Winograd 1971), between 19 and 23 for n = 3.

    >>> matmul(2).fiber("a(0,1)", "b(1,0)")
    ('c(0,0)',)
    """
    require_positive("matmul", n=n)
    triples = [(i * n + j, j * n + k, i * n + k) for i, j, k in product(range(n), repeat=3)]
    entries = [f"({row},{column})" for row, column in product(range(n), repeat=2)]
    keys, queries, values = (Vocabulary(matrix + entry for entry in entries) for matrix in "abc")
    return Database(np.array(triples), keys, queries, values)


def w_state() -> Database:
    r"""The W state: rank 3, although it is a limit of tensors of rank 2.

    $e_0 e_0 e_1 + e_0 e_1 e_0 + e_1 e_0 e_0$
    """
    return _from_codes([(0, 0, 1), (0, 1, 0), (1, 0, 0)])


def diagonal(n: int = 5) -> Database:
    """Facts (k_i, q_i, v) with one common value: rank n, completion rank 1, effective rank 0."""
    require_positive("diagonal", n=n)
    return _from_codes([(i, i, 0) for i in range(n)])


def diagonal2(n: int = 5) -> Database:
    """Facts (k_i, q_i, v) with value v0 in the first half and v1 in the rest: ranks n, 2 and 1.

    The first half is rounded up.
    """
    if not isinstance(n, int) or n < 2:
        raise InputError(f"diagonal2: n must be an integer, 2 or more, so that both values are used; got {n!r}")
    return _from_codes([(i, i, int(2 * i >= n)) for i in range(n)])


def _from_codes(triples: list[tuple[int, int, int]]) -> Database:
    """The database of these codes, as many numbered names on each axis as they need."""
    codes = np.array(triples)
    n_keys, n_queries, n_values = (int(n) for n in codes.max(axis=0) + 1)
    return numbered(codes, (n_keys, n_queries, n_values))
