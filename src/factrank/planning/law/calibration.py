"""Intervals around the law: the shortest that held for nine of ten layers with the same predicted recall.

They are conformal (Vovk, Gammerman and Shafer 2005) within each group and bin: layers drawn like the
calibrating ones are inside with a probability of at least the level. For other layers, only a test can tell.

If more than nine of ten layers of a bin recall every fact, its interval is the point 1 and is right more often than the
level. `smoothed` removes this excess, so calibration can be checked: it gives such a hit the weight level / frequency,
as a conformal interval with random ties does.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil
from typing import Any

import numpy as np

LEVEL = 0.9
FEWEST, MOST_BINS = 400, 24
"""Layers of a bin, at least, and bins of a group, at most."""


@dataclass(frozen=True)
class Bins:
    """Intervals by predicted recall.

    Arguments:
        edges: bin i is below edges[i], the last bin above all edges.
        lower: lower ends.
        upper: upper ends.
        full: fraction of the layers in the bin that recall every fact.
    """

    edges: tuple[float, ...]
    lower: tuple[float, ...]
    upper: tuple[float, ...]
    full: tuple[float, ...]

    def of(self, predicted: Any) -> Any:
        """Return the bin of each prediction."""
        return np.digitize(predicted, self.edges)


@dataclass(frozen=True)
class Calibration:
    """Bins by group of layers."""

    groups: Mapping[str, Bins]

    def interval(self, group: str, predicted: Any) -> tuple[Any, Any]:
        """Return the ends of the interval of each prediction; the prediction itself is always inside."""
        bins = self.groups[group]
        place = bins.of(predicted)
        return np.minimum(np.array(bins.lower)[place], predicted), np.maximum(np.array(bins.upper)[place], predicted)

    def full_fraction(self, group: str, predicted: Any) -> Any:
        """Return the fraction of layers with such a prediction that recall every fact."""
        bins = self.groups[group]
        return np.array(bins.full)[bins.of(predicted)]

    def is_point(self, group: str, predicted: Any) -> Any:
        """Return whether the interval is the point 1, up to the prediction."""
        bins = self.groups[group]
        return (np.array(bins.lower) == np.array(bins.upper))[bins.of(predicted)]

    def smoothed(self, group: str, predicted: Any, inside: Any, level: float = LEVEL) -> Any:
        """Return hits with the excess of point intervals removed; their mean should be the level."""
        excess = level / np.maximum(self.full_fraction(group, predicted), level)
        return inside * np.where(self.is_point(group, predicted), excess, 1.0)


def calibrate(predicted: Any, recall: Any, level: float = LEVEL) -> Bins:
    """Return the bins of one group."""
    n_bins = max(1, min(MOST_BINS, len(predicted) // FEWEST))
    edges = np.unique(np.quantile(predicted, np.linspace(0, 1, n_bins + 1)[1:-1])) if n_bins > 1 else np.empty(0)
    place = np.digitize(predicted, edges)
    ends = [shortest(np.sort(recall[place == one]), level) for one in range(len(edges) + 1)]
    full = [float(np.mean(recall[place == one] == 1)) for one in range(len(edges) + 1)]
    lower, upper = zip(*ends, strict=True)
    return Bins(tuple(edges.tolist()), lower, upper, tuple(full))


def shortest(ordered: Any, level: float) -> tuple[float, float]:
    """Return the shortest interval that contains a fraction `level` of n + 1 numbers; of several the highest.

    >>> shortest(np.array([0.2, 0.9, 0.95, 0.96, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0]), 0.8)
    (0.9, 1.0)
    """
    needed = min(len(ordered), ceil((len(ordered) + 1) * level))
    widths = ordered[needed - 1 :] - ordered[: len(ordered) - needed + 1]
    first = len(widths) - 1 - int(np.argmin(widths[::-1]))
    return float(ordered[first]), float(ordered[first + needed - 1])
