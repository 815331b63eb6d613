"""Differences between recorded and new plain data, field by field."""

from __future__ import annotations

import re
from collections.abc import Iterator
from difflib import unified_diff
from itertools import zip_longest
from math import isclose, isnan

from golden.cases import Plain

NUMBER = re.compile(r"[-+]?\d+(?:\.\d+)?(?:e[-+]?\d+)?")
DIGEST = re.compile(r"[0-9a-f]{64}")
COARSE = 1e-4
"""The tolerance of results of another machine."""

CHOICES = ("worst",)
"""Fields that name the fact of the least margin: rounding decides between facts of nearly equal margins."""

MOST_LETTERS = 300
MISSING = "(missing)"


def differences(old: Plain, new: Plain, tolerance: float = 0.0, path: str = "") -> Iterator[str]:
    """In which fields the data differ, in words.

    Numbers, in text too, may differ by the tolerance relative to max(1, |number|). From `COARSE` on, digests and
    `CHOICES` are not compared: they say nothing about near misses.
    """
    if isinstance(old, dict) and isinstance(new, dict):
        for name in [*old, *(name for name in new if name not in old)]:
            if name in CHOICES and name in old and name in new and tolerance >= COARSE:
                continue
            place = f"{path}.{name}" if path else name
            yield from differences(old.get(name, MISSING), new.get(name, MISSING), tolerance, place)
    elif _is_text(old) and _is_text(new):
        if len(old) != len(new) or not all(_agree(a, b, tolerance) for a, b in zip(old, new, strict=True)):
            lines = unified_diff([str(line) for line in old], [str(line) for line in new], "recorded", "now", n=0)
            yield "\n  ".join([f"{path}:", *(_short(line.rstrip("\n")) for line in list(lines)[2:])])
    elif isinstance(old, list) and isinstance(new, list):
        for at, (one, other) in enumerate(zip_longest(old, new, fillvalue=MISSING)):
            yield from differences(one, other, tolerance, f"{path}[{at}]")
    elif not _agree(old, new, tolerance):
        yield f"{path}: {_short(repr(old))} recorded, {_short(repr(new))} now"


def _is_text(data: Plain) -> bool:
    return isinstance(data, list) and bool(data) and all(isinstance(line, str) for line in data)


def _agree(old: Plain, new: Plain, tolerance: float) -> bool:
    if isinstance(old, float) and isinstance(new, float):
        both_nan = isnan(old) and isnan(new)
        return old == new or both_nan or isclose(old, new, rel_tol=tolerance, abs_tol=tolerance)
    if isinstance(old, str) and isinstance(new, str) and tolerance and old != new:
        return _agree_in_text(old, new, tolerance)
    return type(old) is type(new) and bool(old == new)


def _agree_in_text(old: str, new: str, tolerance: float) -> bool:
    if DIGEST.fullmatch(old) and DIGEST.fullmatch(new):
        return tolerance >= COARSE
    if " ".join(NUMBER.sub("0", old).split()) != " ".join(NUMBER.sub("0", new).split()):
        return False
    pairs = zip(NUMBER.findall(old), NUMBER.findall(new), strict=True)
    return all(isclose(float(a), float(b), rel_tol=tolerance, abs_tol=tolerance) for a, b in pairs)


def _short(text: str) -> str:
    return text if len(text) <= MOST_LETTERS else f"{text[:MOST_LETTERS]} ... ({len(text):,} letters)"
