"""Random examples: the bits of the formula, pure functions of seed and number, and as good as random."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from factrank.families.memoriser.examples import example_vectors as module
from factrank.families.memoriser.examples.example_vectors import context_vectors, example_labels, query_vectors, stored
from factrank.families.memoriser.examples.examples import RandomExamples

WORD = 2**32


def mix(x):
    x = (x ^ x >> 16) * 0x7FEB352D % WORD
    x = (x ^ x >> 15) * 0x846CA68B % WORD
    return x ^ x >> 16


def words(seed, kind, number):
    """The two words of a number, in the whole numbers of Python."""
    first, second = (mix((seed + 0x9E3779B9 * (2 * kind + place)) % WORD) for place in (1, 2))
    return mix((number + first) % WORD), mix(number ^ second) | 1


def entry(seed, kind, number, at):
    start, step = words(seed, kind, number)
    return (mix((start + (at + 1) * step) % WORD) >> 8) / 2**24


def everything(seed, some):
    vectors = query_vectors(seed, some, 3), context_vectors(seed, some, (2, 3))
    return *vectors, example_labels(seed, some, None), example_labels(seed, some, 7)


def numbers(*given):
    return jnp.array(given, jnp.int32)


@pytest.mark.parametrize(("seed", "wide"), [(7, False), (WORD - 1, True)])
def test_vectors_and_labels_are_those_of_the_formula_to_the_bit(seed, wide):
    given, own = [0, 5, 2**20 - 1], np.uint32(seed)
    with jax.enable_x64(wide):
        compiled = jax.device_get(jax.jit(everything)(own, numbers(*given)))
    for ours, theirs in zip(compiled, everything(seed, np.array(given)), strict=True):
        assert ours.dtype == theirs.dtype
        np.testing.assert_array_equal(ours, theirs)
    queries, contexts, real, codes = compiled
    assert queries.dtype == contexts.dtype == real.dtype == np.float32
    assert queries.tolist() == [[entry(seed, 0, number, at) for at in range(3)] for number in given]
    flat = contexts.reshape(3, 6)
    assert flat.tolist() == [[entry(seed, 1, number, at) for at in range(6)] for number in given]
    assert real.tolist() == [entry(seed, 2, number, 0) for number in given]
    assert codes.tolist() == [words(seed, 2, number)[0] % 7 for number in given]


def test_stored_examples_are_made_block_by_block_and_the_first_of_more_are_the_same(monkeypatch):
    monkeypatch.setattr(module, "BLOCK", 4)
    few = stored(RandomExamples(6, 3, 2, n_classes=5, n_contexts=4, seed=9))
    more = stored(RandomExamples(11, 5, 2, n_classes=5, seed=9))
    assert few.context_of.tolist() == [0, 1, 2, 3, 0, 1]
    assert more.context_of.tolist() == list(range(11))
    np.testing.assert_array_equal(few.queries, more.queries[:6])
    np.testing.assert_array_equal(few.labels, more.labels[:6])
    np.testing.assert_array_equal(few.contexts, more.contexts[:4, :3])
    assert few.n_classes == 5
    assert stored(few) is few
    assert not np.isin(few.queries, stored(RandomExamples(6, 3, 2, seed=10)).queries).any()


def test_entries_are_as_good_as_random():
    n, d = 4000, 64
    some = numbers(*range(n))
    vectors = jax.jit(query_vectors, static_argnums=2)
    kinds = [vectors(np.uint32(0), some, d), vectors(np.uint32(1), some, d)]
    kinds.append(jax.jit(context_vectors, static_argnums=2)(np.uint32(0), some, (1, d))[:, 0])
    first, other_seed, other_kind = ((np.asarray(one, np.float64) - 0.5) * 12**0.5 for one in kinds)

    def correlation(x, y):
        """In standard deviations of that of independent numbers."""
        return (x * y).mean() * x.size**0.5

    assert abs(first.mean()) * first.size**0.5 < 4
    assert abs(first.var() - 1) * (first.size / 0.8) ** 0.5 < 4  # the variance of the square of a uniform number
    pairs = [(first[1:], first[:-1]), (first[:, 1:], first[:, :-1]), (first, other_seed), (first, other_kind)]
    assert all(abs(correlation(x, y)) < 4 for x, y in pairs)
    spread = np.linalg.eigvalsh(first.T @ first / n)  # the edges of independent entries: (1 +- sqrt(d / n))^2
    assert abs(spread[0] ** 0.5 - (1 - (d / n) ** 0.5)) < 0.03
    assert abs(spread[-1] ** 0.5 - (1 + (d / n) ** 0.5)) < 0.03
    cells = np.histogram2d(*(np.asarray(kinds[0])[:, :2].T), bins=8, range=[(0, 1)] * 2)[0]
    assert ((cells - n / 64) ** 2).sum() / (n / 64) < 63 + 5 * 126**0.5
    counts = np.bincount(example_labels(np.uint32(0), some, 50), minlength=50)
    assert ((counts - n / 50) ** 2).sum() / (n / 50) < 49 + 5 * 98**0.5
