r"""Readout distortion: every function table is the readout of a rank-two matrix.

Wong 2025, Propositions 3.6 and 3.7: no matter how large the rank of a 0/1 matrix with at most one 1 per row, it is the
argmax, and the softmax $\ge\tau$, of a matrix of rank two. There are three codes for a table g: [n] -> [V]:

- circle: $M_{iv} = \cos(t_{g(i)} - t_v)$, $t_v = 2 \pi v / V$, with margin $1 - \cos(2\pi/V) = 2 \sin^2(\pi/V)$.
- parabola: $M_{iv} = 2 x_{g(i)} x_v - x_v^2 = x_{g(i)}^2 - (x_v - x_{g(i)})^2$ with centred integers $x_v$; all entries
  are integers, and the margin is 1.
- line: $M_{iv} = a_i b_v$ with $a_i, b_v \in \{1, -1, 0\}$, of rank one; it exists iff at most two values occur, as the
  argmax of $a_i b$ is the argmax of b or of -b.

softmax $\ge\tau$: let t = max($\tau$, 1 - $\tau$). If the winner leads by $\Delta > \ln((V-1)\,t/(1-t))$, its
probability is at least $1/(1 + (V-1) e^{-\Delta}) > t \ge \tau$, and all others are below $1 - t \le \tau$. So it
suffices to multiply M by a large enough number. A row without a fact is zero, with softmax 1/V < $\tau$. Hence the
readout is exactly the 0/1 matrix, including empty rows, for each code and every $\tau$ in (1/V, 1).

Rounding does not change the argmax of the parabola for up to 4729 values in float32 and 109,588,317 in float64, nor of
the circle for up to 6433 and 149,078,413. For rows with several values, see `set_codes`.
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
"""Number of matrix cells that are evaluated at a time."""

WORKING_BITS = 128


@dataclass(frozen=True, eq=False)
class ReadoutCode:
    r"""A low-rank matrix scale $\cdot$ left $\cdot$ right$^T$ whose readout is a table.

    Arguments:
        left: one row per row of the table; zero if it has no fact.
        right: one row per value.
        code: the kind of code.
        margin: lead of the correct value in left right^T, or a lower bound on it; exact for parabola and line.
        scale: a power of two, so that scaling is exact; 1 for an argmax code.
        tau: the threshold that the scale was chosen for; None for an argmax code.
    """

    left: Float[np.ndarray, "n rank"]
    right: Float[np.ndarray, "values rank"]
    code: CodeName
    margin: float
    scale: float = 1.0
    tau: float | None = None

    @property
    def n_values(self) -> int:
        """The number of columns of the matrix."""
        return len(self.right)

    def blocks(self, precision: CodePrecision) -> Iterator[tuple[slice, Float[np.ndarray, "block values"]]]:
        """Yields blocks of rows of the matrix, with factors rounded to the precision and multiplied in it."""
        left, right = (self.scale * self.left).astype(precision), self.right.astype(precision).T
        height = max(BLOCK_CELLS // max(self.n_values, 1), 1)
        for start in range(0, len(left), height):
            rows = slice(start, min(start + height, len(left)))
            yield rows, left[rows] @ right

    def matrix(self, precision: CodePrecision = "float64") -> Float[np.ndarray, "n values"]:
        """Returns the whole matrix."""
        whole = np.empty((len(self.left), self.n_values), dtype=precision)
        for rows, block in self.blocks(precision):
            whole[rows] = block
        return whole

    def argmax(self, precision: CodePrecision = "float64") -> Int[np.ndarray, " n"]:
        """Returns the value with the largest entry in each row; not meaningful for rows without a fact."""
        found = np.zeros(len(self.left), dtype=np.int64)
        for rows, block in self.blocks(precision):
            found[rows] = block.argmax(axis=1)
        return found

    def softmax_at_least(self, tau: float, precision: CodePrecision = "float64") -> Bool[np.ndarray, "n values"]:
        """Returns the cells in which the softmax over the row is at least tau."""
        whole = np.empty((len(self.left), self.n_values), dtype=bool)
        for rows, block in self.blocks(precision):
            whole[rows] = at_least(block, tau)
        return whole


def at_least(logits: Float[np.ndarray, "n values"], tau: float) -> Bool[np.ndarray, "n values"]:
    """Returns softmax >= tau, with probabilities in the precision of the logits and an exact comparison."""
    powers = np.exp(logits - logits.max(axis=1, keepdims=True))
    probabilities = powers / powers.sum(axis=1, keepdims=True, dtype=logits.dtype)
    reached: Bool[np.ndarray, "n values"] = probabilities.astype(np.float64) >= tau
    return reached


def argmax_code(table: Int[np.ndarray, " n"], n_values: int, code: CodeName | None = None) -> ReadoutCode:
    """Returns a matrix of rank two (line: one) whose argmax is the table.

    Arguments:
        table: the value of each row, or -1 for a row without a fact.
        n_values: V.
        code: circle, parabola or line. By default the line if at most two values occur, otherwise the parabola.

    Raises:
        InputError: if a value is out of range, the code is unknown, or a line code would need more than two values.

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
        raise InputError(f"a line code allows at most two values; the table has {len(used)}; use circle or parabola")
    else:
        raise InputError(f"code must be circle, parabola or line; got {code!r}")
    return ReadoutCode(np.where(facts[:, None], left, 0.0), right, code, margin)


