"""The count that is typical for a size, and the readout softmax>=tau."""

import numpy as np
import pytest
from flint import arb, ctx

from factrank.databases.database import Database
from factrank.databases.generators.random_tables import uniform
from factrank.databases.sample_tables import sample
from factrank.databases.vocabulary import Vocabulary
from factrank.errors import InputError
from factrank.tensors.bounds.lower.counting import typical_effective_rank
from factrank.tensors.bounds.threshold import effective_rank_softmax, scale_for_threshold, threshold_terms
from factrank.tensors.core.zero_one import ZeroOneTensor
from factrank.tensors.measurement import measure


@pytest.mark.parametrize(
    ("size", "expected"),
    [
        ((8, 4, 6, 32), 1),
        ((12, 6, 12, 72), 1),
        ((20, 10, 20, 200), 2),
        ((50, 10, 50, 500), 2),
        ((100, 100, 100, 10_000), 12),
        ((1000, 10, 1000, 10_000), 2),
        ((1000, 1000, 1000, 1_000_000), 132),
    ],
)
def test_typical_effective_ranks(size, expected):
    assert typical_effective_rank(*size) == expected


def test_the_count_is_the_least_rank_that_satisfies_the_inequality():
    for n in (40, 150, 400):
        size, bits = 20 + 30 + 40 - 3, n * np.log2(40) - 20
        differences = n * 40 * 39 / 2
        rank = typical_effective_rank(20, 30, 40, n)
        room = [r * size * np.log2(12 * np.e * differences / (r * size)) if r else 0 for r in (rank - 1, rank)]
        assert room[0] < bits <= room[1]


def test_sizes_that_hold_almost_nothing():
    assert typical_effective_rank(1, 1, 1, 1) == 0
    assert typical_effective_rank(5, 3, 4, 8) == 0
    assert typical_effective_rank(5, 3, 4, 8, excluded_bits=0) == 1
    with pytest.raises(InputError, match="no functional database"):
        typical_effective_rank(2, 2, 2, 5)


@pytest.mark.parametrize("tau", [0.2, 0.5, 0.9, 0.999])
@pytest.mark.parametrize("database", [sample("astrid"), uniform(8, 4, 6, seed=1)], ids=["astrid", "random"])
def test_scaled_witnesses_show_softmax_at_least_tau(database, tau):
    tensor = ZeroOneTensor.of(database.compact())
    argmax = measure(database, budget=2.0).effective_rank
    bounds = effective_rank_softmax(argmax, tensor, tau)
    assert (bounds.lower.value, bounds.upper.value) == (argmax.lower.value, argmax.upper.value)
    logits = np.zeros(tensor.shape)
    for cell, weight in bounds.upper.witness().multiply_out(tensor.shape).items():
        logits[cell] = float(weight)
    odds = np.exp(logits - logits.max(axis=2, keepdims=True))
    shown = odds / odds.sum(axis=2, keepdims=True) >= tau
    for k, q, v in tensor.coordinates.tolist():
        assert np.flatnonzero(shown[k, q]).tolist() == [v]


@pytest.mark.parametrize(("margin", "n_values", "tau"), [(1.0, 2, 0.5), (0.25, 30, 0.9), (8.0, 5, 0.1)])
def test_the_scale_is_enough_and_hardly_more(margin, n_values, tau):
    """The worst fiber: all other values at the margin below."""
    scale, most = scale_for_threshold(margin, n_values, tau), max(tau, 1 - tau)
    right = 1 / (1 + (n_values - 1) * np.exp(-scale * margin))
    assert most < right < most + 1e-9


def test_what_is_refused():
    tensor = ZeroOneTensor.of(sample("astrid").compact())
    argmax = measure(sample("astrid")).effective_rank
    for tau in (0.0, 1.0):
        with pytest.raises(InputError, match="tau"):
            scale_for_threshold(1.0, 3, tau)
        with pytest.raises(InputError, match="tau"):
            effective_rank_softmax(argmax, tensor, tau)
    several = ZeroOneTensor.of(Database.from_facts([("a", "b", "c"), ("a", "b", "d")], multi=True))
    with pytest.raises(InputError, match="functional"):
        effective_rank_softmax(argmax, several, 0.5)
    witness = argmax.upper.witness()
    first = witness.take_terms(np.arange(witness.n_terms) == 0)
    with pytest.raises(InputError, match="do not recall"):
        threshold_terms(first, tensor, 0.5)


def test_thresholds_near_one_half_are_still_exceeded():
    """exp(scale * margin) must exceed the odds, by 200-bit arithmetic, also where the odds are almost 1."""
    rng = np.random.default_rng(0)
    with ctx.workprec(200):
        for _ in range(2000):
            tau = float(0.5 + rng.choice([-1, 1]) * 10.0 ** rng.uniform(-12, -0.4))
            margin, n_values = float(10 ** rng.uniform(-3, 3)), int(rng.integers(2, 6))
            scale = scale_for_threshold(margin, n_values, tau)
            t = max(arb(tau), 1 - arb(tau))
            assert (arb(scale) * arb(margin)).exp() > (n_values - 1) * t / (1 - t)


def test_values_without_a_fact_take_no_part():
    facts = [("a", "x", "0"), ("a", "y", "1"), ("b", "x", "2"), ("b", "y", "0"), ("c", "x", "1"), ("c", "y", "2")]
    small = Database.from_facts(facts)
    wider = Database(small.triples, small.keys, small.queries, Vocabulary([*small.values, "unused"]))
    tensor = ZeroOneTensor.of(wider)
    bounds = effective_rank_softmax(measure(wider).effective_rank, tensor, 0.9)
    terms = bounds.upper.witness().multiply_out(tensor.shape)
    for k, q, v in tensor.coordinates.tolist():
        logits = [float(terms.get((k, q, u), 0)) for u in range(3)]
        weights = np.exp(np.array(logits) - max(logits))
        assert weights[v] / weights.sum() >= 0.9
