"""Format results: fractions as percentages, and data for JSON."""

from __future__ import annotations

from math import floor, isfinite
from typing import Any

ROUNDING = 1e-9
"""Tolerance in tenths of a percent, because 0.57 * 1000 is slightly less than 570."""


def percent(share: float) -> str:
    """Format a fraction as a percentage, rounded down: 100% means all, and 0.0% means none.

    >>> percent(1.0), percent(0.99996), percent(0.57), percent(0.00002), percent(0.0), percent(float("nan"))
    ('100%', '99.9%', '57.0%', '<0.1%', '0.0%', '-')
    """
    if not isfinite(share):
        return "-"
    if share == 1:
        return "100%"
    tenths = min(floor(share * 1000 + ROUNDING), 999)
    return "<0.1%" if share > 0 and not tenths else f"{tenths / 10:.1f}%"


def finite_data(data: Any) -> Any:
    """Replace infinite numbers and NaN, which JSON does not support, by None.

    >>> finite_data({"margin": float("inf"), "facts": (8, float("nan"))})
    {'margin': None, 'facts': [8, None]}
    """
    if isinstance(data, dict):
        return {name: finite_data(part) for name, part in data.items()}
    if isinstance(data, list | tuple):
        return [finite_data(part) for part in data]
    return None if isinstance(data, float) and not isfinite(data) else data
