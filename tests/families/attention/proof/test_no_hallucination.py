"""No layer is certified to abstain if any program finds an answer to a (key, query) without a fact.

Programs are plain NumPy in float32 and float64: three orders of summation, and softmax in two ways. Hallucinations are
planted in layers that are sound otherwise, on any pair and with any probability; the claim is made at that probability.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from exact_layers import numbered
from factrank import Database, construct
from factrank.certificates import Abstention, Certificate, ConfidenceClaim, certify
from factrank.families.attention.forms.building import completed, with_reserved
from factrank.families.attention.proof import AttentionProver

PARTS = ("embedding", "w_q", "w_k", "w_v", "w_o", "unembedding")
FORMS = {"unknown": ("parabola", "binary", "digits"), "quiet": ("binary",)}
"""Forms with one place for every fact: the row of a key determines what the layer answers for this key."""

FREE, N_QUERIES, N_VALUES = 3, 2, 3
CELLS = list(np.ndindex(FREE, N_QUERIES))
"""Pairs that may have a fact. Every value is also that of another key, and a last key has no fact, so that all tables
have the same values in use."""

SURE = 0.9999
"""Probability of every fact, above that of all planted hallucinations."""

CLEAR = 1e-3
"""A claim is proved if it is this far from the probabilities of all programs."""


def logits_of(layer: Any, kind: type) -> Iterator[np.ndarray]:
    """Yield the logits of all pairs: head after head; from the last head, unembedded one by one; all heads at once."""
    parts = {name: np.asarray(getattr(layer, name)).astype(kind) for name in PARTS}
    keys, queries = parts["embedding"][: layer.n_keys], parts["embedding"][layer.n_keys :]
    heads = []
    for w_q, w_k, w_v, w_o in zip(*(parts[name] for name in PARTS[1:5]), strict=True):
        at = (queries @ w_q) / kind(np.sqrt(w_q.shape[1]))
        with np.errstate(over="ignore"):
            weight = 1 / (1 + np.exp(((queries @ w_k) * at).sum(axis=1) - (keys @ w_k) @ at.T))[..., None]
        heads.append(weight * (keys @ w_v @ w_o)[:, None] + (1 - weight) * (queries @ w_v @ w_o))
    direct = np.broadcast_to(queries, heads[0].shape)
    forth, back = direct, np.zeros((*direct.shape[:2], layer.n_values), dtype=kind)
    for head, last in zip(heads, reversed(heads), strict=True):
        forth, back = forth + head, back + last[..., ::-1] @ parts["unembedding"][::-1]
    yield forth @ parts["unembedding"]
    yield back + queries @ parts["unembedding"]
    yield np.concatenate([*heads, direct], axis=2) @ np.concatenate([parts["unembedding"]] * (len(heads) + 1))


def probabilities(layer: Any) -> Iterator[np.ndarray]:
    """Yield the probabilities of all pairs by every program."""
    for kind in (np.float32, np.float64):
        for logits in logits_of(layer, kind):
            top = logits.max(axis=2, keepdims=True)
            total = np.exp(logits - top).sum(axis=2, keepdims=True)
            yield np.exp(logits - top) / total
            yield np.exp(logits - (top + np.log(total)))


class Silence:
    """A claim about the pairs without a fact, and how programs judge it: by the pair that breaks it first."""

    def __init__(self, facts: Database, claim: ConfidenceClaim) -> None:
        """Keep the claim and its pairs."""
        self.facts, self.claim = facts, claim
        with_facts = {(key, query) for key, query, _ in facts.triples.tolist()}
        silent = [pair for pair in np.ndindex(facts.n_keys, facts.n_queries) if pair not in with_facts]
        self.keys, self.queries = np.array(silent).T

    def worst(self, layer: Any) -> float:
        """Return the least probability of the reserved value, or the largest of any value, over all programs."""
        there = [found[self.keys, self.queries] for found in probabilities(layer)]
        if self.claim.unknown is None:
            return max(float(found.max()) for found in there)
        return min(float(found[:, self.facts.values.index(self.claim.unknown)].min()) for found in there)

    def broken_at(self, found: float) -> float:
        """Return the tau closest to a claim that this probability would keep."""
        return found if self.claim.unknown is None else float(np.nextafter(found, 1))

    def kept_at(self, found: float) -> float:
        """Return a tau of a claim that this probability keeps clearly."""
        return found + CLEAR if self.claim.unknown is None else found - CLEAR

    def certify(self, layer: Any, tau: float) -> Certificate:
        """Certify the claim with another tau."""
        return certify(AttentionProver(layer, self.facts, replace(self.claim, tau=tau)))


def table_of(cells: set[tuple[int, int]], rng: np.random.Generator) -> Database:
    """Return a table with facts for these pairs, and for the keys that have one value for every query."""
    facts = [(*cell, int(rng.integers(N_VALUES))) for cell in sorted(cells)]
    facts += [(FREE + value, query, value) for value in range(N_VALUES) for query in range(N_QUERIES)]
    return numbered(facts, (FREE + N_VALUES + 1, N_QUERIES, N_VALUES))


def sound_and_wrong(silence: Silence, form: str, rng: np.random.Generator) -> tuple[Any, Any]:
    """Return a layer that keeps the claim, and one that gives a value to one pair without a fact.

    The weights of both have the same relative errors, so that sums are rounded; only one row differs.
    """
    whole = completed(silence.facts, silence.claim)
    at = int(rng.choice(np.flatnonzero(silence.keys < FREE)))
    key, query = int(silence.keys[at]), int(silence.queries[at])
    kept = whole.triples[(whole.triples[:, 0] != key) | (whole.triples[:, 1] != query)]
    answered = np.array([[key, query, int(rng.integers(N_VALUES))]], dtype=np.int32)
    sound = construct(whole, only=form, tau=SURE).model
    wrong = construct(replace(whole, triples=np.concatenate([kept, answered])), only=form, tau=SURE).model
    size = 10.0 ** -rng.integers(3, 8)
    errors = {
        name: (np.asarray(getattr(sound, name)) * (1 + size * rng.normal(size=getattr(sound, name).shape)))
        for name in ("w_v", "w_o", "unembedding")
    }
    sound = replace(sound, **{name: part.astype(np.float32) for name, part in errors.items()})
    rows = np.asarray(sound.embedding).copy()
    rows[key] = np.asarray(wrong.embedding)[key]
    return sound, replace(sound, embedding=rows)


def between(sound: Any, wrong: Any, part: float) -> Any:
    """Return the layer whose embedding is this part of the way from one to the other."""
    first, last = (np.asarray(layer.embedding).astype(np.float64) for layer in (sound, wrong))
    return replace(sound, embedding=(first + part * (last - first)).astype(np.float32))


@pytest.mark.parametrize("abstain", ["unknown", "quiet"])
@settings(max_examples=20)
@given(
    cells=st.sets(st.sampled_from(CELLS), max_size=len(CELLS) - 1),
    seed=st.integers(0, 2**32 - 1),
    aim=st.floats(0.6, 0.98),
)
def test_a_hallucination_of_any_size_is_never_certified(
    abstain: Abstention, cells: set[tuple[int, int]], seed: int, aim: float
) -> None:
    """At the very probability that a program finds there is no certificate, and well away from it there is one."""
    rng = np.random.default_rng(seed)
    claim = ConfidenceClaim(SURE, abstain, "unknown" if abstain == "unknown" else None)
    silence = Silence(with_reserved(table_of(cells, rng), claim), claim)
    sound, wrong = sound_and_wrong(silence, str(rng.choice(FORMS[abstain])), rng)
    assert silence.certify(sound, aim).certified
    assert not silence.certify(wrong, aim).certified
    low, high = 0.0, 1.0  # the part at which the worst program finds the aim
    for _ in range(30):
        middle = (low + high) / 2
        keeps = (silence.worst(between(sound, wrong, middle)) > aim) == (abstain == "unknown")
        low, high = (middle, high) if keeps else (low, middle)
    layer = between(sound, wrong, low)
    found = silence.worst(layer)
    assert found == pytest.approx(aim, abs=0.01)
    refused = silence.certify(layer, silence.broken_at(found))
    assert not refused.certified
    assert refused.recalled == silence.facts.n_facts
    assert refused.confidence is not None
    assert refused.confidence.proved_probability > SURE - 0.01 > refused.confidence.claim.tau  # facts are not why
    assert silence.certify(layer, silence.kept_at(found)).certified
