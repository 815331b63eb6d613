"""Rank bounds from the shape: the published table, exact generic ranks modulo a prime, numerical ranks of layers."""

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from factrank.errors import InputError
from factrank.families.attention.attention_layer import init_layer
from factrank.families.attention.layer_bounds import _expected_rank, flattening_ranks_of, layer_rank_bounds
from factrank.families.attention.layer_shape import LayerShape
from factrank.families.attention.pair_transformer import TransformerShape, init_transformer
from slow_layers import layer_sizes, modular_flattenings, modular_layer_tensor, modular_substitution

# (K, Q, V), (d_model, H, d_qk, d_vo), c, r_U, bound for all weights, key flattening, expected rank, whether proved
TABLE = [
    ((60, 3, 20), (16, 1, 1, 2), 2, 16, 9, 7, 9, True),
    ((60, 3, 20), (16, 1, 8, 2), 2, 16, 9, 7, 9, True),
    ((60, 4, 20), (16, 4, 4, 2), 8, 16, 36, 33, 36, True),
    ((60, 3, 20), (8, 8, 2, 2), 8, 8, 24, 24, 24, True),
    ((12, 3, 6), (6, 1, 1, 2), 2, 6, 9, 7, 9, True),
    ((12, 3, 6), (6, 2, 1, 2), 4, 6, 14, 12, 13, True),  # K = Q c: proved, one below the bound
    ((14, 4, 8), (8, 1, 1, 3), 3, 8, 16, 13, 16, True),
    ((8, 4, 8), (8, 2, 1, 2), 4, 8, 20, 8, 14, False),
    ((8, 6, 8), (8, 1, 1, 3), 3, 8, 20, 8, 15, False),  # few tokens: K + Q + min(Q, r_U), not min(K, Q) c + ... = 23
    ((6, 6, 6), (6, 1, 1, 3), 3, 6, 18, 6, 12, False),
]


def layer_of(shape, sizes, seed, score_scale=1.0, dtype="float64"):
    with jax.enable_x64(True):
        layer = init_layer(LayerShape(*shape), *sizes, key=seed, dtype=dtype)
        return layer.scaled_scores(score_scale)


def as_tuple(flattenings):
    return flattenings.key, flattenings.query, flattenings.value


@pytest.mark.parametrize(("sizes", "shape", "c", "r_u", "bound", "key", "expected", "proved"), TABLE)
def test_table(sizes, shape, c, r_u, bound, key, expected, proved):
    bounds = layer_rank_bounds(LayerShape(*shape), *sizes)
    assert (bounds.circuit_rank, bounds.unembedding_rank) == (c, r_u)
    assert (bounds.upper.value, bounds.upper.certified, bounds.flattenings.key) == (bound, True, key)
    assert (bounds.expected.value, bounds.expected.certified) == (expected, proved)
    assert bounds.attained == (expected == bound) == (sizes[0] >= sizes[1] * c + 1)


@pytest.mark.parametrize(("sizes", "shape"), [row[:2] for row in TABLE])
def test_table_is_attained_exactly(sizes, shape):
    """Ranks modulo a prime are certified lower bounds of generic ranks: they meet the formulas."""
    bounds = layer_rank_bounds(LayerShape(*shape), *sizes)
    tensor = modular_layer_tensor(shape, sizes, seed=0)
    assert modular_flattenings(tensor) == as_tuple(bounds.flattenings)
    lower = max(modular_substitution(tensor), *modular_flattenings(tensor))
    assert lower == bounds.generic.lower.value
    if bounds.attained:
        assert lower == bounds.upper.value


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(("sizes", "shape"), [row[:2] for row in TABLE])
def test_table_in_floating_point(sizes, shape, seed):
    """Large scores keep the singular values apart: at scale 1 and d_qk = 1 they sink below any tolerance."""
    bounds = layer_rank_bounds(LayerShape(*shape), *sizes)
    ranks = flattening_ranks_of(layer_of(shape, sizes, seed, 6.0), tolerance=1e-12)
    assert as_tuple(ranks) == as_tuple(bounds.flattenings)
    if bounds.attained:
        assert ranks.substitution == bounds.upper.value
    assert ranks.substitution <= bounds.generic.upper.value


