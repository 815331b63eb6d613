r"""Measures of a model that reads sequences, over all facts and several noise contexts per fact.

The contexts depend only on the seed of the trial and the index of the fact, so they are the same in every evaluation.
Facts are processed in blocks, with no more sequences in memory than in a training step.

`RelationAlone`, also on curves, with A_q the possible answers of query q and A_k the answers that occur with key k:

    relation_loss   $-\log \sum_{v \in A_q} p(v)$, mean over (fact, context) weighted by the frequency of facts
    subject_loss    $-\log \sum_{v \in A_k} p(v)$, averaged in the same way
    in_range        fraction of (fact, context) answered within A_q
    wrong_in_range  fraction answered incorrectly but within A_q
    relation_alone  fraction with the same answer after replacing the key by a noise token: the relation alone explains
                    the answer

`PartsAlone`: recall_attention_alone without the MLP, recall_mlp_alone with the MLP only. `FrequencyGroups`:
recall_group_1, ... in groups of facts of equal size by decreasing frequency. `TestRecall`: test_recall, the fraction of
correct answers on a fixed random sample of sequences, drawn like the training sequences. The answer is the output with
the largest logit; it is correct only if that logit is strictly larger than all others.
"""

from __future__ import annotations

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from factrank.databases import Database
from factrank.experiments import tau_recall
from factrank.families.factual_recall.factual_recall_transformer import (
    FactualRecallModel,
    FactualRecallTransformer,
    ReaderToken,
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
"""Folded into a trial's key for its noise contexts; epochs are smaller numbers."""
TEST = np.uint32(2**32 - 2)
"""Folded in after that for the test set; indices of facts are smaller numbers."""

Numbers = dict[str, Float[Array, ""]]
PerFact = dict[str, Float[Array, " facts"]]


def outputs_of(
    model: FactualRecallModel,
    data: SequenceData,
    counts: Float[Array, "batch tokens"],
    reader: ReaderToken | None = None,
) -> Float[Array, "batch outputs"]:
    """Return the logits of sequences; padding outputs are never chosen."""
    return _valid(model.layout, data, model.logits(counts, reader))


def _valid(
    layout: FactualRecallLayout, data: SequenceData, logits: Float[Array, "batch outputs"]
) -> Float[Array, "batch outputs"]:
    at = jnp.arange(layout.n_outputs)
    valid = (at < data["n_values"]) | (at >= layout.n_values)
    least = float(jnp.finfo(logits.dtype).min)  # type: ignore[no-untyped-call]
    return jnp.where(valid, logits, least)


@dataclass(frozen=True)
class FactualRecallExamination:
    """Which measures to compute, for sequences of `length` tokens and at most `rows` sequences at a time."""

    taus: tuple[float, ...]
    contexts: int
    groups: int
    test_sequences: int
    parts_alone: bool
    relation_alone: bool
    length: int
    rows: int
    uniform: bool

    def check(self, model: FactualRecallModel, data: SequenceData) -> Numbers:
        """Return the measures used for curves and for stopping."""
        return self._over_facts(model, data, whole=False)[1] | self._test(model, data) | self._copying(model, data)

    def measure(self, model: FactualRecallModel, data: SequenceData) -> Numbers:
        """Return the final measures."""
        found, numbers = self._over_facts(model, data, whole=True)
        real = data["weights"] > 0
        margin = jnp.where(real, found["margin"], jnp.nan)
        least = jnp.min(found["margin"], where=real, initial=jnp.inf)
        margins_found = {"margin": least, "median_margin": jnp.nanmedian(margin)}
        return numbers | margins_found | self._test(model, data) | self._copying(model, data)

    # ---------------------------------------------------------------- facts

    def _over_facts(self, model: FactualRecallModel, data: SequenceData, *, whole: bool) -> tuple[PerFact, Numbers]:
        """Return measures per fact, and their means: losses weighted by frequency, fractions over all facts equally."""
        n_rows = data["keys"].shape[0]
        size = min(n_rows, max(1, self.rows // self.contexts))
        blocks = jnp.arange(-(-n_rows // size) * size, dtype=jnp.int32).reshape(-1, size)
        asked = jax.lax.map(lambda facts: self._ask(model, data, jnp.minimum(facts, n_rows - 1), whole=whole), blocks)
        found = {name: numbers.reshape(-1)[:n_rows] for name, numbers in asked.items()}
        weights, frequencies = data["weights"], data["frequencies"]
        total = weights.sum()
        means = {
            # `where` keeps infinite or NaN losses of padding rows out of the sum
            name: jnp.where(weights > 0, one * frequencies, 0).sum()
            if name.endswith("loss")
            else (weights * one).sum() / total
            for name, one in found.items()
            if name != "margin"
        }
        for group in range(self.groups):
            members = data["groups"] == group
            right = jnp.where(members, found["recall"], 0).sum()
            means[f"recall_group_{group + 1}"] = right / jnp.maximum(members.sum(), 1)
        return found, means

    def _ask(
        self, model: FactualRecallModel, data: SequenceData, facts: Int[Array, " facts"], *, whole: bool
    ) -> PerFact:
        """Return measures of some facts: the mean, minimum or conjunction over their contexts."""
        contexts, n_tokens = self.contexts, model.layout.n_tokens
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
            **{tau_recall(tau): over_contexts(probability >= tau).min(axis=1) for tau in self.taus},
        }
        if whole and self.parts_alone and isinstance(model, FactualRecallTransformer):
            for name, alone in _part_logits(model, data, counts).items():
                found[name] = over_contexts(margins(alone, answers[:, None]) > 0).min(axis=1)
        if self.relation_alone:
            without = tokens.at[:, 0].set(noise_tokens(model.layout, data, noise[:, 0]))
            answer_without = outputs_of(model, data, count_tokens(without, n_tokens)).argmax(axis=1)
            more = _relation_alone(data, repeated, logits.astype(wide), margin > 0, answer_without)
            found |= {name: over_contexts(numbers).mean(axis=1) for name, numbers in more.items()}
        return found

    # ---------------------------------------------------------------- a sample of sequences

    def _test(self, model: FactualRecallModel, data: SequenceData) -> Numbers:
        """Return the recall on the test set, which depends only on the seed of the trial."""
        n_sequences = self.test_sequences
        if not n_sequences:
            return {}
        key = jax.random.fold_in(_key(data), TEST)
        sequences = sample_facts(model.layout, data, key, (n_sequences, self.length), uniform=self.uniform)
        logits = outputs_of(model, data, count_tokens(sequences.tokens, model.layout.n_tokens))
        return {"test_recall": (margins(logits, sequences.answers[:, None]) > 0).mean(dtype=jnp.float32)}

    # ---------------------------------------------------------------- copying

    def _copying(self, model: FactualRecallModel, data: SequenceData) -> Numbers:
        """Return the fraction of payloads copied correctly, over all payloads, groups and contexts."""
        layout, contexts = model.layout, self.contexts
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
    """Return the random key of the noise contexts of a trial."""
    return jax.random.fold_in(jax.random.key(data["seed"]), EVALUATION)


def _noise(data: SequenceData, facts: Int[Array, " facts"], size: tuple[int, int]) -> Float[Array, "batch spaces"]:
    """Return numbers in [0, 1) for the contexts of each fact, which depend only on its index."""
    keys = jax.vmap(jax.random.fold_in, in_axes=(None, 0))(_key(data), facts)
    drawn = jax.vmap(lambda key: jax.random.uniform(key, size, jnp.float32))(keys)
    return drawn.reshape(-1, size[1])


def _part_logits(
    model: FactualRecallTransformer, data: SequenceData, counts: Float[Array, "batch tokens"]
) -> dict[str, Float[Array, "batch outputs"]]:
    collected = model.collected(counts)
    parts = {"recall_attention_alone": collected, "recall_mlp_alone": model.mlp(collected)}
    return {name: _valid(model.layout, data, part @ model.unembedding) for name, part in parts.items()}


def _relation_alone(
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
    """Return the possible outputs of each query, and the outputs that occur with each key.

    If the values are answer sets of equal size in the order of the queries, all values of its set are possible for a
    query, including unused ones; otherwise only the values that occur with it.
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
