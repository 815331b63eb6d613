r"""How many values a rank-two code holds in float32 and float64: a rule with a proof, and a count of real errors.

With the unit roundoff u = 2^-24 (float32) or 2^-53 (float64), for IEEE arithmetic with or without fused multiply-add:

Parabola. Every intermediate result of $2 x_g x_v - x_v^2$ is an integer of size at most $3 h^2$, h = floor(V/2), and
integers up to 1/u are exact. So nothing is ever rounded while $3 h^2 \le 1/u$: V = 4729 and V = 109,588,317.

Circle. The stored coordinates are $c(1 + \delta)$ with $|\delta| \le u$ (correctly rounded; to float32 by way of
float64, which adds a relative 2^-29). A product of two has at most three factors $1 + \delta$ and their sum one more,
so an entry is off by at most $((1+u)^4 - 1)(|c_g c_v| + |s_g s_v|) < 4u/(1 - 8u)$, using Cauchy and Schwarz for
unit vectors. Two entries keep their order while the margin exceeds twice that:

$2 \sin^2(\pi/V) > 8u / (1 - 8u)$, about $V < \pi / (2 \sqrt u)$: V = 6433 and V = 149,078,413.

Softmax $\ge\tau$ allows rounding half of the margin (`distortion.softmax_scale`): for the circle 16u instead of 8u;
the parabola and the line, whose logits are exact, stay as they are. Where rows are empty, tau must also exceed 1/V by
a relative 2u, so that the rounded 1/V stays below it.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from math import asin, inf, isqrt, pi, sqrt
from typing import Literal

import numpy as np
from jaxtyping import Bool, Int

from factrank.errors import InputError
from factrank.tensors.codes.distortion import CodeName, CodePrecision, ReadoutCode, at_least, checked

BITS: dict[CodePrecision, int] = {"float32": 24, "float64": 53}
"""Bits of the significand: the unit roundoff is 2^-bits."""

Table = Int[np.ndarray, " n"] | Sequence[Collection[int]]
"""A value for each row, -1 for none; or a set of values for each row."""


def largest_exact_vocabulary(
    code: CodeName, precision: CodePrecision, readout: Literal["argmax", "softmax"] = "argmax"
) -> int:
    """The most values for which the code is proved to survive rounding (it may well survive a few more).

    >>> largest_exact_vocabulary("parabola", "float32"), largest_exact_vocabulary("circle", "float32")
    (4729, 6433)
    """
    bits = BITS[precision]
    if code == "parabola":
        return 2 * isqrt(2**bits // 3) + 1
    if code == "circle":
        unit = 2.0**-bits
        half_margin = (4 if readout == "argmax" else 8) * unit / (1 - 8 * unit)
        return int(pi / asin(sqrt(half_margin)))
    raise InputError(f"a rule exists for the circle and the parabola; count errors with `holds` for the code {code!r}")


@dataclass(frozen=True)
class Recount:
    """What a real evaluation of a code found.

    Arguments:
        n_rows: rows compared, each with all values; an argmax says nothing on rows without a fact.
        n_errors: rows that are not read out as the table says; a tie is an error.
        least_margin: the least lead of a right value over a wrong one, as computed.
    """

    n_rows: int
    n_errors: int
    least_margin: float

    @property
    def exact(self) -> bool:
        """Whether every row came out right."""
        return self.n_errors == 0


def holds(code: ReadoutCode, table: Table, precision: CodePrecision = "float64") -> Recount:
    """Evaluate the matrix in a precision, block by block, and compare every row with the table.

    With code.tau, softmax >= tau must be the 0/1 matrix of the table, empty rows included. Otherwise every value of a
    row must be strictly above all others: the argmax, or for a row with a set S of values the |S| largest entries.
    """
    if len(table) != len(code.left):
        raise InputError(f"the code has {len(code.left)} rows, the table {len(table)}")
    n_rows, n_errors, least = 0, 0, inf
    for rows, logits in code.blocks(precision):
        wanted = _wanted(table[rows], code.n_values)
        lead = np.where(wanted, logits, inf).min(axis=1) - np.where(wanted, -inf, logits).max(axis=1)
        facts = wanted.any(axis=1)
        least = min(least, float(lead[facts].min(initial=inf)))
        if code.tau is None:
            n_rows += int(facts.sum())
            n_errors += int((facts & ~(lead > 0)).sum())
        else:
            n_rows += len(wanted)
            n_errors += int((at_least(logits, code.tau) != wanted).any(axis=1).sum())
    return Recount(n_rows, n_errors, least)


def _wanted(table: Table, n_values: int) -> Bool[np.ndarray, "n values"]:
    """The 0/1 matrix of the table."""
    wanted = np.zeros((len(table), n_values), dtype=bool)
    if isinstance(table, np.ndarray):
        facts = np.flatnonzero(checked(table, n_values))
        wanted[facts, table[facts]] = True
    else:
        for row, members in enumerate(table):
            wanted[row, list(members)] = True
    return wanted
