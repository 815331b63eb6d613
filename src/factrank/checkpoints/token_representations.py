"""Contexts of token vectors: real text or images as a model sees them, at one of four stages."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import numpy as np
from jaxtyping import Float, Int, Integer, Num

from factrank.checkpoints.bert import Bert
from factrank.checkpoints.checkpoint import FAMILIES, Architecture, TokenModel, random_weights, read_model
from factrank.checkpoints.gpt2 import Gpt2
from factrank.checkpoints.layers import STAGES, Tokens, TokenStage
from factrank.checkpoints.text import first_token, token_ids
from factrank.checkpoints.token_sources import SPECIAL_WORDS, digit_images, passage, windows, word_ids
from factrank.checkpoints.vit import Vit
from factrank.errors import InputError

TokenSource = Literal["digits", "passage", "uniform"]
SOURCES: tuple[TokenSource, ...] = ("digits", "passage", "uniform")
CONTEXT_SIZE, EXAMPLES = 16, 500
TINY_WIDTH, TINY_HEADS = 64, 4
TINY_POSITIONS = 512


def tiny_family(name: str, vocabulary: int = 1) -> Architecture:
    """A small model of a family: width 64, 4 heads; a ViT for the digits has 16 patches of 2 x 2 pixels."""
    sizes = (TINY_WIDTH, TINY_HEADS, 4 * TINY_WIDTH)
    if name == "vit":
        return Vit(*sizes, image_size=8, patch_size=2, channels=1)
    if name == "bert":
        return Bert(*sizes, vocabulary=vocabulary, positions=TINY_POSITIONS)
    if name == "gpt2":
        return Gpt2(*sizes, vocabulary=vocabulary, positions=TINY_POSITIONS)
    raise InputError(f"the family {name[:40]!r} is not known; there are {', '.join(FAMILIES)}")


def text_contexts(
    model: TokenModel | None, text: str, context_size: int, examples: int
) -> tuple[Int[np.ndarray, "examples tokens"], tuple[str, ...]]:
    """The contexts of a text as token numbers, and the vocabulary where it was made from the text itself.

    A folder's own tokeniser is used where there is one; contexts of BERT begin with [CLS], which counts as a token.
    """
    bert = model is None or isinstance(model.family, Bert)
    vocabulary: tuple[str, ...] = ()
    if model is None or model.folder is None:
        ids, vocabulary = word_ids(text)
        first = SPECIAL_WORDS.index("[CLS]")
    else:
        ids, first = token_ids(text, model.folder), first_token(model.folder) if bert else 0
    if not bert:
        return windows(ids, context_size, examples), vocabulary
    if context_size < 2:
        raise InputError(f"a context of BERT is [CLS] and at least one more token; got a size of {context_size}")
    return with_first(windows(ids, context_size - 1, examples), first), vocabulary


def with_first(ids: Integer[np.ndarray, "examples tokens"], first: int) -> Int[np.ndarray, "examples more"]:
    """Each context behind one more token."""
    return np.insert(np.asarray(ids, dtype=np.int64), 0, first, axis=1)


def tiny_model(family: str, text: str, seed: int) -> TokenModel:
    """A small random model; its vocabulary is that of the text."""
    sizes = tiny_family(family, len(word_ids(text)[1]))
    return TokenModel(sizes, random_weights(sizes, seed))


def tokens_of(model: TokenModel, inputs: Num[np.ndarray, "..."], stage: TokenStage) -> Tokens:
    """The contexts of a model for token numbers or images, at a stage."""
    if stage not in STAGES:
        raise InputError(f"the stage {str(stage)[:40]!r} is not known; there are {', '.join(STAGES)}")
    dimensions = 2 if model.family.reads == "ids" else 4
    if inputs.ndim != dimensions or 0 in inputs.shape:
        kind = "token numbers [examples, tokens]" if dimensions == 2 else "images [examples, channels, rows, columns]"
        raise InputError(f"expected {kind}; got the shape {inputs.shape}")
    return model.family.tokens(model.weights, inputs, stage)


def query_position(family: str) -> int:
    """Where the query is: [CLS] at the beginning for ViT and BERT, the last token for GPT-2."""
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
    """Contexts [B, n, d] of the digits, of the bundled passage, or of vectors uniform in [0, 1)^64.

    Arguments:
        source: `digit_images` for ViT, `passage` for BERT and GPT-2, `uniform` for vectors without a model.
        family: the family of a small random model (not used where there is a folder).
        stage: `embedding`, `positions`, `attention` or `block`.
        folder: a checkpoint with pretrained weights.
        seed: draws the random weights or vectors.
        context_size: n; for images it follows from the model.
        examples: at most so many contexts.
    """
    if source == "uniform":
        rng = np.random.default_rng(seed)
        return rng.uniform(size=(examples, context_size, TINY_WIDTH))
    if source not in SOURCES:
        raise InputError(f"the source {str(source)[:40]!r} is not known; there are {', '.join(SOURCES)}")
    text = passage()
    model = read_model(folder) if folder is not None else tiny_model(family, text, seed)
    reads = "images" if source == "digits" else "ids"
    if model.family.reads != reads:
        raise InputError(f"{model.family.title} reads {model.family.reads}; {source} are {reads}")
    if source == "digits":
        return tokens_of(model, digit_images(examples), stage)
    return tokens_of(model, text_contexts(model, text, context_size, examples)[0], stage)
