r"""The limit of linear associative memories: how many facts a d x d matrix between random unit embeddings can hold.

Input i of N is answered rightly when its own score exceeds N others. If the scores of competitors were independent
normal numbers, whatever the matrix, the own score would have to reach their largest, and the facts would be N
patterns of a perceptron with $d^2$ weights and threshold $k = E \max$ of N normal numbers, which holds (Gardner 1988)

$$N = \frac{d^2}{(1 + k^2)\,\Phi(k) + k\,\varphi(k)}, \qquad k \sim \sqrt{2 \ln N}.$$

So $N \ln N / d^2 \to 1/2$. At the sizes of experiments the formula is an estimate and no bound: the best matrix also
adapts to its particular competitors, and holds 1.35 to 1.5 times as many facts for d from 128 down to 16.
"""

from __future__ import annotations

from functools import lru_cache
from math import exp, inf, log, sqrt

import numpy as np
from scipy.optimize import brentq
from scipy.special import lambertw, log_ndtr
from scipy.stats import norm

from factrank.errors import InputError

GRID = 4001
"""Points of the integral; the density of the largest of n numbers is about 1 / sqrt(2 ln n) wide."""


@lru_cache(maxsize=1024)
def memory_limit(d_model: int) -> float:
    """The number of facts of the formula, k and all.

    >>> [round(memory_limit(d)) for d in (16, 32, 64, 128)]
    [44, 132, 415, 1357]
    """
    _require_width(d_model)

    def excess(log_n: float) -> float:
        """The logarithm of what N facts need over what there is."""
        k = expected_maximum(exp(log_n))
        return log_n + log((1 + k * k) * norm.cdf(k) + k * norm.pdf(k)) - 2 * log(d_model)

    return float(exp(brentq(excess, 0.0, 2 * log(d_model) + 1)))  # one fact needs half of the first weight


def asymptotic_memory_limit(d_model: int) -> float:
    r"""The N with $N \ln N = d^2 / 2$.

    >>> [round(asymptotic_memory_limit(d)) for d in (16, 32, 64, 128)]
    [36, 109, 350, 1161]
    """
    _require_width(d_model)
    return float(d_model**2 / 2 / lambertw(d_model**2 / 2).real)


def expected_maximum(n_numbers: float) -> float:
    r"""The mean of the largest of n normal numbers, $n \int x\, \varphi(x)\, \Phi(x)^{n-1} dx$; n need not be whole.

    >>> round(expected_maximum(1.0), 9), round(expected_maximum(2.0), 9)  # the second is 1 / sqrt(pi)
    (0.0, 0.564189584)
    """
    if not 1 <= n_numbers < inf:
        raise InputError(f"the largest of at least one number is asked for; got {n_numbers}")

    x = np.linspace(-12.0, sqrt(2 * log(n_numbers)) + 12.0, GRID)
    # Of a smooth function that vanishes at both ends the sum over a grid is the integral to all digits.
    density = np.exp(log(n_numbers) + norm.logpdf(x) + (n_numbers - 1) * log_ndtr(x))
    return float((x * density).sum() * (x[1] - x[0]))


def _require_width(d_model: int) -> None:
    if isinstance(d_model, bool) or not isinstance(d_model, int) or d_model < 1:
        raise InputError(f"d_model must be an integer of at least 1; got {d_model!r}")
