"""The facts and the layer that holds them, in words."""

from __future__ import annotations

from dataclasses import fields
from typing import Any, Protocol, runtime_checkable

from rich.text import Text

from factrank.databases import Database
from factrank.report.plain_output import name_text


@runtime_checkable
class DescribesItself(Protocol):
    """A shape that has words of its own for its sizes."""

    def in_words(self) -> str:
        """The kind of the model and its sizes."""


def layer_lines(source: str, data: object, shape: object, parameters: int) -> Text:
    """The facts and the layer: two sizes to compare."""
    text = name_text(source, longest=None, style="bold")
    text.append(f"\n{data_in_words(data)}\n{shape_in_words(shape)}; {parameters:,} parameters", style="not bold")
    return text


def data_in_words(data: object) -> str:
    """What a model reads."""
    if not isinstance(data, Database):
        return repr(data)
    sizes = f"{data.n_keys:,} keys x {data.n_queries:,} queries -> {data.n_values:,} values"
    return f"{data.n_facts:,} facts: {sizes}"


def shape_in_words(shape: object) -> str:
    """The sizes of a model as its shape describes them or, where it does not, those that were given.

    >>> from factrank import MemoryShape
    >>> shape_in_words(MemoryShape(d_model=16, width=64))
    'memory: d_model 16, width 64'
    """
    if isinstance(shape, DescribesItself):
        return shape.in_words()
    sizes: Any = shape  # a dataclass
    given = {one.name: getattr(shape, one.name) for one in fields(sizes) if getattr(shape, one.name) != one.default}
    kind = type(shape).__name__.removesuffix("Shape").lower()
    return f"{kind}: {', '.join(f'{name} {value}' for name, value in given.items())}"
