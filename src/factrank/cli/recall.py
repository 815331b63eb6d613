"""`factrank recall`: how well a layer recalls a table of facts, and why it fails where it does."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from factrank.cli.support.naming import naming
from factrank.cli.support.sources import Sources, Table, reads_table, title
from factrank.cli.support.terminal import Json, display, progress, say_json
from factrank.databases import Database, agreement_of

if TYPE_CHECKING:
    from factrank.families.attention import SavedLayer
    from factrank.families.attention.circuits import Attribution, Diagnosis

Layer = Annotated[Path, typer.Argument(metavar="LAYER", help="A layer file, as written by train -o or construct -o.")]
Tau = Annotated[float, typer.Option(metavar="P", help="Probability from which an answer counts as confident.")]


@reads_table
def recall(
    layer: Layer,
    source: Sources,
    table: Table,
    tau: Tau = 0.95,
    json: Json = False,
) -> None:
    """Report how well a layer recalls a table of facts.

    Reports recall, margins, hallucinations, attention statistics and a diagnosis. Names are matched with the names in
    the layer file. The exit code is 0 whatever the recall.

    Example: factrank recall layer.safetensors facts.csv
    """
    from factrank.families.attention import load_layer  # noqa: PLC0415 - JAX takes a second to load
    from factrank.families.attention.circuits import attribute_facts, diagnose, has_parts  # noqa: PLC0415
    from factrank.report import layer_lines, recall_tables  # noqa: PLC0415

    saved = load_layer(layer)
    facts = table.load_onto(source, saved.database)
    with progress().status("recalling"), naming(layer):
        diagnosis = diagnose(saved, facts, tau)
        attribution = attribute_facts(saved.layer, facts) if has_parts(saved.layer) else None
    if json:
        say_json(_plain(layer, saved, facts, diagnosis, attribution))
        return
    display(layer_lines(f"{layer} on {title(source)}", facts, saved.layer.shape, saved.layer.parameters))
    shared = agreement_of(saved.database, facts).shared
    if not shared == len(facts) == len(saved.database):
        note = f"trained on {len(saved.database):,} facts, including {shared:,} of these {len(facts):,}"
        display(note)
    display("", recall_tables(diagnosis, attribution))


def _plain(
    layer: Path, saved: SavedLayer, facts: Database, diagnosis: Diagnosis, attribution: Attribution | None
) -> dict[str, Any]:
    return {
        "layer": str(layer),
        "shape": asdict(saved.layer.shape),
        "parameters": saved.layer.parameters,
        **diagnosis.recall.to_dict(),
        "trained_on": {"facts": len(saved.database), "shared": agreement_of(saved.database, facts).shared},
        "attribution": None if attribution is None else attribution.to_dict(),
        "diagnosis": diagnosis.to_dict(),
        "notes": saved.notes,
        "seeds": None,
    }
