"""Rank-one terms in words: (Astrid + Bernard) x born_in x (Singapore - Malaysia)."""

from __future__ import annotations

from collections import defaultdict

from factrank.databases import Database, Vocabulary
from factrank.foreign_text import shown_name
from factrank.tensors.core import Decomposition

SHOWN_NAMES = 6


def terms_in_words(terms: Decomposition, database: Database, most: int = 20) -> list[str]:
    """Return the first terms of a decomposition, with the names of the database.

    >>> from factrank import measure, sample
    >>> astrid = sample("astrid")
    >>> for line in terms_in_words(measure(astrid).rank.upper.witness(), astrid, most=3):
    ...     print(line)
    (Astrid + Bernard + Colin) x (born_in + lives_in) x Singapore
    (Malaysia + Singapore) x currency x Ringgit
    Colin x born_in x (-Singapore + Malaysia)
    ... and 2 more terms
    """
    columns = [_vectors(terms, axis, vocabulary) for axis, vocabulary in enumerate(database.vocabularies)]
    lines = []
    for term, denominator in enumerate(terms.denominators[:most].tolist()):
        product = " x ".join(_sum_in_words(column[term]) for column in columns)
        lines.append(product if denominator == 1 else f"1/{denominator} {product}")
    if terms.n_terms > most:
        lines.append(f"... and {terms.n_terms - most} more terms")
    return lines


def _vectors(terms: Decomposition, axis: int, vocabulary: Vocabulary) -> dict[int, list[tuple[int, str]]]:
    vectors: dict[int, list[tuple[int, str]]] = defaultdict(list)
    factor = terms.factors[axis]
    for index, term, weight in sorted(
        zip(factor.index.tolist(), factor.term.tolist(), factor.weight.tolist(), strict=True)
    ):
        if weight:
            vectors[term].append((weight, shown_name(vocabulary[index])))
    return vectors


def _sum_in_words(vector: list[tuple[int, str]]) -> str:
    """Return a sum such as (2 a - b + c), without brackets if it is a single name."""
    if len(vector) == 1 and vector[0][0] == 1:
        return vector[0][1]
    words = ""
    for at, (weight, name) in enumerate(vector[:SHOWN_NAMES]):
        sign = ("-" if weight < 0 else "") if at == 0 else (" - " if weight < 0 else " + ")
        words += sign + (name if abs(weight) == 1 else f"{abs(weight)} {name}")
    more = len(vector) - SHOWN_NAMES
    return f"({words}{f' and {more} more' if more > 0 else ''})"
