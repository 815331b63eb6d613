"""`factrank solve`: token vectors memorised by one linear solve, with a proof that every label is answered."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from factrank.cli.construct import PrecisionWanted, show
from factrank.cli.support.model_words import SpecWords, family_named, spec_of
from factrank.cli.support.outputs import require_output
from factrank.cli.support.terminal import progress
from factrank.errors import InputError

if TYPE_CHECKING:
    from factrank.audit import TokenVectors

FAMILY = "memoriser"


def solve(
    source: Annotated[
        str,
        typer.Argument(
            metavar="FILE|FOLDER|random:FAMILY|minilm",
            help="Contexts of vectors, contexts x tokens x dimension, in a .npy or .safetensors file, or a model, as "
            "`factrank assumptions` reads them.",
        ),
    ],
    labels: Annotated[
        Path | None,
        typer.Option(metavar="FILE.npy", help="A label for each query: whole numbers are classes. Drawn if not given."),
    ] = None,
    classes: Annotated[
        int | None, typer.Option(min=2, help="Draw classes, so many of them; real labels in [0, 1) if not given.")
    ] = None,
    tensor: Annotated[str | None, typer.Option(metavar="NAME", help="Which tensor of a .safetensors file.")] = None,
    query: Annotated[
        Literal["model", "first", "last", "all"], typer.Option(help="Which token of a context is its query.")
    ] = "model",
    spec: SpecWords = None,
    tolerance: Annotated[
        float | None, typer.Option(help="How far from a real label an answer may be; 0.0001 if not given.")
    ] = None,
    precision: Annotated[
        PrecisionWanted, typer.Option(help="The type of the weights; in float32 little can be proved.")
    ] = PrecisionWanted.float64,
    seed: Annotated[int, typer.Option(min=0, help="Draws queries and keys, and labels that are not given.")] = 0,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="Save the memoriser here, as .safetensors.", metavar="FILE")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Save it even if it is not certified.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Memorise the labels of token vectors with a memoriser in closed form, and prove that it answers every one.

    Queries and keys are drawn, and the values are one linear solve. The exit code is 1, and nothing is saved, where
    recall cannot be proved: there are more labels than the rank, which `factrank solve` says.
    """
    if output is not None:
        require_output(output)
    if labels is not None and classes is not None:
        raise InputError("--classes is for labels that are drawn: leave it or --labels out")
    from factrank.audit import Request, token_vectors  # noqa: PLC0415 - JAX takes a second to load

    family = family_named(FAMILY)
    with progress().status("solving"):
        tokens = token_vectors(Request(source, tensor=tensor, query=query, seed=seed))
        examples = _examples(tokens, source, labels, classes, seed)
        allowed: dict[str, Any] = {} if tolerance is None else {"tolerance": tolerance}
        found = family.construct(examples, spec_of(family, spec), precision=precision.value, seed=seed, **allowed)
    show(tokens.title, found, output, force=force, json=json)


def _examples(tokens: TokenVectors, source: str, labels: Path | None, classes: int | None, seed: int) -> Any:
    """The queries in their contexts, with the labels of a file or drawn ones."""
    import numpy as np  # noqa: PLC0415

    from factrank.audit import read_array  # noqa: PLC0415
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
