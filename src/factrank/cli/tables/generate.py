"""`factrank generate`: random and named databases."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from factrank.cli.support.terminal import Json, say_result
from factrank.databases.files import write
from factrank.databases.generators import (
    GENERATORS,
    KnownRank,
    arguments_of,
    call_generator,
    is_required,
    value_of_text,
)
from factrank.errors import InputError

KIND_HELP = f"One of {', '.join(GENERATORS.built_in)}, or a generator of an installed package."
OPTION_OF = {
    "n_keys": "--keys",
    "n_queries": "--queries",
    "n_values": "--values",
    "n_facts": "--facts",
    "values_per_query": "--values-per-query",
    "answers_per_query": "--answers-per-query",
    "n_inputs": "--inputs",
    "n_outputs": "--outputs",
    "n_classes": "--classes",
    "kind": "--function",
    "structure": "--structure",
    "exponent": "--exponent",
    "rank": "--rank",
    "shapes": "--box",
    "n": "--size",
    "seed": "--seed",
}
"""The option for each argument of a generator."""


def _kinds(incomplete: str) -> list[str]:
    return [kind for kind in GENERATORS if kind.startswith(incomplete)]


def generate(
    kind: Annotated[str, typer.Argument(metavar="KIND", help=KIND_HELP, autocompletion=_kinds)],
    output: Annotated[
        Path, typer.Option("-o", "--output", metavar="FILE", help="File to write; its suffix determines the format.")
    ],
    keys: Annotated[int | None, typer.Option(metavar="N", help="Number of keys.")] = None,
    queries: Annotated[int | None, typer.Option(metavar="N", help="Number of queries.")] = None,
    values: Annotated[int | None, typer.Option(metavar="N", help="Number of values.")] = None,
    facts: Annotated[
        int | None, typer.Option(metavar="N", help="Number of facts; by default, one for every (key, query).")
    ] = None,
    values_per_query: Annotated[int | None, typer.Option(metavar="N", help="Size of each query's own range.")] = None,
    answers_per_query: Annotated[
        int | None, typer.Option(metavar="N", help="Size of each query's answer set (answer-sets).")
    ] = None,
    inputs: Annotated[int | None, typer.Option(metavar="N", help="Number of inputs (associations).")] = None,
    outputs: Annotated[int | None, typer.Option(metavar="N", help="Number of outputs (associations).")] = None,
    function: Annotated[str | None, typer.Option(metavar="NAME", help="injective or random (associations).")] = None,
    structure: Annotated[str | None, typer.Option(metavar="NAME", help="random or structured (answer-sets).")] = None,
    classes: Annotated[int | None, typer.Option(metavar="N", help="Number of classes of keys (structured).")] = None,
    exponent: Annotated[float | None, typer.Option(metavar="X", help="Exponent of the Zipf distribution.")] = None,
    rank: Annotated[int | None, typer.Option(metavar="N", help="Rank to plant (overlapping-boxes).")] = None,
    box: Annotated[
        list[str] | None, typer.Option(metavar="KEYSxQUERIES", help="Size of a box, such as 3x2. Repeatable (boxes).")
    ] = None,
    size: Annotated[int | None, typer.Option(metavar="N", help="The n of a named tensor.")] = None,
    seed: Annotated[int | None, typer.Option(metavar="N", help="Seed of a random kind; 0 by default.")] = None,
    arguments: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="Any other argument of the generator. Repeatable."),
    ] = None,
    json: Json = False,
) -> None:
    """Generate a random or named table of facts.

    Example: factrank generate boxes --box 3x2 --box 2x2 -o boxes.csv
    """
    given = {
        "n_keys": keys,
        "n_queries": queries,
        "n_values": values,
        "n_facts": facts,
        "values_per_query": values_per_query,
        "answers_per_query": answers_per_query,
        "n_inputs": inputs,
        "n_outputs": outputs,
        "kind": function,
        "structure": structure,
        "n_classes": classes,
        "exponent": exponent,
        "rank": rank,
        "shapes": [_box(text) for text in box] if box else None,
        "n": size,
        "seed": seed,
    }
    sizes: dict[str, object] = {name: value for name, value in given.items() if value is not None}
    sizes = _default_seed(kind) | sizes | _by_name(kind, arguments or [])
    try:
        made = call_generator(kind, **sizes)
    except InputError as error:
        raise InputError(_with_options(str(error)) if kind in GENERATORS.built_in else str(error)) from None
    database, planted = (made.database, made) if isinstance(made, KnownRank) else (made, None)
    write(database, output)
    rank, reason = (None, None) if planted is None else (planted.rank, planted.reason)
    known = "" if planted is None else f", of rank exactly {rank}: {reason}"
    data = {"output": str(output), "facts": database.n_facts, "rank": rank, "reason": reason}
    say_result(f"{database.n_facts:,} facts written to {output}{known}", data, json=json)


def _default_seed(kind: str) -> dict[str, object]:
    """Named tensors are not random and take no seed."""
    seed = arguments_of(kind).get("seed")
    return {"seed": 0} if seed is not None and is_required(seed) else {}


def _by_name(kind: str, arguments: Sequence[str]) -> dict[str, object]:
    """The arguments of --set, each read as its annotation says."""
    parameters, found = arguments_of(kind), dict[str, object]()
    for argument in arguments:
        name, equals, text = argument.partition("=")
        if not equals:
            raise InputError(f"--set is NAME=VALUE, such as n=4; got {argument!r}")
        if name in found:
            raise InputError(f"--set gives {name} twice")
        found[name] = value_of_text(parameters[name].annotation, text) if name in parameters else text
    return found


def _box(text: str) -> tuple[int, int]:
    match = re.fullmatch(r"(\d+)x(\d+)", text)
    if not match:
        raise InputError(f"--box must be KEYSxQUERIES, such as 3x2; got {text!r}")
    return int(match[1]), int(match[2])


def _with_options(message: str) -> str:
    """Replace the names of arguments in a message by the options of the command line."""
    return re.sub(r"\b\w+\b", lambda word: OPTION_OF.get(word[0], word[0]), message)
