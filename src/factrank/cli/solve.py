"""`factrank solve`: memorise labels of token vectors by one linear solve, and prove that it answers all of them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from factrank.cli.assumptions import QueryToken, Tensor
from factrank.cli.construct import PrecisionName, show
from factrank.cli.support.model_words import SpecWords, family_named, spec_of
from factrank.cli.support.outputs import require_output
from factrank.cli.support.terminal import Json, progress
from factrank.errors import InputError

if TYPE_CHECKING:
    from factrank.auditing import TokenVectors

FAMILY = "memoriser"


def solve(
    source: Annotated[
        str,
        typer.Argument(
            metavar="VECTORS",
            help="Contexts of vectors, contexts x tokens x dimension, in a .npy or .safetensors file, or any model "
            "that `factrank assumptions` reads.",
        ),
    ],
    labels: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE.npy", help="A label for each query; whole numbers are classes. By default, random labels."
        ),
    ] = None,
    classes: Annotated[
        int | None,
        typer.Option(min=2, metavar="N", help="Draw labels from N classes; by default, real labels in [0, 1)."),
    ] = None,
    tensor: Tensor = None,
    query: QueryToken = "model",
    spec: SpecWords = None,
    tolerance: Annotated[
        float | None, typer.Option(metavar="X", help="Largest error allowed on real labels; 0.0001 by default.")
    ] = None,
    precision: Annotated[
        PrecisionName, typer.Option(help="Type of the weights; little can be proved in float32.")
    ] = "float64",
    seed: Annotated[
        int, typer.Option(min=0, metavar="N", help="Seed of the queries and keys, and of random labels.")
    ] = 0,
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", help="Save the memoriser to this .safetensors file.", metavar="FILE"),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Save the memoriser even if it is not certified.")] = False,
    json: Json = False,
) -> None:
    """Memorise labels of token vectors by one linear solve.

    Queries and keys are random, and the values solve a linear system; then every label is proved to be answered. If
    that cannot be proved, as when there are more labels than the rank of the system, nothing is saved and the exit
    code is 1.

    Example: factrank solve contexts.npy --classes 3 -o memoriser.safetensors
    """
    if output is not None:
        require_output(output)
    if labels is not None and classes is not None:
        raise InputError("--classes draws random labels, which --labels replaces: give one of them")
    from factrank.auditing import Request, token_vectors  # noqa: PLC0415 - JAX takes a second to load

    family = family_named(FAMILY)
    with progress().status("solving"):
        tokens = token_vectors(Request(source, tensor=tensor, query=query, seed=seed))
        examples = _examples(tokens, source, labels, classes, seed)
        allowed: dict[str, Any] = {} if tolerance is None else {"tolerance": tolerance}
        found = family.construct(examples, spec_of(family, spec), precision=precision, seed=seed, **allowed)
    show(tokens.title, found, output, force=force, json=json)


def _examples(tokens: TokenVectors, source: str, labels: Path | None, classes: int | None, seed: int) -> Any:
    """Return the queries and their contexts with labels from a file, or with random labels."""
    import numpy as np  # noqa: PLC0415

    from factrank.auditing import read_array  # noqa: PLC0415
    from factrank.families.memoriser.examples import VectorExamples  # noqa: PLC0415

    if tokens.contexts is None:
        raise InputError(f"{source}: a list of vectors has no contexts; expected [contexts, tokens, dimension]")
    n_queries, n_contexts = len(tokens.queries), len(tokens.contexts)
    if labels is not None:
        given = read_array(labels)
        if given.shape != (n_queries,):
            raise InputError(f"{labels}: expected {n_queries} labels, one for each query; got shape {given.shape}")
    else:
        rng = np.random.default_rng([seed, 1])
        given = rng.random(n_queries) if classes is None else rng.integers(classes, size=n_queries)
    context_of = np.repeat(np.arange(n_contexts), n_queries // n_contexts)
    return VectorExamples.of(tokens.queries, tokens.contexts, given, context_of=context_of, n_classes=classes)
