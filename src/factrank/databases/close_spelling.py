"""Suggest names from a vocabulary for a misspelt one."""

from __future__ import annotations

from difflib import get_close_matches

from factrank.databases.vocabulary import Vocabulary

MOST_COMPARED = 20_000
"""Number of names that are compared, which takes about half a second."""


def close_names(name: str, vocabulary: Vocabulary) -> list[str]:
    """Return up to three names with a similar spelling, ignoring case.

    In a large vocabulary only `MOST_COMPARED` names are compared, those with the same first letter and a similar length
    first.

    >>> close_names("zurich", Vocabulary(["Zürich", "Oslo", "Lima"]))
    ['Zürich']
    """
    wanted = name.casefold()
    known = {known.casefold(): known for known in vocabulary}
    likely = sorted(known, key=lambda other: (other[:1] != wanted[:1], abs(len(other) - len(wanted))))
    return [known[match] for match in get_close_matches(wanted, likely[:MOST_COMPARED], n=3, cutoff=0.6)]
