"""Sequences that ask for facts, and copying sequences, sampled on the device from a random key.

A sequence that asks for a fact has its key, its query, T - 3 noise tokens and the end token. A copying sequence has one
payload from each group, T - 1 - G noise tokens and a cue. Noise is uniform. Without positions the order of tokens does
not matter, so it is not randomised. Facts are drawn by frequency, through their inverse cumulative distribution, or
directly if all are equally frequent.

The real sizes (`n_facts`, `n_noise`) are part of the data, so padding facts and tokens are never sampled.
"""

from __future__ import annotations

from typing import NamedTuple, NotRequired, TypedDict

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray, UInt

from factrank.families.factual_recall.sequence_layout import FactualRecallLayout


class SequenceData(TypedDict):
    """Arrays that differ between the trials of a bundle, one row per fact; weights are 0 in padding rows, else 1."""

    keys: Int[Array, " n"]
    queries: Int[Array, " n"]
    values: Int[Array, " n"]
    weights: Float[Array, " n"]
    frequencies: Float[Array, " n"]
    cumulative: Float[Array, " n"]
    groups: Int[Array, " n"]
    n_facts: Int[Array, ""]
    n_noise: Int[Array, ""]
    n_values: Int[Array, ""]
    seed: UInt[Array, ""]
    score_scale: Float[Array, ""]
    of_query: NotRequired[Bool[Array, "queries outputs"]]
    of_key: NotRequired[Bool[Array, "keys outputs"]]


class Sequences(NamedTuple):
    """Sequences of tokens, and the correct output after each."""

    tokens: Int[Array, "*batch length"]
    answers: Int[Array, "*batch"]


class Batch(NamedTuple):
    """The sequences of one step: sequences that ask for facts, and copying sequences for every group."""

    facts: Sequences
    copies: Sequences


def sample_facts(
    layout: FactualRecallLayout, data: SequenceData, key: PRNGKeyArray, size: tuple[int, int], *, uniform: bool
) -> Sequences:
    """Sample sequences that ask for facts, `size` = (number, length)."""
    n_sequences, length = size
    drawn = jax.random.uniform(key, (n_sequences, length - 2), jnp.float32)
    if uniform:
        facts = below(drawn[:, 0], data["n_facts"])
    else:
        facts = jnp.searchsorted(data["cumulative"], drawn[:, 0], side="right", method="scan_unrolled")
        facts = jnp.minimum(facts, data["n_facts"] - 1)
    return Sequences(ask(layout, data, facts, drawn[:, 1:]), data["values"][facts])


def ask(
    layout: FactualRecallLayout, data: SequenceData, facts: Int[Array, "*batch"], noise: Float[Array, "*batch spaces"]
) -> Int[Array, "*batch length"]:
    """Return the sequences for the given facts, with noise from numbers in [0, 1)."""
    keys, queries = data["keys"][facts], layout.first_query + data["queries"][facts]
    ends = jnp.full_like(keys, layout.end)
    return jnp.concatenate([jnp.stack([keys, queries, ends], axis=-1), noise_tokens(layout, data, noise)], axis=-1)


def noise_tokens(
    layout: FactualRecallLayout, data: SequenceData, noise: Float[Array, "*batch spaces"]
) -> Int[Array, "*batch spaces"]:
    """Map numbers in [0, 1) to noise tokens."""
    return layout.first_noise + below(noise, data["n_noise"])


def below(numbers: Float[Array, "*batch"], size: Int[Array, ""]) -> Int[Array, "*batch"]:
    """Map uniform numbers in [0, 1) to uniform integers below `size`."""
    return jnp.minimum((numbers * size).astype(jnp.int32), size - 1)


def sample_copies(
    layout: FactualRecallLayout, data: SequenceData, key: PRNGKeyArray, size: tuple[int, int]
) -> Sequences:
    """Sample copying sequences for every cue, `size` = (number per cue, length)."""
    n_groups, (n_sequences, length) = layout.copy_groups, size
    drawn = jax.random.uniform(key, (n_groups, n_sequences, length - 1), jnp.float32)
    own = below(drawn[..., 0], jnp.int32(layout.copy_size))
    return copy_sequences(layout, data, own, drawn[..., 1:])


def copy_sequences(
    layout: FactualRecallLayout,
    data: SequenceData,
    own: Int[Array, "groups batch"],
    others: Float[Array, "groups batch spaces"],
) -> Sequences:
    """Return copying sequences for every cue with the given payloads as answers.

    The payloads of the other groups and the noise are determined by numbers in [0, 1).
    """
    n_groups, size = layout.copy_groups, layout.copy_size
    cues = jnp.arange(n_groups, dtype=jnp.int32)[:, None]
    later = (cues + jnp.arange(1, n_groups, dtype=jnp.int32)) % n_groups  # the other groups
    payloads = layout.first_payload + later[:, None, :] * size + below(others[..., : n_groups - 1], jnp.int32(size))
    noise = noise_tokens(layout, data, others[..., n_groups - 1 :])
    answers = cues * size + own
    asked = [jnp.broadcast_to(layout.first_cue + cues, own.shape), layout.first_payload + answers]
    tokens = jnp.concatenate([jnp.stack(asked, axis=-1), payloads, noise], axis=-1)
    return Sequences(tokens, layout.n_values + answers)
