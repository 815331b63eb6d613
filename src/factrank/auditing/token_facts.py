"""Facts in the weights: the strongest skip trigrams of each head, the recall of a table, and tables of a whole layer.

Tokens are chosen by their strings. A name stands for the token with a space before it if there is one, because that is
how words occur within a text (GPT-2 writes the space as Ġ, SentencePiece as ▁), or else for the token itself.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from factrank.auditing.token_circuits import TokenCircuits, strongest_moves, token_circuits
from factrank.checkpoints import read_object
from factrank.checkpoints.heads import AttentionModel, open_model
from factrank.databases import Database
from factrank.display import Shown
from factrank.errors import InputError

SPACES = ("Ġ", "▁", "")
N_TOKENS, N_QUERIES, N_ENTRIES, N_EXTRACTED = 2_000, 200, 5, 100
MOST_TOKENS = 20_000
TOKENISER = "tokenizer.json"


@dataclass(frozen=True)
class SkipTrigram:
    """An entry of a head: key ... query -> value, and the lead of the value's logit over the mean."""

    key: str
    query: str
    value: str
    lead: float


@dataclass(frozen=True)
class HeadFacts:
    """Strongest entries of a head, and its copying score (1: it raises the tokens that it reads).

    Arguments:
        layer: Number of the layer.
        head: Number of the head.
        copying: Copying score.
        copied: Fraction of tokens whose own logit is the largest.
        entries: Strongest entries.
    """

    layer: int
    head: int
    copying: float
    copied: float
    entries: tuple[SkipTrigram, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return plain data."""
        return asdict(self)


@dataclass(frozen=True)
class TableRecall:
    """Fractions of a table that one layer's path recalls: by each head alone, and as a whole with the direct path."""

    layer: int
    heads: tuple[float, ...]
    whole: float
    direct: float

    def to_dict(self) -> dict[str, Any]:
        """Return plain data."""
        return asdict(self)


def token_numbers(model: AttentionModel) -> Mapping[str, int]:
    """Return the number of each token, from the GGUF file or from `tokenizer.json`."""
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


def tokens_of_file(path: Path) -> list[str]:
    """Return the lines of a text file."""
    try:
        lines = [line.strip() for line in path.read_text(encoding="utf-8").splitlines()]
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: cannot be read as UTF-8 text: {error}") from None
    names = list(dict.fromkeys(line for line in lines if line))
    if not 2 <= len(names) <= MOST_TOKENS:
        raise InputError(f"{path}: expected 2 to {MOST_TOKENS:,} tokens, one per line; got {len(names):,}")
    return names


def numbers_of(names: Sequence[str], numbers: Mapping[str, int], place: str) -> list[int]:
    """Return the token number of each name; raise `InputError` for a name that is no single token."""
    found = []
    for name in names:
        token = next((space + name for space in SPACES if space + name in numbers), None)
        if token is None:
            raise InputError(f"{place}: {name[:60]!r} is not a single token of the model")
        found.append(numbers[token])
    return found


def head_facts(
    model: AttentionModel, layer: int, names: Sequence[str], ids: Sequence[int], n_entries: int = N_ENTRIES
) -> tuple[HeadFacts, ...]:
    """Return the strongest entries of each head of a layer.

    All tokens are keys and values; the first 200 are queries.
    """
    with threadpool_limits(1, "blas"):
        circuits = token_circuits(model, layer, ids, ids[:N_QUERIES], ids)
    return tuple(
        HeadFacts(
            layer, head, circuits.copying[head], _copied(circuits, head), _entries(circuits, head, names, n_entries)
        )
        for head in range(model.sizes.n_heads)
    )


def _copied(circuits: TokenCircuits, head: int) -> float:
    best = circuits.values[head, : circuits.n_keys].argmax(axis=1)
    return float((best == np.arange(circuits.n_keys)).mean())


def _entries(circuits: TokenCircuits, head: int, names: Sequence[str], n: int) -> tuple[SkipTrigram, ...]:
    moves = strongest_moves(circuits, head, n)
    return tuple(SkipTrigram(names[key], names[query], names[value], lead) for key, query, value, lead in moves)


@dataclass(frozen=True, eq=False, repr=False)
class FactsInWeights(Shown):
    """Facts that single layers of a model hold by their path from embedding to unembedding.

    Arguments:
        title: Path of the checkpoint.
        n_tokens: Number of tokens that were tried.
        heads: Strongest entries and copying scores, if tokens were tried.
        recalls: Recall of a table by each layer, if a table was given.
    """

    title: str
    n_tokens: int
    heads: tuple[HeadFacts, ...] = ()
    recalls: tuple[TableRecall, ...] = ()

    def __repr__(self) -> str:
        return f"FactsInWeights({self.title!r}: {len(self.heads)} heads, {len(self.recalls)} layers with a table)"

    def to_dict(self) -> dict[str, Any]:
        """Return plain data."""
        return {
            "n_tokens": self.n_tokens,
            "heads": [head.to_dict() for head in self.heads],
            "recalls": [recall.to_dict() for recall in self.recalls],
        }


def facts_in_weights(
    path: str | Path,
    *,
    layers: Sequence[int] | None = None,
    tokens: Path | None = None,
    table: Database | None = None,
    progress: Callable[[str], None] | None = None,
) -> FactsInWeights:
    """Return the facts that the layers of a checkpoint hold by their one-layer paths.

    Arguments:
        path: A Hugging Face folder or a GGUF file.
        layers: Numbers of the layers, from 0; all by default.
        tokens: Text file with one token per line; by default, 2,000 frequent ones. Not tried if only a table is given.
        table: Facts whose names are single tokens: their recall by each head and layer is measured.
        progress: Called with what is being done.
    """
    model = open_model(Path(path))
    numbers = token_numbers(model)
    names = frequent_tokens(numbers, N_TOKENS) if tokens is None else tokens_of_file(tokens)
    ids = [numbers[name] for name in names] if tokens is None else numbers_of(names, numbers, str(tokens))
    if len(names) < 2:
        raise InputError(f"{path}: too few tokens are words; choose some with --tokens")
    heads: list[HeadFacts] = []
    recalls = []
    for layer in range(model.sizes.n_layers) if layers is None else layers:
        if progress is not None:
            progress(f"facts of layer {layer} of {model.sizes.n_layers}")
        if table is None or tokens is not None:
            heads += head_facts(model, layer, names, ids)
        if table is not None:
            recalls.append(table_recall(model, layer, table, numbers))
    return FactsInWeights(model.place, len(names), tuple(heads), tuple(recalls))


def extract(path: str | Path, layer: int = 0, *, tokens: Path | None = None) -> Database:
    """Return the table of facts that one layer of a checkpoint holds by its path.

    Arguments:
        path: A Hugging Face folder or a GGUF file.
        layer: Number of the layer, from 0.
        tokens: Text file with one token per line; by default, 100 frequent ones.
    """
    model = open_model(Path(path))
    if not 0 <= layer < model.sizes.n_layers:
        raise InputError(f"{path}: layer {layer}: the layers are 0 to {model.sizes.n_layers - 1}")
    numbers = token_numbers(model)
    names = frequent_tokens(numbers, N_EXTRACTED) if tokens is None else tokens_of_file(tokens)
    ids = [numbers[name] for name in names] if tokens is None else numbers_of(names, numbers, str(tokens))
    if not names:
        raise InputError(f"{path}: too few tokens are words; choose some with --tokens")
    return extracted(model, layer, names, ids)


def table_recall(model: AttentionModel, layer: int, table: Database, numbers: Mapping[str, int]) -> TableRecall:
    """Return the recall of a table of facts by a layer: the argmax over the table's values; ties are wrong.

    Arguments:
        model: Checkpoint.
        layer: Number of the layer.
        table: Facts whose keys, queries and values are single tokens.
        numbers: Number of each token.
    """
    keys, queries, values = (numbers_of(list(axis), numbers, "table") for axis in table.vocabularies)
    circuits = token_circuits(model, layer, keys, queries, values)
    right = np.zeros(len(circuits.weights) + 2)
    for block in circuits.blocks():
        facts = table.triples[(table.triples[:, 0] >= block.start) & (table.triples[:, 0] < block.stop)]
        paths = [circuits.head_logits(head, block) for head in range(len(circuits.weights))]
        direct = np.broadcast_to(circuits.direct, paths[0].shape)
        for place, logits in enumerate((*paths, circuits.logits(block), direct)):
            right[place] += _right(logits, facts, block.start)
    found = right / table.n_facts
    return TableRecall(layer, tuple(found[:-2].tolist()), float(found[-2]), float(found[-1]))


def _right(logits: np.ndarray, facts: np.ndarray, start: int) -> int:
    rows = logits[facts[:, 0] - start, facts[:, 1]]
    own = rows[np.arange(len(facts)), facts[:, 2]]
    rows = rows.copy()
    rows[np.arange(len(facts)), facts[:, 2]] = -np.inf
    return int((own > rows.max(axis=1)).sum())


def extracted(model: AttentionModel, layer: int, names: Sequence[str], ids: Sequence[int]) -> Database:
    """Return the table of a layer's path: for every key and query token, the value token with the largest logit."""
    circuits = token_circuits(model, layer, ids, ids, ids)
    facts = []
    for block in circuits.blocks():
        best = circuits.logits(block).argmax(axis=2)
        facts += [
            (names[block.start + key], names[query], names[value]) for (key, query), value in np.ndenumerate(best)
        ]
    return Database.from_facts(facts)
