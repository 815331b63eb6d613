"""`factrank audit`: what the attention heads of a real model can hold."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from factrank.cli.support.outputs import require_page
from factrank.cli.support.terminal import Json, display, progress, say, say_json
from factrank.errors import InputError

Checkpoint = Annotated[
    Path,
    typer.Argument(metavar="PATH", help="A Hugging Face folder with safetensors, a GGUF file, or a LoRA folder."),
]
Layers = Annotated[
    str | None, typer.Option(metavar="LIST", help="Layers to audit, from 0, such as 0,5,10-12; all by default.")
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
    json: Json = False,
    html: Annotated[
        Path | None, typer.Option(metavar="OUT", help="Also write a page with heat maps to this .html file.")
    ] = None,
) -> None:
    """Measure the circuits of every attention head in a checkpoint.

    Reports ranks, effective ranks and stable ranks of QK and OV from their factors, per head, group and layer, and the
    most facts that the weights can hold. A LoRA folder is audited update by update. Nothing in a file is executed.

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
    if html is not None:
        from factrank.report.audits import write_audit_page  # noqa: PLC0415 - charts take a second to load

        write_audit_page(found, html)
    if json:
        say_json(found.to_dict())
        return
    from factrank.report.audits import describe_audit  # noqa: PLC0415

    display(describe_audit(found))
    if html is not None:
        say(f"\nwrote {html}")


def _numbers(text: str) -> list[int]:
    """Return the numbers of a list such as 0,5,10-12."""
    try:
        ends = [[int(end) for end in part.split("-")] for part in text.split(",")]
        if any(len(end) > 2 or end[-1] - end[0] > 10_000 for end in ends):
            raise ValueError
        return [number for end in ends for number in range(end[0], end[-1] + 1)]
    except ValueError:
        raise InputError(f"--layers: expected numbers such as 0,5,10-12; got {text[:40]!r}") from None
