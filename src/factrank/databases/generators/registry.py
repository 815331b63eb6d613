"""Generators by name: what the command line and study files call."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from types import MappingProxyType
from typing import Any, Literal, get_args, get_origin

from factrank.databases.database import Database
from factrank.databases.generators.answer_set_tables import answer_sets
from factrank.databases.generators.association_tables import associations
from factrank.databases.generators.known_rank import KnownRank, boxes, overlapping_boxes
from factrank.databases.generators.named import diagonal, diagonal2, matmul, unit, w_state
from factrank.databases.generators.random_tables import bijections, disjoint, structured, uniform, zipf
from factrank.errors import InputError
from factrank.host import require_memory

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
    _require_memory(kind, {name: parameter.default for name, parameter in parameters.items()} | sizes)
    return GENERATORS[kind](**sizes)


def _require_memory(kind: str, sizes: Mapping[str, Any]) -> None:
    """Refuse a database that could not be made here; sizes that make no sense are left to the generator."""
    n_facts = expected_facts(kind, sizes)
    if "n" in sizes:
        needed = LISTED_FACT * n_facts
    else:
        pairs = sizes.get("n_keys", 0) * sizes.get("n_queries", 0)
        ranges = sizes.get("values_per_query", 0) + sizes.get("answers_per_query", 0)
        names = sum(size for name, size in sizes.items() if name in NAMES) + sizes.get("n_queries", 0) * ranges
        needed = FACT * n_facts + NAME * names + PAIR * min(pairs, MOST_PAIRS_PER_FACT * n_facts)
    require_memory(needed, f"{kind}: {n_facts:,} facts", "choose smaller sizes")


def expected_facts(kind: str, sizes: Mapping[str, Any]) -> int:
    """How many facts a generator makes of these sizes.

    >>> expected_facts("matmul", {"n": 3}), expected_facts("boxes", {"shapes": [(2, 1), (1, 3)], "seed": 0})
    (27, 5)
    """
    if "shapes" in sizes:
        return sum(n_keys * n_queries for n_keys, n_queries in sizes["shapes"])
    if "n" in sizes:
        return int(sizes["n"] ** 3 if kind == "matmul" else sizes["n"])
    if not {"n_inputs", "n_keys"} & sizes.keys():
        return 3  # the W state
    return int(sizes.get("n_inputs") or sizes.get("n_facts") or sizes["n_keys"] * sizes["n_queries"])


FACT, LISTED_FACT, NAME, PAIR = 100, 250, 250, 8
"""Bytes while a database is made, per fact, fact of a named tensor, name, and pair that facts are drawn from."""

MOST_PAIRS_PER_FACT = 50
"""With more pairs than that NumPy draws facts without listing all pairs."""

NAMES = ("n_keys", "n_queries", "n_values", "n_inputs", "n_outputs")


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
