"""`factrank construct`: write facts into a model in closed form, and prove that it recalls every one of them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from factrank.cli.support.model_words import SpecWords, family_named, spec_of
from factrank.cli.support.outputs import require_output
from factrank.cli.support.sources import Sources, Table, reads_table, title
from factrank.cli.support.terminal import Json, complain, display, progress, say, say_json
from factrank.errors import InputError

if TYPE_CHECKING:
    from factrank.databases import Database
    from factrank.experiments.models import Constructed

DEFAULT_FAMILY = "attention"


PrecisionName = Literal["float64", "float32", "bfloat16"]
"""The members of `factrank.nn.Precision`, without importing JAX."""

Output = Annotated[
    Path | None, typer.Option("-o", "--output", help="Save the layer to this .safetensors file.", metavar="FILE")
]
Minimised = Annotated[
    Literal["parameters", "heads", "d_model", "bits"] | None,
    typer.Option("--minimise", "--minimize", help="Quantity to minimise; parameters by default."),
]
Maximised = Annotated[
    Literal["margin"] | None,
    typer.Option(
        "--maximise", "--maximize", help="Maximise the least margin instead; this builds every form that fits."
    ),
]
WeightPrecision = Annotated[
    PrecisionName | None,
    typer.Option(help="Type of the weights. By default float32; with --minimise bits, the best of all three."),
]
MethodName = Annotated[
    Literal["formula", "trained", "any"],
    typer.Option(help="Closed forms; layers that are trained, rounded and certified; or the smaller of both."),
]
Budget = Annotated[
    float | None,
    typer.Option(
        min=0.0,
        metavar="SECONDS",
        help="Search time: 5 for closed forms that leave a choice, 60 for training by default. "
        "The form logits counts seconds of computing.",
        show_default=False,
    ),
]
Only = Annotated[list[str] | None, typer.Option(help="Consider this form only. Repeatable.", metavar="FORM")]
Tau = Annotated[
    float | None,
    typer.Option(metavar="P", help="Also prove that every fact has this probability; logits are scaled exactly."),
]
Abstain = Annotated[
    Literal["unknown", "quiet"] | None,
    typer.Option(
        help="Also prove that the layer is not confident where there is no fact: it answers a reserved value "
        "(unknown), or no value has the probability --tau there (quiet). --tau is 0.95 by default."
    ),
]
ShareTokens = Annotated[
    bool, typer.Option("--share-tokens", help="Give a name that is both key and query one embedding row.")
]
FamilyName = Annotated[
    str,
    typer.Option(metavar="NAME", help="Model family: attention, or memory or factual_recall, sized by --spec."),
]
Seed = Annotated[
    int,
    typer.Option(min=0, metavar="N", help="Seed of trained layers, and of the random embeddings of other families."),
]
Force = Annotated[bool, typer.Option("--force", help="Save the layer even if it is not certified.")]


@reads_table
def construct(
    source: Sources,
    table: Table,
    output: Output = None,
    minimise: Minimised = None,
    maximise: Maximised = None,
    precision: WeightPrecision = None,
    method: MethodName = "formula",
    budget: Budget = None,
    only: Only = None,
    tau: Tau = None,
    abstain: Abstain = None,
    share_tokens: ShareTokens = False,
    family: FamilyName = DEFAULT_FAMILY,
    spec: SpecWords = None,
    seed: Seed = 0,
    force: Force = False,
    json: Json = False,
) -> None:
    """Write facts into a small layer that provably recalls them.

    The layer is the smallest of what was tried: a dozen closed forms or, with --method trained or any, layers that are
    trained in smaller and smaller sizes until --budget ends. A certificate proves that it recalls every fact. If none
    is found, nothing is saved and the exit code is 1. A search by training is kept in FILE.search next to the output:
    after a kill, or with more time, the same command resumes it. With --family the facts are written into another
    kind of model, whose size --spec gives.

    Example: factrank construct facts.csv -o layer.safetensors
    """
    if output is not None:
        require_output(output)
    if minimise is not None and maximise is not None:
        raise InputError("--minimise and --maximise exclude each other: give one of them")
    chosen = share_tokens or minimise or maximise or abstain or method != "formula"
    if family == DEFAULT_FAMILY and spec:
        raise InputError("--spec: the size of an attention layer follows from its facts; choose another --family")
    if family != DEFAULT_FAMILY:
        if chosen or budget is not None or tau is not None:
            raise InputError(
                "--method, --minimise, --maximise, --budget, --tau, --abstain and --share-tokens are for attention "
                "layers, whose size is chosen"
            )
        if only is not None and len(only) > 1:
            raise InputError(f"--only: give one form of the family {family}; got {', '.join(only)}")
    database = table.load(source)
    with progress().status("constructing") as status:
        if family == DEFAULT_FAMILY:
            from factrank.families.attention.searching import construct as best_form  # noqa: PLC0415 - loads JAX

            found = best_form(
                database,
                precision,
                minimise,
                budget,
                maximise=maximise,
                share_tokens=share_tokens,
                only=only or None,
                tau=tau,
                abstain=abstain,
                method=method,
                folder=None if output is None else output.with_name(f"{output.name}.search"),
                seed=seed,
                report=status.update,
            )
        else:
            options = {"seed": seed} | ({} if precision is None else {"precision": precision})
            found = _sized(database, family, spec, only[0] if only else None, **options)
    show(title(source), found, output, force=force, json=json)


def _sized(database: Database, name: str, words: list[str] | None, form: str | None, **options: Any) -> Constructed:
    family = family_named(name)
    described = spec_of(family, words)
    refusal = family.refusal(described, database)
    if refusal is not None:
        raise InputError(refusal)
    return family.construct(database, described, form, **options)


def show(source: str, found: Constructed, output: Path | None, *, force: bool, json: bool) -> None:
    """Print a constructed model and save it if it is certified; otherwise exit with code 1."""
    from factrank.report import constructed_table  # noqa: PLC0415

    written = output is not None and (found.certified or force)
    if output is not None and written:
        found.save(output)
    if json:
        say_json(found.to_dict() | {"layer": str(output) if written else None})
    else:
        display(constructed_table(source, found))
        if written:
            say(f"saved to {output}")
    if not found.certified:
        note = "the layer was saved because of --force" if written else "nothing was saved; --force saves it anyway"
        complain(f"not certified; {note}")
        raise typer.Exit(1)
