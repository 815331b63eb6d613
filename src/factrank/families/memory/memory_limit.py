r"""Capacity of linear associative memories: how many facts a d x d matrix can store between random unit embeddings.

An input is answered correctly if the score of its own output exceeds the scores of all N competitors. Suppose that,
for any matrix, the competing scores were independent and normal. Then the own score would have to reach their maximum,
and the facts would be N patterns of a perceptron with $d^2$ weights and threshold $k = E \max$ of N normal variables.
Its capacity (Gardner 1988) is

$$N = \frac{d^2}{(1 + k^2)\,\Phi(k) + k\,\varphi(k)}, \qquad k \sim \sqrt{2 \ln N}.$$

Therefore $N \ln N / d^2 \to 1/2$. At the sizes of experiments this is an estimate, not a bound: the best matrix also
adapts to its particular competitors and stores 1.35 to 1.5 times more facts, for d from 128 down to 16.
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
"""Number of grid points of the integral; the density of the maximum of n variables has width about 1 / sqrt(2 ln n)."""


@lru_cache(maxsize=1024)
def memory_limit(d_model: int) -> float:
    """Return the estimated capacity N of a linear memory, by the formula above with the exact k.

    >>> [round(memory_limit(d)) for d in (16, 32, 64, 128)]
    [44, 132, 415, 1357]
    """
    _require_width(d_model)

    def excess(log_n: float) -> float:
        k = expected_maximum(exp(log_n))
        return log_n + log((1 + k * k) * norm.cdf(k) + k * norm.pdf(k)) - 2 * log(d_model)

    return float(exp(brentq(excess, 0.0, 2 * log(d_model) + 1)))  # one fact needs half a weight


def asymptotic_memory_limit(d_model: int) -> float:
    r"""Return the N with $N \ln N = d^2 / 2$, the asymptotic capacity of a linear memory.

    >>> [round(asymptotic_memory_limit(d)) for d in (16, 32, 64, 128)]
    [36, 109, 350, 1161]
    """
    _require_width(d_model)
    return float(d_model**2 / 2 / lambertw(d_model**2 / 2).real)


def expected_maximum(n_numbers: float) -> float:
    r"""Return the expected maximum of n standard normal variables, $n \int x\, \varphi(x)\, \Phi(x)^{n-1} dx$.

    n does not have to be an integer.

    >>> round(expected_maximum(1.0), 9), round(expected_maximum(2.0), 9)  # the second is 1 / sqrt(pi)
    (0.0, 0.564189584)
    """
    if not 1 <= n_numbers < inf:
        raise InputError(f"n_numbers must be finite and at least 1; got {n_numbers}")

    x = np.linspace(-12.0, sqrt(2 * log(n_numbers)) + 12.0, GRID)
    # The trapezoidal rule is exact to all digits for a smooth function that vanishes at both ends.
    density = np.exp(log(n_numbers) + norm.logpdf(x) + (n_numbers - 1) * log_ndtr(x))
    return float((x * density).sum() * (x[1] - x[0]))


def _require_width(d_model: int) -> None:
    if isinstance(d_model, bool) or not isinstance(d_model, int) or d_model < 1:
        raise InputError(f"d_model must be an integer of at least 1; got {d_model!r}")
