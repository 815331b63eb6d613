r"""Readout distortion made executable: every function table is the readout of a matrix of rank two.

Wong 2025, Propositions 3.6 and 3.7: however high the rank of a 0/1 matrix with at most one 1 per row, matrices of rank
two have it as their argmax and as their softmax $\ge\tau$. Three codes for g: [n] -> [V], a row of the table against
the code of each value:

- circle: $M_{iv} = \cos(t_{g(i)} - t_v)$, $t_v = 2 \pi v / V$; the margin is $1 - \cos(2\pi/V) = 2 \sin^2(\pi/V)$.
- parabola: $M_{iv} = 2 x_{g(i)} x_v - x_v^2 = x_{g(i)}^2 - (x_v - x_{g(i)})^2$ with centred integers $x_v$; integers
  throughout, margin 1.
- line: $M_{iv} = a_i b_v$ with $a_i, b_v \in \{1, -1, 0\}$, rank one; it exists exactly when at most two values occur,
  since the argmax of $a_i b$ is that of b or of -b.

softmax $\ge\tau$: if the winner leads by $\Delta > \ln((V-1)\,t/(1-t))$, t = max($\tau$, 1 - $\tau$), then its
probability is at least $1/(1 + (V-1) e^{-\Delta}) > t \ge \tau$ and every other one below $1 - t \le \tau$. So it
suffices to multiply M by a large enough number. A row without a fact is a row of zeros: its softmax is 1/V < $\tau$, so
the 0/1 matrix comes out exactly, empty rows included, for every $\tau$ in (1/V, 1) and with each of the codes.

Rounding never changes the argmax of the parabola for up to 4729 values in float32 and 109,588,317 in float64, that of
the circle for up to 6433 and 149,078,413. Rows with several values are in `set_codes`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import ceil, inf, log, log2, nextafter
from typing import Literal

import numpy as np
from jaxtyping import Bool, Float, Int

from factrank.errors import InputError

CodeName = Literal["circle", "parabola", "line", "set"]
CodePrecision = Literal["float32", "float64"]

BLOCK_CELLS = 4_000_000
"""A matrix is evaluated so many cells at a time."""

WORKING_BITS = 128


@dataclass(frozen=True, eq=False)
class ReadoutCode:
    r"""A matrix scale $\cdot$ left $\cdot$ right$^T$ of low rank, kept in factors, whose readout is a table.

    Arguments:
        left: a row for every row of the table, zero where it has no fact.
        right: a row for every value.
        code: the kind of code.
        margin: what the right value leads by in left right^T, or a lower bound of it; exact for parabola and line.
        scale: a power of two, so that multiplying by it rounds nothing; 1 for an argmax.
        tau: the threshold the scale was chosen for; None for an argmax.
    """

    left: Float[np.ndarray, "n rank"]
    right: Float[np.ndarray, "values rank"]
    code: CodeName
    margin: float
    scale: float = 1.0
    tau: float | None = None

    @property
    def n_values(self) -> int:
        """How many columns the matrix has."""
        return len(self.right)

    def blocks(self, precision: CodePrecision) -> Iterator[tuple[slice, Float[np.ndarray, "block values"]]]:
        """The rows of the matrix, a block at a time: factors rounded to the precision, then multiplied in it."""
        left, right = (self.scale * self.left).astype(precision), self.right.astype(precision).T
        height = max(BLOCK_CELLS // max(self.n_values, 1), 1)
        for start in range(0, len(left), height):
            rows = slice(start, min(start + height, len(left)))
            yield rows, left[rows] @ right

    def matrix(self, precision: CodePrecision = "float64") -> Float[np.ndarray, "n values"]:
        """The whole matrix."""
        whole = np.empty((len(self.left), self.n_values), dtype=precision)
        for rows, block in self.blocks(precision):
            whole[rows] = block
        return whole

    def argmax(self, precision: CodePrecision = "float64") -> Int[np.ndarray, " n"]:
        """The value with the largest entry in every row; says nothing on rows without a fact, which are all zero."""
        found = np.zeros(len(self.left), dtype=np.int64)
        for rows, block in self.blocks(precision):
            found[rows] = block.argmax(axis=1)
        return found

    def softmax_at_least(self, tau: float, precision: CodePrecision = "float64") -> Bool[np.ndarray, "n values"]:
        """Where the softmax of the row is at least tau."""
        whole = np.empty((len(self.left), self.n_values), dtype=bool)
        for rows, block in self.blocks(precision):
            whole[rows] = at_least(block, tau)
        return whole


def at_least(logits: Float[np.ndarray, "n values"], tau: float) -> Bool[np.ndarray, "n values"]:
    """Softmax >= tau: probabilities in the precision of the logits, compared with tau exactly."""
    powers = np.exp(logits - logits.max(axis=1, keepdims=True))
    probabilities = powers / powers.sum(axis=1, keepdims=True, dtype=logits.dtype)
    reached: Bool[np.ndarray, "n values"] = probabilities.astype(np.float64) >= tau
    return reached


def argmax_code(table: Int[np.ndarray, " n"], n_values: int, code: CodeName | None = None) -> ReadoutCode:
    """The matrix of rank two (line: one) whose argmax is the table; -1 marks a row without a fact.

    Without a choice of code: the line where at most two values occur, else the parabola.

    >>> argmax_code(np.array([2, 0, 1, 2]), 3).argmax("float32").tolist()
    [2, 0, 1, 2]
    """
    facts = checked(table, n_values)
    used = np.unique(table[facts])
    if code is None:
        code = "line" if len(used) <= 2 else "parabola"
    if code == "circle":
        left, right = circle(table, n_values), circle(np.arange(n_values), n_values)
        margin = circle_margin(n_values)
    elif code == "parabola":
        left, right = parabola_rows(table, n_values), parabola_columns(np.arange(n_values), n_values)
        margin = 1.0 if n_values > 1 else inf
    elif code == "line" and len(used) <= 2:
        right = np.zeros((n_values, 1))
        right[used, 0] = [1.0, -1.0][: len(used)]
        left = right[table]
        margin = inf if n_values == 1 else float(n_values if len(used) == n_values else 1)
    elif code == "line":
        raise InputError(f"a line code holds at most two values, the table has {len(used)}; use circle or parabola")
    else:
        raise InputError(f"a table of single values takes the code circle, parabola or line, got {code!r}")
    return ReadoutCode(np.where(facts[:, None], left, 0.0), right, code, margin)


def softmax_code(table: Int[np.ndarray, " n"], n_values: int, tau: float, code: CodeName | None = None) -> ReadoutCode:
    """The matrix of rank two (line: one) whose softmax >= tau is the 0/1 matrix of the table, empty rows included."""
    checked(table, n_values)
    if not 1.0 / n_values < tau < 1.0:
        raise InputError(f"tau must be above 1/{n_values}, one over the number of values, and below 1; got {tau!r}")
    plain = argmax_code(table, n_values, code)
    return replace(plain, scale=softmax_scale(n_values, tau, plain.margin), tau=tau)


def softmax_scale(n_values: int, tau: float, margin: float) -> float:
    r"""A power of two $\beta$ with $\beta$ margin $\ge 2 (\ln((V-1)\,t/(1-t)) + 1)$.

    Twice what exact arithmetic needs, and a little more: half of the margin may be lost to rounding, and the other
    probabilities add up to at most $((1-t)/t)^2 / e^2$ where $(1-t)/t$ would do, so that the rounding of the softmax
    itself (a few units in the last place of 1) decides nothing for any $\tau$ < 1.
    """
    if margin == inf:
        return 1.0
    least = min(tau, 1.0 - tau)
    needed = log((n_values - 1) * (1.0 - least) / least) + 1.0
    return 2.0 ** ceil(log2(2.0 * needed / margin))


def checked(table: Int[np.ndarray, " n"], n_values: int) -> Bool[np.ndarray, " n"]:
    """Which rows have a fact; an error where a value is not one of the n_values."""
    if n_values < 1:
        raise InputError(f"n_values must be 1 or more, got {n_values}")
    wrong = np.flatnonzero((table < -1) | (table >= n_values))
    if len(wrong):
        row = int(wrong[0])
        raise InputError(f"row {row}: expected a value from 0 to {n_values - 1}, or -1 for no fact; got {table[row]}")
    return np.asarray(table >= 0)


# -------------------------------------------------------------------- codes


def circle(values: Int[np.ndarray, " n"], n_values: int) -> Float[np.ndarray, "n 2"]:
    """(cos t_v, sin t_v), t_v = 2 pi v / n_values, each correctly rounded from ball arithmetic (2 microseconds)."""
    from flint import arb, ctx, fmpq  # noqa: PLC0415 - only exact arithmetic needs it

    points, place = np.unique(values % n_values, return_inverse=True)
    codes = np.empty((len(points), 2))
    with ctx.workprec(WORKING_BITS):
        for row, value in enumerate(points.tolist()):
            sine, cosine = arb.sin_cos_pi_fmpq(fmpq(2 * value, n_values))
            codes[row] = float(cosine), float(sine)
    return codes[place]


def circle_margin(n_values: int) -> float:
    """2 sin^2(pi / n_values), rounded down; infinite for one value, which has no rival."""
    from flint import arb, ctx, fmpq  # noqa: PLC0415 - only exact arithmetic needs it

    if n_values == 1:
        return inf
    with ctx.workprec(WORKING_BITS):
        return nextafter(float(2 * arb.sin_pi_fmpq(fmpq(1, n_values)) ** 2), 0.0)


def parabola_rows(values: Int[np.ndarray, " n"], n_values: int) -> Float[np.ndarray, "n 2"]:
    """(2 x_v, -1), the rows of M."""
    x = (values - n_values // 2).astype(np.float64)
    return np.column_stack([2 * x, np.full(len(x), -1.0)])


def parabola_columns(values: Int[np.ndarray, " n"], n_values: int) -> Float[np.ndarray, "n 2"]:
    """(x_v, x_v^2), the columns of M; x_v = v - floor(n_values / 2)."""
    x = (values - n_values // 2).astype(np.float64)
    return np.column_stack([x, x**2])
