r"""Confidence: bounds of softmax probabilities from intervals of logits, and the claims that a certificate can contain.

Let the logits of a (key, query) in any evaluation be in the intervals $z_v \pm r_v$, and let S be the values of its
fiber. The *probability of the fiber* is the sum of the probabilities of its values, which for a single value is its
probability. With $A = \sum_{s \in S} e^{z_s - r_s}$ and $B = \sum_{v \notin S} e^{z_v + r_v}$ it is at least
$1 / (1 + B/A)$. A set of m values has at most the probability $1 / (1 + B/A)$ if A adds the m largest $e^{z_v + r_v}$,
and B adds all $e^{z_v - r_v}$ except the m largest.

A program computes probabilities from its logits in at least float32 (unit roundoff u), in one of two ways.

1. It subtracts the largest logit, takes exponentials with an error of at most 16 units, adds them in any order and
   divides, or subtracts the logarithm of the sum. A difference d is off by u |d|, so an exponential by a factor of at
   most 1 + 1,040 u if $|d| \le 1024$, and by at most the smallest normal number otherwise. This changes B/A by a
   factor of at most $1 + 4 \cdot 1040 u$. The sum, the quotient, the logarithm and the sum over a fiber change a
   probability by a factor of at most $1 + (4n + 512) u$ for n values.
2. It subtracts a logarithm of the sum that has the largest logit added to it, $\ell$. That sum is rounded to nearest,
   so it is off by at most $u |\ell|$, and by at most its distance from any logit, which is at most $\log m - \log p$
   for the largest of the m logits of a fiber with probability p.

Everything is computed in float64 and rounded outwards.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
from jaxtyping import Bool, Float

from factrank.certificates.arithmetic import ARITHMETIC, EXPONENTIAL_UNITS, SLACK
from factrank.errors import InputError
from factrank.nn import Precision

Abstention = Literal["unknown", "quiet"]
"""How a layer abstains on pairs without a fact: by a reserved value, or by not being confident of any value."""

DIFFERENCE = 1024.0
"""Exponentials of differences below minus this vanish in every precision that computes a softmax."""

SOFTMAX_UNITS = 512
"""Roundings of a probability, in unit roundoffs, in addition to four for each value."""

PROBABILITY_TOLERANCE = 1e-3
"""Difference of probabilities that is allowed between machines."""


@dataclass(frozen=True)
class ConfidenceClaim:
    """Claim about the probabilities of a layer, in addition to the recall of every fact.

    Arguments:
        tau: Every fiber has at least this probability.
        abstain: What is claimed of pairs without a fact: "unknown", the reserved value has at least the probability
            tau; "quiet", no set of as many values as the largest fiber has the probability tau; None, nothing.
        unknown: Name of the reserved value, only for "unknown".
    """

    tau: float
    abstain: Abstention | None = None
    unknown: str | None = None

    def __post_init__(self) -> None:
        if not 0.0 < self.tau < 1.0:
            raise InputError(f"tau must be between 0 and 1, such as 0.95; got {self.tau!r}")
        if self.abstain not in {None, *get_args(Abstention)}:
            raise InputError(f"abstain must be one of {', '.join(get_args(Abstention))}; got {self.abstain!r}")
        if self.abstain is not None and self.tau <= 0.5:
            raise InputError(f"a layer that abstains needs a tau above 0.5; got {self.tau!r}")
        if (self.unknown is not None) != (self.abstain == "unknown"):
            raise InputError('a reserved value is given by name, and only with abstain="unknown"')
        if self.unknown == "":
            raise InputError("the reserved value must be a name; got an empty one")


@dataclass(frozen=True)
class Confidence:
    """A claim, with the numbers that support or refute it.

    Arguments:
        claim: The claim.
        probability: Smallest probability of a fiber in the forward pass.
        proved_probability: Lower bound of it in every evaluation; 0 if nothing was proved.
        silent_probability: Over all pairs without a fact, in the forward pass: the smallest probability of the reserved
            value; for "quiet", the largest probability of a set of as many values as the largest fiber. None without a
            claim about such pairs, or if there are none.
        proved_silent_probability: Bound of it in every evaluation, from below for a reserved value, else from above.
    """

    claim: ConfidenceClaim
    probability: float
    proved_probability: float
    silent_probability: float | None = None
    proved_silent_probability: float | None = None

    def faults(self) -> tuple[str, ...]:
        """Return why the claim is not established; empty if it is."""
        tau, found = self.claim.tau, []
        if not self.probability >= tau:
            found.append(f"some fact has only the probability {self.probability:.4g} in the layer's forward pass")
        elif not self.proved_probability >= tau:
            found.append(f"only the probability {self.proved_probability:.4g} is proved for every fact")
        elif self.probability < self.proved_probability:
            found.append("some probabilities are below their proved bounds; this evaluation violates an assumption")
        if self.claim.abstain is None or self.silent_probability is None:
            return tuple(found)
        computed, proved = self.silent_probability, self.proved_silent_probability
        if proved is None:
            return (*found, "nothing is proved of pairs without a fact")
        if self.claim.abstain == "unknown":
            if not computed >= tau:
                found.append(f"a pair without a fact has only the probability {computed:.4g} of {self.claim.unknown!r}")
            elif not proved >= tau:
                found.append(f"only the probability {proved:.4g} of {self.claim.unknown!r} is proved elsewhere")
        elif not computed < tau:
            found.append(f"a pair without a fact has an answer of probability {computed:.4g}")
        elif not proved < tau:
            found.append(f"for pairs without a fact, only a probability of at most {proved:.4g} is proved")
        return tuple(found)

    def plain(self) -> dict[str, Any]:
        """Return plain data."""
        numbers = asdict(self)
        return {**numbers.pop("claim"), **numbers}

    def differences(self, other: Confidence | None) -> tuple[str, ...]:
        """Return the names of the entries in which another one differs; probabilities may differ a little."""
        if other is None:
            return ("confidence",)
        mine, theirs = self.plain(), other.plain()
        return tuple(name for name in mine if not _agree(mine[name], theirs[name]))


def confidence_from_plain(data: object) -> Confidence:
    """Parse the entry of a certificate.

    Raises:
        InputError: If it is not valid.
    """
    names = list(Confidence(ConfidenceClaim(0.5), 1.0, 1.0).plain())
    if not isinstance(data, dict) or set(data) != set(names):
        raise InputError(f"the confidence of a certificate must have exactly the entries {', '.join(names)}")
    named = all(data[name] is None or isinstance(data[name], str) for name in ("abstain", "unknown"))
    if not named or not _is_probability(data["tau"]) or data["abstain"] not in {None, *get_args(Abstention)}:
        raise InputError("invalid tau, abstain or unknown in the certificate")
    claim = ConfidenceClaim(float(data["tau"]), data["abstain"], data["unknown"])
    silent = ("silent_probability", "proved_silent_probability")
    for name in names[3:]:
        if not _is_probability(data[name]) and not (data[name] is None and name in silent):
            raise InputError(f"invalid {name} in the certificate: {str(data[name])[:60]!r}")
    return Confidence(claim, *(data[name] for name in names[3:]))


def _is_probability(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= 1


def _agree(mine: object, theirs: object) -> bool:
    if isinstance(mine, float) and isinstance(theirs, float):
        return abs(mine - theirs) <= PROBABILITY_TOLERANCE
    return mine == theirs


# -------------------------------------------------------------------- bounds


class LogitIntervals(NamedTuple):
    """Logits of pairs in any evaluation: at most `radii` from `logits`."""

    logits: Float[np.ndarray, "pairs values"]
    radii: Float[np.ndarray, "pairs values"]

    def ends(self) -> tuple[Float[np.ndarray, "pairs values"], Float[np.ndarray, "pairs values"]]:
        """Return the ends of the intervals, rounded outwards."""
        ours = np.where(self.radii > 0, self.radii * SLACK + 2.0**-50 * np.abs(self.logits), 0.0)
        return self.logits - ours, self.logits + ours


def least_probability(
    intervals: LogitIntervals, belongs: Bool[np.ndarray, "pairs values"], precision: Precision
) -> Float[np.ndarray, " pairs"]:
    """Return a lower bound of the probability of the values that belong to each fiber, in every evaluation."""
    unit, n_values, size = _unit(precision), belongs.shape[1], belongs.sum(axis=1)
    low, high = intervals.ends()
    top = np.where(belongs, low, -np.inf).max(axis=1, initial=-np.inf)
    inside = _exponentials(np.where(belongs, low, -np.inf), top, SLACK**-1).sum(axis=1)
    outside = _exponentials(np.where(belongs, -np.inf, high), top, SLACK).sum(axis=1)
    outside += np.where(belongs.all(axis=1), 0.0, n_values * _vanishing(precision))
    with np.errstate(divide="ignore", invalid="ignore"):
        odds = outside / inside * (1 + 4 * (DIFFERENCE + EXPONENTIAL_UNITS) * unit) * SLACK
    largest = np.maximum(np.abs(low), np.abs(high)).max(axis=1, initial=0.0) + np.log(n_values) + 1
    shift = np.minimum(unit * largest, np.log1p(odds) + np.log(np.maximum(size, 1))) * SLACK
    found = np.exp(-shift) / (1 + odds) * (1 - (4 * n_values + SOFTMAX_UNITS) * unit) / SLACK_OF_ONE
    found -= 2 * n_values * _vanishing(precision)
    return np.where(np.isnan(found), 0.0, np.clip(found, 0.0, 1.0))


def largest_probability(
    intervals: LogitIntervals, allowed: Bool[np.ndarray, " values"], most: int, precision: Precision
) -> Float[np.ndarray, " pairs"]:
    """Return an upper bound of the probability of any `most` of the allowed values, in every evaluation."""
    unit, n_values = _unit(precision), len(allowed)
    most = min(most, int(allowed.sum()))
    low, high = intervals.ends()
    largest = np.maximum(np.abs(low), np.abs(high)).max(axis=1, initial=0.0) + np.log(n_values) + 1
    top = high.max(axis=1)
    above = _exponentials(np.where(allowed, high, -np.inf), top, SLACK)
    below = _exponentials(low, top, SLACK**-1)
    inside = np.sort(above, axis=1)[:, n_values - most :].sum(axis=1) + n_values * _vanishing(precision)
    outside = below.sum(axis=1) - np.sort(np.where(allowed, below, 0.0), axis=1)[:, n_values - most :].sum(axis=1)
    outside = np.maximum(outside / SLACK - 2.0**-30 * below.sum(axis=1), 0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        odds = outside / inside * (1 - 4 * (DIFFERENCE + EXPONENTIAL_UNITS) * unit) / SLACK
    # The rounded logarithm of the sum may be too small by this much; its exponential must not overflow.
    shift = unit * largest * SLACK
    rounded = (1 + (4 * n_values + SOFTMAX_UNITS) * unit) * SLACK_OF_ONE
    found = np.exp(np.minimum(shift, LARGEST_SHIFT)) / (1 + odds) * rounded
    return np.where(np.isnan(found) | (shift > LARGEST_SHIFT), 1.0, np.clip(found, 0.0, 1.0))


LARGEST_SHIFT = 500.0
"""Errors of a logarithm beyond this leave no bound; its exponential is far from overflow."""

SLACK_OF_ONE = 1 + 2.0**-40
"""Covers the last few operations of a bound near 1."""


def _unit(precision: Precision) -> float:
    """Return the unit roundoff of the softmax: of the precision, at least float32."""
    return ARITHMETIC["float32" if precision == "bfloat16" else precision].unit


def _vanishing(precision: Precision) -> float:
    return 2 * ARITHMETIC["float32" if precision == "bfloat16" else precision].least


def _exponentials(
    logits: Float[np.ndarray, "pairs values"], top: Float[np.ndarray, " pairs"], slack: float
) -> Float[np.ndarray, "pairs values"]:
    """Return the exponentials of logits minus the top, rounded towards the direction of the slack."""
    with np.errstate(over="ignore", invalid="ignore"):
        return np.asarray(np.exp(logits - top[:, None]) * slack)