def softmax_code(table: Int[np.ndarray, " n"], n_values: int, tau: float, code: CodeName | None = None) -> ReadoutCode:
    """Returns a matrix of rank two (line: one) whose softmax >= tau is the 0/1 matrix of the table.

    Arguments and errors are those of `argmax_code`; tau must be between 1/V and 1 (exclusive).

    >>> softmax_code(np.array([1, -1]), 3, tau=0.9).softmax_at_least(0.9).astype(int).tolist()
    [[0, 1, 0], [0, 0, 0]]
    """
    checked(table, n_values)
    if not 1.0 / n_values < tau < 1.0:
        raise InputError(f"tau must be greater than 1/n_values = 1/{n_values} and less than 1; got {tau!r}")
    plain = argmax_code(table, n_values, code)
    return replace(plain, scale=softmax_scale(n_values, tau, plain.margin), tau=tau)


def softmax_scale(n_values: int, tau: float, margin: float) -> float:
    r"""Returns a power of two $\beta$ with $\beta$ margin $\ge 2 (\ln((V-1)\,t/(1-t)) + 1)$.

    This is more than twice what exact arithmetic needs. Half of the margin may be lost to rounding, and the other
    probabilities add up to at most $((1-t)/t)^2 / e^2$ when $(1-t)/t$ would do, so the rounding error of the softmax (a
    few units in the last place of 1) has no effect for any $\tau$ < 1.
    """
    if margin == inf:
        return 1.0
    least = min(tau, 1.0 - tau)
    needed = log((n_values - 1) * (1.0 - least) / least) + 1.0
    return 2.0 ** ceil(log2(2.0 * needed / margin))


def checked(table: Int[np.ndarray, " n"], n_values: int) -> Bool[np.ndarray, " n"]:
    """Returns which rows have a fact.

    Raises:
        InputError: if a value is not in 0, ..., n_values - 1, or -1 for no fact.
    """
    if n_values < 1:
        raise InputError(f"n_values must be at least 1; got {n_values}")
    wrong = np.flatnonzero((table < -1) | (table >= n_values))
    if len(wrong):
        row = int(wrong[0])
        raise InputError(f"row {row}: expected a value from 0 to {n_values - 1}, or -1 for no fact; got {table[row]}")
    return np.asarray(table >= 0)


# -------------------------------------------------------------------- codes


def circle(values: Int[np.ndarray, " n"], n_values: int) -> Float[np.ndarray, "n 2"]:
    """Returns (cos t_v, sin t_v) with t_v = 2 pi v / n_values, correctly rounded from ball arithmetic."""
    from flint import arb, ctx, fmpq  # noqa: PLC0415 - only exact arithmetic needs it

    points, place = np.unique(values % n_values, return_inverse=True)
    codes = np.empty((len(points), 2))
    with ctx.workprec(WORKING_BITS):
        for row, value in enumerate(points.tolist()):
            sine, cosine = arb.sin_cos_pi_fmpq(fmpq(2 * value, n_values))
            codes[row] = float(cosine), float(sine)
    return codes[place]


def circle_margin(n_values: int) -> float:
    """Returns 2 sin^2(pi / n_values), rounded down; infinity for a single value, which has no rivals."""
    from flint import arb, ctx, fmpq  # noqa: PLC0415 - only exact arithmetic needs it

    if n_values == 1:
        return inf
    with ctx.workprec(WORKING_BITS):
        return nextafter(float(2 * arb.sin_pi_fmpq(fmpq(1, n_values)) ** 2), 0.0)


def parabola_rows(values: Int[np.ndarray, " n"], n_values: int) -> Float[np.ndarray, "n 2"]:
    """Returns (2 x_v, -1), the rows of M."""
    x = (values - n_values // 2).astype(np.float64)
    return np.column_stack([2 * x, np.full(len(x), -1.0)])


def parabola_columns(values: Int[np.ndarray, " n"], n_values: int) -> Float[np.ndarray, "n 2"]:
    """Returns (x_v, x_v^2), the columns of M, with x_v = v - floor(n_values / 2)."""
    x = (values - n_values // 2).astype(np.float64)
    return np.column_stack([x, x**2])
