r"""What is measured of a model that reads sequences: every fact, each in several noise contexts.

The contexts follow from the seed of the trial and the number of the fact, and are the same at every check. Facts are
gone through in blocks, so that no more sequences are in memory than in a step of training.

`hallucination`, on curves too; A_q are the answers that query q may have, A_k those that occur with key k:

    relation_loss   $-\log \sum_{v \in A_q} p(v)$, the mean over (fact, context), by the frequency of facts
    subject_loss    $-\log \sum_{v \in A_k} p(v)$, likewise
    in_range        share of (fact, context) that are answered within A_q
    wrong_in_range  share that are answered wrongly and within A_q
    relation_alone  share whose answer stays the same when a noise token takes the place of the key: the relation alone
                    explains it

`parts`: recall_attention_alone without what the MLP adds, recall_mlp_alone with nothing else. `frequency_groups`:
recall_group_1, ... in groups of facts of equal size by falling frequency. `test_sequences`: test_recall, the fraction
of right answers on a fixed random sample of sequences, drawn like those of training. An answer is the output of the
largest logit; right is what is strictly above all others.
"""

from __future__ import annotations

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from factrank.databases import Database
from factrank.experiments import tau_recall
from factrank.experiments.specs import Measures
from factrank.families.factual_recall.factual_recall_transformer import (
    FactualRecallTransformer,
    ReaderToken,
    SequenceReader,
)
from factrank.families.factual_recall.sequence_batches import (
    SequenceData,
    ask,
    copy_sequences,
    noise_tokens,
    sample_facts,
)
from factrank.families.factual_recall.sequence_layout import FactualRecallLayout, count_tokens
from factrank.readouts import cross_entropies, margins, probabilities

EVALUATION = np.uint32(2**32 - 1)
"""What is folded into a trial's key for its contexts; its epochs are smaller numbers."""
TEST = np.uint32(2**32 - 2)
"""What is folded in after that for the test set; the numbers of facts are smaller."""

Numbers = dict[str, Float[Array, ""]]
PerFact = dict[str, Float[Array, " facts"]]


def outputs_of(
    model: SequenceReader,
    data: SequenceData,
    counts: Float[Array, "batch tokens"],
    reader: ReaderToken | None = None,
) -> Float[Array, "batch outputs"]:
    """The logits of sequences; outputs that only fill up are never chosen."""
    return _valid(model.layout, data, model.logits(counts, reader))


def _valid(
    layout: FactualRecallLayout, data: SequenceData, logits: Float[Array, "batch outputs"]
) -> Float[Array, "batch outputs"]:
    at = jnp.arange(layout.n_outputs)
    valid = (at < data["n_values"]) | (at >= layout.n_values)
    least = float(jnp.finfo(logits.dtype).min)  # type: ignore[no-untyped-call]
    return jnp.where(valid, logits, least)


