"""Token vectors of a file, a checkpoint folder or a small random model.

An example is a context of n tokens, including its query. Text is cut into windows of n tokens, spread evenly over it
(for BERT, [CLS] and n - 1 tokens); an image is [CLS] and its patches. The query is the token that the model is read
from: [CLS] for ViT and BERT, as in the authors' notebooks, and the last token for GPT-2.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
from jaxtyping import Num

from factrank.auditing.vector_files import read_ids, read_images, read_vectors
from factrank.checkpoints import (
    BUNDLED_NAME,
    CONTEXT_SIZE,
    EXAMPLES,
    TokenModel,
    TokenStage,
    bundled_folder,
    digit_images,
    passage,
    random_weights,
    read_family,
    read_model,
    text_contexts,
    tiny_model,
    tokens_of,
    windows,
)
from factrank.databases import reading, source_file
from factrank.errors import InputError
from factrank.families.memoriser.ranks import queries_of

RANDOM_PREFIX, SAMPLE_PREFIX = "random:", "sample:"
MOST_TEXT = 2**26
STAGE: TokenStage = "attention"

Query = Literal["model", "first", "last", "all"]
"""Which token is the query: the model's default, the first, the last, or each in turn."""


@dataclass(frozen=True)
class Request:
    """Which vectors to compute: the source, the input of a model, and the stage.

    None selects the default. Files of vectors have no stage and are used completely.
    """

    source: str
    stage: TokenStage | None = None
    text: str | None = None
    images: str | None = None
    ids: Path | None = None
    tensor: str | None = None
    random: bool = False
    context_size: int | None = None
    examples: int | None = None
    query: Query = "model"
    with_mean: bool = False
    seed: int = 0


@dataclass(frozen=True, eq=False)
class TokenVectors:
    """Queries [N, d], contexts [B, n, d] or None, and a description."""

    queries: Num[np.ndarray, "q d"]
    contexts: Num[np.ndarray, "b n d"] | None
    context_size: int | None
    title: str


def token_vectors(request: Request) -> TokenVectors:
    """Return the queries and contexts of a request."""
    source = Path(request.source)
    if request.source.startswith(RANDOM_PREFIX) or request.source == BUNDLED_NAME or source.is_dir():
        return _of_model(request)
    _refuse(request, "a file of vectors", ("text", "images", "ids", "random", "stage", "examples"))
    vectors = read_vectors(source, request.tensor)
    if vectors.ndim == 2:
        if request.query != "model" or request.with_mean:
            raise InputError(f"{source}: a list of vectors has no contexts; every vector is a query")
        return TokenVectors(vectors, None, request.context_size, f"{len(vectors):,} vectors of {source}")
    if request.context_size not in (None, vectors.shape[1]):
        raise InputError(f"{source}: the contexts have {vectors.shape[1]} tokens; omit --context-size")
    return _of_contexts(vectors, request, 0, str(source))


def _of_model(request: Request) -> TokenVectors:
    if request.tensor is not None:
        raise InputError("--tensor is for files of vectors")
    given = [name for name in ("text", "images", "ids") if getattr(request, name) is not None]
    if len(given) > 1:
        raise InputError(f"a model reads one input: use --{given[0]} or --{given[1]}, not both")
    text = passage() if request.text is None else _text(request.text)
    model = _model(request, text)
    name = model.family.layout.title
    if model.family.layout.reads == "images":
        _refuse(request, name, ("text", "ids", "context_size"))
        inputs, data = _images(request), request.images or "sample:digits"
    elif request.ids is not None:
        inputs, data = _ids(request), str(request.ids)
    else:
        _refuse(request, name, ("images",))
        size = CONTEXT_SIZE if request.context_size is None else request.context_size
        inputs, data = text_contexts(model, text, size, _most(request))[0], request.text or "sample:passage"
    stage = request.stage or STAGE
    contexts = tokens_of(model, inputs, stage)
    kind = "random" if request.random or request.source.startswith(RANDOM_PREFIX) else "pretrained"
    title = f"{data} in {request.source} ({kind} {name}), stage {stage}"
    return _of_contexts(contexts, request, model.family.layout.query_position, title)


def _model(request: Request, text: str) -> TokenModel:
    if request.source.startswith(RANDOM_PREFIX):
        if request.ids is not None:
            raise InputError(f"{request.source}: a small random model has its own vocabulary; omit --ids")
        return tiny_model(request.source.removeprefix(RANDOM_PREFIX), text, request.seed)
    folder = bundled_folder() if request.source == BUNDLED_NAME else Path(request.source)
    if not request.random:
        return read_model(folder)
    family = read_family(folder)
    return TokenModel(family, random_weights(family, request.seed), folder)


def _of_contexts(contexts: Num[np.ndarray, "b n d"], request: Request, position: int, title: str) -> TokenVectors:
    n = contexts.shape[1]
    if request.query == "all":
        if request.with_mean:
            raise InputError("--with-mean adds the mean to one query per context; omit it or --query all")
        queries, which = contexts.reshape(-1, contexts.shape[2]), "every token"
    else:
        position = {"model": position, "first": 0, "last": -1}[request.query]
        queries = queries_of(contexts, position, with_mean=request.with_mean)
        which = "the last token" if position else "the first token"
    mean = " + the mean of its context" if request.with_mean else ""
    return TokenVectors(queries, contexts, n, f"{title}; queries: {which}{mean}")


def _text(name: str) -> str:
    if name.startswith(SAMPLE_PREFIX):
        if name != f"{SAMPLE_PREFIX}passage":
            raise InputError(f"{name}: the bundled text is {SAMPLE_PREFIX}passage")
        return passage()
    with source_file(name) as source, reading(source) as stream:
        content = stream.read(MOST_TEXT + 1)
    if len(content) > MOST_TEXT:
        raise InputError(f"{name}: more than {MOST_TEXT >> 20} MiB of text")
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        raise InputError(f"{name}: not UTF-8 text ({error})") from None


def _images(request: Request) -> Num[np.ndarray, "examples channels rows columns"]:
    if request.images is None or request.images == f"{SAMPLE_PREFIX}digits":
        return digit_images(_most(request))
    if request.images.startswith(SAMPLE_PREFIX):
        raise InputError(f"{request.images}: the bundled images are {SAMPLE_PREFIX}digits")
    return read_images(Path(request.images))[: _most(request)]


def _ids(request: Request) -> Num[np.ndarray, "examples tokens"]:
    assert request.ids is not None  # noqa: S101
    ids = read_ids(request.ids)
    if ids.ndim == 1:
        return windows(ids, CONTEXT_SIZE if request.context_size is None else request.context_size, _most(request))
    if request.context_size not in (None, ids.shape[1]):
        raise InputError(f"{request.ids}: the examples have {ids.shape[1]} tokens; omit --context-size")
    return ids[: _most(request)]


def _most(request: Request) -> int:
    return EXAMPLES if request.examples is None else request.examples


def _refuse(request: Request, what: str, names: tuple[str, ...]) -> None:
    empty = Request(request.source)
    for name in names:
        if getattr(request, name) != getattr(empty, name):
            raise InputError(f"{what} does not take --{name.replace('_', '-')}")
