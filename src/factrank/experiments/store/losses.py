"""Losses: finished trials whose curves, readings or weights are missing from the store.

Whether a trial has curves and readings follows from the trial and its last epoch. A column of its row records whether
its weights were kept. Unreadable files count as missing.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet

CURVES, READINGS, WEIGHTS = "curves", "readings", "weights"

Losses = Mapping[str, AbstractSet[str]]
"""Hashes of the trials that have lost their curves, readings or weights, by table."""

SHOWN_HASHES, SHOWN_DIGITS = 3, 12


def long_tables_of(trial: str, epochs: int | None) -> set[str]:
    """Return which of curves and readings a trial has, given its canonical JSON and its number of epochs.

    >>> sorted(long_tables_of('{"measures": [{"kind": "curve", "epochs": [0, 50]}, {"kind": "readings"}]}', 20))
    ['curves', 'readings']
    >>> long_tables_of('{"measures": [{"kind": "curve", "epochs": [50]}]}', 20)
    set()
    """
    found: set[str] = set()
    if '"measures"' not in trial:  # fast path for most trials
        return found
    asked = {measure["kind"]: measure for measure in json.loads(trial)["measures"]}
    if any(epoch <= (epochs or 0) for epoch in asked.get("curve", {}).get("epochs", ())):
        found.add(CURVES)
    if "readings" in asked:
        found.add(READINGS)
    return found


def losses_text(folder: str, hashes: Iterable[str]) -> str:
    """Describe what is lost."""
    names = sorted(hashes)
    shown = ", ".join(name[:SHOWN_DIGITS] for name in names[:SHOWN_HASHES])
    more = ", ..." if len(names) > SHOWN_HASHES else ""
    how = "--keep-weights runs them again" if folder == WEIGHTS else "they are to be run again"
    trials = "1 trial has" if len(names) == 1 else f"{len(names):,} trials have"
    return f"{trials} lost their {folder} ({shown}{more}); {how}"