@dataclass(frozen=True)
class Examination:
    """What is asked: sequences of this length, at most so many at once."""

    measures: Measures
    length: int
    rows: int
    uniform: bool = True

    def check(self, model: SequenceReader, data: SequenceData) -> Numbers:
        """The numbers of curves and of stopping."""
        return self._over_facts(model, data, whole=False)[1] | self._test(model, data) | self._copying(model, data)

    def measure(self, model: SequenceReader, data: SequenceData) -> Numbers:
        """The numbers at the end."""
        found, numbers = self._over_facts(model, data, whole=True)
        real = data["weights"] > 0
        margin = jnp.where(real, found["margin"], jnp.nan)
        least = jnp.min(found["margin"], where=real, initial=jnp.inf)
        margins_found = {"margin": least, "median_margin": jnp.nanmedian(margin)}
        return numbers | margins_found | self._test(model, data) | self._copying(model, data)

    # ---------------------------------------------------------------- facts

    def _over_facts(self, model: SequenceReader, data: SequenceData, *, whole: bool) -> tuple[PerFact, Numbers]:
        """Numbers of each fact, block by block, and their means: losses by frequency, shares over all facts alike."""
        n_rows = data["keys"].shape[0]
        size = min(n_rows, max(1, self.rows // self.measures.contexts))
        blocks = jnp.arange(-(-n_rows // size) * size, dtype=jnp.int32).reshape(-1, size)
        asked = jax.lax.map(lambda facts: self._ask(model, data, jnp.minimum(facts, n_rows - 1), whole=whole), blocks)
        found = {name: numbers.reshape(-1)[:n_rows] for name, numbers in asked.items()}
        weights, frequencies = data["weights"], data["frequencies"]
        total = weights.sum()
        means = {
            # where: a filled-up row must not bring a number that is not finite into the sum
            name: jnp.where(weights > 0, one * frequencies, 0).sum()
            if name.endswith("loss")
            else (weights * one).sum() / total
            for name, one in found.items()
            if name != "margin"
        }
        for group in range(self.measures.frequency_groups):
            members = data["groups"] == group
            right = jnp.where(members, found["recall"], 0).sum()
            means[f"recall_group_{group + 1}"] = right / jnp.maximum(members.sum(), 1)
        return found, means

    def _ask(self, model: SequenceReader, data: SequenceData, facts: Int[Array, " facts"], *, whole: bool) -> PerFact:
        """Numbers of some facts, each the mean, the least or the conjunction over its contexts."""
        contexts, n_tokens = self.measures.contexts, model.layout.n_tokens
        noise = _noise(data, facts, (contexts, self.length - 2))
        repeated = jnp.repeat(facts, contexts)
        tokens = ask(model.layout, data, repeated, noise[:, 1:])
        counts, answers = count_tokens(tokens, n_tokens), data["values"][repeated]
        logits = outputs_of(model, data, counts)
        wide = jnp.promote_types(logits.dtype, jnp.float32)
        margin, probability = margins(logits, answers[:, None]), probabilities(logits, answers[:, None])

        def over_contexts(numbers: Array) -> Array:
            return numbers.astype(wide).reshape(-1, contexts)

        found = {
            "loss": over_contexts(cross_entropies(logits, answers)).mean(axis=1),
            "recall": over_contexts(margin > 0).min(axis=1),
            "recall_sequences": over_contexts(margin > 0).mean(axis=1),
            "margin": over_contexts(margin).min(axis=1),
            **{tau_recall(tau): over_contexts(probability >= tau).min(axis=1) for tau in self.measures.taus},
        }
        if whole and self.measures.parts and isinstance(model, FactualRecallTransformer):
            for name, alone in _part_logits(model, data, counts).items():
                found[name] = over_contexts(margins(alone, answers[:, None]) > 0).min(axis=1)
        if self.measures.hallucination:
            without = tokens.at[:, 0].set(noise_tokens(model.layout, data, noise[:, 0]))
            answer_without = outputs_of(model, data, count_tokens(without, n_tokens)).argmax(axis=1)
            more = _hallucination(data, repeated, logits.astype(wide), margin > 0, answer_without)
            found |= {name: over_contexts(numbers).mean(axis=1) for name, numbers in more.items()}
        return found

    # ---------------------------------------------------------------- a sample of sequences

    def _test(self, model: SequenceReader, data: SequenceData) -> Numbers:
        """Recall on the test set, which depends on the seed of the trial alone."""
        n_sequences = self.measures.test_sequences
        if not n_sequences:
            return {}
        key = jax.random.fold_in(_key(data), TEST)
        sequences = sample_facts(model.layout, data, key, (n_sequences, self.length), uniform=self.uniform)
        logits = outputs_of(model, data, count_tokens(sequences.tokens, model.layout.n_tokens))
        return {"test_recall": (margins(logits, sequences.answers[:, None]) > 0).mean(dtype=jnp.float32)}

    # ---------------------------------------------------------------- copying

    def _copying(self, model: SequenceReader, data: SequenceData) -> Numbers:
        """The share of payloads that are copied rightly, over all payloads of all groups and the contexts."""
        layout, contexts = model.layout, self.measures.contexts
        if not layout.copy_groups:
            return {}
        own = jnp.repeat(jnp.arange(layout.copy_size, dtype=jnp.int32), contexts)
        own = jnp.broadcast_to(own, (layout.copy_groups, own.size))
        others = jax.random.uniform(
            jax.random.fold_in(_key(data), EVALUATION), (*own.shape, self.length - 2), jnp.float32
        )
        copies = copy_sequences(layout, data, own, others)

        def share(group: tuple[Array, Array, Array]) -> Float[Array, ""]:
            cue, tokens, answers = group
            logits = outputs_of(model, data, count_tokens(tokens, layout.n_tokens), cue)
            return (margins(logits, answers[:, None]) > 0).mean()

        cues = layout.first_cue + jnp.arange(layout.copy_groups)
        return {"copying": jax.lax.map(share, (cues, copies.tokens, copies.answers)).mean()}


def _key(data: SequenceData) -> PRNGKeyArray:
    """The key of the contexts of a trial."""
    return jax.random.fold_in(jax.random.key(data["seed"]), EVALUATION)


def _noise(data: SequenceData, facts: Int[Array, " facts"], size: tuple[int, int]) -> Float[Array, "batch spaces"]:
    """Numbers in [0, 1) for the contexts of each fact, which depend on its number alone."""
    keys = jax.vmap(jax.random.fold_in, in_axes=(None, 0))(_key(data), facts)
    drawn = jax.vmap(lambda key: jax.random.uniform(key, size, jnp.float32))(keys)
    return drawn.reshape(-1, size[1])


def _part_logits(
    model: FactualRecallTransformer, data: SequenceData, counts: Float[Array, "batch tokens"]
) -> dict[str, Float[Array, "batch outputs"]]:
    collected = model.collected(counts)
    parts = {"recall_attention_alone": collected, "recall_mlp_alone": model.mlp(collected)}
    return {name: _valid(model.layout, data, part @ model.unembedding) for name, part in parts.items()}


def _hallucination(
    data: SequenceData,
    facts: Int[Array, " batch"],
    logits: Float[Array, "batch outputs"],
    right: Bool[Array, " batch"],
    answer_without: Int[Array, " batch"],
) -> dict[str, Array]:
    of_query, of_key = data["of_query"][data["queries"][facts]], data["of_key"][data["keys"][facts]]
    whole, answer = jax.nn.logsumexp(logits, axis=1), logits.argmax(axis=1)
    in_range = jnp.take_along_axis(of_query, answer[:, None], axis=1)[:, 0]
    return {
        "relation_loss": whole - jax.nn.logsumexp(logits, axis=1, where=of_query),
        "subject_loss": whole - jax.nn.logsumexp(logits, axis=1, where=of_key),
        "in_range": in_range,
        "wrong_in_range": in_range & ~right,
        "relation_alone": answer == answer_without,
    }


def value_masks(database: Database, layout: FactualRecallLayout) -> dict[str, Bool[np.ndarray, "codes outputs"]]:
    """Which outputs each query may have, and which occur with each key.

    Where the values are answer sets, as many for every query and in its order, a query may have all of its set, also
    what no fact uses; else what occurs with it.
    """
    keys, queries, values = database.triples.T
    of_query = np.zeros((layout.n_queries, layout.n_outputs), dtype=bool)
    of_key = np.zeros((layout.n_keys, layout.n_outputs), dtype=bool)
    of_query[queries, values] = of_key[keys, values] = True
    per_query, rest = divmod(database.n_values, database.n_queries)
    if not rest and (values // per_query == queries).all():
        for query in range(database.n_queries):
            of_query[query, query * per_query : (query + 1) * per_query] = True
    return {"of_query": of_query, "of_key": of_key}
