"""`factrank examine`: everything that factrank reports about a model file, at once."""

from __future__ import annotations

from factrank.cli.recall import Layer, Tau
from factrank.cli.support.naming import naming
from factrank.cli.support.sources import Table, reads_table, title
from factrank.cli.support.terminal import Json, display, progress, say_json
from factrank.cli.verify import SourcesIfAny
from factrank.databases import Database, agreement_of
from factrank.errors import InputError


@reads_table
def examine(
    layer: Layer,
    table: Table,
    source: SourcesIfAny = None,
    tau: Tau = 0.95,
    json: Json = False,
) -> None:
    """Report recall, ranks and the certificate of a layer.

    Also counts hallucinations, diagnoses wrong and weak facts, and attributes facts to heads. Names are matched with
    the names in the layer file. The exit code is 0 whatever the answers; that of `factrank verify` depends on them.

    Example: factrank examine layer.safetensors facts.csv
    """
    from factrank.bridges import examine as examined  # noqa: PLC0415 - JAX takes a second to load
    from factrank.experiments.models import load  # noqa: PLC0415
    from factrank.report import examination_tables, layer_lines  # noqa: PLC0415

    if not source and table != Table():
        raise InputError("--long, --wide, --multi and similar options describe a table: give its file after the layer")
    saved = load(layer)
    if not isinstance(saved.data, Database):
        raise InputError(f"{layer}: the model reads vectors, not facts; use factrank verify")
    facts = table.load_onto(source, saved.data) if source else saved.data
    if not len(facts):
        raise InputError(f"{layer}: the file stores no facts; give a table to examine it on")
    with progress().status("examining"), naming(layer):
        found = examined(saved.model, facts, tau)
    name = title(source) if source else None
    if json:
        trained_on = {"facts": len(saved.data), "shared": agreement_of(saved.data, facts).shared}
        say_json({"layer": str(layer), "table": name, **found.to_dict(), "trained_on": trained_on})
        return
    display(layer_lines(f"{layer} on {name or 'its stored facts'}", facts, saved.spec, found.parameters))
    display("", examination_tables(found))
