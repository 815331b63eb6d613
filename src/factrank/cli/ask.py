"""`factrank ask`: put one question to a layer, and judge its answer."""

from __future__ import annotations

from typing import Annotated

import typer

from factrank.cli.recall import Layer, Tau
from factrank.cli.support.naming import naming
from factrank.cli.support.terminal import Json, display, say_json


def ask(
    layer: Layer,
    key: Annotated[str, typer.Argument(metavar="KEY", help="Name of a key.")],
    query: Annotated[str, typer.Argument(metavar="QUERY", help="Name of a query.")],
    tau: Tau = 0.95,
    json: Json = False,
) -> None:
    """Ask a layer for the value of a (key, query).

    The answer is judged by the facts stored in the layer file: a fact, an error, or, if the pair has no fact, a
    hallucination when the layer is confident. The contribution of each head to the margin is listed.

    Example: factrank ask layer.safetensors Astrid born_in
    """
    from factrank.families.attention import load_layer  # noqa: PLC0415 - JAX takes a second to load
    from factrank.families.attention.circuits import answer  # noqa: PLC0415
    from factrank.report import answer_tables  # noqa: PLC0415

    with naming(layer):
        found = answer(load_layer(layer), key, query, tau)
    if json:
        say_json(found.to_dict())
    else:
        display(answer_tables(found))
