"""Losses: trials that have ended, but whose curves, readings or weights are no longer in the store.

Whether a trial has curves and readings follows from the trial and from the epoch at which it ended; whether its weights
were kept is a column of its row. A file that cannot be read is as good as none.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet

CURVES, READINGS, WEIGHTS = "curves", "readings", "weights"

Losses = Mapping[str, AbstractSet[str]]
"""The hashes of the trials that have lost their curves, readings and weights."""

SHOWN_HASHES, SHOWN_DIGITS = 3, 12


def long_tables_of(trial: str, epochs: int | None) -> set[str]:
    """Which of curves and readings a trial has that ended after so many epochs, from its canonical JSON.

    >>> sorted(long_tables_of('{"curve_epochs": [0, 50], "measures": {"readings": {}}}', 20))
    ['curves', 'readings']
    >>> long_tables_of('{"curve_epochs": [50]}', 20)
    set()
    """
    found: set[str] = set()
    if not ('"curve_epochs"' in trial or '"readings"' in trial):  # most trials, and their number may be large
        return found
    plain = json.loads(trial)
    if any(epoch <= (epochs or 0) for epoch in plain.get("curve_epochs", ())):
        found.add(CURVES)
    if plain.get("measures", {}).get("readings") is not None:
        found.add(READINGS)
    return found


def losses_text(folder: str, hashes: Iterable[str]) -> str:
    """What is lost, in words."""
    names = sorted(hashes)
    shown = ", ".join(name[:SHOWN_DIGITS] for name in names[:SHOWN_HASHES])
    more = ", ..." if len(names) > SHOWN_HASHES else ""
    how = "--keep-weights runs them again" if folder == WEIGHTS else "they are to be run again"
    trials = "1 trial has" if len(names) == 1 else f"{len(names):,} trials have"
    return f"{trials} lost their {folder} ({shown}{more}); {how}"
