"""Model sizes on the command line, for any family: `--spec d_model=16`."""

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
        help="A size or option of the model, such as d_model=16. Repeatable.",
        show_default=False,
    ),
]


def family_named(name: str) -> Family:
    """Return a family by its name."""
    from factrank.experiments import families  # noqa: PLC0415 - JAX takes a second to load

    if name not in families():
        raise InputError(f"--family: no family {name[:60]!r}; the families are {', '.join(families())}")
    return families()[name]


def spec_of(family: Family, words: Sequence[str] | None) -> Any:
    """Return the specification given by NAME=VALUE words; `kind=NAME` selects another than the family's first model."""
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
    """Return a number, a boolean or None if the text is one in JSON; otherwise the text itself."""
    try:
        value = json.loads(text)
    except ValueError:
        return text
    return value if value is None or isinstance(value, bool | int | float) else text
