"""The types of arguments that generators take, as annotations: what fits, and what messages call it.

Arguments are part of a trial's identity and of study files, so they are numbers, text, booleans, None and lists.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from types import NoneType, UnionType
from typing import Any, Literal, NamedTuple, Union, cast, get_args, get_origin

from factrank.errors import InputError


class ArgumentType(NamedTuple):
    """What one value is called, what several are called, and the test for a value."""

    one: str
    several: str
    fits: Callable[[object], bool]


def argument_type(annotation: Any) -> ArgumentType:
    """The type of an argument by its annotation; an `InputError` if no argument can have it.

    >>> argument_type(tuple[int, ...]).one, argument_type(int | None).one, argument_type(Literal["odd", "even"]).one
    ('a list of integers', 'an integer or None', 'one of odd, even')
    """
    if annotation in PLAIN:
        return PLAIN[annotation]
    origin, inner = get_origin(annotation), get_args(annotation)
    if origin is Literal:
        return _choice(inner)
    if origin in (Union, UnionType):
        return _union([argument_type(one) for one in inner])
    if origin in (Sequence, tuple) and len(inner) == 1 + (origin is tuple and inner[-1] is Ellipsis):
        return _list(argument_type(inner[0]))
    if origin is tuple and inner == (inner[0], inner[0]):
        return _pair(argument_type(inner[0]))
    raise InputError(f"arguments are {SUPPORTED}; got {getattr(annotation, '__name__', annotation)}")


def value_of_text(annotation: Any, text: str) -> object:
    """An argument typed on the command line: JSON if that is of the annotated type, otherwise the text itself.

    >>> value_of_text(int, "4"), value_of_text(str, "4"), value_of_text(tuple[int, ...], "[1, 2]")
    (4, '4', (1, 2))
    """
    try:
        value = frozen(json.loads(text))
    except (ValueError, RecursionError):
        return text
    return value if argument_type(annotation).fits(value) else text


def frozen(value: object) -> object:
    """The value with tuples in place of lists."""
    return tuple(map(frozen, value)) if isinstance(value, list | tuple) else value


def _choice(choices: tuple[object, ...]) -> ArgumentType:
    def fits(value: object) -> bool:
        return any(type(value) is type(choice) and value == choice for choice in choices)

    words = f"one of {', '.join(map(str, choices))}"
    return ArgumentType(words, f"values, each {words}", fits)


def _union(types: list[ArgumentType]) -> ArgumentType:
    one, several = (" or ".join(each) for each in zip(*((kind.one, kind.several) for kind in types), strict=True))
    return ArgumentType(one, several, lambda value: any(kind.fits(value) for kind in types))


def _list(item: ArgumentType) -> ArgumentType:
    def fits(value: object) -> bool:
        return isinstance(value, list | tuple) and all(map(item.fits, value))

    return ArgumentType(f"a list of {item.several}", f"lists of {item.several}", fits)


def _pair(item: ArgumentType) -> ArgumentType:
    items = _list(item)

    def fits(value: object) -> bool:
        return items.fits(value) and len(cast("Sequence[object]", value)) == 2

    return ArgumentType(f"a pair of {item.several}", f"pairs of {item.several}", fits)


def _is_integer(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


PLAIN: dict[object, ArgumentType] = {
    int: ArgumentType("an integer", "integers", _is_integer),
    float: ArgumentType("a number", "numbers", lambda value: _is_integer(value) or isinstance(value, float)),
    bool: ArgumentType("true or false", "truth values", lambda value: isinstance(value, bool)),
    str: ArgumentType("text", "texts", lambda value: isinstance(value, str)),
    None: ArgumentType("None", "None", lambda value: value is None),
}
PLAIN[NoneType] = PLAIN[None]

SUPPORTED = "annotated as int, float, bool, str, Literal[...], Sequence[...], tuple[..., ...] or a union of these"
