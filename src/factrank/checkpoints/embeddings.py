"""Embeddings of token numbers (BERT, GPT-2) and of image patches (ViT)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Integer, Num

from factrank.checkpoints.configuration import Settings, require_ids
from factrank.checkpoints.layers import Part, Tokens, Weights, layer_norm, norm_parts
from factrank.errors import InputError

BERT_TABLES = tuple(f"embeddings.{name}_embeddings.weight" for name in ("word", "position", "token_type"))
GPT2_TABLES = ("wte.weight", "wpe.weight")
BERT_NORM = "embeddings.LayerNorm"
PATCHES = "embeddings.patch_embeddings.projection"


@dataclass(frozen=True)
class WordEmbedding:
    """Sum of words, positions and, in BERT, the first segment type, followed by a layer norm in BERT.

    Arguments:
        vocabulary: Number of tokens.
        positions: Number of positions.
        segments: Number of segment types; 0 for GPT-2.
        padding: Token number whose embedding is zero before training.
    """

    vocabulary: int
    positions: int
    segments: int = 0
    padding: int | None = None

    @classmethod
    def of(cls, settings: Settings, kind: str) -> WordEmbedding:
        """Read the sizes from the `config.json` of BERT or GPT-2."""
        vocabulary = settings.size("vocab_size")
        if kind == "gpt2":
            return cls(vocabulary, settings.size("n_positions"))
        padding = settings.whole("pad_token_id", 0)
        if padding is not None and padding >= vocabulary:
            raise InputError(
                f"{settings.place}: expected pad_token_id to be within the vocabulary of {vocabulary} tokens; "
                f"got {padding}"
            )
        return cls(vocabulary, settings.size("max_position_embeddings"), settings.size("type_vocab_size", 2), padding)

    @property
    def tables(self) -> tuple[str, ...]:
        """Names of the embedding tables, words first."""
        return BERT_TABLES if self.segments else GPT2_TABLES

    def parts(self, width: int, std: float) -> dict[str, Part]:
        """Return the weights of the embedding."""
        sizes = zip(self.tables, (self.vocabulary, self.positions, self.segments), strict=False)
        norm = norm_parts(BERT_NORM, width) if self.segments else {}
        return {name: Part((size, width), std) for name, size in sizes} | norm

    def embed(
        self, weights: Weights, inputs: Integer[np.ndarray, "examples tokens"], epsilon: float
    ) -> tuple[Tokens, Tokens]:
        """Return the tokens without and with positions."""
        require_ids(inputs, self.vocabulary, self.positions)
        tables = [weights[name] for name in self.tables]
        words: Tokens = tables[0][inputs]
        x: Tokens = words + tables[1][: inputs.shape[1]]
        return words, layer_norm(x + tables[2][0], weights, BERT_NORM, epsilon) if self.segments else x


@dataclass(frozen=True)
class PatchEmbedding:
    """[CLS] followed by the linearly mapped patches of an image; [CLS] is the same for every image."""

    image_size: int
    patch_size: int
    channels: int
    padding: None = None

    @classmethod
    def of(cls, settings: Settings) -> PatchEmbedding:
        """Read the sizes from the `config.json` of a ViT."""
        image, patch = settings.size("image_size"), settings.size("patch_size")
        if image % patch:
            raise InputError(f"{settings.place}: patches of {patch} do not divide images of {image}")
        return cls(image, patch, settings.size("num_channels", 3))

    def parts(self, width: int, std: float) -> dict[str, Part]:
        """Return the weights of the embedding."""
        positions = (self.image_size // self.patch_size) ** 2 + 1
        return {
            "embeddings.cls_token": Part((1, 1, width), std),
            "embeddings.position_embeddings": Part((1, positions, width), std),
            f"{PATCHES}.weight": Part((width, self.channels, self.patch_size, self.patch_size), std),
            f"{PATCHES}.bias": Part((width,)),
        }

    def embed(self, weights: Weights, inputs: Num[np.ndarray, "b c h w"], _epsilon: float) -> tuple[Tokens, Tokens]:
        """Return the tokens without and with positions."""
        expected = (self.channels, self.image_size, self.image_size)
        if inputs.shape[1:] != expected:
            raise InputError(f"expected images of shape {expected}: channels, rows, columns; got {inputs.shape[1:]}")
        projection = weights[f"{PATCHES}.weight"].reshape(len(weights[f"{PATCHES}.bias"]), -1)
        mapped = self._patches(np.asarray(inputs, dtype=np.float64)) @ projection.T + weights[f"{PATCHES}.bias"]
        first = np.broadcast_to(weights["embeddings.cls_token"], (len(mapped), 1, mapped.shape[2]))
        tokens: Tokens = np.concatenate([first, mapped], axis=1)
        return tokens, tokens + weights["embeddings.position_embeddings"]

    def _patches(self, images: Num[np.ndarray, "b c h w"]) -> Num[np.ndarray, "b patches pixels"]:
        """Return the pixels of each patch, channel by channel, with patches in row-major order."""
        b, c, h, _ = images.shape
        p, side = self.patch_size, h // self.patch_size
        squares = images.reshape(b, c, side, p, side, p).transpose(0, 2, 4, 1, 3, 5)
        return np.asarray(squares.reshape(b, side * side, c * p * p))
