"""`factrank construct`: facts written into a layer in closed form, with a proof that every one of them is recalled."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import Annotated

import typer

from factrank.cli.support.outputs import require_output
from factrank.cli.support.sources import Sources, Table, reads_table, title
from factrank.cli.support.terminal import complain, display, progress, say

DEFAULT_BUDGET = 5.0


class PrecisionWanted(Enum):
    """The type of the weights; the members of `factrank.families.attention.forms.construction.Precision`."""

    float64 = "float64"
    float32 = "float32"
    bfloat16 = "bfloat16"


class Aim(Enum):
    """What makes a layer the best; the members of `factrank.families.attention.forms.choose.Minimise`."""

    parameters = "parameters"
    heads = "heads"
    d_model = "d_model"
    margin = "margin"
    bits = "bits"


@reads_table
def construct(
    source: Sources,
    table: Table,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="Save the layer here, as .safetensors.", metavar="LAYER")
    ] = None,
    precision: Annotated[
        PrecisionWanted | None,
        typer.Option(
            help="The type of the weights. If not given float32; with --minimise bits, whichever is smallest.",
            show_default=False,
        ),
    ] = None,
    minimise: Annotated[
        Aim, typer.Option(help="What the layer has least of; the margin is made as large as possible instead.")
    ] = Aim.parameters,
    budget: Annotated[
        float, typer.Option(min=0.0, help="Seconds to search where a construction leaves a choice.")
    ] = DEFAULT_BUDGET,
    only: Annotated[
        list[str] | None,
        typer.Option(help="Choose among these constructions only.", metavar="NAME", show_default=False),
    ] = None,
    share_tokens: Annotated[
        bool, typer.Option("--share-tokens", help="One embedding row for a name that is both key and query.")
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="Save the layer even if it is not certified.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Write a table of facts into the smallest attention layer that holds it, and prove that it recalls every fact.

    No training: the weights are given by formulas. The exit code is 1, and no layer is saved, where recall cannot be
    proved.
    """
    if output is not None:
        require_output(output)
    database = table.load(source)
    from factrank.families.attention.forms import construct as constructed  # noqa: PLC0415 - JAX takes a second to load
    from factrank.report import (  # noqa: PLC0415
        constructed_table,
        json_text,
    )

    with progress().status("constructing"):
        found = constructed(
            database,
            None if precision is None else precision.value,
            minimise.value,
            budget,
            share_tokens=share_tokens,
            only=only or None,
        )
        written = output is not None and (found.certified or force)
        if output is not None and written:
            found.save(output)
    if json:
        say(json_text(found.to_dict() | {"layer": str(output) if written else None}))
    else:
        display(constructed_table(title(source), found))
        if written:
            say(f"saved to {output}")
    if not found.certified:
        note = "the layer is saved all the same" if written else "no layer is saved; --force would save it"
        complain(f"not certified; {note}")
        raise typer.Exit(1)
