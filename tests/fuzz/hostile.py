"""Hostile pieces of text and bytes, and small changes that break things."""

from __future__ import annotations

from random import Random
from typing import Any

NAMES = [
    "",
    " ",
    "a",
    "key",
    "query",
    "value",
    "NA",
    "\x1b[31m\x1b]0;title\x07",
    "\x9b2J",
    "\u202ereversed",
    "two\nlines",
    "\r",
    "tab\there",
    '"',
    '""',
    ",;|",
    "[red]marked[/red]",
    "{{ 7 }}",
    "\ufeff",
    "\ud800",
    "\x00",
    "-1",
    "1e400",
    "nan",
    "99999999999999999999999999",
    "../../etc/passwd",
    "%s%n",
    "é",
    "日本",
    "\U0001f600",
    "x" * 5_000,
]
NUMBERS = [0, -1, 1, 2, 3, 7, 2**31 - 1, 2**31, 2**63, -(2**63), 10**30, 0.5, -0.0, 1e300, float("nan"), float("inf")]
BYTES = [
    b"\0",
    b"\xff\xfe",
    b"\xef\xbb\xbf",
    b"\xff",
    b"\n",
    b"\r",
    b'"',
    b",",
    b"\t",
    b"\x1b[31m",
    b"\\u",
    b"{",
    b"[" * 200,
]


def some_text(random: Random) -> str:
    """A name, or two of them after each other."""
    return random.choice(NAMES) + (random.choice(NAMES) if random.random() < 0.3 else "")


def encodable_text(random: Random) -> str:
    """The same without halves of surrogate pairs."""
    return some_text(random).replace("\ud800", "")


def some_plain(random: Random, depth: int = 2) -> Any:
    """Any value that JSON or YAML can hold."""
    kind = random.randrange(6 if depth else 4)
    if kind == 0:
        return some_text(random)
    if kind == 1:
        return random.choice(NUMBERS)
    if kind == 2:
        return random.choice([None, True, False])
    if kind == 3:
        return random.randrange(-3, 30)
    if kind == 4:
        return [some_plain(random, depth - 1) for _ in range(random.randrange(4))]
    return {some_text(random): some_plain(random, depth - 1) for _ in range(random.randrange(4))}


def changed_plain(random: Random, plain: Any) -> Any:
    """The same nested data with one entry changed, removed, renamed or added."""
    if isinstance(plain, dict) and plain and random.random() < 0.9:
        name = random.choice(list(plain))
        draw = random.random()
        if draw < 0.1:
            return {key: value for key, value in plain.items() if key != name}
        if draw < 0.2:
            return {**plain, some_text(random): some_plain(random)}
        return {**plain, name: changed_plain(random, plain[name])}
    if isinstance(plain, list) and plain and random.random() < 0.8:
        place = random.randrange(len(plain))
        return [*plain[:place], changed_plain(random, plain[place]), *plain[place + 1 :]]
    return some_plain(random)


def changed_bytes(random: Random, content: bytes) -> bytes:
    """The same bytes with a few of them changed, removed, repeated or added."""
    changed = bytearray(content)
    for _ in range(random.choice([1, 1, 2, 5])):
        place = random.randrange(len(changed) + 1)
        draw = random.random()
        if draw < 0.3 and changed:
            changed[min(place, len(changed) - 1)] = random.randrange(256)
        elif draw < 0.5:
            del changed[place : place + random.choice([1, 4, 64])]
        elif draw < 0.75:
            changed[place:place] = random.choice(BYTES)
        elif draw < 0.9:
            changed[place:place] = changed[place // 2 : place // 2 + 64]
        else:
            del changed[place:]
    return bytes(changed)


def written(text: str) -> bytes:
    """Text as bytes of UTF-8, halves of surrogate pairs included."""
    return text.encode("utf-8", "surrogatepass")
