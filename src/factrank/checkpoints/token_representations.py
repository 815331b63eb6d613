"""Token vectors of text or images in a model, at one of four stages."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import numpy as np
from jaxtyping import Float, Int, Integer, Num

from factrank.checkpoints.architectures import FAMILIES, Architecture, architecture_of
from factrank.checkpoints.checkpoint import TokenModel, random_weights, read_model
from factrank.checkpoints.configuration import Settings
from factrank.checkpoints.layers import STAGES, Tokens, TokenStage
from factrank.checkpoints.text import first_token, token_ids
from factrank.checkpoints.token_sources import SPECIAL_WORDS, digit_images, passage, windows, word_ids
from factrank.errors import InputError

TokenSource = Literal["digits", "passage", "uniform"]
SOURCES: tuple[TokenSource, ...] = ("digits", "passage", "uniform")
CONTEXT_SIZE, EXAMPLES = 16, 500
TINY_WIDTH, TINY_HEADS, TINY_POSITIONS = 64, 4, 512
TINY = {
    "hidden_size": TINY_WIDTH,
    "num_attention_heads": TINY_HEADS,
    "intermediate_size": 4 * TINY_WIDTH,
    "n_embd": TINY_WIDTH,
    "n_head": TINY_HEADS,
    "max_position_embeddings": TINY_POSITIONS,
    "n_positions": TINY_POSITIONS,
    "image_size": 8,
    "patch_size": 2,
    "num_channels": 1,
}
"""Settings of small models of all families."""


def tiny_family(name: str, vocabulary: int = 1) -> Architecture:
    """Return a small architecture of width 64 with 4 heads; a ViT has 16 patches of 2 x 2 pixels, for the digits."""
    if name not in FAMILIES:
        raise InputError(f"unknown family {name[:40]!r}; expected one of {', '.join(FAMILIES)}")
    return architecture_of(Settings(f"tiny {name}", {"model_type": name, "vocab_size": vocabulary} | TINY))


def text_contexts(
    model: TokenModel | None, text: str, context_size: int, examples: int
) -> tuple[Int[np.ndarray, "examples tokens"], tuple[str, ...]]:
    """Return the contexts of a text as token numbers, and the vocabulary if it was built from the text.

    Uses the tokeniser of the model's folder if there is one. Contexts of BERT start with [CLS], which counts as a
    token.
    """
    bert = model is None or model.family.layout is FAMILIES["bert"]
    vocabulary: tuple[str, ...] = ()
    if model is None or model.folder is None:
        ids, vocabulary = word_ids(text)
        first = SPECIAL_WORDS.index("[CLS]")
    else:
        ids, first = token_ids(text, model.folder), first_token(model.folder) if bert else 0
    if not bert:
        return windows(ids, context_size, examples), vocabulary
    if context_size < 2:
        raise InputError(f"a context of BERT needs [CLS] and at least one more token; got a size of {context_size}")
    return with_first(windows(ids, context_size - 1, examples), first), vocabulary


def with_first(ids: Integer[np.ndarray, "examples tokens"], first: int) -> Int[np.ndarray, "examples more"]:
    """Prepend a token to each context."""
    return np.insert(np.asarray(ids, dtype=np.int64), 0, first, axis=1)


def tiny_model(family: str, text: str, seed: int) -> TokenModel:
    """Return a small random model with the vocabulary of the text."""
    sizes = tiny_family(family, len(word_ids(text)[1]))
    return TokenModel(sizes, random_weights(sizes, seed))


def tokens_of(model: TokenModel, inputs: Num[np.ndarray, "..."], stage: TokenStage) -> Tokens:
    """Return the token vectors of token numbers or images at a stage."""
    if stage not in STAGES:
        raise InputError(f"unknown stage {str(stage)[:40]!r}; expected one of {', '.join(STAGES)}")
    dimensions = 2 if model.family.layout.reads == "ids" else 4
    if inputs.ndim != dimensions or 0 in inputs.shape:
        kind = "token numbers [examples, tokens]" if dimensions == 2 else "images [examples, channels, rows, columns]"
        raise InputError(f"expected {kind}; got shape {inputs.shape}")
    return model.family.tokens(model.weights, inputs, stage)


def query_position(family: str) -> int:
    """Return the position of the query: 0 ([CLS]) for ViT and BERT, -1 (the last token) for GPT-2.

    >>> query_position("gpt2")
    -1
    """
    return FAMILIES[family].query_position if family in FAMILIES else 0


def representations(
    source: TokenSource,
    family: str = "bert",
    stage: TokenStage = "attention",
    *,
    folder: Path | None = None,
    seed: int = 0,
    context_size: int = CONTEXT_SIZE,
    examples: int = EXAMPLES,
) -> Float[np.ndarray, "examples tokens width"]:
    """Return contexts [B, n, d] of the digits, of the bundled passage, or of vectors uniform in [0, 1)^64.

    Arguments:
        source: `digits` for ViT, `passage` for BERT and GPT-2, `uniform` for vectors without a model.
        family: Family of a small random model; ignored if a folder is given.
        stage: `embedding`, `positions`, `attention` or `block`.
        folder: Checkpoint with pretrained weights.
        seed: Seed of the random weights or vectors.
        context_size: Tokens per context; ignored for images, whose size is given by the model.
        examples: Maximum number of contexts.

    >>> representations("passage", "gpt2", context_size=8, examples=3).shape
    (3, 8, 64)
    """
    if source == "uniform":
        rng = np.random.default_rng(seed)
        return rng.uniform(size=(examples, context_size, TINY_WIDTH))
    if source not in SOURCES:
        raise InputError(f"unknown source {str(source)[:40]!r}; expected one of {', '.join(SOURCES)}")
    text = passage()
    model = read_model(folder) if folder is not None else tiny_model(family, text, seed)
    reads = "images" if source == "digits" else "ids"
    layout = model.family.layout
    if layout.reads != reads:
        raise InputError(f"{layout.title} reads {layout.reads}, but {source} are {reads}")
    if source == "digits":
        return tokens_of(model, digit_images(examples), stage)
    return tokens_of(model, text_contexts(model, text, context_size, examples)[0], stage)
