r"""The readout softmax>=tau on the facts of a functional database: its effective rank is that of argmax.

The readout of a fiber is the set of values of probability at least tau. On a fact it is right when that set is {f};
then f is strictly most probable, so argmax is right too. Conversely, logits with least margin m > 0 on V values,
multiplied by

$$\beta > \ln\frac{(V - 1)\, t}{1 - t} \Big/ m, \qquad t = \max(\tau, 1 - \tau),$$

give f a probability of $1 / (1 + (V - 1) e^{-\beta m}) > t \ge \tau$ or more, and all others together less than
$1 - t \le \tau$. Scaling keeps the rank, so the two effective ranks agree for every tau in (0, 1). Silence on the
fibers without a fact is another, larger demand.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from math import ceil, inf, log, nextafter

import numpy as np
from jaxtyping import Int

from factrank.errors import InputError
from factrank.tensors.bounds.certified_bounds import RankBounds
from factrank.tensors.codes import least_margin
from factrank.tensors.core import Decomposition, Factor, ZeroOneTensor, distinct

ROUNDING = 1e-12
"""Excess, absolute and relative, that outweighs the rounding of the odds and of their logarithm."""


def scale_for_threshold(margin: float, n_values: int, tau: float) -> float:
    """A factor that turns logits with this least margin into logits whose readout softmax>=tau is right on every fact.

    >>> round(scale_for_threshold(2.0, 4, 0.9), 4)
    1.6479
    """
    if not (0 < tau < 1 and 0 < margin < inf and n_values >= 1):
        raise InputError(f"expected 0 < tau < 1, a positive margin and a value; got {tau}, {margin} and {n_values}")
    odds = max(tau, 1 - tau) / min(tau, 1 - tau) * max(n_values - 1, 1)
    return nextafter((log(odds) * (1 + ROUNDING) + ROUNDING) / margin * (1 + ROUNDING), inf)


def threshold_terms(terms: Decomposition, tensor: ZeroOneTensor, tau: float) -> Decomposition:
    """Terms whose argmax is right on every fact, multiplied until softmax>=tau is; raises if argmax is not right.

    The factor is an integer, at least `scale_for_threshold`. The readout is among the values in use.
    """
    values, place = distinct(tensor.coordinates[:, 2])
    margin = least_margin(_on_values(terms, values), _renumbered(tensor, place, len(values)))
    if margin <= 0:
        raise InputError(f"the terms do not recall the facts: the least margin is {margin}")
    # A float at or below the margin is on the safe side.
    below = nextafter(float(min(margin, Fraction(2**53))), 0.0)
    factor = ceil(scale_for_threshold(below, max(len(values), 1), tau))
    first, second, third = terms.factors
    scaled = Factor(third.index, third.term, third.weight.astype(object) * factor)
    return Decomposition((first, second, scaled), terms.denominators)


def _on_values(terms: Decomposition, values: Int[np.ndarray, " used"]) -> Decomposition:
    """The terms on some values only, renumbered."""
    first, second, third = terms.factors
    kept = np.isin(third.index, values)
    on_values = Factor(np.searchsorted(values, third.index[kept]), third.term[kept], third.weight[kept])
    return Decomposition((first, second, on_values), terms.denominators)


def _renumbered(tensor: ZeroOneTensor, place: Int[np.ndarray, " facts"], n_values: int) -> ZeroOneTensor:
    """The tensor with its values numbered by their place among those in use."""
    coordinates = np.column_stack([tensor.coordinates[:, :2], place])
    return ZeroOneTensor(coordinates, (tensor.shape[0], tensor.shape[1], n_values))


def effective_rank_softmax(argmax: RankBounds, tensor: ZeroOneTensor, tau: float) -> RankBounds:
    """The bracket of the effective rank for softmax>=tau on the facts, from that for argmax.

    Arguments:
        argmax: the bracket for argmax.
        tensor: the tensor of a functional database.
        tau: between 0 and 1.
    """
    if not tensor.determined[2]:
        raise InputError("softmax>=tau: expected a functional database, with at most one value per (key, query)")
    if not 0 < tau < 1:
        raise InputError(f"softmax>=tau: expected tau between 0 and 1, got {tau}")
    build = argmax.upper.witness
    witness = (lambda: threshold_terms(build(), tensor, tau)) if callable(build) else None
    upper = replace(argmax.upper, method=f"{argmax.upper.method}, scaled", witness=witness)
    return RankBounds(argmax.lower, upper, tried=(argmax.lower, upper))
