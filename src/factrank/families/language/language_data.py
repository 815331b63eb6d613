"""Data of language models: sentences about facts, in-context recall, text, and mixtures of them, as specifications.

`sentences`, `in_context_sequences` and `text_windows` turn them into sequences of tokens. A trial names a database (its
facts are written as sentences), `Sentences` (a database with options, possibly mixed with the others),
`InContextRecall` or `TextFile`.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Literal, get_args

from factrank.errors import InputError
from factrank.experiments.specs import Measure, Presentation, ResultColumn, as_floats, hash_of, require_flags, to_plain
from factrank.host import require_file
from factrank.nn import require_sizes

if TYPE_CHECKING:
    from factrank.families.language.text_windows import TokenisedText

InContextTask = Literal["mqar", "induction"]

LEAST_VOCABULARY = 257
"""Size of a byte-level vocabulary without merges: every byte, and the end of a text."""


@dataclass(frozen=True)
class InContextRecall:
    """Fresh random sequences that can only be continued from their own beginning.

    "mqar" is multi-query associative recall (Arora et al. 2023, arXiv 2312.04927): pairs of a key and its value, then
    the keys again in random order and at random places, each followed by its value, which is predicted. "induction" is
    a random sequence of different tokens, which is repeated; the repetition is predicted from its second token on.

    Arguments:
        task: "mqar" or "induction".
        pairs: Numbers of pairs, or of tokens before the repetition; each sequence has one of them, drawn uniformly.
        n_keys: Number of different keys, or of tokens to repeat.
        n_values: Number of different values; ignored by "induction".
        length: Number of tokens in a sequence; the least possible one by default. Longer ones leave gaps.
        sequences: Number of sequences in an evaluation, for each number of pairs.
    """

    task: InContextTask = "mqar"
    pairs: tuple[int, ...] = (4, 8, 16)
    n_keys: int = 64
    n_values: int = 64
    length: int | None = None
    sequences: int = 256

    def __post_init__(self) -> None:
        if self.task not in get_args(InContextTask):
            raise InputError(f"task must be one of {', '.join(get_args(InContextTask))}; got {self.task!r}")
        pairs: object = self.pairs
        if not isinstance(pairs, tuple | list) or not pairs:
            raise InputError(f"pairs must be a list of integers, at least one; got {pairs!r}")
        least = 2 if self.task == "induction" else 1
        for number in pairs:
            require_sizes({"a number of pairs": number}, least=least)
        object.__setattr__(self, "pairs", tuple(sorted(set(pairs))))
        require_sizes({"n_keys": self.n_keys, "n_values": self.n_values, "sequences": self.sequences})
        if self.most_pairs > self.n_keys:
            raise InputError(f"n_keys must be at least the number of pairs, {self.most_pairs}; got {self.n_keys}")
        if self.length is not None:
            require_sizes({"length": self.length}, least=self.least_length)

    @property
    def most_pairs(self) -> int:
        """Largest number of pairs."""
        return self.pairs[-1]

    @property
    def least_length(self) -> int:
        """Length of the shortest sequence with the largest number of pairs."""
        return (2 if self.task == "induction" else 4) * self.most_pairs

    @property
    def tokens_per_sequence(self) -> int:
        """Length of every sequence; an odd length of "mqar" is rounded down."""
        length = self.least_length if self.length is None else self.length
        return length if self.task == "induction" else length - length % 2

    @property
    def fingerprint(self) -> str:
        """Hash of the specification."""
        return hash_of(to_plain(self))

    def build(self) -> InContextRecall:
        """Return the specification itself: sequences are sampled on the device."""
        return self


SAMPLE, LIBRARY = "sample:", "library.txt"
"""Texts of the package are named like its tables: sample:library.txt."""


@dataclass(frozen=True)
class TextFile:
    """Text of a file, with a byte-level BPE vocabulary that is trained on its first part; the rest is held out.

    Needs the library `tokenizers` (extra `text`). Create it with `TextFile.of`, which records the hash of the file.

    Arguments:
        path: File with UTF-8 text, or "sample:library.txt", a page of the package.
        sha256: Hash of its contents, in hexadecimal.
        n_tokens: Size of the vocabulary, at least 257.
        length: Number of tokens in a sequence.
        held_out: Fraction of the text at its end on which bits per byte are measured.
    """

    path: str
    sha256: str
    n_tokens: int = 1024
    length: int = 64
    held_out: float = 0.1

    def __post_init__(self) -> None:
        if not all(isinstance(text, str) and text for text in (self.path, self.sha256)):
            raise InputError("a text needs a path and the SHA-256 of its file; use TextFile.of(path)")
        require_sizes({"n_tokens": self.n_tokens}, least=LEAST_VOCABULARY)
        require_sizes({"length": self.length}, least=2)
        as_floats(self, "held_out")
        if not 0 < self.held_out < 1:
            raise InputError(f"held_out must be a fraction between 0 and 1; got {self.held_out}")

    @classmethod
    def of(cls, path: str | Path, *, n_tokens: int = 1024, length: int = 64, held_out: float = 0.1) -> TextFile:
        """Return the specification of a file as it is now.

        Raises:
            InputError: If the file is missing or cannot be read.
        """
        return cls(str(path), hashlib.sha256(text_bytes(path)).hexdigest(), n_tokens, length, held_out)

    def build(self) -> TokenisedText:
        """Read and tokenise the file.

        Raises:
            InputError: If the file is missing, is no UTF-8 text, has changed, or is too short.
        """
        from factrank.families.language.text_windows import tokenised  # noqa: PLC0415 - reads a file

        return tokenised(self)


SAMPLE_TEXT = TextFile(
    SAMPLE + LIBRARY, "117c6b655c9cd15ea5b4e1cca5f4a526d5d79bbf5417b7ed88e83f2adb855668", n_tokens=300, length=16
)
"""The text of the package, for quick studies and tests."""


def text_bytes(path: str | Path) -> bytes:
    """Return the contents of a corpus.

    Raises:
        InputError: If the file is missing or cannot be read.
    """
    if str(path) == SAMPLE + LIBRARY:
        return resources.files(__package__).joinpath("data", LIBRARY).read_bytes()
    require_file(Path(path))
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise InputError(f"{path}: the text cannot be read: {error.strerror or error}") from None


@dataclass(frozen=True)
class Sentences(Presentation):
    """Sentences about the facts of a full database, possibly mixed with in-context recall and text.

    A record is the name of a key followed by a sentence for each query. A name is one token per word if all names have
    the same number of words, otherwise one token; so is every value. Sentences of `templates` = 0 are the values alone,
    in the order of the queries, like the digits of a phone number. With one template, a sentence of an unknown query is
    its name, the value and a full stop; attributes of biographies have up to five templates of their own.

    Arguments:
        templates: Number of templates per query; each record draws one of them for each of its sentences.
        shuffled: Whether the sentences of a record are in random order.
        people: Number of records in a sequence.
        recall: In-context recall to mix in.
        recall_fraction: Fraction of the sequences of a batch, and weight in the loss.
        text: Text to mix in.
        text_fraction: The same for text.
    """

    templates: int = 1
    shuffled: bool = False
    people: int = 1
    recall: InContextRecall | None = None
    recall_fraction: float = 0.0
    text: TextFile | None = None
    text_fraction: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        require_sizes({"templates": self.templates}, least=0)
        require_sizes({"people": self.people})
        require_flags(self, "shuffled")
        as_floats(self, "recall_fraction", "text_fraction")
        if self.shuffled and not self.templates:
            raise InputError("values alone cannot be shuffled, because nothing tells which query they answer")
        for name in ("recall", "text"):
            if (getattr(self, name) is None) != (getattr(self, f"{name}_fraction") == 0):
                raise InputError(f"{name} and {name}_fraction must be given together")
        if self.recall_fraction + self.text_fraction >= 1:
            raise InputError("recall_fraction and text_fraction must leave a part of each batch for the facts")


@dataclass(frozen=True)
class PartsRemoved(Measure):
    """Recall without the attention, or without the MLP, of each layer; the rest of the model stays as it is."""

    columns: ClassVar[tuple[ResultColumn, ...]] = (
        ResultColumn("recall_without_attention_*", "recall without the attention of layer *", "", "after training"),
        ResultColumn("recall_without_mlp_*", "recall without the MLP of layer *", "", "after training"),
    )
