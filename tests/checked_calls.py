"""Runtime type checks of the package at a fraction of their cost; same annotations, same checks.

jaxtyping binds the arguments of every call, and has them checked twice: before the call, and again along with what it
returns. Only annotations of arrays need that, whose axes have to agree. All others are checked by beartype alone.
"""

import dataclasses
import inspect
from functools import partial, update_wrapper
from types import FunctionType
from typing import Any, TypeVar, get_args, get_type_hints

import jaxtyping
from beartype import BeartypeConf, beartype

in_full = jaxtyping.jaxtyped
alone = beartype(conf=BeartypeConf(violation_type=jaxtyping.TypeCheckError))  # a TypeError, which tests expect
checked_here: set[object] = set()


def check_calls(checked=None, *, typechecker=beartype):
    """Decorate as `jaxtyping.jaxtyped` does, which the import hook writes above every function and class."""
    if checked is None:
        return partial(check_calls, typechecker=typechecker)
    if inspect.isclass(checked):
        return _checked_class(checked, typechecker)
    if type(checked) is not FunctionType or _is_lazy(checked):
        return in_full(checked, typechecker=typechecker)
    hints = _hints(checked)
    if any(map(_has_axes, hints.values())):
        return in_full(checked, typechecker=typechecker)
    return _checked_function(checked, hints)


def _checked_class(checked, typechecker):
    if dataclasses.is_dataclass(checked) and checked.__init__ not in checked_here:
        checked.__init__ = check_calls(checked.__init__, typechecker=typechecker)
        checked_here.add(checked.__init__)
    return checked


def _is_lazy(function) -> bool:
    """Whether a call runs nothing yet: beartype would check its arguments as late."""
    return (
        inspect.isgeneratorfunction(function)
        or inspect.iscoroutinefunction(function)
        or inspect.isasyncgenfunction(function)
    )


def _hints(function) -> dict[str, Any]:
    """The annotations as types; what cannot be resolved yet is not checked, as in jaxtyping."""
    try:
        return get_type_hints(function, include_extras=True)
    except Exception:
        return {name: _hint(text, function.__globals__) for name, text in function.__annotations__.items()}


def _hint(annotation, names):
    def annotated(): ...

    annotated.__annotations__ = {"value": annotation}
    try:
        return get_type_hints(annotated, names, include_extras=True)["value"]
    except Exception:
        return Any


def _has_axes(hint) -> bool:
    if isinstance(hint, TypeVar):
        return any(map(_has_axes, (hint.__bound__, *hint.__constraints__)))
    if isinstance(hint, list):  # the arguments of a Callable
        return any(map(_has_axes, hint))
    modules = getattr(hint, "__module__", None), type(hint).__module__
    return any(str(name).startswith("jaxtyping") for name in modules) or any(map(_has_axes, get_args(hint)))


def _checked_function(function, hints):
    if all(hint is Any for hint in hints.values()):
        return function
    resolved = FunctionType(
        function.__code__, function.__globals__, function.__name__, function.__defaults__, function.__closure__
    )
    resolved.__kwdefaults__ = function.__kwdefaults__
    resolved.__qualname__, resolved.__module__ = function.__qualname__, function.__module__
    resolved.__annotations__ = hints
    checked = alone(resolved)
    return function if checked is resolved else update_wrapper(checked, function)
