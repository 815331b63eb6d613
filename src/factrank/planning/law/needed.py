"""The size that a recall needs: a formula of its own, fitted to searches and calibrated on others.

A search trains every width of a planned layer with seven seeds; the needed size is the fewest parameters with which at
least half of the seeds recall the requested fraction of the facts. A search has an *answer* if its narrowest layer
failed and some wider one succeeded. Otherwise the needed size is only bounded, by the narrowest layer from above or by
the widest from below. These searches count too: the error of the formula is its distance to what a search allows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil
from typing import Any

import numpy as np

from factrank.planning.atlas import AtlasRows, row_parameters, take_rows
from factrank.planning.law.calibration import LEVEL
from factrank.planning.law.law import LAW_KINDS, CapacityLaw, LayerColumns, columns_of_rows

RECALLS = (0.9, 0.95, 0.99, 1.0)
"""Fractions of the facts for which sizes were searched."""

HEADS = (2, 4, 8, 16)
"""Heads of the layers that were searched."""

NEEDED_KINDS = ("uniform", "disjoint")
"""Kinds of tables whose searches the needed sizes are fitted to; there are too few searches on associations."""

EDGE = 0.001
"""Relative tolerance at the ends of intervals."""

ROUNDS, FOLDS = 60, 10
"""Rounds of the fit to bounds, and parts of the searches in its calibration."""

MOST_EXPECTED, OTHER_EXPECTED = 0.99, 0.95
"""The law never expects all facts; the size for a second recall shows how steep it is."""

WIDEST, BISECTIONS = 1e5, 40


@dataclass(frozen=True)
class Needed:
    """The formula of one recall.

    Arguments:
        recall: the fraction of the facts.
        weights: of the terms of the formula, whose sum is the logarithm of the needed parameters.
        errors: quantiles of its error, by number of heads.
    """

    recall: float
    weights: tuple[float, ...]
    errors: Mapping[int, tuple[float, float, float]]

    def parameters(self, law: CapacityLaw, layers: LayerColumns) -> tuple[Any, Any, Any]:
        """Return the lower end, middle and upper end of the needed parameters."""
        middle = terms(law, layers, self.recall) @ np.array(self.weights)
        ends = np.array([self.errors[nearest_heads(heads)] for heads in np.atleast_1d(layers["n_heads"]).tolist()])
        return tuple(np.exp(middle + ends.reshape(-1, 3)[:, place]) for place in range(3))


def nearest_heads(n_heads: float) -> int:
    """Return the number of heads that was searched and is nearest to this one, as a ratio."""
    return min(HEADS, key=lambda searched: abs(np.log(searched / n_heads)))


def expected_size(law: CapacityLaw, layers: LayerColumns, recall: float) -> Any:
    """Return log parameters of the planned layer (its width a real number) of which the law expects this recall."""
    tokens, heads = layers["n_keys"] + layers["n_queries"] + layers["n_values"], layers["n_heads"]
    low, high = np.zeros(len(tokens)), np.full(len(tokens), np.log(WIDEST))
    for _ in range(BISECTIONS):
        middle = (low + high) / 2
        width = np.exp(middle)
        d_vo = np.maximum(1.5 * width / heads, 1)
        parameters = width * (tokens + 2 * heads * (2 + d_vo))
        enough = law.recall({**layers, "parameters": parameters, "d_vo": d_vo}) >= recall
        low, high = np.where(enough, low, middle), np.where(enough, middle, high)
    return np.log(parameters)


def search_sizes(layers: LayerColumns) -> dict[str, Any]:
    """Return the quantities that tell which tables were searched.

    In addition to sizes, this is the width of a planned layer (a real number) with 1.5 bits of the table per parameter:
    searches were only drawn if it is not too small.
    """
    names = ("n_keys", "n_queries", "n_values", "n_heads", "bits")
    sizes = {name: np.atleast_1d(np.asarray(layers[name], dtype=float)) for name in names}
    tokens, heads, parameters = (
        sizes["n_keys"] + sizes["n_queries"] + sizes["n_values"],
        sizes["n_heads"],
        sizes["bits"] / 1.5,
    )
    narrow = parameters / (tokens + 6 * heads)  # d_vo is 1
    wide = (np.sqrt((tokens + 4 * heads) ** 2 + 12 * parameters) - tokens - 4 * heads) / 6
    return {**sizes, "d_model at 1.5 bits per parameter": np.where(1.5 * narrow < heads, narrow, wide)}


def terms(law: CapacityLaw, layers: LayerColumns, recall: float) -> Any:
    """Return the terms of the formula, one column each: what the law expects, and corrections."""
    layers = {name: np.atleast_1d(column) for name, column in layers.items()}
    names = ("bits", "n_heads", "n_keys", "n_queries", "n_values")
    bits, heads, keys, queries, values = (np.log(layers[name]) for name in names)
    wanted, other = (expected_size(law, layers, most) for most in (min(recall, MOST_EXPECTED), OTHER_EXPECTED))
    is_disjoint = (layers["kind"] == LAW_KINDS.index("disjoint")).astype(float)
    plain = [np.ones_like(bits), bits, heads, keys, queries, values, is_disjoint, wanted, other]
    crossed = [heads * one for one in (heads, queries, values, bits, is_disjoint, wanted)]
    squares = [one**2 for one in (bits, keys, queries, values, wanted)]
    return np.stack([*plain, *crossed, *squares, bits * keys, bits * queries, bits * values], axis=1)


@dataclass(frozen=True, eq=False)
class Searched:
    """Searches for one recall: a column for each input of the formula, and what each search allows.

    The needed parameters are from `least` to `most`: equal if the search has an answer, else 0 and the size
    of the narrowest layer, or the size of the widest layer and infinity.
    """

    layers: dict[str, Any]
    least: Any
    most: Any

    @property
    def answered(self) -> Any:
        """Return which searches have an answer."""
        return self.least == self.most

    def take(self, places: Any) -> Searched:
        """Return some of the searches."""
        return Searched(take_rows(self.layers, places), self.least[places], self.most[places])


@dataclass(frozen=True)
class SearchCoverage:
    """How often intervals held.

    Arguments:
        searches, allowed: all searches, and the ones that do not contradict the interval.
        answered, inside: searches with an answer, and those whose needed size is in the interval.
        width: median ratio of the ends of the interval, over searches with an answer.
    """

    searches: int
    allowed: int
    answered: int
    inside: int
    width: float


def searched(rows: AtlasRows) -> dict[float, Searched]:
    """Return the searches among these rows, by recall."""
    layers = columns_of_rows(rows)
    recall, parameters = rows["right"] / rows["n_facts"], row_parameters(rows)
    number = rows["part"].astype(np.int64) * 2**32 + rows["search"]
    order = np.lexsort([rows["d_model"], number])
    found: dict[float, list[tuple[float, float]]] = {fraction: [] for fraction in RECALLS}
    firsts = []
    for places in np.split(order, np.flatnonzero(np.diff(number[order])) + 1):
        widths = np.split(places, np.flatnonzero(np.diff(rows["d_model"][places])) + 1)
        sizes = [float(parameters[width[0]]) for width in widths]
        middle = np.array([np.sort(recall[width])[len(width) // 2] for width in widths])
        firsts.append(places[0])
        for fraction in RECALLS:
            met = np.flatnonzero(middle >= fraction)
            if not len(met):
                found[fraction].append((sizes[-1], np.inf))
            else:
                found[fraction].append((0.0 if met[0] == 0 else sizes[met[0]], sizes[met[0]]))
    inputs = take_rows(layers, np.array(firsts))
    bounds = {fraction: np.array(pairs).T for fraction, pairs in found.items()}
    return {fraction: Searched(inputs, least, most) for fraction, (least, most) in bounds.items()}


def coverage(law: CapacityLaw, formula: Needed, found: Searched) -> SearchCoverage:
    """Count how often the intervals of a formula hold for searches, those without an answer included."""
    low, _, high = formula.parameters(law, found.layers)
    allowed = (low <= found.most * (1 + EDGE)) & (high >= found.least * (1 - EDGE))
    answered = found.answered
    return SearchCoverage(
        searches=len(allowed),
        allowed=int(allowed.sum()),
        answered=int(answered.sum()),
        inside=int((allowed & answered).sum()),
        width=float(np.median((high / low)[answered])) if answered.any() else float("nan"),
    )


def fit_needed(law: CapacityLaw, found: Searched, recall: float, level: float = LEVEL) -> Needed:
    """Fit the formula to searches, and calibrate it by cross-conformal prediction.

    Least squares of the distance to what each search allows: a search without an answer only counts if the formula
    contradicts it. The errors come from ten fits, each to nine tenths of the searches, evaluated on the rest.
    """
    read = terms(law, found.layers, recall)
    with np.errstate(divide="ignore"):
        least, most = np.log(found.least), np.log(found.most)
    fold = np.random.default_rng(0).permutation(len(read)) % FOLDS
    errors = np.empty(len(read))
    for one in range(FOLDS):
        at, rest = fold == one, fold != one
        middle = read[at] @ _weights(read[rest], least[rest], most[rest])
        errors[at] = np.clip(middle, least[at], most[at]) - middle
    heads = np.array([nearest_heads(one) for one in np.asarray(found.layers["n_heads"]).tolist()])
    by_heads = {one: _ends(errors[heads == one], level) for one in HEADS}
    return Needed(recall, tuple(_weights(read, least, most).tolist()), by_heads)


def _weights(read: Any, least: Any, most: Any) -> Any:
    """Return the weights whose sums are nearest to the ranges from `least` to `most`."""
    wanted = np.where(np.isfinite(most), most, least)
    for _ in range(ROUNDS):
        weights = np.linalg.lstsq(read, wanted, rcond=None)[0]
        wanted = np.clip(read @ weights, least, most)
    return weights


def _ends(errors: Any, level: float) -> tuple[float, float, float]:
    """Return conformal ends, as far below the formula as above it."""
    reach = float(np.sort(np.abs(errors))[min(len(errors), ceil((len(errors) + 1) * level)) - 1])
    return -reach, 0.0, reach
