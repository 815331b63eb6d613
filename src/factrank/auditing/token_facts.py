"""Facts in the weights: the strongest skip trigrams of heads, the recall of a table, and the table of a whole layer."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from factrank.auditing.opened_models import Source, chosen_layers, opened_model
from factrank.auditing.table_recall import TableRecall, table_recall
from factrank.auditing.token_circuits import (
    TokenHead,
    blocks,
    copied,
    direct_path,
    require_path,
    strongest,
    strongest_moves,
    token_circuits,
)
from factrank.auditing.token_names import TokenTable, chosen_tokens, token_numbers
from factrank.checkpoints.heads import AttentionModel
from factrank.databases import Database
from factrank.display import Shown

N_TOKENS, N_QUERIES, N_ENTRIES, N_DIRECT, N_EXTRACTED = 2_000, 200, 5, 20, 100


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
class DirectEntry:
    """An entry of the direct path: query -> value, and the lead of the value's logit over the mean."""

    query: str
    value: str
    lead: float


@dataclass(frozen=True)
class DirectFacts:
    """Strongest entries of the direct path, from embedding to unembedding, which reads the query alone.

    Arguments:
        copied: Fraction of tokens whose own logit is the largest.
        entries: Strongest entries.
    """

    copied: float
    entries: tuple[DirectEntry, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return plain data."""
        return asdict(self)


def direct_facts(
    model: AttentionModel, names: Sequence[str], ids: Sequence[int], n_entries: int = N_DIRECT
) -> DirectFacts:
    """Return the strongest entries of the direct path; all tokens are queries and values."""
    with threadpool_limits(1, "blas"):
        rows, columns = direct_path(model, ids)
        best = strongest(rows, columns, n_entries)
        entries = tuple(DirectEntry(names[query], names[value], lead) for query, value, lead in best)
        return DirectFacts(copied(rows, columns), entries)


def head_facts(
    model: AttentionModel, layer: int, names: Sequence[str], ids: Sequence[int], n_entries: int = N_ENTRIES
) -> tuple[HeadFacts, ...]:
    """Return the strongest entries of each head of a layer.

    All tokens are keys and values; the first 200 are queries.
    """
    with threadpool_limits(1, "blas"):
        circuits = token_circuits(model, layer, ids, ids[:N_QUERIES], ids)
        return tuple(
            _head_facts(layer, number, circuits.head(number), names, n_entries) for number in range(circuits.n_heads)
        )


def _head_facts(layer: int, number: int, head: TokenHead, names: Sequence[str], n: int) -> HeadFacts:
    moves = strongest_moves(head, n)
    entries = tuple(SkipTrigram(names[key], names[query], names[value], lead) for key, query, value, lead in moves)
    return HeadFacts(layer, number, head.copying, copied(head.read, head.written), entries)


@dataclass(frozen=True, eq=False, repr=False)
class FactsInWeights(Shown):
    """Facts that single layers of a model hold by their path from embedding to unembedding.

    Arguments:
        title: Path of the checkpoint.
        n_tokens: Number of tokens that were tried; 0 if only a table was given.
        heads: Strongest entries and copying scores, if tokens were tried.
        direct: Strongest entries of the direct path, if tokens were tried.
        recalls: Recall of a table by each layer, if a table was given.
        table: The table.
    """

    title: str
    n_tokens: int
    heads: tuple[HeadFacts, ...] = ()
    direct: DirectFacts | None = None
    recalls: tuple[TableRecall, ...] = ()
    table: Database | None = None

    def __repr__(self) -> str:
        return f"FactsInWeights({self.title!r}: {len(self.heads)} heads, {len(self.recalls)} layers with a table)"

    def fact_rows(self) -> Iterable[dict[str, Any]]:
        """Yield the facts of the table, each with the layers and heads that recall it.

        `heads` has pairs of a layer and a head; `whole` and `direct` have layers, whose whole path or direct path alone
        recalls the fact.
        """
        if self.table is None:
            return
        names = self.table.vocabularies
        for place, fact in enumerate(self.table.triples.tolist()):
            key, query, value = (names[role][code] for role, code in enumerate(fact))
            rights = [(recall.layer, recall.right[place]) for recall in self.recalls]
            yield {
                "key": key,
                "query": query,
                "value": value,
                "heads": [(layer, head) for layer, right in rights for head in right[:-2].nonzero()[0].tolist()],
                "whole": [layer for layer, right in rights if right[-2]],
                "direct": [layer for layer, right in rights if right[-1]],
            }

    def to_dict(self) -> dict[str, Any]:
        """Return plain data."""
        return {
            "n_tokens": self.n_tokens,
            "heads": [head.to_dict() for head in self.heads],
            "direct": None if self.direct is None else self.direct.to_dict(),
            "recalls": [recall.to_dict() for recall in self.recalls],
            "facts": list(self.fact_rows()),
        }


def facts_in_weights(
    source: Source,
    *,
    settings: Mapping[str, Any] | None = None,
    layers: Iterable[int] | None = None,
    tokens: Path | Sequence[str] | None = None,
    table: Database | str | Path | None = None,
    entries: bool | None = None,
    progress: Callable[[str], None] | None = None,
) -> FactsInWeights:
    """Return the facts that the layers of a checkpoint hold by their one-layer paths.

    Arguments:
        source: A Hugging Face folder, a GGUF file, a saved language model of ours, or a model that is open.
        settings: What `config.json` has, for a state dict.
        layers: Numbers of the layers, from 0; all by default.
        tokens: Names of tokens, or a text file with one per line; by default, 2,000 frequent ones.
        table: Facts whose names are single tokens, or a file of them: their recall by each head and layer is measured.
        entries: Whether to list the strongest entries of each head and of the direct path; by default, unless only a
            table is given.
        progress: Called with what is being done.

    Raises:
        InputError: If the model has no path of single tokens, or a name is no single token; the message has the file
            and the row.
    """
    model = opened_model(source, settings)
    require_path(model)
    given = None if table is None else TokenTable.of(table)
    numbers = None if given is None else token_numbers(model)
    listed = (given is None or tokens is not None) if entries is None else entries
    names, ids = chosen_tokens(model, tokens, N_TOKENS) if listed else ([], [])
    heads: list[HeadFacts] = []
    recalls = []
    for layer in chosen_layers(model, layers):
        if progress is not None:
            progress(f"facts of layer {layer} of {model.sizes.n_layers}")
        if names:
            heads += head_facts(model, layer, names, ids)
        if given is not None and numbers is not None:
            recalls.append(table_recall(model, layer, given, numbers))
    direct = direct_facts(model, names, ids) if names else None
    database = None if given is None else given.database
    return FactsInWeights(model.place, len(names), tuple(heads), direct, tuple(recalls), database)


def extract(source: Source, layer: int = 0, *, tokens: Path | Sequence[str] | None = None) -> Database:
    """Return the table of facts that one layer of a checkpoint holds by its path.

    For every key and query token, the value is the token with the largest logit.

    Arguments:
        source: A Hugging Face folder, a GGUF file, a saved language model of ours, or a model that is open.
        layer: Number of the layer, from 0.
        tokens: Names of tokens, or a text file with one per line; by default, 100 frequent ones.
    """
    model = opened_model(source)
    chosen_layers(model, [layer])
    names, ids = chosen_tokens(model, tokens, N_EXTRACTED)
    circuits = token_circuits(model, layer, ids, ids, ids)
    whole = [circuits.head(head) for head in range(circuits.n_heads)]
    n = len(ids)
    facts = []
    for block in blocks(n * n, n):
        keys, queries = np.divmod(np.arange(block.start, block.stop), n)
        logits = circuits.direct[queries]
        for head in whole:
            logits += head.logits_of(keys, queries)
        best = logits.argmax(axis=1)
        facts += [
            (names[key], names[query], names[value]) for key, query, value in zip(keys, queries, best, strict=True)
        ]
    return Database.from_facts(facts)
