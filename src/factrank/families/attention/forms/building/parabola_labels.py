r"""Labels of the parabola: numbers x_v for which $2 y x_v - x_v^2$ at $y = x_f$ is largest at v = f after rounding.

$s + 2 x_f x_v - x_v^2 = s + x_f^2 - (x_v - x_f)^2$ for any shift s: the margin of f over v is $(x_v - x_f)^2$, and at
least s over values without a label, whose logits are 0. With p significant bits and $u = 2^{-p}$, the choices are

- *integers*, shift 1: $0, -1, 1, -2, 2, \dots$ up to size h. The absolute values of all terms of a logit add up to at
  most $2h(h + w) + h^2$, with w = 2 if the query itself writes 1 to the output (and takes it back), else 0. No
  operation rounds if that is at most $2^p$: for w = 0, this allows 19 values in bfloat16, 4,729 in float32 and
  109,588,317 in float64; for w = 2, it allows 17, 4,729 and 109,588,315.
- *shifted integers*, shift h^2: since $2 (h + w) |x_v| + h^2 - x_v^2$ is largest at $|x_v| = h$, no operation rounds if
  $2h(h + w) \le 2^p$: 23, 5,793 and 134,217,729 values, two fewer for w = 2.
- *stretched integers*, shift 1: gaps that grow with the labels, because small floating-point numbers are finer than
  large ones. A logit undergoes at most 5 roundings and its stored bias one, so the gap from x to x' is chosen such that

  $$(x' - x)^2 \ge 8u\,\bigl((x' + 2)(2x' + 2x) + x'^2 + x^2\bigr),$$

  which exceeds the errors of both logits (2 for the entry that the query itself writes). Labels further apart keep
  their order more easily: with $t = x_v / x_f$ the quotient $(t - 1)^2 / (3 + 2t + t^2)$ grows with the distance of t
  from 1. The largest label is limited so that subnormal results do not matter. bfloat16 then allows 85 values and
  float32 17,717 (for up to 10 queries); the argmax is proved, but the logits span many orders of magnitude.
"""

from __future__ import annotations

from functools import lru_cache
from math import ceil, frexp, isqrt, log2, sqrt
from typing import Literal, NamedTuple

import numpy as np
from jaxtyping import Float, Int

from factrank.nn import SIGNIFICAND, Precision

LabelKind = Literal["integers", "shifted integers", "stretched integers"]

ROUNDINGS = 8
"""Covers the 5 roundings of a logit, one of the stored bias, and higher orders."""

LEAST_NORMAL = -126
"""Exponent of the least normal number of float32 and bfloat16."""

LARGEST_LABEL = 2.0**30
"""Cubes of labels must stay far from overflow."""


class Labels(NamedTuple):
    """The kind of labels, the shift s of all logits, and the number of values they are proved for."""

    kind: LabelKind
    shift: int
    most: int

    def of(self, places: Int[np.ndarray, " n"], precision: Precision) -> Float[np.ndarray, " n"]:
        """Return the labels of the values at these places in their range.

        >>> Labels("integers", 1, 19).of(np.arange(6), "bfloat16").tolist()
        [0.0, -1.0, 1.0, -2.0, 2.0, -3.0]
        """
        sizes, signs = (places + 1) // 2, np.where(places % 2, -1.0, 1.0)
        if self.kind == "stretched integers":
            return np.asarray(signs * stretched_sizes(precision)[sizes]) + 0.0
        return np.asarray(signs * sizes) + 0.0

    def biases(self, labels: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
        """Return the shift minus x^2."""
        return np.asarray(self.shift - labels**2)


def label_choices(n_queries: int, precision: Precision, written: int = 0) -> tuple[Labels, ...]:
    """Return the kinds of labels in order of preference, from few values to many.

    Arguments:
        n_queries: the number of queries.
        precision: type of the weights.
        written: w above, the absolute values that a query itself writes to the output.

    >>> [choice.most for choice in label_choices(10, "bfloat16")[:2]]
    [19, 23]
    >>> [choice.most for choice in label_choices(10, "float32")[:2]]
    [4729, 5793]
    """
    limit = 2 ** SIGNIFICAND[precision]
    # The largest h with 3 h^2 + 2 w h <= limit, and with 2 h^2 + 2 w h <= limit.
    plain, shifted = ((isqrt(written**2 + a * limit) - written) // a for a in (3, 2))
    exact = Labels("integers", 1, 2 * plain + 1), Labels("shifted integers", shifted**2, 2 * shifted + 1)
    if precision == "float64":
        return exact
    n_sizes = int(np.searchsorted(stretched_sizes(precision), _largest_label(n_queries), side="right"))
    return *exact, Labels("stretched integers", 1, 2 * n_sizes - 1)


def labels_for(n_values: int, choices: tuple[Labels, ...]) -> Labels | None:
    """Return the first kind that can label n values; None if there is none."""
    return next((labels for labels in choices if n_values <= labels.most), None)


def most_values(choices: tuple[Labels, ...]) -> int:
    """Return the largest number of values in a range."""
    return max(labels.most for labels in choices)


@lru_cache
def stretched_sizes(precision: Precision) -> Float[np.ndarray, " sizes"]:
    """Return 0, 1, 2, ... with growing gaps: the absolute values of stretched labels.

    The condition on a gap is quadratic in x': with f = 8u, (1 - 3f) x'^2 - 2 (x + f (x + 2)) x' + (1 - f) x^2 - 4 f x
    is at least 0 beyond its larger root.
    """
    f, bits, sizes, x = ROUNDINGS * 2.0 ** -SIGNIFICAND[precision], SIGNIFICAND[precision], [], 0.0
    while x <= LARGEST_LABEL:
        sizes.append(x)
        half = x + f * (x + 2)
        root = (half + sqrt(half**2 - (1 - 3 * f) * ((1 - f) * x**2 - 4 * f * x))) / (1 - 3 * f)
        least = max(root * (1 + 2.0**-40), x + 1)
        # Round up to a representable integer, a multiple of a power of two.
        step = 2.0 ** max(frexp(least)[1] - bits, 0)
        x = ceil(least / step) * step
    return np.array(sizes)


def _largest_label(n_queries: int) -> float:
    """Return a label so small that its cube, times all factors in a layer of this size, is far above underflow."""
    size = 1024.0 * (n_queries + 2.0) ** 5
    return float(min(LARGEST_LABEL, 2.0 ** ((-LEAST_NORMAL - 8 - log2(size)) / 3)))
