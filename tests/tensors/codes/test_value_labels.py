"""Label search: planted tables are found, and every claim is an integer witness with positive margins."""

import time
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from factrank.databases.sample_tables import sample
from factrank.tensors.codes.parabola import least_margin, shared_bias_bound
from factrank.tensors.codes.value_labels import envelope, labelled_codes
from factrank.tensors.core import integer_margins
from factrank.tensors.core.decomposition import Decomposition, Factor
from factrank.tensors.core.integer_margins import IntegerLogits
from factrank.tensors.core.zero_one import Core, ZeroOneTensor
from factrank.tensors.measurement import measure
from strategies import tensors

ENTRIES = {1: (7, 6), 2: (4, 3), 3: (3, 2)}


def planted(rank, seed, shape=(20, 8)):
    """A table F = A B^T of small integers whose numbers, those used twice or more, are the values in a hidden order."""
    rng = np.random.default_rng([rank, seed])
    while True:
        keys, queries = (
            rng.integers(-most, most + 1, (size, rank)) for size, most in zip(shape, ENTRIES[rank], strict=True)
        )
        table = keys @ queries.T
        numbers, value, uses = np.unique(table, return_inverse=True, return_counts=True)
        if np.linalg.matrix_rank(table) == rank and 27 <= np.count_nonzero(uses > 1) <= 33:
            break
    value = rng.permutation(len(numbers))[value.reshape(shape)]
    cells = np.argwhere(np.bincount(value.ravel())[value] > 1)
    value = np.unique(value[tuple(cells.T)], return_inverse=True)[1]
    return ZeroOneTensor(np.column_stack([cells, value]), (*shape, int(value.max()) + 1))


def least_labelled(tensor, between, seed=0, seconds=60.0):
    """The logits with the fewest terms that the search finds; None if it finds none."""
    found = list(labelled_codes(tensor, between, time.monotonic() + seconds, np.random.default_rng(seed)))
    return found[-1] if found else None


def recalls(terms, tensor):
    """Whether the argmax of the terms, multiplied out, is the value of every fact."""
    array = np.zeros(tensor.shape, dtype=object)
    for cell, weight in terms.multiply_out(tensor.shape).items():
        array[cell] = weight
    return all(array[k, q, v] > max(x for w, x in enumerate(array[k, q]) if w != v) for k, q, v in tensor.coordinates)


@pytest.mark.parametrize(("rank", "seed"), [(1, 0), (1, 8), (2, 2), (2, 6), (3, 1), (3, 4)])
def test_planted_labels_are_found(rank, seed):
    """rank(F) + 1 terms, where E2 with labels in the given order needs six or more."""
    tensor = Core.of(planted(rank, seed)).tensor
    plain = min(shared_bias_bound(tensor, axis).value for axis in (0, 1))
    assert plain >= 6
    terms = least_labelled(tensor, (2, plain)).decomposition()
    assert terms.n_terms == rank + 1
    assert least_margin(terms, tensor) > 0
    assert recalls(terms, tensor)


def test_an_altered_witness_is_rejected():
    tensor = Core.of(planted(2, 6)).tensor
    terms = least_labelled(tensor, (2, 9)).decomposition()
    for axis in range(3):
        factors = list(terms.factors)
        weight = factors[axis].weight.copy()
        largest = np.argmax(np.abs(weight))
        weight[largest] = -weight[largest]
        factors[axis] = Factor(factors[axis].index, factors[axis].term, weight)
        assert least_margin(Decomposition(tuple(factors), terms.denominators), tensor) <= 0


def test_the_search_repeats_itself():
    tensor = Core.of(planted(1, 0)).tensor
    first, second = (least_labelled(tensor, (2, 7), seed=3).decomposition() for _ in range(2))
    for one, other in zip(first.factors, second.factors, strict=True):
        assert np.array_equal(one.weight, other.weight)


def test_no_time_and_nothing_to_beat():
    tensor = Core.of(planted(1, 0)).tensor
    assert least_labelled(tensor, (2, 2)) is None
    assert least_labelled(tensor, (2, 7), seconds=0.0) is None


@pytest.mark.searches
def test_astrid_has_effective_rank_two():
    bounds = measure(sample("astrid")).effective_rank
    assert (bounds.lower.value, bounds.upper.value) == (2, 2)
    assert bounds.upper.method == "E2 label search"
    tensor = ZeroOneTensor.of(sample("astrid").compact())
    assert least_margin(bounds.upper.witness(), tensor) > 0


@given(tensors(functional=True, empty=False), st.integers(0, 2**32 - 1), st.integers(1, 3))
def test_lines_over_a_table_recall_exactly_what_it_separates(tensor, seed, rank):
    """Any integer table: either two values overlap, or the envelope recalls every fact."""
    rng = np.random.default_rng(seed)
    keys, queries = (rng.integers(-9, 10, (size, rank)) for size in tensor.shape[:2])
    logits = envelope(tensor, keys, queries)
    spans = {}
    for k, q, v in tensor.coordinates.tolist():
        spans.setdefault(v, []).append(int(keys[k] @ queries[q]))
    ends = sorted((min(numbers), max(numbers)) for numbers in spans.values())
    apart = all(high < low for (_, high), (low, _) in pairwise(ends))
    assert (logits is not None) == apart
    if logits is not None:
        assert logits.keys.shape[1] == rank + 1
        assert logits.least_margin(tensor) == least_margin(logits.decomposition(), tensor) > 0


@given(tensors(functional=True, empty=False), st.integers(0, 2**32 - 1), st.sampled_from([3, 2**30]))
def test_exact_margins_against_the_slow_reference(tensor, seed, largest):
    """Small integers, and integers whose products leave 64 bits."""
    rng = np.random.default_rng(seed)
    logits = IntegerLogits(*(rng.integers(-largest, largest + 1, (size, 2)) for size in tensor.shape))
    assert logits.least_margin(tensor) == least_margin(logits.decomposition(), tensor)


def test_margins_beyond_64_bits_and_in_later_blocks(monkeypatch):
    """Logits of 2^63 and 2^62 in the first fact; the least margin, 1, in the last."""
    keys, queries, values = np.array([[2**31], [1], [1]]), np.array([[2**31], [1]]), np.array([[2], [1], [0]])
    logits, large = IntegerLogits(keys, queries, values), np.array([[0, 0, 0]])
    assert logits.least_margin(ZeroOneTensor(large, (3, 2, 3))) == 2**62
    every = ZeroOneTensor(np.array([[0, 0, 0], [0, 1, 0], [1, 1, 0]]), (3, 2, 3))
    for cells in (4_000_000, 3):
        monkeypatch.setattr(integer_margins, "MARGIN_CELLS", cells)
        assert logits.least_margin(every) == 1
