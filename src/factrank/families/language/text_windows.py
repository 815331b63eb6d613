"""Text as token sequences: windows of a tokenised file, and bits per byte of the part that is held out.

The vocabulary is a byte-level BPE, trained on the first part of the text alone, so every text has tokens and a round
trip loses no byte. Training windows begin at random tokens of the first part. The held-out part is cut into windows one
after the other, at most `MOST_WINDOWS` of them; the first token of a window is not predicted, so

    bits_per_byte = sum of -log2 p over the predicted tokens / bytes of these tokens.
"""

from __future__ import annotations

import hashlib
from collections.abc import Hashable
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Int, PRNGKeyArray, Shaped

from factrank.errors import InputError
from factrank.families.language.language_data import LEAST_VOCABULARY, TextFile, text_bytes
from factrank.families.language.language_model import LanguageModel
from factrank.families.language.token_sources import Numbers, SourceArrays, TokenBatch
from factrank.families.language.vocabulary_loss import next_tokens

MOST_WINDOWS = 512
"""Largest number of held-out windows that are evaluated."""

WINDOWS_AT_A_TIME = 64
END = "<end>"
"""Special token of every vocabulary, which no text contains."""


@dataclass(frozen=True, eq=False)
class TokenisedText:
    """Tokens of both parts of a text, and its tokeniser, as JSON of the library `tokenizers`."""

    spec: TextFile
    training: Int[np.ndarray, " tokens"]
    held_out: Int[np.ndarray, " more"]
    tokeniser: str

    @cached_property
    def fingerprint(self) -> str:
        """Hash of the tokens and the tokeniser."""
        parts = self.training.tobytes(), b"|", self.held_out.tobytes(), b"|", self.tokeniser.encode()
        return hashlib.sha256(b"".join(parts)).hexdigest()

    def decoded(self, tokens: Int[np.ndarray, " n"]) -> str:
        """Return the text of some tokens."""
        return str(_library().Tokenizer.from_str(self.tokeniser).decode(tokens.tolist(), skip_special_tokens=False))

    @cached_property
    def token_bytes(self) -> Int[np.ndarray, " vocabulary"]:
        """Number of bytes that each token stands for; 0 for the special token."""
        names = _library().Tokenizer.from_str(self.tokeniser).get_vocab()
        # A byte-level vocabulary writes each byte as one letter.
        lengths = {code: 0 if name == END else len(name) for name, code in names.items()}
        return np.array([lengths.get(code, 0) for code in range(self.spec.n_tokens)], np.int32)


@lru_cache(maxsize=8)
def tokenised(spec: TextFile) -> TokenisedText:
    """Read a file, train its vocabulary and tokenise it; the same file gives the same tokens.

    Raises:
        InputError: If the file is missing, is no UTF-8 text, has changed, or is too short.
    """
    contents = text_bytes(spec.path)
    found = hashlib.sha256(contents).hexdigest()
    if found != spec.sha256:
        raise InputError(f"{spec.path}: the text has changed: expected SHA-256 {spec.sha256[:12]}, got {found[:12]}")
    try:
        text = contents.decode("utf-8")
    except UnicodeDecodeError as error:
        raise InputError(f"{spec.path}: a corpus must be UTF-8 text; byte {error.start} is not") from None
    if END in text:
        raise InputError(f"{spec.path}: the text contains {END}, which marks the end of a text")
    cut = round(len(text) * (1 - spec.held_out))
    tokeniser = _trained(text[:cut], spec.n_tokens)
    if tokeniser.get_vocab_size() != spec.n_tokens:
        raise InputError(
            f"{spec.path}: the text has only {tokeniser.get_vocab_size():,} tokens; n_tokens must be at most that, "
            f"got {spec.n_tokens:,}"
        )
    parts = [np.array(tokeniser.encode(part).ids, np.int32) for part in (text[:cut], text[cut:])]
    for name, part in zip(("training", "held-out"), parts, strict=True):
        if len(part) <= spec.length:
            raise InputError(
                f"{spec.path}: the {name} part has {len(part)} tokens, too few for a sequence of {spec.length}"
            )
    return TokenisedText(spec, parts[0], parts[1], tokeniser.to_str())


def _trained(text: str, n_tokens: int) -> Any:
    """Return a byte-level BPE of this size, or smaller if the text has too few pairs to merge."""
    library = _library()
    tokeniser = library.Tokenizer(library.models.BPE())
    tokeniser.pre_tokenizer = library.pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokeniser.decoder = library.decoders.ByteLevel()
    trainer = library.trainers.BpeTrainer(
        vocab_size=max(n_tokens, LEAST_VOCABULARY),
        min_frequency=2,
        special_tokens=[END],
        initial_alphabet=sorted(library.pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    tokeniser.train_from_iterator([text], trainer)
    return tokeniser


def _library() -> Any:
    try:
        import tokenizers  # noqa: PLC0415 - an extra
    except ImportError:
        raise InputError("reading text needs the library tokenizers: pip install 'factrank[text]'") from None
    return tokenizers


@dataclass(frozen=True, eq=False)
class TextSource:
    """Windows of one text, with tokens from `first_token` on."""

    text: TokenisedText
    first_token: int = 1

    @property
    def signature(self) -> Hashable:
        """Sizes of the text and its windows."""
        sizes = len(self.text.training), self._windows.shape
        return "text", sizes, self.n_tokens, self.length, self.first_token

    @property
    def n_tokens(self) -> int:
        """Size of the vocabulary of the text."""
        return self.text.spec.n_tokens

    @property
    def length(self) -> int:
        """Number of tokens of a window."""
        return self.text.spec.length

    @cached_property
    def _windows(self) -> Int[np.ndarray, "windows length"]:
        n_windows = min(len(self.text.held_out) // self.length, MOST_WINDOWS)
        return self.text.held_out[: n_windows * self.length].reshape(n_windows, self.length)

    def arrays(self) -> dict[str, Shaped[np.ndarray, "..."]]:
        """Return the tokens of the training part, the held-out windows, and the bytes that are predicted in them."""
        predicted = int(self.text.token_bytes[self._windows[:, 1:]].sum())
        return {
            "training": self.first_token + self.text.training,
            "held_out": self.first_token + self._windows,
            "bytes": np.array(predicted, np.float32),
        }

    # ---------------------------------------------------------------- traced

    def sample(self, data: SourceArrays, key: PRNGKeyArray, n_sequences: int) -> TokenBatch:
        """Sample windows of the training part; every token after the first counts."""
        starts = jax.random.randint(key, (n_sequences, 1), 0, data["training"].shape[0] - self.length + 1)
        tokens = data["training"][starts + jnp.arange(self.length)]
        return TokenBatch(tokens, jnp.ones((n_sequences, self.length - 1), jnp.float32))

    def examine(self, model: LanguageModel, data: SourceArrays, key: PRNGKeyArray, *, whole: bool) -> Numbers:  # noqa: ARG002
        """Return the loss per token and the bits per byte of the held-out windows."""
        windows = data["held_out"]

        def of_window(tokens: Int[jax.Array, " length"]) -> jax.Array:
            states = model.states(tokens[None, :-1])[0]
            return next_tokens(states, model.outputs, tokens[1:]).losses.sum()

        total = jax.lax.map(of_window, windows, batch_size=min(WINDOWS_AT_A_TIME, len(windows))).sum()
        predicted = windows.shape[0] * (self.length - 1)
        return {"loss": total / predicted, "bits_per_byte": total / jnp.log(2.0) / data["bytes"]}

    def counts(self) -> dict[str, int]:
        """Return nothing: no measure of a text is a fraction."""
        return {}
