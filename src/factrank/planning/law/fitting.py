"""The fit of the law: least squares of the recall, with less weight on outliers."""

from __future__ import annotations

from typing import Any

import numpy as np

from factrank.planning.law.law import CONSTANTS, LAW_KINDS, CapacityLaw, LayerColumns

POSITIVE = ("per_parameter", "sharpness", "per_head", "head_sharpness")
"""Constants that are fitted as logarithms."""

FIRST = {
    "per_parameter": 1.6,
    "size": 1.0,
    "sharpness": 6.0,
    "growth": 0.05,
    "per_head": 40.0,
    "heads": 1.9,
    "d_vo": 0.4,
    "keys": 0.5,
    "queries": 0.2,
    "values": 0.3,
    "head_sharpness": 1.5,
    "head_growth": 0.0,
}
"""Start of the fit."""

OUTLIER = 0.05
"""Errors of the recall beyond this count less than their square."""


def fit_law(layers: LayerColumns, recall: Any, evaluations: int = 80) -> CapacityLaw:
    """Return the law that fits these layers best."""
    from scipy.optimize import least_squares  # noqa: PLC0415 - only fits need it

    began = [np.log(FIRST[name]) if name in POSITIVE else FIRST[name] for name in CONSTANTS]
    first = [*began, *[0.0] * (2 * len(LAW_KINDS) - 2)]

    def errors(numbers: Any) -> Any:
        return _law(numbers).recall(layers) - recall

    found = least_squares(errors, first, loss="soft_l1", f_scale=OUTLIER, max_nfev=evaluations)
    return _law(found.x)


def _law(numbers: Any) -> CapacityLaw:
    plain = dict(zip(CONSTANTS, numbers.tolist(), strict=False))
    constants = {name: float(np.exp(number)) if name in POSITIVE else number for name, number in plain.items()}
    kappa = np.concatenate([[[0, 0]], numbers[len(CONSTANTS) :].reshape(-1, 2)]).tolist()
    return CapacityLaw(constants, dict(zip(LAW_KINDS, map(tuple, kappa), strict=True)))
