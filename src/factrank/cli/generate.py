"""`factrank generate`: random and named databases."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated

import typer

from factrank.cli.support.terminal import say
from factrank.databases.files import write
from factrank.databases.generators import GENERATORS, KnownRank, call_generator
from factrank.errors import InputError

KIND_HELP = f"One of {', '.join(GENERATORS)}."
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
"""The option behind each argument of a generator."""


def generate(
    kind: Annotated[str, typer.Argument(help=KIND_HELP)],
    output: Annotated[Path, typer.Option("-o", "--output", help="Where to write; the suffix says the format.")],
    keys: Annotated[int | None, typer.Option(help="Number of keys.")] = None,
    queries: Annotated[int | None, typer.Option(help="Number of queries.")] = None,
    values: Annotated[int | None, typer.Option(help="Number of values.")] = None,
    facts: Annotated[int | None, typer.Option(help="Number of facts; all (key, query) pairs if not given.")] = None,
    values_per_query: Annotated[int | None, typer.Option(help="Size of each query's own range.")] = None,
    answers_per_query: Annotated[
        int | None, typer.Option(help="Size of each query's answer set (answer-sets).")
    ] = None,
    inputs: Annotated[int | None, typer.Option(help="Number of inputs (associations).")] = None,
    outputs: Annotated[int | None, typer.Option(help="Number of outputs (associations).")] = None,
    function: Annotated[str | None, typer.Option(help="injective or random (associations).")] = None,
    structure: Annotated[str | None, typer.Option(help="random or structured (answer-sets).")] = None,
    classes: Annotated[int | None, typer.Option(help="Number of classes of keys (structured).")] = None,
    exponent: Annotated[float | None, typer.Option(help="Exponent of the Zipf law.")] = None,
    rank: Annotated[int | None, typer.Option(help="Rank to plant (overlapping-boxes).")] = None,
    box: Annotated[list[str] | None, typer.Option(help="A box of KEYSxQUERIES such as 3x2; repeat (boxes).")] = None,
    size: Annotated[int | None, typer.Option(help="n of a named tensor.")] = None,
    seed: Annotated[int | None, typer.Option(help="Seed of a random kind; 0 if not given.")] = None,
) -> None:
    """Write a random or named database to a file, from its own seed."""
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
    try:
        made = call_generator(kind, **_default_seed(kind), **sizes) if seed is None else call_generator(kind, **sizes)
    except InputError as error:
        raise InputError(_with_options(str(error))) from None
    database = made.database if isinstance(made, KnownRank) else made
    write(database, output)
    known = f", of rank exactly {made.rank}: {made.reason}" if isinstance(made, KnownRank) else ""
    say(f"{database.n_facts:,} facts written to {output}{known}")


def _default_seed(kind: str) -> dict[str, object]:
    """Named tensors are not random and take no seed."""
    generator = GENERATORS.get(kind)
    return {"seed": 0} if generator is not None and "seed" in generator.__annotations__ else {}


def _box(text: str) -> tuple[int, int]:
    match = re.fullmatch(r"(\d+)x(\d+)", text)
    if not match:
        raise InputError(f"--box is KEYSxQUERIES such as 3x2; got {text!r}")
    return int(match[1]), int(match[2])


def _with_options(message: str) -> str:
    """A message about arguments in the words of the command line."""
    return re.sub(r"\b\w+\b", lambda word: OPTION_OF.get(word[0], word[0]), message)
