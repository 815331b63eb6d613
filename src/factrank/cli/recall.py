"""`factrank recall`: what a layer knows of a table of facts, and what keeps it from knowing more."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from factrank.cli.support.naming import naming
from factrank.cli.support.sources import Sources, Table, reads_table, title
from factrank.cli.support.terminal import display, progress, say
from factrank.databases import Database, recode
from factrank.errors import InputError

if TYPE_CHECKING:
    from factrank.families.attention import SavedLayer
    from factrank.families.attention.circuits import Attribution, Diagnosis

Layer = Annotated[Path, typer.Argument(metavar="LAYER", help="A layer file, as `factrank train -o` writes it.")]
Tau = Annotated[float, typer.Option(help="The probability from which an answer is confident.")]


@reads_table
def recall(
    layer: Layer,
    source: Sources,
    table: Table,
    tau: Tau = 0.95,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Report what a layer recalls of a table of facts: recall, margins, artifacts, attention, and a diagnosis.

    Names are matched with those that the layer was trained on. The exit code is 0 whatever the recall is.
    """
    from factrank.families.attention import load_layer  # noqa: PLC0415 - JAX takes a second to load
    from factrank.families.attention.circuits import (  # noqa: PLC0415
        attribute_facts,
        diagnose,
        has_parts,
    )
    from factrank.report import (  # noqa: PLC0415
        json_text,
        layer_lines,
        recall_tables,
    )

    saved = load_layer(layer)
    facts = _in_codes_of(saved, table.load(source), title(source))
    with progress().status("recalling"), naming(layer):
        diagnosis = diagnose(saved.layer, facts, tau)
        attribution = attribute_facts(saved.layer, facts) if has_parts(saved.layer) else None
    if json:
        say(json_text(_plain(layer, saved, facts, diagnosis, attribution)))
        return
    display(layer_lines(f"{layer} on {title(source)}", facts, saved.layer.shape, saved.layer.parameters))
    shared = _shared(saved, facts)
    if not shared == len(facts) == len(saved.database):
        note = f"trained on {len(saved.database):,} facts, {shared:,} of these {len(facts):,} among them"
        display(note)
    display("", recall_tables(diagnosis, attribution))


def _in_codes_of(saved: SavedLayer, database: Database, source: str) -> Database:
    try:
        return recode(database, onto=saved.database)
    except InputError as error:
        raise InputError(f"{source}: the layer does not know this table: {error}") from None


def _shared(saved: SavedLayer, facts: Database) -> int:
    """How many of the facts the layer was trained on."""
    return len(facts) + len(saved.database) - len(facts.union(saved.database, multi=True))


def _plain(
    layer: Path, saved: SavedLayer, facts: Database, diagnosis: Diagnosis, attribution: Attribution | None
) -> dict[str, Any]:
    return {
        "layer": str(layer),
        "shape": asdict(saved.layer.shape),
        "parameters": saved.layer.parameters,
        **diagnosis.recall.to_dict(),
        "trained_on": {"facts": len(saved.database), "shared": _shared(saved, facts)},
        "attribution": None if attribution is None else attribution.to_dict(),
        "diagnosis": diagnosis.to_dict(),
        "notes": saved.notes,
        "seeds": None,
    }
