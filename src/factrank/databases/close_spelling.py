"""Close spelling: the names of a vocabulary that somebody may have meant."""

from __future__ import annotations

from difflib import get_close_matches

from factrank.databases.vocabulary import Vocabulary

MOST_COMPARED = 20_000
"""Names that are compared letter by letter when a close one is looked for: half a second."""


def close_names(name: str, vocabulary: Vocabulary) -> list[str]:
    """At most three names that are spelt alike, upper and lower case aside.

    In a large vocabulary only some names are compared, first those that begin alike and are about as long.

    >>> close_names("zurich", Vocabulary(["Zürich", "Oslo", "Lima"]))
    ['Zürich']
    """
    wanted = name.casefold()
    known = {known.casefold(): known for known in vocabulary}
    likely = sorted(known, key=lambda other: (other[:1] != wanted[:1], abs(len(other) - len(wanted))))
    return [known[match] for match in get_close_matches(wanted, likely[:MOST_COMPARED], n=3, cutoff=0.6)]
