"""The sizes of a model in the words of the command line: `--spec d_model=16`, for a model of any family."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from factrank.errors import InputError

if TYPE_CHECKING:
    from factrank.experiments import Family

SpecWords = Annotated[
    list[str] | None,
    typer.Option(
        "--spec",
        metavar="NAME=VALUE",
        help="A size or option of the model, such as d_model=16; may be given many times.",
        show_default=False,
    ),
]


def family_named(name: str) -> Family:
    """The family of this name."""
    from factrank.experiments import families  # noqa: PLC0415 - JAX takes a second to load

    if name not in families():
        raise InputError(f"--family: there is no family {name[:60]!r}; there are {', '.join(families())}")
    return families()[name]


def spec_of(family: Family, words: Sequence[str] | None) -> Any:
    """The specification that the words give; `kind=NAME` takes another kind of model than the family's first."""
    from factrank.experiments.specs import from_plain  # noqa: PLC0415

    given: dict[str, Any] = {}
    for word in words or ():
        name, equals, value = word.partition("=")
        if not equals:
            raise InputError(f"--spec: expected NAME=VALUE, such as d_model=16; got {word[:60]!r}")
        if name in given:
            raise InputError(f"--spec: {name} is given twice")
        given[name] = _plain(value)
    kind = given.pop("kind", next(iter(family.models)))
    if kind not in family.models:
        raise InputError(f"--spec: kind must be one of {', '.join(family.models)}; got {str(kind)[:60]!r}")
    return from_plain(family.models[kind], given, "--spec")


def _plain(text: str) -> Any:
    """A number, true, false or null; else the text itself."""
    try:
        value = json.loads(text)
    except ValueError:
        return text
    return value if value is None or isinstance(value, bool | int | float) else text
