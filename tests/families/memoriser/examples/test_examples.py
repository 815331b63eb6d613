"""Examples: what is drawn is only described, what is given is checked and cannot be changed."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from factrank.errors import InputError
from factrank.families.memoriser.examples.examples import RandomExamples, VectorExamples

RNG = np.random.default_rng(0)
QUERIES, CONTEXTS, LABELS = RNG.random((6, 4)), RNG.random((2, 3, 4)), np.array([0, 2, 1, 0, 2, 1])
CONTEXT_OF = np.array([0, 0, 0, 0, 1, 1])
GIVEN = VectorExamples.of(QUERIES, CONTEXTS, LABELS, context_of=CONTEXT_OF)


@given(st.integers(1, 60), st.none() | st.integers(1, 60))
def test_examples_are_spread_evenly_over_contexts(n_examples, n_contexts):
    n_contexts = None if n_contexts is None else min(n_contexts, n_examples)
    examples = RandomExamples(n_examples, 3, n_contexts=n_contexts)
    numbers = np.arange(n_examples) % examples.number_of_contexts
    assert examples.context_counts.tolist() == np.bincount(numbers).tolist()
    assert examples.number_of_contexts == (n_contexts or n_examples)


@pytest.mark.parametrize("n_classes", [None, 8])
def test_both_kinds_answer_alike(n_classes):
    drawn = RandomExamples(6, 3, 4, n_classes)
    labels = RNG.random(6) if n_classes is None else np.arange(6)
    stored = VectorExamples.of(QUERIES, RNG.random((6, 3, 4)), labels, n_classes=n_classes)
    for name in ("n_examples", "context_size", "d_input", "n_classes", "number_of_contexts", "n_outputs"):
        assert getattr(drawn, name) == getattr(stored, name), name
    assert drawn.context_counts.tolist() == stored.context_counts.tolist()
    np.testing.assert_equal(drawn.bits, stored.bits)
    np.testing.assert_equal(drawn.bits, math.nan if n_classes is None else 6 * 3.0)


def test_fingerprints_tell_examples_apart():
    drawn = RandomExamples(6, 3)
    others = [RandomExamples(7, 3), RandomExamples(6, 3, n_contexts=6), RandomExamples(6, 3, seed=1)]
    assert len({one.fingerprint for one in (drawn, *others)}) == 4
    assert replace(drawn).fingerprint == drawn.fingerprint
    changed = [
        VectorExamples.of(QUERIES + 1e-15, CONTEXTS, LABELS, context_of=CONTEXT_OF),
        VectorExamples.of(QUERIES, CONTEXTS[::-1], LABELS, context_of=CONTEXT_OF),
        VectorExamples.of(QUERIES, CONTEXTS, LABELS, context_of=1 - CONTEXT_OF),
        VectorExamples.of(QUERIES, CONTEXTS, LABELS[::-1], context_of=CONTEXT_OF),
        VectorExamples.of(QUERIES, CONTEXTS, LABELS.astype(float), context_of=CONTEXT_OF),
        VectorExamples.of(QUERIES, CONTEXTS, LABELS, context_of=CONTEXT_OF, n_classes=4),
        VectorExamples.of(np.float32(QUERIES), np.float32(CONTEXTS), LABELS, context_of=CONTEXT_OF),
    ]
    assert len({one.fingerprint for one in (GIVEN, *changed)}) == 8
    assert all(one != GIVEN for one in changed)
    again = VectorExamples.of(QUERIES.tolist(), CONTEXTS.tolist(), LABELS.tolist(), context_of=CONTEXT_OF.tolist())
    assert (again, hash(again)) == (GIVEN, hash(GIVEN))


def test_arrays_are_copies_that_nobody_can_write_to():
    queries = QUERIES.copy()
    examples = VectorExamples.of(queries, CONTEXTS, LABELS, context_of=CONTEXT_OF)
    queries[0] = 7
    np.testing.assert_array_equal(examples.queries, QUERIES)
    for array in (examples.queries, examples.contexts, examples.context_of, examples.labels):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 0


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (np.float32, np.float32),
        (np.float64, np.float64),
        (np.float16, np.float32),
        (np.int64, np.float64),
        (np.uint8, np.float64),
        (np.longdouble, np.float64),
    ],
)
def test_vectors_keep_their_precision(given, expected):
    vectors = np.arange(24).reshape(2, 3, 4).astype(given)
    examples = VectorExamples.of(vectors[0], vectors, np.arange(3), context_of=[0, 1, 1])
    assert (examples.queries.dtype, examples.contexts.dtype, examples.labels.dtype) == (expected, expected, np.int64)
    np.testing.assert_array_equal(examples.contexts, vectors)


def test_large_integers_and_long_numbers_are_not_shortened():
    integers = VectorExamples.of([[2**24], [2**24 + 1]], [[1]], [0, 1])
    assert integers.queries.ravel().tolist() == [2**24, 2**24 + 1]
    long = VectorExamples.of(np.array([[1 + 1e-10]], np.longdouble), [[1.0]], np.array([0.1], np.longdouble))
    assert (long.queries[0, 0], long.labels[0]) == (1 + 1e-10, 0.1)
    if np.finfo(np.longdouble).max > np.finfo(np.float64).max:
        huge = np.array([[np.longdouble(10) ** 400]])
        with pytest.raises(InputError, match="queries must be finite"):
            VectorExamples.of(huge, [[1.0]], [0])
        with pytest.raises(InputError, match="labels must be finite"):
            VectorExamples.of([[1.0]], [[1.0]], huge[0])


def test_contexts_that_need_no_numbers():
    shared = VectorExamples.of(QUERIES, CONTEXTS[0], LABELS)
    assert shared.contexts.shape == (1, 3, 4)
    assert shared.context_of.tolist() == [0] * 6
    own = VectorExamples.of(QUERIES[:2], CONTEXTS, LABELS[:2])
    assert own.context_of.tolist() == [0, 1]
    assert VectorExamples.of(QUERIES, CONTEXTS[:1], LABELS) == shared


def test_classes_are_those_that_occur_or_those_given():
    assert GIVEN.n_classes == 3
    assert VectorExamples.of(QUERIES, CONTEXTS[0], np.zeros(6, int)).n_classes == 2  # one class would say nothing
    assert VectorExamples.of(QUERIES, CONTEXTS[0], LABELS, n_classes=9).n_outputs == 9
    assert repr(VectorExamples.of(QUERIES, CONTEXTS[0], LABELS / 2)).endswith("-> a real label)")


BAD = np.array([[0.0, 1.0], [np.nan, 0.0]])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"queries": BAD}, r"queries must be finite; entry \(1, 0\) is not"),
        ({"queries": QUERIES[0]}, r"queries must be a non-empty array \[examples, dimensions\]; got shape \[4\]"),
        ({"queries": QUERIES[:0]}, "a non-empty array"),
        ({"queries": QUERIES.astype(str)}, "queries must be real numbers; got <U"),
        ({"queries": QUERIES.astype(complex)}, "queries must be real numbers; got complex128"),
        ({"queries": QUERIES[:, :3]}, "queries have 3 dimensions but contexts have 4"),
        ({"queries": [[1.0], [1.0, 2.0]]}, "queries must be an array"),
        ({"contexts": [[1.0], [1.0, 2.0]]}, "contexts must be an array"),
        ({"contexts": CONTEXTS * np.inf}, "contexts must be finite"),
        ({"contexts": QUERIES[0]}, r"contexts must be a non-empty array \[contexts, tokens, dimensions\]"),
        ({"labels": LABELS[:5]}, r"labels must be 6 integers, one per example; got int64 of shape \[5\]"),
        ({"labels": [0.0, np.inf] * 3}, "labels must be finite; entry 1 is not"),
        ({"labels": LABELS[:5] / 2}, r"labels must be 6 numbers, one per example; got shape \[5\]"),
        ({"labels": LABELS - 1}, "labels must be classes from 0 to 1; entry 0 is -1"),
        ({"labels": ["a"] * 6}, "labels must be 6 integers"),
        ({"n_classes": 2}, "labels must be classes from 0 to 1; entry 1 is 2"),
        ({"n_classes": 1}, "n_classes must be an integer from 2"),
        ({"labels": LABELS / 2, "n_classes": 3}, "n_classes requires integer labels"),
        ({"context_of": None}, "context_of is required: 6 examples share 2 contexts"),
        ({"context_of": CONTEXT_OF + 1}, "context_of must be integers from 0 to 1; entry 4 is 2"),
        ({"context_of": CONTEXT_OF / 2}, "context_of must be 6 integers, one per example; got float64"),
    ],
)
def test_mistakes_are_named(change, message):
    arguments = {"queries": QUERIES, "contexts": CONTEXTS, "labels": LABELS, "context_of": CONTEXT_OF} | change
    with pytest.raises(InputError, match=message):
        VectorExamples.of(**arguments)
