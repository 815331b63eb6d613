"""`factrank capacity`: the smallest layer that learns these facts, by training."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from factrank.cli.support.sources import Sources, Table, reads_table, title
from factrank.cli.support.terminal import Json, complain, progress, say, say_json
from factrank.errors import InputError

if TYPE_CHECKING:
    from factrank.families.attention import LayerShape
    from factrank.planning import Probed


SizeName = Literal["d_model", "n_heads", "d_vo"]


@reads_table
def capacity(
    source: Sources,
    table: Table,
    along: Annotated[SizeName, typer.Option(help="Size to vary.")] = "d_model",
    recall: Annotated[float, typer.Option(metavar="X", help="Fraction of the facts to recall.")] = 1.0,
    seeds: Annotated[int, typer.Option(min=1, metavar="N", help="Layers to train at each size.")] = 3,
    d_model: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Start from this width; give all four.")
    ] = None,
    heads: Annotated[int | None, typer.Option(min=1, metavar="N", help="Number of heads.")] = None,
    d_qk: Annotated[int | None, typer.Option(min=1, metavar="N", help="Query-key width.")] = None,
    d_vo: Annotated[int | None, typer.Option(min=1, metavar="N", help="Value-output width.")] = None,
    json: Json = False,
) -> None:
    """Find the smallest layer that learns a table, by training.

    A size is enough if at least half of the seeds reach the recall. The search starts where the capacity atlas expects
    the answer, and runs both ends of the interval that it reports. The exit code is 1 if no size is enough.

    Example: factrank capacity sample:elements --seeds 3
    """
    from factrank.planning import smallest  # noqa: PLC0415 - JAX takes a second to load

    shape = _shape(d_model, heads, d_qk, d_vo)
    database = table.load(source)
    with progress().status("training") as status:

        def show(probe: Probed) -> None:
            status.update(f"training: {probe.shape.in_words()}")
            if not json:
                say(f"{probe.shape.in_words()}: recall {', '.join(f'{one:.3f}' for one in probe.recalls)}")

        found = smallest(database, along, shape=shape, recall=recall, seeds=seeds, on_probe=show)
    if json:
        say_json(asdict(found))
    elif found.found is not None:
        size, below = getattr(found.found.shape, along), found.too_small
        lower = "the least there is" if below is None else f"not at {getattr(below.shape, along)}"
        parameters = found.found.shape.parameters(*database.shape)
        say(f"{title(source)}: recall {recall:g} at {along} {size}, {lower} ({parameters:,} parameters)")
    if found.found is None:
        complain(f"no {along} that was tried is enough")
        raise typer.Exit(1)


def _shape(d_model: int | None, heads: int | None, d_qk: int | None, d_vo: int | None) -> LayerShape | None:
    given = {"--d-model": d_model, "--heads": heads, "--d-qk": d_qk, "--d-vo": d_vo}
    missing = [name for name, size in given.items() if size is None]
    if len(missing) == len(given):
        return None
    if d_model is None or heads is None or d_qk is None or d_vo is None:
        raise InputError(f"give all four sizes of a layer, or none: {', '.join(missing)} missing")
    from factrank.families.attention import LayerShape  # noqa: PLC0415

    return LayerShape(d_model, heads, d_qk, d_vo)
