r"""A Markdown extension: $...$ and $$...$$ become MathML, which browsers draw without scripts or fonts.

The site needs no vendored KaTeX or MathJax (0.6 to 1.5 MB), formulas are text for screen readers, and docstrings are
covered too. latex2mathml translates what we use of LaTeX; what it does not know is an error when the site is built.
In prose, the indices of single letters such as S_i are lowered.
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
INDEXED = re.compile(r"(?<!\w)([^\W\d_])_([^\W_])(?:\^([^\W_]+))?(?=[²³]|[^\w^]|$)")
"""S_i, W_V, W_K^T: a letter with an index of one character. Names such as d_vo stay as they are, for the search."""
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
        return self.md.htmlStash.store(mathml), match.start(0), match.end(0)


class Indices(Treeprocessor):
    """Lowers the indices of letters in prose."""

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
    """Return the text before the first index, and elements with the indices and everything after them."""
    first, *rest = INDEXED.split(text)
    elements: list[Element] = []
    for letter, below, above, after in zip(*(rest[place::4] for place in range(4)), strict=True):
        if elements:
            elements[-1].tail = (elements[-1].tail or "") + letter
        else:
            first += letter
        for tag, index in (("sub", below), ("sup", above)):
            if index:
                elements.append(Element(tag))
                elements[-1].text = index
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
