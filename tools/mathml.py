r"""A Markdown extension: $...$ and $$...$$ become MathML, which browsers draw without scripts or fonts.

The site needs no vendored KaTeX or MathJax (0.6 to 1.5 MB), formulas are text for screen readers, and docstrings are
covered too. latex2mathml translates what we use of LaTeX; what it does not know is an error when the site is built.
In prose, the indices of single letters such as S_i are lowered, and exponents such as that of 2^p are raised.
"""

from __future__ import annotations

import re
from typing import Any
from xml.etree.ElementTree import Element

from latex2mathml.converter import convert
from markdown import Markdown
from markdown.extensions import Extension
from markdown.inlinepatterns import InlineProcessor
from markdown.treeprocessors import Treeprocessor

BEFORE_ESCAPES = 185  # after code spans (190), before backslashes are read (180)
DISPLAY = r"\$\$(.+?)\$\$"
INLINE = r"(?<![\w$\\])\$(?=[^\s$])([^$]*?[^\s$])\$(?![\w$])"
UNKNOWN = re.compile(r"<m[a-z]+>\\[a-zA-Z]+")
SPELLED = {r"\arg": r"\operatorname{arg}", r"\top": "T"}
"""Commands that latex2mathml does not know, and what to write instead."""
# Browsers would space bars and words like relations, and signs after an operator like sums.
BARS = re.compile(r"<mo( [^>]*)?>(?=(?:&#x0007C;|&#x02225;|&#x02016;)</mo>)")
WORDS = re.compile(r"<mo>(?=[a-zA-Z]{2,}</mo>(<mo[^>]*>&#x00028;)?)")
SIGNS = re.compile(
    r"(?<=&#x0(?:0028|005B|007B|002C|003D|003C|003E|2264|2265|2208|2248);</mo>)<mo>(?=&#x0(?:002B|2212);</mo>)"
)
INDEXED = re.compile(
    r"(?<![^\W\d])(?<!_\d)([^\W\d_])_([^\W_])(?:\^([^\W_]+))?(?=[²³]|[^\w^]|$)"
    r"|(?<=[^\W_)])\^(\([^()\s]+\)|-?[^\W_]+(?:\.\d+)?)(?!\w)"
)
"""S_i, 2x_v, W_K^T: a letter with an index of one character; 2^p, n^(1/4): an exponent after a letter or digit. Names
such as d_vo stay as they are, for the search."""
LITERAL = {"code", "pre", "h1", "h2", "h3", "h4", "h5", "h6"}
"""Headings are literal because their text is also in the navigation."""
AFTER_INLINE = 15  # after inline patterns (20), before the table of contents (5)


class Formula(InlineProcessor):
    """Replaces a formula by its MathML."""

    def __init__(self, pattern: str, display: str, markdown: Markdown) -> None:
        super().__init__(pattern, markdown)
        self.display = display

    def handleMatch(self, match: re.Match[str], data: str) -> tuple[Any, int, int]:  # noqa: ARG002, N802 - Markdown's
        """Return a placeholder of the formula, and where it begins and ends."""
        source = " ".join(match[1].split())
        for command, instead in SPELLED.items():
            source = re.sub(re.escape(command) + r"(?![a-zA-Z])", instead.replace("\\", r"\\"), source)
        mathml = convert(source, display=self.display)
        if UNKNOWN.search(mathml):
            raise ValueError(f"latex2mathml does not know a command of: {source}")
        return self.md.htmlStash.store(spaced(mathml)), match.start(0), match.end(0)


def spaced(mathml: str) -> str:
    """Return a formula with the spaces of TeX: around bars, around words such as min, and after signs."""
    mathml = BARS.sub(r'<mo\1 lspace="0" rspace="0">', mathml)
    mathml = WORDS.sub(lambda word: f'<mo lspace="0.17em" rspace="{"0" if word[1] else "0.17em"}">', mathml)
    return SIGNS.sub('<mo form="prefix">', mathml)


class Indices(Treeprocessor):
    """Lowers indices and raises exponents in prose."""

    def run(self, root: Element) -> None:
        """Change an element and everything in it."""
        if root.tag in LITERAL:
            return
        children = list(root)
        for child in children:
            self.run(child)
        for place, child in reversed(list(enumerate(children))):
            child.tail, added = indexed(child.tail or "")
            root[place + 1 : place + 1] = added
        root.text, added = indexed(root.text or "")
        root[0:0] = added


def indexed(text: str) -> tuple[str, list[Element]]:
    """Return the text before the first index or exponent, and elements with them and everything after them."""
    first, *rest = INDEXED.split(text)
    elements: list[Element] = []
    for letter, below, above, power, after in zip(*(rest[place::5] for place in range(5)), strict=True):
        if elements:
            elements[-1].tail = (elements[-1].tail or "") + (letter or "")
        else:
            first += letter or ""
        for tag, index in (("sub", below), ("sup", above or power)):
            if index:
                elements.append(Element(tag))
                elements[-1].text = index.strip("()")
        elements[-1].tail = after
    return first, elements


class Mathematics(Extension):
    """Formulas between dollar signs, and indices."""

    def extendMarkdown(self, md: Markdown) -> None:  # noqa: N802 - Markdown's name
        """Register the patterns."""
        md.inlinePatterns.register(Formula(DISPLAY, "block", md), "display formula", BEFORE_ESCAPES + 1)
        md.inlinePatterns.register(Formula(INLINE, "inline", md), "formula", BEFORE_ESCAPES)
        md.treeprocessors.register(Indices(md), "indices", AFTER_INLINE)


def makeExtension(**options: Any) -> Mathematics:  # noqa: N802 - Markdown's name
    """Return the extension, as Markdown expects."""
    return Mathematics(**options)
