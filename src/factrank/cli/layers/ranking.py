"""`factrank ranking`: where a layer ranks facts that it was not trained on."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Annotated

import typer

from factrank.cli.recall import Layer
from factrank.cli.support.naming import naming
from factrank.cli.support.sources import Sources, Table, reads_table, title
from factrank.cli.support.terminal import Json, display, progress, say_json
from factrank.databases import Database, require_one_standard_input
from factrank.errors import InputError

Known = Annotated[
    list[str] | None,
    typer.Option(
        metavar="TABLE",
        help="More facts that are right, such as the validation split: left out when others are ranked. Repeatable.",
    ),
]
Raw = Annotated[bool, typer.Option("--raw", help="Rank among all values, known ones too.")]
SkipUnknown = Annotated[
    bool, typer.Option("--skip-unknown", help="Skip and count facts with a name that the layer does not know.")
]


@partial(reads_table, without=("multi",))
def ranking(
    layer: Layer,
    source: Sources,
    table: Table,
    known: Known = None,
    raw: Raw = False,
    skip_unknown: SkipUnknown = False,
    json: Json = False,
) -> None:
    """Rank held-out facts with a layer: MRR and Hits@k.

    The value of each fact is ranked by its logit among all values of the layer, without those that the layer file, the
    table or --known has for the same (key, query). Equal logits share their mean rank. Several values per pair are
    allowed. The exit code is 0 whatever the ranks.

    Example: factrank ranking layer.safetensors test.csv --known valid.csv
    """
    from factrank.experiments.models import load  # noqa: PLC0415 - JAX takes a second to load
    from factrank.nn import stored_scalars  # noqa: PLC0415
    from factrank.readouts import ranking as ranked  # noqa: PLC0415
    from factrank.report import layer_lines, ranking_tables  # noqa: PLC0415

    several = replace(table, multi=True)
    require_one_standard_input([*source, *(known or ())])
    if raw and known:
        raise InputError("--raw and --known exclude each other: --raw leaves nothing out")
    saved = load(layer)
    if not isinstance(saved.data, Database):
        raise InputError(f"{layer}: the model reads vectors, not facts; it cannot rank facts")
    held_out, more = several.load(source), [several.load([one]) for one in known or ()]
    with progress().status("ranking"), naming(layer):
        found = ranked(saved, held_out, more, filtered=not raw, skip_unknown=skip_unknown)
    parameters = stored_scalars(saved.model)
    if json:
        say_json({"layer": str(layer), "table": title(source), "parameters": parameters, **found.to_dict()})
        return
    display(layer_lines(f"{layer} on {title(source)}", found.facts, saved.spec, parameters))
    display("", ranking_tables(found))
