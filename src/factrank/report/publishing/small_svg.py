"""Small, reproducible SVG pictures for publishing.

Accessibility labels and roles of single marks are removed: the document describes its pictures. Lengths are rounded to
a hundredth of a pixel, positions of marks to a tenth. Equal marks become uses of one shape, and of marks at exactly the
same position only as many are drawn as can be distinguished. Vega numbers ids across the whole process; here they are
numbered within each picture.
"""

from __future__ import annotations

import re
from collections import Counter
from math import ceil, log

FEWEST_EQUAL = 20
"""A mark that occurs at least this often is written once."""

FOR_READERS = re.compile(r' (?:aria-[a-z]+|role|class|pointer-events)="[^"]*"')
PLACED = re.compile(r' (?:d|transform|x|y|x1|y1|x2|y2|width|height)="[^"]*"')
LONG_NUMBER = re.compile(r"-?\d+(?:\.\d{3,}|(?:\.\d+)?e-?\d+)(?:e-?\d+)?")
COLOUR = re.compile(r"rgb\((\d+), (\d+), (\d+)\)")
FILL = re.compile(r' fill="[^"]*"')
IDENTIFIER = re.compile(r'\bid="([^"]*)"')
PLACE, LOOK = r"-?[\d.]+", r'(?: [a-z-]+="[^"]*")*'
MARK = re.compile(rf'<path transform="translate\(({PLACE}),({PLACE})\)"({LOOK})/>')
MARKS = re.compile(rf'(?:<path transform="translate\({PLACE},{PLACE}\)"{LOOK}/>)+')
"""Consecutive marks: the marks of one panel."""


def small_svg(svg: str) -> str:
    """Return the same picture in fewer bytes, independent of what this process drew before.

    >>> small_svg('<svg><g role="x"><path d="M0,0.3333L1,2" id="clip7"/><use clip-path="url(#clip7)"/></g></svg>')
    '<svg><g><path d="M0,0.33L1,2" id="p0"/><use clip-path="url(#p0)"/></g></svg>'
    """
    plain = PLACED.sub(
        lambda found: LONG_NUMBER.sub(lambda number: _number(float(number[0]), 2), found[0]), FOR_READERS.sub("", svg)
    )
    plain = COLOUR.sub(lambda found: "#" + "".join(f"{int(part):02x}" for part in found.groups()), plain)
    names = {name: f"p{at}" for at, name in enumerate(dict.fromkeys(IDENTIFIER.findall(plain)))}
    plain = re.sub(r'(\bid="|url\(#|href="#)([^")]*)', lambda found: found[1] + names.get(found[2], found[2]), plain)
    return _with_uses(plain)


def _number(value: float, digits: int) -> str:
    return f"{round(value, digits) + 0.0:.{digits}f}".rstrip("0").rstrip(".")


def _with_uses(svg: str) -> str:
    """Replace frequent marks by uses of one definition at the beginning; rare colours are given at each use."""
    looks = Counter(look for *_, look in MARK.findall(svg))
    shapes = Counter(FILL.sub("", look) for look, n in looks.items() for _ in range(n) if n < FEWEST_EQUAL)
    often = [look for counts in (looks, shapes) for look, n in counts.items() if n >= FEWEST_EQUAL]
    if not often:
        return svg
    names = {look: f"m{at}" for at, look in enumerate(often)}
    uses = MARKS.sub(lambda found: _uses(found[0], names), svg)
    defined = "".join(f'<path id="{name}"{look}/>' for look, name in names.items())
    return re.sub(r"<svg[^>]*>", lambda found: f"{found[0]}<defs>{defined}</defs>", uses, count=1)


def _uses(marks: str, names: dict[str, str]) -> str:
    """Return the marks of one panel without those hidden below others; later marks are on top."""
    drawn: Counter[str] = Counter()
    kept: list[str] = []
    for found in reversed(list(MARK.finditer(marks))):
        x, y, look = found.groups()
        name, fill = names.get(look), ""
        if name is None:
            name, fill = names.get(FILL.sub("", look)), "".join(FILL.findall(look))
        if name is None:
            kept.append(found[0])
            continue
        use = f'<use href="#{name}" x="{_number(float(x), 1)}" y="{_number(float(y), 1)}"{fill}/>'
        drawn[use] += 1
        if drawn[use] <= _seen(look):
            kept.append(use)
    return "".join(reversed(kept))


def _seen(look: str) -> int:
    """Return how many overlapping marks can be distinguished: until less than 1/255 of the light passes through."""
    opacity = 1.0
    for factor in re.findall(r' (?:fill-)?opacity="([\d.]+)"', look):
        opacity *= float(factor)
    return 1 if opacity >= 1 else ceil(log(1 / 255) / log(1 - opacity)) if opacity > 0 else 0
