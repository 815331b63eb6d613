"""`factrank audit`: what the attention heads of a real model can hold."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from factrank.cli.support.outputs import require_page
from factrank.cli.support.sources import SAMPLE_PREFIX
from factrank.cli.support.sources import Table as AnyTable
from factrank.cli.support.terminal import Json, display, progress, say, say_json
from factrank.errors import InputError

if TYPE_CHECKING:
    from factrank.auditing import FactsInWeights, ForwardCheck, LoraAudit, ModelAudit

Checkpoint = Annotated[
    Path,
    typer.Argument(metavar="PATH", help="A Hugging Face folder with safetensors, a GGUF file, or a LoRA folder."),
]
Layers = Annotated[
    str | None, typer.Option(metavar="LIST", help="Layers to audit, from 0, such as 0,5,10-12; all by default.")
]

MOST_LAYERS, LONGEST_RANGE = 10_000, 40

Tokens = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Tokens for the facts, one per line; frequent ones by default."),
]


def audit(
    path: Checkpoint,
    layers: Layers = None,
    fold: Annotated[
        Literal["norm"] | None, typer.Option(help="Fold the norms into the circuits; not folded by default.")
    ] = None,
    tolerance: Annotated[
        float | None,
        typer.Option(
            metavar="X",
            help="Fraction of the largest singular value that counts as zero; by default, what rounding to the stored "
            "type may have changed.",
        ),
    ] = None,
    values: Annotated[
        int | None,
        typer.Option(min=2, metavar="N", help="Values of a table of facts; the vocabulary by default."),
    ] = None,
    facts: Annotated[
        bool, typer.Option("--facts", help="Also list the strongest skip trigrams and copying scores of each head.")
    ] = False,
    tokens: Tokens = None,
    table: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="Also measure the recall of this table, whose names are single tokens."),
    ] = None,
    check: Annotated[
        bool,
        typer.Option(
            "--check",
            help="Also compare attention with a forward pass of transformers (extra torch); exit code 1 if it differs.",
        ),
    ] = False,
    json: Json = False,
    html: Annotated[
        Path | None,
        typer.Option(metavar="OUT", help="Also write a page with heat maps, facts and tables to this .html file."),
    ] = None,
) -> None:
    """Measure the circuits of every attention head in a checkpoint.

    Reports ranks, effective ranks and stable ranks of QK and OV from their factors, per head, group and layer, and the
    most facts that the weights can hold. A LoRA folder is audited update by update. A .safetensors file is a language
    model that factrank saved. Nothing in a file is executed.

    Example: factrank audit model.gguf --fold norm --html audit.html
    """
    from factrank.auditing import audit as audited  # noqa: PLC0415 - SciPy takes a moment to load

    if html is not None:
        require_page(html)
    chosen = None if layers is None else _numbers(layers)
    with progress().status("auditing") as status:
        found = audited(
            path,
            layers=chosen,
            fold=fold,
            tolerance=tolerance,
            n_values=values,
            progress=lambda what: status.update(f"auditing: {what}"),
        )
        entries = facts or tokens is not None
        held = _facts(path, chosen, tokens, table, entries, status.update) if entries or table else None
        checked = _checked(path, chosen, status.update) if check else None
    if html is not None:
        from factrank.report.audits import write_audit_page  # noqa: PLC0415 - charts take a second to load

        write_audit_page(found, html, facts=held, check=checked)
    if json:
        more = {"facts": held, "check": checked}
        say_json(found.to_dict() | {name: each.to_dict() for name, each in more.items() if each is not None})
    else:
        _show(found, held, checked)
        if html is not None:
            say(f"\nwrote {html}")
    if checked is not None and not checked.agrees:
        raise typer.Exit(1)


def _show(found: ModelAudit | LoraAudit, held: FactsInWeights | None, checked: ForwardCheck | None) -> None:
    from factrank.report.audits import describe_audit, describe_check, describe_facts  # noqa: PLC0415

    display(describe_audit(found))
    if held is not None:
        display("", describe_facts(held))
    if checked is not None:
        display("", describe_check(checked))


def _checked(path: Path, layers: list[int] | None, say: Callable[[str], None]) -> ForwardCheck:
    from factrank.auditing import check_forward  # noqa: PLC0415

    return check_forward(path, layers=layers, progress=lambda what: say(f"checking: {what}"))


def _facts(
    path: Path,
    layers: list[int] | None,
    tokens: Path | None,
    table: str | None,
    entries: bool,
    say: Callable[[str], None],
) -> FactsInWeights:
    from factrank.auditing import facts_in_weights  # noqa: PLC0415

    facts = AnyTable().load([table]) if table is not None and table.startswith(SAMPLE_PREFIX) else table
    return facts_in_weights(path, layers=layers, tokens=tokens, table=facts, entries=entries, progress=say)


def _numbers(text: str) -> list[int]:
    """Return the numbers of a list such as 0,5,10-12."""
    numbers: list[int] = []
    for part in text.split(","):
        first, dash, last = part.strip().partition("-")
        if not (first.isdecimal() and (last.isdecimal() or not dash)) or len(part) > LONGEST_RANGE:
            raise InputError(f"--layers: expected numbers such as 0,5,10-12; got {text[:40]!r}")
        start, stop = int(first), int(last or first)
        if not start <= stop <= MOST_LAYERS:
            expected = f"at most {MOST_LAYERS:,}" if stop > MOST_LAYERS else f"the smaller number first: {stop}-{start}"
            raise InputError(f"--layers: {part.strip()!r} is no range of layers; expected {expected}")
        numbers += range(start, stop + 1)
    return numbers
