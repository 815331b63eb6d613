"""`factrank construct`: facts written into a model in closed form, with a proof that every one of them is recalled."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from factrank.cli.support.model_words import SpecWords, family_named, spec_of
from factrank.cli.support.outputs import require_output
from factrank.cli.support.sources import Sources, Table, reads_table, title
from factrank.cli.support.terminal import complain, display, progress, say
from factrank.errors import InputError

if TYPE_CHECKING:
    from factrank.databases import Database
    from factrank.experiments.models import Constructed

DEFAULT_BUDGET = 5.0
DEFAULT_FAMILY = "attention"


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
    family: Annotated[
        str,
        typer.Option(
            metavar="NAME", help="The kind of model: attention, or one whose size is given: memory, factual_recall."
        ),
    ] = DEFAULT_FAMILY,
    spec: SpecWords = None,
    seed: Annotated[int, typer.Option(min=0, help="Draws the embeddings of other families than attention.")] = 0,
    force: Annotated[bool, typer.Option("--force", help="Save the layer even if it is not certified.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Write a table of facts into the smallest attention layer that holds it, and prove that it recalls every fact.

    Or into a model of another family, whose size --spec gives. No training: the weights are given by formulas. The exit
    code is 1, and nothing is saved, where recall cannot be proved.
    """
    if output is not None:
        require_output(output)
    if family != DEFAULT_FAMILY:
        if share_tokens or minimise is not Aim.parameters or budget != DEFAULT_BUDGET:
            raise InputError("--minimise, --budget and --share-tokens are for attention layers, whose size is chosen")
        if only is not None and len(only) > 1:
            raise InputError(f"--only: name one form of the family {family}; got {', '.join(only)}")
    elif spec:
        raise InputError("--spec: the size of an attention layer follows from its facts; give another --family")
    database, asked = table.load(source), {} if precision is None else {"precision": precision.value}
    with progress().status("constructing"):
        if family == DEFAULT_FAMILY:
            more = {"minimise": minimise.value, "budget": budget, "share_tokens": share_tokens}
            found = _layer(database, only=only or None, **more, **asked)
        else:
            found = _sized(database, family, spec, only[0] if only else None, seed=seed, **asked)
    show(title(source), found, output, force=force, json=json)


def _layer(database: Database, **options: Any) -> Constructed:
    from factrank.families.attention.forms import construct as constructed  # noqa: PLC0415 - JAX takes a second to load

    return constructed(database, **options)


def _sized(database: Database, name: str, words: list[str] | None, form: str | None, **options: Any) -> Constructed:
    family = family_named(name)
    described = spec_of(family, words)
    refusal = family.refusal(described, database)
    if refusal is not None:
        raise InputError(refusal)
    return family.construct(database, described, form, **options)


def show(source: str, found: Constructed, output: Path | None, *, force: bool, json: bool) -> None:
    """Save what was constructed if it is certified, print it, and exit with 1 if it is not."""
    from factrank.report import constructed_table, json_text  # noqa: PLC0415

    written = output is not None and (found.certified or force)
    if output is not None and written:
        found.save(output)
    if json:
        say(json_text(found.to_dict() | {"layer": str(output) if written else None}))
    else:
        display(constructed_table(source, found))
        if written:
            say(f"saved to {output}")
    if not found.certified:
        note = "the layer is saved all the same" if written else "no layer is saved; --force would save it"
        complain(f"not certified; {note}")
        raise typer.Exit(1)
