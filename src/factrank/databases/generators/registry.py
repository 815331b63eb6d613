"""The registry of generators: functions that make databases, by the names that trials, studies and commands use."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Mapping
from difflib import get_close_matches
from functools import lru_cache
from typing import Any, TypeVar, overload

from factrank.databases.database import Database
from factrank.databases.generators.answer_set_tables import answer_sets
from factrank.databases.generators.argument_types import argument_type, frozen
from factrank.databases.generators.association_tables import associations
from factrank.databases.generators.expected_sizes import require_room
from factrank.databases.generators.known_rank import KnownRank, boxes, overlapping_boxes
from factrank.databases.generators.named import diagonal, diagonal2, matmul, unit, w_state
from factrank.databases.generators.people_tables import bios, phonebook
from factrank.databases.generators.random_tables import bijections, disjoint, structured, uniform, zipf
from factrank.databases.generators.shared_function_tables import shared_functions
from factrank.errors import FactrankError, InputError
from factrank.plugins import Registry

Facts = Iterable[tuple[object, object, object]]
Generator = Callable[..., Database | KnownRank | Facts]
Function = TypeVar("Function", bound=Generator)

NAME = re.compile(r"[A-Za-z][A-Za-z0-9._-]*")
RESERVED = "generator"
"""The key under which a study file names the generator; the arguments stand next to it."""


@overload
def generator(function: Function, /) -> Function: ...
@overload
def generator(*, name: str) -> Callable[[Function], Function]: ...
def generator(function: Function | None = None, /, *, name: str | None = None) -> Any:
    """Register a function that makes databases, so that trials, study files and commands find it by name.

    The function takes annotated arguments and returns a `Database`, or (key, query, value) facts. It must be pure: the
    same arguments give the same facts, and randomness comes from an argument `seed`. A trial is identified by the name
    and the arguments, so give a function that makes other facts another name.

    The registered function is returned unchanged. Registering it again by the same lines, as when a notebook cell runs
    twice, replaces it. Packages name theirs in the entry-point group `factrank.generators`.

    Arguments:
        function: The function; its arguments are annotated as int, float, bool, str, Literal, Sequence or tuple.
        name: The name to register it under; by default the function's own, with dashes for underscores.

    Returns:
        The function, or a decorator if only `name` is given.

    Raises:
        InputError: The name is taken or an argument has no usable annotation.

    >>> import factrank
    >>> @factrank.generator
    ... def clock(hours: int, *, step: int = 1):
    ...     return [(hour, "next", (hour + step) % hours) for hour in range(hours)]
    >>> factrank.generate("clock", hours=12, step=5).fiber("9", "next")
    ('2',)
    >>> factrank.generated("clock", hours=12).build().n_facts
    12
    >>> factrank.generate("clock", hours="twelve")
    Traceback (most recent call last):
    factrank.errors.InputError: clock: hours must be an integer, got 'twelve'; clock takes hours, step (optional)
    """

    def register(made_by: Function) -> Function:
        own = getattr(made_by, "__name__", "").replace("_", "-")
        GENERATORS.register(own if name is None else name, made_by)
        return made_by

    return register if function is None else register(function)


def generate(kind: str, /, **arguments: object) -> Database:
    """Make the database of a generator, given by name.

    Arguments:
        kind: The name of the generator; `factrank ls generators` lists them.
        arguments: Its arguments, checked by name and type.

    Raises:
        InputError: There is no such generator, or an argument is unknown, missing or of the wrong type.

    >>> generate("bijections", n_keys=4, n_queries=2, seed=0)
    Database(8 facts: 4 keys x 2 queries -> 4 values, functional, full)
      (k0, q0, v0)
      (k0, q1, v2)
      (k1, q0, v2)
      ...
    """
    made = call_generator(kind, **arguments)
    return made.database if isinstance(made, KnownRank) else made


def call_generator(kind: str, /, **arguments: object) -> Database | KnownRank:
    """Like `generate`, but with the rank of the database if the generator knows it."""
    parameters = arguments_of(kind)
    usage = f"{kind} takes {', '.join(_described(parameter) for parameter in parameters.values()) or 'no arguments'}"
    unknown = [name for name in arguments if name not in parameters]
    missing = [name for name, parameter in parameters.items() if is_required(parameter) and name not in arguments]
    if unknown or missing:
        faults = [*(f"unknown {name}" for name in unknown), *(f"missing {name}" for name in missing)]
        raise InputError(f"{kind}: {', '.join(faults)}; {usage}")
    for name, value in arguments.items():
        expected = argument_type(parameters[name].annotation)
        if not expected.fits(value):
            raise InputError(f"{kind}: {name} must be {expected.one}, got {value!r}; {usage}")
    given = {name: frozen(value) for name, value in arguments.items()}
    if kind not in GENERATORS.built_in:
        return _from_outside(kind, given)
    require_room(kind, {name: parameter.default for name, parameter in parameters.items()} | given)
    made: Database | KnownRank = GENERATORS.built_in[kind](**given)  # type: ignore[assignment]
    return made


def arguments_of(kind: str) -> Mapping[str, inspect.Parameter]:
    """The arguments of a generator, with their annotations and defaults."""
    function = GENERATORS.get(kind)
    if function is None:
        close = get_close_matches(kind.replace("_", "-"), list(GENERATORS), n=1)
        hint = f"; did you mean {close[0]}?" if close else ""
        raise InputError(f"there is no generator {kind!r}; there are {', '.join(GENERATORS)}{hint}")
    return _parameters(function)


def is_required(parameter: inspect.Parameter) -> bool:
    """Whether an argument has no default."""
    return parameter.default is inspect.Parameter.empty


def _described(parameter: inspect.Parameter) -> str:
    return parameter.name if is_required(parameter) else f"{parameter.name} (optional)"


@lru_cache(maxsize=256)
def _parameters(function: Generator) -> Mapping[str, inspect.Parameter]:
    return inspect.signature(function, eval_str=True).parameters


def _from_outside(kind: str, arguments: Mapping[str, Any]) -> Database | KnownRank:
    """What a registered function makes; its errors become errors of its arguments, which name it."""
    try:
        made = GENERATORS[kind](**arguments)
        if isinstance(made, Database | KnownRank):
            return made
        if isinstance(made, Iterable) and not isinstance(made, str | bytes | Mapping):
            return Database.from_facts(made)
    except FactrankError as error:
        raise type(error)(f"{kind}: {error}") from error
    except MemoryError:
        raise
    except Exception as error:
        raise InputError(f"{kind}: {type(error).__name__}: {error}") from error
    raise InputError(f"{kind}: expected a Database or (key, query, value) facts; got {type(made).__name__}")


# -------------------------------------------------------------------- the registry


def _checked(name: str, function: Any) -> tuple[str, Generator]:
    """The name and the function, if trials and files can use them."""
    if not callable(function):
        raise InputError(f"expected a function that makes databases; got {type(function).__name__}")
    if not isinstance(name, str) or not NAME.fullmatch(name):
        raise InputError(f"the name of a generator is a word of letters, digits, dots and dashes; got {name!r}")
    try:
        parameters = _parameters(function)
    except (TypeError, ValueError, NameError) as error:
        raise InputError(f"{name}: the arguments of a generator must be known and annotated: {error}") from None
    for parameter in parameters.values():
        _require_usable(name, parameter)
    return name, function


def _require_usable(name: str, parameter: inspect.Parameter) -> None:
    if parameter.kind not in (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY):
        raise InputError(f"{name}: the arguments of a generator are given by name; got {parameter}")
    if parameter.name == RESERVED:
        raise InputError(f"{name}: an argument cannot be called {RESERVED!r}: study files use that key")
    if parameter.annotation is inspect.Parameter.empty:
        raise InputError(f"{name}: argument {parameter.name} needs an annotation, such as {parameter.name}: int")
    try:
        expected = argument_type(parameter.annotation)
    except InputError as error:
        raise InputError(f"{name}: argument {parameter.name}: {error}") from None
    if not (is_required(parameter) or expected.fits(parameter.default)):
        raise InputError(f"{name}: the default of {parameter.name} must be {expected.one}, got {parameter.default!r}")


def _built_in() -> Mapping[str, Generator]:
    functions: tuple[Any, ...] = (
        uniform,
        disjoint,
        structured,
        bijections,
        zipf,
        associations,
        answer_sets,
        bios,
        phonebook,
        boxes,
        overlapping_boxes,
        shared_functions,
        unit,
        matmul,
        w_state,
        diagonal,
        diagonal2,
    )
    return {function.__name__.replace("_", "-"): function for function in functions}


GENERATORS: Registry[Generator] = Registry("generator", "factrank.generators", _built_in, _checked)
"""Every generator by name."""
