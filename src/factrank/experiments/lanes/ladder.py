"""The ladder: the widths that bundles of lanes may have, and how a list of trials is cut into bundles.

Widths are powers of two, so that few shapes are ever compiled; dummy lanes fill a bundle up. The cut depends on
nothing but the number of trials and the widest bundle allowed, because the last bits of a result depend on the width
it ran at.
"""

from __future__ import annotations

LEAST_USED = 0.75
"""A bundle is padded with dummy lanes only when at least this share of it does real work."""


def widths(n_trials: int, widest: int) -> list[int]:
    """The widths of the bundles for this many trials, widest first; only the last may have dummy lanes.

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
    """The least power of two that is at least n."""
    return 1 << max(n - 1, 0).bit_length()


def rung_below(n: int) -> int:
    """The greatest power of two that is at most n, and at least 1."""
    return 1 << max(n.bit_length() - 1, 0)
