"""Pictures for publishing: SVG that is a fraction as large, and the same bytes every time.

What Vega writes for readers of a page, labels and roles of every mark, goes: a picture in a document is described by
the document. Lengths are rounded to a hundredth of a pixel, the places of marks to a tenth. Many equal marks become
uses of one shape, and of those that lie exactly upon each other only as many are drawn as can be told apart. Numbers in
ids come from a count over the whole process; here each picture counts its own.
"""

from __future__ import annotations

import re
from collections import Counter
from math import ceil, log

FEWEST_EQUAL = 20
"""A mark that occurs at least so often is written once."""

FOR_READERS = re.compile(r' (?:aria-[a-z]+|role|class|pointer-events)="[^"]*"')
PLACED = re.compile(r' (?:d|transform|x|y|x1|y1|x2|y2|width|height)="[^"]*"')
LONG_NUMBER = re.compile(r"-?\d+(?:\.\d{3,}|(?:\.\d+)?e-?\d+)(?:e-?\d+)?")
COLOUR = re.compile(r"rgb\((\d+), (\d+), (\d+)\)")
FILL = re.compile(r' fill="[^"]*"')
IDENTIFIER = re.compile(r'\bid="([^"]*)"')
PLACE, LOOK = r"-?[\d.]+", r'(?: [a-z-]+="[^"]*")*'
MARK = re.compile(rf'<path transform="translate\(({PLACE}),({PLACE})\)"({LOOK})/>')
MARKS = re.compile(rf'(?:<path transform="translate\({PLACE},{PLACE}\)"{LOOK}/>)+')
"""Marks that follow each other: those of one panel."""


def small_svg(svg: str) -> str:
    """The same picture in fewer bytes, whatever was drawn before it in this process.

    >>> small_svg('<svg><g role="x"><path d="M0,0.3333L1,2" id="clip7"/><use clip-path="url(#clip7)"/></g></svg>')
    '<svg><g><path d="M0,0.33L1,2" id="p0"/><use clip-path="url(#p0)"/></g></svg>'
    """
    plain = PLACED.sub(lambda found: LONG_NUMBER.sub(_rounded, found[0]), FOR_READERS.sub("", svg))
    plain = COLOUR.sub(lambda found: "#" + "".join(f"{int(part):02x}" for part in found.groups()), plain)
    names = {name: f"p{at}" for at, name in enumerate(dict.fromkeys(IDENTIFIER.findall(plain)))}
    plain = re.sub(r'(\bid="|url\(#|href="#)([^")]*)', lambda found: found[1] + names.get(found[2], found[2]), plain)
    return _with_uses(plain)


def _rounded(found: re.Match[str]) -> str:
    return _number(float(found[0]), 2)


def _number(value: float, digits: int) -> str:
    return f"{round(value, digits) + 0.0:.{digits}f}".rstrip("0").rstrip(".")


def _with_uses(svg: str) -> str:
    """Marks that occur often as uses of one of them, defined at the beginning; some in colours of their own."""
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
    """The marks of one panel; the last drawn lie on top, and those that they hide are left out."""
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
    """How many marks upon each other can be told apart: until less than 1/255 of the light comes through."""
    opacity = 1.0
    for factor in re.findall(r' (?:fill-)?opacity="([\d.]+)"', look):
        opacity *= float(factor)
    return 1 if opacity >= 1 else ceil(log(1 / 255) / log(1 - opacity)) if opacity > 0 else 0
