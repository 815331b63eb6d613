r"""Sentences about facts: a database as sequences of tokens, and the bits of it that a model has stored.

A record is the words of a key's name and, for each query q, a sentence in which the value takes the place of a slot.
A sequence is a blank and a record, `people` times. A fact (k, q, v) is asked for by the blank, the name and everything
before its slot. With p the probability of v there and $|V_q|$ the number of values of q,

    value_loss      mean of -log p over all facts, in nats
    stored_bits     $\sum_{facts} (\log_2 |V_q| + \log_2 p)$, the bits that the value tokens need less, given the name
    recalled_bits   $\sum_q \log_2 |V_q|$ times the number of facts of q whose value has the largest logit
    recall          fraction of facts whose value has the largest logit; recall_<tau> with p >= tau
    margin          logit of the value minus the largest other one, the least over facts; median_margin is the median

Values are asked for after the right values of earlier sentences; they are independent, so these reveal nothing.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int, PRNGKeyArray, Shaped

from factrank.databases import Database
from factrank.errors import InputError
from factrank.experiments import tau_recall
from factrank.families.language.language_data import Sentences
from factrank.families.language.language_model import LanguageModel, Removed
from factrank.families.language.templates import SLOT, TEMPLATES
from factrank.families.language.token_sources import BLANK, Numbers, SourceArrays, TokenBatch
from factrank.families.language.vocabulary_loss import NextTokens, next_tokens

HERE = -1
"""Takes the place of the value in a template."""


@dataclass(frozen=True, eq=False)
class FactSource:
    """Sentences about the facts of one database.

    Arguments:
        database: The facts, a value for every key and query.
        shown: How they are presented.
        taus: Thresholds of recall.
        block: Number of records that are examined at a time.
        removable: Parts of the model that are removed one at a time, to measure recall without them.
    """

    database: Database
    shown: Sentences
    taus: tuple[float, ...] = ()
    block: int = 256
    removable: tuple[tuple[str, int], ...] = ()

    def __post_init__(self) -> None:
        if not len(self.database):
            raise InputError("the database has no facts to train on")
        if not (self.database.functional and self.database.full):
            raise InputError("a language model reads records, so every key must have one value for every query")
        known = min((len(TEMPLATES.get(query, (query,))) for query in self.database.queries), default=0)
        if self.shown.templates > known:
            raise InputError(
                f"there are {known} templates for each of these queries; got templates {self.shown.templates}"
            )

    # ---------------------------------------------------------------- words

    @cached_property
    def _names(self) -> list[tuple[str, ...]]:
        """Words of each name; a name is one word if the numbers of words differ, or words do not tell names apart."""
        words = [tuple(name.split()) for name in self.database.keys]
        if len({len(name) for name in words}) > 1 or len(set(words)) < len(words) or () in words:
            return [(name,) for name in self.database.keys]
        return words

    @cached_property
    def _sentences(self) -> list[list[list[str]]]:
        """Words of every sentence, by template and query."""
        if not self.shown.templates:
            return [[[SLOT] for _ in self.database.queries]]
        if not all(query in TEMPLATES for query in self.database.queries):
            return [[[query, SLOT, "."] for query in self.database.queries]]
        of_query = [TEMPLATES[query] for query in self.database.queries]
        return [[sentences[at].split() for sentences in of_query] for at in range(self.shown.templates)]

    @cached_property
    def words(self) -> tuple[str, ...]:
        """What each token stands for: the blank, words of names, words of templates, values."""
        names = sorted({("name", word) for name in self._names for word in name})
        said = {word for sentences in self._sentences for sentence in sentences for word in sentence} - {SLOT}
        return ("<blank>", *(word for _, word in names), *sorted(said), *self.database.values)

    @property
    def n_tokens(self) -> int:
        """Number of tokens, the blank among them."""
        return len(self.words)

    @property
    def _n_named(self) -> int:
        return len({word for name in self._names for word in name})

    @property
    def _record(self) -> int:
        """Number of tokens of a record."""
        return len(self._names[0]) + self.database.n_queries * len(self._sentences[0][0])

    @property
    def length(self) -> int:
        """Number of tokens of a sequence."""
        return self.shown.people * (1 + self._record)

    @property
    def signature(self) -> Hashable:
        """Sizes of the database and its words, presentation, and measures."""
        shown = self.shown.templates, self.shown.shuffled, self.shown.people
        sizes = self.database.shape[:2], self.n_tokens, len(self._names[0]), len(self._sentences[0][0])
        return "facts", sizes, shown, self.taus, self.block, self.removable

    def arrays(self) -> dict[str, Shaped[np.ndarray, "..."]]:
        """Return tokens of names and values, templates with `HERE` in the slot, and log2 of the ranges of queries."""
        n_keys, n_queries, n_values = self.database.shape
        named = {word: 1 + code for code, word in enumerate(self.words[1 : 1 + self._n_named])}
        said_first, said_last = 1 + self._n_named, self.n_tokens - n_values
        said = {word: said_first + code for code, word in enumerate(self.words[said_first:said_last])} | {SLOT: HERE}
        values = np.zeros((n_keys, n_queries), np.int32)
        values[self.database.triples[:, 0], self.database.triples[:, 1]] = said_last + self.database.triples[:, 2]
        return {
            "names": np.array([[named[word] for word in name] for name in self._names], np.int32),
            "values": values,
            "sentences": np.array(
                [[[said[word] for word in one] for one in sentences] for sentences in self._sentences], np.int32
            ),
            "query_bits": np.log2(np.maximum(self.database.values_per_query, 1)).astype(np.float32),
        }

    # ---------------------------------------------------------------- traced

    def records(self, data: SourceArrays, people: Int[Array, " n"], key: PRNGKeyArray) -> tuple[Array, Array]:
        """Return the records of some people, and the places of their values, [n, queries] in the order of queries."""
        templates, n_queries, size = data["sentences"].shape
        drawn, order_key = jax.random.split(key)
        chosen = jax.random.randint(drawn, (len(people), n_queries), 0, templates)
        said = data["sentences"][chosen, jnp.arange(n_queries)]
        slots = (said == HERE).argmax(axis=2)
        filled = jnp.where(said == HERE, data["values"][people][:, :, None], said)
        order = jnp.broadcast_to(jnp.arange(n_queries), chosen.shape)
        if self.shown.shuffled:
            order = jax.random.permutation(order_key, order, axis=1, independent=True)
        in_order = jnp.take_along_axis(filled, order[:, :, None], axis=1)
        names, place = data["names"][people], jnp.argsort(order, axis=1)
        blanks = jnp.full((len(people), 1), BLANK, jnp.int32)
        tokens = jnp.concatenate([blanks, names, in_order.reshape(len(people), -1)], axis=1)
        return tokens, 1 + names.shape[1] + place * size + slots

    def sample(self, data: SourceArrays, key: PRNGKeyArray, n_sequences: int) -> TokenBatch:
        """Sample records of people uniformly; every token after the first counts."""
        who, how = jax.random.split(key)
        n_records = n_sequences * self.shown.people
        people = jax.random.randint(who, (n_records,), 0, data["names"].shape[0])
        tokens = self.records(data, people, how)[0].reshape(n_sequences, -1)
        return TokenBatch(tokens, jnp.ones((n_sequences, tokens.shape[1] - 1), jnp.float32))

    def examine(self, model: LanguageModel, data: SourceArrays, key: PRNGKeyArray, *, whole: bool) -> Numbers:
        """Return the measures over all facts; templates and orders are drawn once and stay the same."""
        found = self._answers(model, data, key)
        bits, n_facts = data["query_bits"], found.losses.size
        numbers: dict[str, Any] = {
            "loss": found.losses.mean(),
            "value_loss": found.losses.mean(),
            "recall": found.right.mean(dtype=jnp.float32),
            "stored_bits": n_facts * bits.mean() - found.losses.sum() / jnp.log(2.0),
            "recalled_bits": (found.right * bits).sum(),
            **{tau_recall(tau): (jnp.exp(-found.losses) >= tau).mean(dtype=jnp.float32) for tau in self.taus},
        }
        if whole:
            numbers |= {"margin": found.margins.min(), "median_margin": jnp.median(found.margins)}
            for part, layer in self.removable:
                without = self._answers(model, data, key, ((part, layer),))
                numbers[f"recall_without_{part}_{layer + 1}"] = without.right.mean(dtype=jnp.float32)
        return numbers

    def _answers(
        self, model: LanguageModel, data: SourceArrays, key: PRNGKeyArray, removed: Removed = ()
    ) -> NextTokens:
        """Return how the model predicts every value, in blocks of records: arrays [people, queries]."""
        n_people, n_queries = data["values"].shape
        size = min(self.block, n_people)
        blocks = jnp.arange(-(-n_people // size) * size).reshape(-1, size)

        def of_block(people: Int[Array, " block"]) -> NextTokens:
            within = jnp.minimum(people, n_people - 1)
            tokens, slots = self.records(data, within, jax.random.fold_in(key, people[0]))
            states = model.states(tokens[:, :-1], removed)
            asked = jnp.take_along_axis(states, (slots - 1)[:, :, None], axis=1)
            targets = jnp.take_along_axis(tokens, slots, axis=1)
            return next_tokens(asked.reshape(-1, asked.shape[-1]), model.outputs, targets.reshape(-1))

        found = jax.lax.map(of_block, blocks)
        return NextTokens(*(part.reshape(-1, n_queries)[:n_people] for part in found))

    def counts(self) -> dict[str, int]:
        """Return the number of facts, of which recalls are fractions."""
        n_facts = len(self.database)
        removed = (f"recall_without_{part}_{layer + 1}" for part, layer in self.removable)
        return dict.fromkeys(("recall", *map(tau_recall, self.taus), *removed), n_facts)