@pytest.mark.parametrize(("n_heads", "terms"), [(1, 40), (2, 70), (3, 100)])
def test_a_head_has_no_more_terms_than_tokens(n_heads, terms):
    """However wide it is: a term per key, one per query, and what no key changes; multiplied out they are the layer."""
    sizes = n_keys, n_queries, _ = 20, 10, 20
    shape = LayerShape(d_model=16, n_heads=n_heads, d_qk=3, d_vo=16)
    assert layer_rank_bounds(shape, *sizes).upper.value == terms
    layer = layer_of((16, n_heads, 3, 16), sizes, seed=0, score_scale=3.0)
    with jax.enable_x64(True):
        tensor, parts = np.asarray(layer.tensor()), layer.parts()
    attention, circuits = np.asarray(parts.attention)[..., 0], np.asarray(parts.circuits)
    by_key, by_query = circuits[:, :n_keys], circuits[:, n_keys:]
    constant = np.asarray(parts.direct) + by_query.sum(axis=0)
    rebuilt = np.einsum("hkq,hkv->kqv", attention, by_key) - np.einsum("hkq,hqv->kqv", attention, by_query) + constant
    np.testing.assert_allclose(rebuilt, tensor, atol=1e-12)
    assert n_heads * (n_keys + n_queries) + np.linalg.matrix_rank(constant) == terms


def test_conditioning():
    """The tolerance is part of the answer: with d_qk = 1 and small scores the same shape looks smaller."""
    layer = layer_of((16, 1, 1, 2), (60, 8, 20), 0, 0.3)
    coarse, fine = (flattening_ranks_of(layer, tolerance) for tolerance in (1e-6, 1e-13))
    assert coarse.tolerance == 1e-6
    assert coarse.key < fine.key <= layer_rank_bounds(layer.shape, 60, 8, 20).flattenings.key == 17
    with pytest.raises(InputError, match="tolerance must be between 0 and 1"):
        flattening_ranks_of(layer, 0.0)


def test_ranks_of_float32_weights_are_computed_in_float64():
    layer = layer_of((16, 4, 4, 2), (60, 4, 20), 0, 2.0, dtype="float32")
    assert layer.embedding.dtype == np.float32
    assert as_tuple(flattening_ranks_of(layer, 1e-12)) == (33, 4, 12)


@given(layer_sizes(most_keys=14), st.integers(0, 4))
def test_softmax_flattenings_are_exact(drawn, n_shared):
    """No shape is an exception: small K, Q, V, d_vo above d_model, shared tokens."""
    shape, sizes, seed = drawn
    n_shared = min(n_shared, *sizes[:2])
    bounds = layer_rank_bounds(TransformerShape(*shape, share_tokens=True), *sizes, n_shared)
    # Integers may coincide modulo the prime, which lowers ranks: the best of three draws counts.
    tensors = [modular_layer_tensor(shape, sizes, seed + 100 * draw, n_shared=n_shared) for draw in range(3)]
    flattenings = np.max([modular_flattenings(tensor) for tensor in tensors], axis=0)
    assert tuple(flattenings) == as_tuple(bounds.flattenings)
    lower = max(*flattenings, *(modular_substitution(tensor) for tensor in tensors))
    assert bounds.generic.lower.value <= lower <= bounds.generic.upper.value <= bounds.upper.value
    assert bounds.generic.lower.value <= bounds.expected.value <= bounds.generic.upper.value


@given(layer_sizes(most_keys=14), st.sampled_from(["linear", "affine"]), st.integers(0, 4))
def test_linear_flattenings_are_never_exceeded(drawn, kind, n_shared):
    shape, sizes, seed = drawn
    n_shared = min(n_shared, *sizes[:2])
    options = TransformerShape(*shape, attention=kind, share_tokens=True)
    bounds = layer_rank_bounds(options, *sizes, n_shared)
    tensor = modular_layer_tensor(shape, sizes, seed, kind, n_shared)
    found = modular_flattenings(tensor)
    assert all(rank <= most for rank, most in zip(found, as_tuple(bounds.flattenings), strict=True))
    assert max(modular_substitution(tensor), *found) <= bounds.upper.value
    assert not bounds.generic.lower.certified
    assert not bounds.attained


@settings(max_examples=6)  # each shape is compiled
@given(layer_sizes(most_keys=9), st.sampled_from(["softmax", "linear", "affine"]), st.booleans())
def test_numerical_ranks_never_exceed_the_bounds(drawn, kind, positions):
    shape, sizes, seed = drawn
    options = TransformerShape(*shape, attention=kind, positions=positions)
    with jax.enable_x64(True):
        model = init_transformer(options, *sizes, key=seed, dtype="float64").scaled_scores(2.0)
    bounds, ranks = layer_rank_bounds(options, *sizes), flattening_ranks_of(model)
    assert all(rank <= most for rank, most in zip(as_tuple(ranks), as_tuple(bounds.flattenings), strict=True))
    assert ranks.substitution <= bounds.upper.value


