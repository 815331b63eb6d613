"""Thousands of layers near the bound, evaluated in the worst orders: none is certified and wrong."""

from contextlib import contextmanager

import jax
import numpy as np
import pytest

from adversarial_layers import Plan, attacks, jax_logits, leads, programs, score_attack
from attention_proofs import margin_bounds
from exact_layers import numbered
from factrank.experiments.models.verification import verify
from factrank.families.attention.proof import recall_proofs as proofs
from factrank.families.attention.proof.proved_attention import ProvedScores
from factrank.families.attention.proof.roundings import LayerTerms, PairTerms, roundings_of_logits

FACT = numbered([(0, 0, 0)], (1, 1, 2))
SHARES = np.linspace(0.1, 1.6, 18)
LARGEST = {"float64": 2.5, "float32": 1.0, "bfloat16": 1.5}
"""Times the shares: in float64 our own roundings count too, and bfloat16 leaves the proof little room."""

SIZES = {
    "float64": ((3, 2, 3), (6, 6, 4), (24, 3, 2)),
    "float32": ((1, 8, 8), (2, 2, 5), (8, 1, 24), (8, 8, 2), (16, 4, 6), (24, 12, 3), (1, 2, 40)),
    "bfloat16": ((2, 2, 3), (4, 1, 4), (1, 6, 6), (3, 3, 2)),
}
PLACES = ("concatenated", "direct", "folded", "folded twice", "heads", "read", "values", "both tokens")


def plans(precision):
    for place in PLACES:
        for heads, d_vo, width in SIZES[precision]:
            yield Plan(place, heads, max(d_vo, 2), width)


def bounds_of(batch):
    return np.array([margin_bounds(batch.layer(at), FACT).margins[0] for at in range(len(batch.keys))])


def evaluated(batch, rng):
    """The least lead of the right value over all programs, layer by layer."""
    return np.min([leads(program.logits(batch, rng)) for program in programs(rng)], axis=0)


@pytest.mark.parametrize("precision", SIZES)
def test_no_program_falls_below_the_bound(precision):
    rng, counts = np.random.default_rng(0), np.zeros(3, int)
    for plan in plans(precision):
        batch = attacks(plan, precision, SHARES * LARGEST[precision] * rng.uniform(0.9, 1.1))
        bounds, found = bounds_of(batch), evaluated(batch, rng)
        assert (found >= bounds).all(), plan
        counts += (bounds > 0).sum(), (found <= 0).sum(), len(bounds)
    certified, wrong, layers = counts
    assert certified > layers / 20, "nothing is near the bound"
    assert wrong > layers / 10, "no program is bad enough"


def test_soft_attention_whose_scores_are_lost():
    rng, n_wrong = np.random.default_rng(1), 0
    for d_qk in (1, 2, 4, 9, 16):
        for precision in ("float32", "float64"):
            batch = score_attack(d_qk, SHARES, precision)
            bounds, found = bounds_of(batch), evaluated(batch, rng)
            assert (found >= bounds).all(), d_qk
            n_wrong += (found <= 0).sum()
    assert n_wrong > 20


# ---------------------------------------------------------------- the programs that people run


def ones_and_dust(size, leads_by):
    """One head after another writes ones: the sum of 2 and many times 2^-24 against 2 and `leads_by` less of these."""
    batch = attacks(Plan("concatenated", size, size, 1), "float32", [1.0])
    small = 2.0**-24
    w_o = np.full_like(batch.w_o, 0)
    w_o[..., 0] = small
    w_o[0, 0, :2, 0] = 1
    w_o[0, -1, -2:, 1] = 1, 1 + (size**2 - 2 - leads_by - 2) * small
    return batch._replace(w_o=w_o)


@pytest.mark.parametrize("size", [8, 24, 80])
def test_heads_concatenated_by_libraries(size):
    """Certified by a count that adds up each head by itself; NumPy, JAX or PyTorch answer otherwise."""
    for leads_by in (size, 2 * size - 6, size**2 // 3):
        layer = ones_and_dust(size, leads_by).layer(0)
        bound = margin_bounds(layer, FACT).margins[0]
        results = [np.asarray(one)[0] for one in jax_logits(layer)]
        read = np.ones(size**2, np.float32)
        results.append(read @ layer.w_o.reshape(size**2, -1) @ layer.unembedding)
        for logits in results:
            wide = logits.astype(np.float64)
            assert wide[0] - wide[1] >= bound


def test_pytorch_stays_within_the_bound():
    torch = pytest.importorskip("torch")
    from factrank.bridges.torch_modules import to_torch

    zero, rng = torch.zeros(1, dtype=torch.long), np.random.default_rng(2)
    batches = [ones_and_dust(size, 2 * size) for size in (8, 24)]
    batches += [attacks(plan, "float32", rng.uniform(0.2, 1.5, 2)) for plan in plans("float32")]
    for batch in batches:
        for at in range(len(batch.keys)):
            with torch.no_grad():
                logits = to_torch(batch.layer(at))(zero, zero).numpy()
            assert leads(logits)[0] >= margin_bounds(batch.layer(at), FACT).margins[0]


def test_a_layer_that_programs_answer_differently_is_not_certified():
    layer = jax.tree.map(np.asarray, ones_and_dust(24, 236).layer(0))
    found = verify(layer, FACT)
    assert not found.certified
    assert "not proved positive" in found.reason


# ---------------------------------------------------------------- mutants


def one_head_at_a_time(pair: PairTerms, layer: LayerTerms):
    """The count of old: the coordinates of one head, and then the heads."""
    return roundings_of_logits(pair._replace(leaves=np.minimum(pair.leaves, 3.0)), layer)


def without_the_direct_path(pair: PairTerms, layer: LayerTerms):
    return roundings_of_logits(pair._replace(direct=np.zeros_like(pair.direct)), layer)


def heads_by_themselves(pair: PairTerms, layer: LayerTerms):
    return roundings_of_logits(pair._replace(reached=np.minimum(pair.reached, pair.direct + 8)), layer)


def without_the_unembedding(pair: PairTerms, layer: LayerTerms):
    one = np.ones_like(pair.reached)
    return roundings_of_logits(pair._replace(reached=one, direct=np.minimum(pair.direct, 1)), layer)


def without_the_values(pair: PairTerms, layer: LayerTerms):
    return roundings_of_logits(pair, layer._replace(of_values=0))


MUTANTS = [
    one_head_at_a_time,
    without_the_direct_path,
    heads_by_themselves,
    without_the_unembedding,
    without_the_values,
]


@contextmanager
def counting(monkeypatch, mutant):
    with monkeypatch.context() as patch:
        patch.setattr(proofs, "roundings_of_logits", mutant)
        yield


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.__name__)
def test_mutants_of_the_count_certify_layers_that_are_wrong(monkeypatch, mutant):
    rng = np.random.default_rng(3)

    def is_caught(plan):
        batch = attacks(plan, "float32", SHARES[4:15:4])
        return ((bounds_of(batch) > 0) & (evaluated(batch, rng) <= 0)).any()

    with counting(monkeypatch, mutant):
        assert any(is_caught(plan) for plan in plans("float32") if plan.terms >= 20)


def test_a_mutant_of_the_scores_is_caught(monkeypatch):
    batch = score_attack(16, SHARES)
    with monkeypatch.context() as patch:
        patch.setattr(ProvedScores, "roundings", 2)
        bounds = bounds_of(batch)
    assert ((bounds > 0) & (evaluated(batch, np.random.default_rng(4)) <= 0)).any()
