"""`factrank ask`: one question to a layer, and what its answer is worth."""

from __future__ import annotations

from typing import Annotated

import typer

from factrank.cli.recall import Layer, Tau
from factrank.cli.support.naming import naming
from factrank.cli.support.terminal import display, say


def ask(
    layer: Layer,
    key: Annotated[str, typer.Argument(metavar="KEY", help="The name of a key.")],
    query: Annotated[str, typer.Argument(metavar="QUERY", help="The name of a query.")],
    tau: Tau = 0.95,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Ask a layer for the value of a (key, query), and judge the answer by the facts it was trained on.

    It is a fact, an error, or an artifact: an answer where the database says nothing.
    """
    from factrank.families.attention import load_layer  # noqa: PLC0415 - JAX takes a second to load
    from factrank.families.attention.circuits import answer  # noqa: PLC0415
    from factrank.report import (  # noqa: PLC0415
        answer_tables,
        json_text,
    )

    with naming(layer):
        found = answer(load_layer(layer), key, query, tau)
    if json:
        say(json_text(found.to_dict()))
    else:
        display(answer_tables(found))