@pytest.mark.parametrize("d_qk", [1, 2, 3, 4])
def test_d_qk_enters_linear_attention_only(d_qk):
    """The key flattening: H d_qk d_vo + 1, resp. H (d_qk d_vo + d_qk + d_vo) + 1, and for softmax always Q c + 1."""
    sizes, shape, n_heads, d_vo = (60, 12, 20), (20, 2, d_qk, 2), 2, 2
    predicted = {
        "linear": n_heads * d_qk * d_vo + 1,
        "affine": n_heads * (d_qk * d_vo + d_qk + d_vo) + 1,
        "softmax": 12 * n_heads * d_vo + 1,
    }
    for kind, key in predicted.items():
        bounds = layer_rank_bounds(TransformerShape(*shape, attention=kind), *sizes)
        assert bounds.flattenings.key == key
        assert modular_flattenings(modular_layer_tensor(shape, sizes, d_qk, kind))[0] == key
        if kind == "affine" and d_qk < 3:
            with jax.enable_x64(True):
                model = init_transformer(TransformerShape(*shape, attention=kind), *sizes, key=d_qk, dtype="float64")
            assert flattening_ranks_of(model).key == key
    linear = layer_rank_bounds(TransformerShape(*shape, attention="linear"), *sizes)
    affine = layer_rank_bounds(TransformerShape(*shape, attention="affine"), *sizes)
    assert linear.upper.value == n_heads * d_qk * d_vo + 12
    assert affine.upper.value == n_heads * d_vo * (2 * d_qk + 1) + 12


def test_values_of_few_tokens():
    """Wide heads read only the K + Q - 1 differences of tokens; sharing them takes one away, positions give it back."""
    sizes, shape = (3, 3, 40), (40, 1, 4, 30)
    assert layer_rank_bounds(LayerShape(*shape), *sizes).flattenings.value == 5 + 3
    assert modular_flattenings(modular_layer_tensor(shape, sizes, 0))[2] == 8
    shared = TransformerShape(*shape, share_tokens=True)
    assert layer_rank_bounds(shared, *sizes, 2).flattenings.value == 3 + 3
    assert modular_flattenings(modular_layer_tensor(shape, sizes, 0, n_shared=2))[2] == 6
    both = TransformerShape(*shape, share_tokens=True, positions=True)
    with jax.enable_x64(True):
        model = init_transformer(both, *sizes, key=0, dtype="float64", query_rows=[0, 1, 3])
    assert layer_rank_bounds(both, *sizes, 2).flattenings.value == flattening_ranks_of(model).value == 4 + 3


def test_one_key_or_one_query_is_a_matrix():
    shape = LayerShape(d_model=6, n_heads=1, d_qk=2, d_vo=2)
    for sizes, rank in (((1, 4, 9), 4), ((1, 9, 9), 6), ((9, 1, 9), 3), ((2, 1, 9), 2), ((1, 1, 1), 1)):
        bounds = layer_rank_bounds(shape, *sizes)
        assert (bounds.upper.value, bounds.generic.lower.value) == (rank, rank)
        assert bounds.attained


EXPECTED = {(8, 4, 4): 10, (8, 6, 3): 10, (6, 6, 3): 9, (3, 3, 3): 5, (5, 3, 5): 8, (12, 3, 4): 12, (50, 3, 4): 12}


@pytest.mark.parametrize(("sizes", "rank"), EXPECTED.items())
def test_expected_rank(sizes, rank):
    assert _expected_rank(*sizes) == _expected_rank(*sizes[::-1]) == rank


def test_mistakes_are_named():
    shape = LayerShape(8, 1, 2, 2)
    with pytest.raises(InputError, match="n_values must be an integer of at least 1; got 0"):
        layer_rank_bounds(shape, 3, 3, 0)
    with pytest.raises(InputError, match="0 without share_tokens; got 1"):
        layer_rank_bounds(shape, 3, 3, 3, 1)
    with pytest.raises(InputError, match=r"n_shared must be at most .*got 4"):
        layer_rank_bounds(TransformerShape(8, 1, 2, 2, share_tokens=True), 3, 5, 3, 4)
    for option in ({"n_layers": 2}, {"layer_norm": True}, {"mlp_width": 3}):
        with pytest.raises(InputError, match="a single layer without layer norm and MLP"):
            layer_rank_bounds(TransformerShape(8, 1, 2, 2, **option), 3, 3, 3)
