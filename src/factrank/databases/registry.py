"""Generators by name: what the command line and study files call."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from types import MappingProxyType
from typing import Literal, get_args, get_origin

from factrank.databases.answer_sets import answer_sets
from factrank.databases.associations import associations
from factrank.databases.database import Database
from factrank.databases.generators import bijections, disjoint, structured, uniform, zipf
from factrank.databases.known_rank import KnownRank, boxes, overlapping_boxes
from factrank.databases.named import diagonal, diagonal2, matmul, unit, w_state
from factrank.errors import InputError

Generator = Callable[..., Database | KnownRank]
GENERATORS: Mapping[str, Generator] = MappingProxyType(
    {
        "uniform": uniform,
        "disjoint": disjoint,
        "structured": structured,
        "bijections": bijections,
        "zipf": zipf,
        "associations": associations,
        "answer-sets": answer_sets,
        "boxes": boxes,
        "overlapping-boxes": overlapping_boxes,
        "unit": unit,
        "matmul": matmul,
        "w-state": w_state,
        "diagonal": diagonal,
        "diagonal2": diagonal2,
    }
)


def generate(kind: str, /, **sizes: object) -> Database:
    """The database of a generator given by name; its arguments are checked first, by name and type.

    >>> generate("bijections", n_keys=4, n_queries=2, seed=0)
    Database(8 facts: 4 keys x 2 queries -> 4 values, functional, full)
      (k0, q0, v0)
      (k0, q1, v2)
      (k1, q0, v2)
      ...
    """
    made = call_generator(kind, **sizes)
    return made.database if isinstance(made, KnownRank) else made


def call_generator(kind: str, /, **sizes: object) -> Database | KnownRank:
    """The same, with the rank of the database where the generator knows it."""
    if kind not in GENERATORS:
        raise InputError(f"there is no generator {kind!r}; there are {', '.join(GENERATORS)}")
    parameters = _parameters(kind)
    usage = f"{kind} takes {', '.join(_describe(parameter) for parameter in parameters.values()) or 'no arguments'}"
    unknown = [name for name in sizes if name not in parameters]
    missing = [name for name, parameter in parameters.items() if _required(parameter) and name not in sizes]
    if unknown or missing:
        faults = [*(f"unknown {name}" for name in unknown), *(f"missing {name}" for name in missing)]
        raise InputError(f"{kind}: {', '.join(faults)}; {usage}")
    for name, value in sizes.items():
        expected, accepts = _type_of(parameters[name].annotation)
        if not accepts(value):
            raise InputError(f"{kind}: {name} must be {expected}, got {value!r}; {usage}")
    return GENERATORS[kind](**sizes)


@cache
def _parameters(kind: str) -> Mapping[str, inspect.Parameter]:
    return inspect.signature(GENERATORS[kind], eval_str=True).parameters


def _required(parameter: inspect.Parameter) -> bool:
    return parameter.default is inspect.Parameter.empty


def _describe(parameter: inspect.Parameter) -> str:
    return parameter.name if _required(parameter) else f"{parameter.name} (optional)"


def _is_integer(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_number(value: object) -> bool:
    return _is_integer(value) or isinstance(value, float)


def _is_pair(value: object) -> bool:
    return isinstance(value, (list, tuple)) and len(value) == 2 and all(_is_integer(size) for size in value)


def _is_pairs(value: object) -> bool:
    return isinstance(value, (list, tuple)) and all(_is_pair(item) for item in value)


def _type_of(annotation: object) -> tuple[str, Callable[[object], bool]]:
    """What an argument is called in messages, and the test for it."""
    if get_origin(annotation) is Literal:
        choices = get_args(annotation)
        return f"one of {', '.join(choices)}", lambda value: isinstance(value, str) and value in choices
    return TYPES[annotation]


TYPES: Mapping[object, tuple[str, Callable[[object], bool]]] = MappingProxyType(
    {
        int: ("an integer", _is_integer),
        int | None: ("an integer or None", lambda value: value is None or _is_integer(value)),
        float: ("a number", _is_number),
        Sequence[Sequence[int]]: ("pairs of integers, (keys, queries) per box", _is_pairs),
    }
)
"""What an argument of each annotated type is called in messages, and the test for it."""
