"""Widths of bundles of lanes, and how a number of trials is split into bundles.

Widths are powers of two, so few shapes are compiled; bundles are padded with dummy lanes. The split depends only on the
number of trials and the maximum width, because the last bits of a result depend on the width of its bundle.
"""

from __future__ import annotations

LEAST_USED = 0.75
"""A bundle is padded with dummy lanes only if at least this fraction of its lanes is used."""


def widths(n_trials: int, widest: int) -> list[int]:
    """Return the widths of the bundles for n trials, widest first; only the last may contain dummy lanes.

    >>> widths(300, 256)
    [256, 32, 16]
    """
    found: list[int] = []
    while n_trials > 0:
        enough = rung_above(n_trials)
        fits = enough <= widest and n_trials >= LEAST_USED * enough
        found.append(enough if fits else min(rung_below(n_trials), widest))
        n_trials -= found[-1]
    return found


def rung_above(n: int) -> int:
    """Return the smallest power of two >= n.

    >>> rung_above(5), rung_above(8)
    (8, 8)
    """
    return 1 << max(n - 1, 0).bit_length()


def rung_below(n: int) -> int:
    """Return the largest power of two <= n, and at least 1."""
    return 1 << max(n.bit_length() - 1, 0)
