r"""Counting: the effective rank below which almost no database of a size can lie. Typical, never certified for one.

Warren (1968): m real polynomials of degree at most d in $l \le m$ variables have at most $(4 e d m / l)^l$ patterns of
non-zero signs. The signs of the $m = n V (V - 1) / 2$ differences $T[k, q, v] - T[k, q, v']$ on the n valid fibers, of
degree 3, determine which database the logits recall, and logits of rank R have $l = R (K + Q + V - 3)$ free parameters
($a_r[1] = b_r[1] = 1$, $c_r[V] = 0$; numbers added to whole fibers are free). So if more than a fraction $2^{-s}$ of
the $V^n$ functional databases on a given support have effective rank R or less, then

$$n \log_2 V - s \le l \log_2 (12 e\, m / l).$$
"""

from __future__ import annotations

from bisect import bisect_left
from math import e, log2

from factrank.errors import InputError
from factrank.tensors.bounds.bracket import Bracket
from factrank.tensors.bounds.certified_bounds import Bound
from factrank.tensors.bounds.method import BoundMethod, Stage
from factrank.tensors.bounds.needs import functional

EXCLUDED_BITS = 20
"""s: all but a fraction of 2^-20, about one in a million, of the databases of a size lie at the bound or above."""

NAME = f"Warren's count: typical for the size, for all but a fraction 2^-{EXCLUDED_BITS}"


def typical_effective_rank(
    n_keys: int, n_queries: int, n_values: int, n_facts: int, excluded_bits: int = EXCLUDED_BITS
) -> int:
    """The least R that counting does not exclude: at most a fraction 2^-s of the databases has a lower effective rank.

    A statement on the size, not on a database: a structured one may lie far below.

    Arguments:
        n_keys: K.
        n_queries: Q.
        n_values: V.
        n_facts: the number of valid fibers.
        excluded_bits: s.

    >>> typical_effective_rank(100, 100, 100, 10_000)
    12
    """
    if min(n_keys, n_queries, n_values) < 1 or not 0 <= n_facts <= n_keys * n_queries:
        raise InputError(f"no functional database has size {n_keys} x {n_queries} x {n_values} with {n_facts} facts")
    bits = n_facts * log2(n_values) - excluded_bits
    if bits <= 0:
        return 0
    per_term = n_keys + n_queries + n_values - 3
    differences = n_facts * n_values * (n_values - 1) / 2
    most = int(differences // per_term)

    def allowed(rank: int) -> bool:
        free = rank * per_term
        return free > 0 and bits <= free * log2(12 * e * differences / free)

    return bisect_left(range(most + 1), True, key=allowed)


# -------------------------------------------------------------------- how it is tried


def _typical(bracket: Bracket) -> list[Bound]:
    n_facts = len(bracket.tensor)
    return [Bound(typical_effective_rank(*bracket.tensor.shape, n_facts) if n_facts else 0, NAME, certified=False)]


METHODS = (
    BoundMethod(name=NAME, of="effective rank", side="lower", stage=Stage.COUNT, needs=(functional,), run=_typical),
)
