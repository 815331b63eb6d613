"""Tokens of a checkpoint by their strings.

A name stands for the token with a space before it if there is one, because that is how words occur within a text (GPT-2
writes the space as Ġ, SentencePiece as ▁), or else for the token itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from factrank.checkpoints import read_object
from factrank.checkpoints.heads import AttentionModel
from factrank.databases import Database
from factrank.databases.files import read, read_changes
from factrank.errors import InputError
from factrank.host import require_file

SPACES = ("Ġ", "▁", "")
MOST_TOKENS = 20_000
TOKENISER = "tokenizer.json"
ROLES = ("key", "query", "value")

Place = Callable[[str], str]
"""Returns where a name is from, for messages."""


def token_numbers(model: AttentionModel) -> Mapping[str, int]:
    """Return the number of each token, from the model itself (GGUF) or from `tokenizer.json`."""
    if model.tokens:
        return {token: number for number, token in reversed(list(enumerate(model.tokens)))}
    path = Path(model.place) / TOKENISER
    content = read_object(path).get("model") if path.exists() else None
    vocabulary = content.get("vocab") if isinstance(content, dict) else None
    if not isinstance(vocabulary, dict) or not all(type(number) is int for number in vocabulary.values()):
        raise InputError(f"{model.place}: facts need the strings of the tokens; expected {TOKENISER} with a vocab")
    return vocabulary


def frequent_tokens(numbers: Mapping[str, int], n: int) -> list[str]:
    """Return the first n tokens of two letters or more: merges are numbered by their frequency."""
    words = (token for token, _ in sorted(numbers.items(), key=lambda item: item[1]) if token.strip("Ġ▁ ").isalpha())
    return [token for token, _ in zip((word for word in words if len(word.strip("Ġ▁ ")) > 1), range(n), strict=False)]


def chosen_tokens(model: AttentionModel, tokens: Path | Sequence[str] | None, n: int) -> tuple[list[str], list[int]]:
    """Return the names and numbers of tokens: the lines of a file, a list of names, or n frequent ones.

    Raises:
        InputError: If a name is no single token, or there are fewer than 2 or more than 20,000.
    """
    numbers = token_numbers(model)
    if tokens is None:
        names = frequent_tokens(numbers, n)
        if len(names) < 2:
            raise InputError(f"{model.place}: too few tokens are words; choose some with --tokens")
        return names, [numbers[name] for name in names]
    if isinstance(tokens, Path):
        lines = _lines(tokens)
        return list(lines), numbers_of(lines, numbers, lambda name: f"{tokens}, line {lines[name]}")
    names = list(dict.fromkeys(tokens))
    _require_amount(names, "the list of tokens")
    return names, numbers_of(names, numbers, lambda _: "the list of tokens")


def _lines(path: Path) -> dict[str, int]:
    """Return the tokens of a text file, one per line, with the number of the first line of each."""
    require_file(path)
    try:
        lines = [line.strip() for line in path.read_text(encoding="utf-8").splitlines()]
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: cannot be read as UTF-8 text: {error}") from None
    found: dict[str, int] = {}
    for number, line in enumerate(lines, 1):
        if line:
            found.setdefault(line, number)
    _require_amount(found, str(path))
    return found


def _require_amount(names: Mapping[str, int] | Sequence[str], place: str) -> None:
    if not 2 <= len(names) <= MOST_TOKENS:
        raise InputError(f"{place}: expected 2 to {MOST_TOKENS:,} tokens, one per line; got {len(names):,}")


def numbers_of(names: Iterable[str], numbers: Mapping[str, int], place: Place) -> list[int]:
    """Return the token number of each name; raise `InputError` for a name that is no single token."""
    found = []
    for name in names:
        token = next((space + name for space in SPACES if space + name in numbers), None)
        if token is None:
            raise InputError(f"{place(name)}: {name[:60]!r} is not a single token of the model")
        found.append(numbers[token])
    return found


@dataclass(frozen=True)
class TokenTable:
    """A table of facts whose names are single tokens.

    Arguments:
        database: The facts.
        path: File that they are from, for messages; None if they were in memory.
    """

    database: Database
    path: str | None = None

    @classmethod
    def of(cls, table: Database | str | Path) -> TokenTable:
        """Return the table of a database or of a file."""
        return cls(table) if isinstance(table, Database) else cls(read(table), str(table))

    def numbers(self, numbers: Mapping[str, int]) -> list[list[int]]:
        """Return the token numbers of keys, queries and values.

        Raises:
            InputError: If a name is no single token; the message has the file and the row of its first fact.
        """
        return [
            numbers_of(list(axis), numbers, lambda name, role=role: self._place(role, name))  # type: ignore[misc]
            for role, axis in enumerate(self.database.vocabularies)
        ]

    def _place(self, role: int, name: str) -> str:
        if self.path is None:
            return f"the table, {ROLES[role]}"
        rows = (place for place, *fact in read_changes(self.path) if fact[role] == name)
        return f"{next(rows, self.path)}, {ROLES[role]}"
