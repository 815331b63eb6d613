r"""A Markdown extension: $...$ and $$...$$ become MathML, which browsers draw without scripts or fonts.

The site needs no vendored KaTeX or MathJax (0.6 to 1.5 MB), formulas are text for screen readers, and docstrings are
covered too. latex2mathml translates what we use of LaTeX; what it does not know is an error when the site is built.
"""

from __future__ import annotations

import re
from typing import Any

from latex2mathml.converter import convert
from markdown import Markdown
from markdown.extensions import Extension
from markdown.inlinepatterns import InlineProcessor

BEFORE_ESCAPES = 185  # after code spans (190), before backslashes are read (180)
DISPLAY = r"\$\$(.+?)\$\$"
INLINE = r"(?<![\w$\\])\$(?=[^\s$])([^$]*?[^\s$])\$(?![\w$])"
UNKNOWN = re.compile(r"<m[a-z]+>\\[a-zA-Z]+")
SPELLED = {r"\arg": r"\operatorname{arg}", r"\top": "T"}
"""Commands that latex2mathml does not know, and what to write instead."""


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


class Mathematics(Extension):
    """Formulas between dollar signs."""

    def extendMarkdown(self, md: Markdown) -> None:  # noqa: N802 - Markdown's name
        """Register both patterns."""
        md.inlinePatterns.register(Formula(DISPLAY, "block", md), "display formula", BEFORE_ESCAPES + 1)
        md.inlinePatterns.register(Formula(INLINE, "inline", md), "formula", BEFORE_ESCAPES)


def makeExtension(**options: Any) -> Mathematics:  # noqa: N802 - Markdown's name
    """Return the extension, as Markdown expects."""
    return Mathematics(**options)
