"""Facts and models in words."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from factrank.databases import Database
from factrank.foreign_text import shown_name
from factrank.report.display import Description, Words, described


def layer_lines(source: str, data: object, shape: object, parameters: int) -> Description:
    """Return a title, the size of the data and the size of the model."""
    size = f"{shape_in_words(shape)}; {parameters:,} parameters"
    return described(Words(shown_name(source, None), "title"), Words(data_in_words(data)), Words(size))


def data_in_words(data: object) -> str:
    """Return the size of the data that a model reads."""
    if not isinstance(data, Database):
        return repr(data)
    sizes = f"{data.n_keys:,} keys x {data.n_queries:,} queries -> {data.n_values:,} values"
    return f"{data.n_facts:,} facts: {sizes}"


def shape_in_words(shape: object) -> str:
    """Return the sizes of a model as its shape describes them, or else every field that differs from its default.

    >>> from factrank import MemoryShape
    >>> shape_in_words(MemoryShape(d_model=16, width=64))
    'memory: d_model 16, width 64'
    """
    if hasattr(shape, "in_words"):
        return str(shape.in_words())
    sizes: Any = shape  # a dataclass
    given = {one.name: getattr(shape, one.name) for one in fields(sizes) if getattr(shape, one.name) != one.default}
    kind = type(shape).__name__.removesuffix("Shape").lower()
    return f"{kind}: {', '.join(f'{name} {value}' for name, value in given.items())}"
