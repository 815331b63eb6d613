r"""People: synthetic biographies and a phone book, the facts that small language models are trained on.

The name of a person is a first, a middle and a last name; no two people have the same name. Attributes are independent
and uniform, so a person has exactly $\sum_q \log_2 |V_q|$ bits: `BIOS_BITS` = 46.6 in a biography, 33.2 in a phone book
with ten digits. Sizes are those of bioS in Allen-Zhu and Li 2024 (arXiv 2404.05405, section 2); names, values and
templates are our own.
"""

from __future__ import annotations

from math import log2, prod

import numpy as np
from jaxtyping import Int64

from factrank.databases.database import Database
from factrank.databases.generators.random_tables import require_positive, stream
from factrank.databases.vocabulary import Vocabulary
from factrank.errors import InputError

MONTHS = (
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
)

ATTRIBUTES: dict[str, tuple[str, ...]] = {
    "birth month": MONTHS,
    "birth day": tuple(map(str, range(1, 29))),
    "birth year": tuple(map(str, range(1900, 2100))),
    "birth city": tuple(Vocabulary.numbered("city", 200)),
    "university": tuple(Vocabulary.numbered("university", 300)),
    "major": tuple(Vocabulary.numbered("major", 100)),
    "employer": tuple(Vocabulary.numbered("employer", 263)),
}
"""Values of each attribute of a biography."""

BIOS_BITS = sum(log2(len(values)) for values in ATTRIBUTES.values())
"""Bits per person of a biography, log2(12 x 28 x 200 x 200 x 300 x 100 x 263)."""


def bios(n_people: int, *, n_names: int = 400, n_last: int = 1000, seed: int) -> Database:
    """Synthetic biographies: the birth date, birth city, university, major and employer of each person.

    Arguments:
        n_people: Number of people.
        n_names: Number of first names, and of middle names.
        n_last: Number of last names.
        seed: Seed of names and attributes.

    >>> bios(2, seed=0)
    Database(14 facts: 2 keys x 7 queries -> 1103 values, functional, full)
      (first034 middle136 last373, birth month, January)
      (first034 middle136 last373, birth day, 20)
      (first034 middle136 last373, birth year, 2052)
      ...
    >>> round(BIOS_BITS, 2)
    46.59
    """
    require_positive("bios", n_people=n_people)
    rng = stream("bios", seed)
    keys = _names("bios", rng, n_people, (n_names, n_names, n_last))
    ranges = [len(values) for values in ATTRIBUTES.values()]
    first = np.cumsum([0, *ranges[:-1]])
    values = np.column_stack([first[at] + rng.integers(size, size=n_people) for at, size in enumerate(ranges)])
    known = Vocabulary(value for own in ATTRIBUTES.values() for value in own)
    return _of_people(keys, Vocabulary(ATTRIBUTES), known, values)


def phonebook(n_people: int, *, digits: int = 10, n_names: int = 400, n_last: int = 1000, seed: int) -> Database:
    """A phone book: random digits for each name, one query per digit.

    Arguments:
        n_people: Number of people.
        digits: Number of digits; a person has `digits` log2(10) bits.
        n_names: Number of first names, and of middle names.
        n_last: Number of last names.
        seed: Seed of names and digits.

    >>> phonebook(3, n_names=4, n_last=4, seed=1)
    Database(30 facts: 3 keys x 10 queries -> 10 values, functional, full)
      (first1 middle3 last2, digit 1, 8)
      (first1 middle3 last2, digit 2, 3)
      (first1 middle3 last2, digit 3, 3)
      ...
    """
    require_positive("phonebook", n_people=n_people, digits=digits)
    rng = stream("phonebook", seed)
    keys = _names("phonebook", rng, n_people, (n_names, n_names, n_last))
    queries = Vocabulary(f"digit {place}" for place in range(1, digits + 1))
    return _of_people(keys, queries, Vocabulary(map(str, range(10))), rng.integers(10, size=(n_people, digits)))


def _names(kind: str, rng: np.random.Generator, n_people: int, sizes: tuple[int, int, int]) -> Vocabulary:
    """Draw distinct names, uniform among all combinations of a first, a middle and a last name."""
    require_positive(kind, n_names=sizes[0], n_last=sizes[2])
    if n_people > prod(sizes):
        raise InputError(f"{kind}: there are {prod(sizes):,} names; n_people must be at most that, got {n_people:,}")
    parts = np.unravel_index(np.sort(rng.choice(prod(sizes), n_people, replace=False, shuffle=False)), sizes)
    words = [np.array(Vocabulary.numbered(word, n)) for word, n in zip(("first", "middle", "last"), sizes, strict=True)]
    first, middle, last_names = (names[part] for names, part in zip(words, parts, strict=True))
    return Vocabulary(map(" ".join, zip(first, middle, last_names, strict=True)))


def _of_people(
    people: Vocabulary, queries: Vocabulary, values: Vocabulary, table: Int64[np.ndarray, "people queries"]
) -> Database:
    keys, asked = np.indices(table.shape).reshape(2, -1)
    return Database(np.column_stack([keys, asked, table.ravel()]), people, queries, values)
