"""`factrank extract`: the table of facts that one layer of a checkpoint holds."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from factrank.cli.checkpoints.audit import Checkpoint, Tokens
from factrank.cli.support.terminal import Json, progress, say_result


def extract(
    path: Checkpoint,
    output: Annotated[
        Path, typer.Option("-o", "--output", metavar="FILE", help="Table to write, such as facts.parquet.")
    ],
    layer: Annotated[int, typer.Option(min=0, metavar="N", help="Layer, from 0.")] = 0,
    tokens: Tokens = None,
    json: Json = False,
) -> None:
    """Write the answers of one attention layer as a table of facts.

    The key token precedes the query token; the value is the token with the largest logit on the path embedding,
    attention layer, unembedding. `factrank measure` reads the table.

    Example: factrank extract model.gguf -o facts.parquet
    """
    from factrank.auditing import extract as extracted  # noqa: PLC0415 - SciPy takes a moment to load
    from factrank.databases.files import write  # noqa: PLC0415

    with progress().status("extracting"):
        found = extracted(path, layer, tokens=tokens)
    write(found, output)
    sizes = dict(zip(("keys", "queries", "values"), found.shape, strict=True))
    text = f"wrote {found.n_facts:,} facts of layer {layer} to {output}: {sizes['values']:,} different values"
    say_result(text, {"layer": layer, "output": str(output), "facts": found.n_facts, **sizes}, json=json)
