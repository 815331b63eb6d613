r"""Warren's count: an effective rank below which almost no database of a given size lies. Typical, never certified.

Warren (1968): m real polynomials of degree at most d in $l \le m$ variables have at most $(4 e d m / l)^l$ patterns of
non-zero signs. The signs of the $m = n V (V - 1) / 2$ differences $T[k, q, v] - T[k, q, v']$ on the n valid fibers, of
degree 3, determine which database the logits recall, and logits of rank R have $l = R (K + Q + V - 3)$ free parameters
($a_r[1] = b_r[1] = 1$, $c_r[V] = 0$, as adding a constant to a whole fiber changes nothing). So if more than a fraction
$2^{-s}$ of the $V^n$ functional databases with a given support have effective rank at most R, then

$$n \log_2 V - s \le l \log_2 (12 e\, m / l).$$
"""

from __future__ import annotations

from math import e, log2

from factrank.errors import InputError
from factrank.tensors.bounds.bracket import Bracket
from factrank.tensors.bounds.certified_bounds import Bound
from factrank.tensors.bounds.method import BoundMethod, Stage
from factrank.tensors.bounds.needs import functional

EXCLUDED_BITS = 20
"""s: all but about one in a million databases of a given size have at least this effective rank."""

NAME = f"Warren's count: typical for the size, for all but a fraction 2^-{EXCLUDED_BITS}"


def typical_effective_rank(
    n_keys: int, n_queries: int, n_values: int, n_facts: int, excluded_bits: int = EXCLUDED_BITS
) -> int:
    """Returns the least rank R not excluded by counting: at most a fraction 2^-s of all databases lie below it.

    The count depends only on the size; the effective rank of a structured database may be far lower.

    Arguments:
        n_keys: K.
        n_queries: Q.
        n_values: V.
        n_facts: n, the number of valid fibers.
        excluded_bits: s.

    Raises:
        InputError: if no functional database has this size.

    >>> typical_effective_rank(100, 100, 100, 10_000)
    12
    """
    if min(n_keys, n_queries, n_values) < 1 or not 0 <= n_facts <= n_keys * n_queries:
        raise InputError(
            f"a functional database of size {n_keys} x {n_queries} x {n_values} cannot have {n_facts} facts; "
            "sizes must be at least 1 and facts at most n_keys * n_queries"
        )
    bits = n_facts * log2(n_values) - excluded_bits
    if bits <= 0:
        return 0
    per_term = n_keys + n_queries + n_values - 3
    differences = n_facts * n_values * (n_values - 1) / 2
    low, high = -1, int(differences // per_term) + 1

    def allowed(rank: int) -> bool:
        free = rank * per_term
        return free > 0 and bits <= free * log2(12 * e * differences / free)

    while high - low > 1:  # `bisect` cannot search ranges beyond 2^63
        middle = (low + high) // 2
        low, high = (low, middle) if allowed(middle) else (middle, high)
    return high


def _typical(bracket: Bracket) -> list[Bound]:
    n_facts = len(bracket.tensor)
    return [Bound(typical_effective_rank(*bracket.tensor.shape, n_facts) if n_facts else 0, NAME, certified=False)]


METHODS = (
    BoundMethod(name=NAME, of="effective rank", side="lower", stage=Stage.COUNT, needs=(functional,), run=_typical),
)
