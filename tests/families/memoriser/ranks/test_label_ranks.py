"""The rank formulas of the memoriser against exact ranks modulo a prime.

Run as a program, this file checks a larger grid and prints the cases and the mismatches.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from factrank.errors import InputError
from factrank.families.memoriser.examples.examples import RandomExamples, VectorExamples
from factrank.families.memoriser.memoriser_shape import MemoriserShape
from factrank.families.memoriser.ranks.label_ranks import (
    attention_rank,
    even_rank,
    memoriser_capacity,
    memoriser_rank,
    published_bound,
    rank_of_sizes,
    token_dimension,
)
from memoriser_features import modular_features


@dataclass(frozen=True)
class Grid:
    contexts: tuple[int, ...]
    heads: tuple[int, ...]
    widths: tuple[int, ...]
    shared: tuple[int | None, ...] = (1, 2, 3, 5, None)


SMALL = Grid((1, 2, 3, 6), (1, 2, 4), (3, 6))
LARGE = Grid((1, 2, 3, 4, 8, 16), (1, 2, 4, 8), (4, 8, 16))
"""The grid of theory 5.2, on which 1,320 cases were checked; here every case has a readout with and without a bias."""

Case = tuple[list[int], int, MemoriserShape, int]


def read_as_they_are(grid: Grid) -> Iterator[Case]:
    """Sizes of contexts, tokens of a context, shape and d_input."""
    for n, n_heads, d, g in product(grid.contexts, grid.heads, grid.widths, grid.shared):
        for d_qk in sorted({1, 2, max(d // 2, 1), d}):
            shape = MemoriserShape(n_heads, d, d_qk, embedded=False, positions=False)
            most = even_rank(10**6, g or 10**6, n, n_heads, d, constant=True)
            for n_examples in {most + 2, max(most // 2, g or 1)}:
                contexts = g or n_examples
                yield [n_examples // contexts + (c < n_examples % contexts) for c in range(contexts)], n, shape, d


def embedded(grid: Grid) -> Iterator[Case]:
    """The same with embeddings from fewer or more dimensions, and positions."""
    for sizes, n, shape, d in read_as_they_are(grid):
        if shape.d_qk == 2:
            for d_input, positions in product({1, max(d - 2, 1), d + 1}, (False, True)):
                yield sizes, n, MemoriserShape(shape.n_heads, d, 2, positions=positions), d_input


def mismatches(cases: Iterator[Case]) -> tuple[int, list[tuple[object, ...]]]:
    """How many ranks were compared, and those that differ from the formula."""
    wrong, number = [], 0
    for number, (sizes, n, shape, d_input) in enumerate(cases, 1):
        features = modular_features(sizes, n, shape, d_input, seed=number)
        dimension = token_dimension(shape, d_input, n)
        for bias in (False, True):
            constant = bias or dimension < shape.d_model
            expected = rank_of_sizes(sizes, n, shape.n_heads, dimension, constant=constant)
            if features.rank(readout_bias=bias) != expected:
                wrong.append((sizes, n, shape, d_input, bias, expected, features.rank(readout_bias=bias)))
        if features.attention_rank() != attention_rank(sum(sizes), n, shape.n_heads):
            wrong.append((sizes, n, shape, d_input, "attention"))
    return number, wrong


@pytest.mark.parametrize("cases", [read_as_they_are, embedded])
def test_formulas_are_the_exact_ranks_on_a_grid(cases) -> None:
    number, wrong = mismatches(cases(SMALL))
    assert number > 500
    assert not wrong


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.integers(0, 20), min_size=1, max_size=6).filter(any),
    st.integers(1, 4),
    st.builds(
        MemoriserShape,
        n_heads=st.integers(1, 4),
        d_model=st.integers(1, 8),
        d_qk=st.integers(1, 3),
        positions=st.booleans(),
    ),
    st.integers(1, 9),
)
def test_uneven_contexts(sizes: list[int], n: int, shape: MemoriserShape, d_input: int) -> None:
    assert mismatches(iter([(sizes, n, shape, d_input)]))[1] == []


def test_the_even_formula_fails_where_theory_says_so() -> None:
    shape = MemoriserShape(4, 8, 4, embedded=False, positions=False)
    assert modular_features([19, 1], 3, shape, 8).rank() == rank_of_sizes([19, 1], 3, 4, 8) == 10
    assert even_rank(20, 2, 3, 4, 8) == 18


@given(st.integers(1, 60), st.integers(1, 8), st.integers(1, 5), st.integers(1, 5), st.integers(1, 12), st.booleans())
def test_even_and_uneven_formulas_agree_on_even_sizes(each, g, n, heads, d, constant) -> None:
    uneven = rank_of_sizes([each] * g, n, heads, d, constant=constant)
    assert uneven == even_rank(each * g, g, n, heads, d, constant=constant)


@pytest.mark.parametrize("n_contexts", [1, 2, 3, 7, None])
@pytest.mark.parametrize(("n", "d_input"), [(1, 8), (2, 8), (5, 8), (12, 8), (5, 3)])
def test_capacity_is_the_last_number_of_examples_of_full_rank(n: int, d_input: int, n_contexts: int | None) -> None:
    shape = MemoriserShape(n_heads=3, d_model=8, d_qk=2)
    capacity = memoriser_capacity(shape, context_size=n, d_input=d_input, n_contexts=n_contexts)
    for n_examples in (capacity, capacity + 1):
        if n_contexts is None or n_contexts <= n_examples:
            found = memoriser_rank(RandomExamples(n_examples, n, d_input, n_contexts=n_contexts), shape)
            assert (found.rank == n_examples) == (n_examples == capacity)


def test_the_published_bound_is_the_rank_of_a_shared_context() -> None:
    examples = RandomExamples(10_000, 32, 64, n_contexts=1)
    found = memoriser_rank(examples, MemoriserShape())
    assert found.rank == found.most == found.published == published_bound(20, 32, 64) == 621
    assert "is the rank of one shared context" in found.relation
    narrow = memoriser_rank(examples, MemoriserShape(d_qk=4))
    assert (narrow.rank, narrow.published) == (621, 61)
    assert "does not need d_qk >= n" in narrow.relation
    own = memoriser_rank(RandomExamples(10_000, 32, 64), MemoriserShape())
    assert (own.rank, own.published) == (1281, 621)
    assert "several contexts span more" in own.relation
    long = memoriser_rank(RandomExamples(10_000, 80, 64, n_contexts=1), MemoriserShape(d_qk=128))
    assert (long.rank, long.published) == (1281, 1581)
    assert "at most D dimensions" in long.relation


@pytest.mark.parametrize(
    ("n", "d_qk", "n_contexts", "reasons"),
    [
        (16, 15, 1, ["less", "at most D dimensions"]),
        (16, 16, None, ["less", "at most D dimensions"]),
        (16, 15, None, ["less", "at most D dimensions"]),
        (16, 4, None, ["more", "d_qk >= n"]),  # one context would do
        (4, 4, None, ["more", "several contexts"]),
        (4, 2, None, ["more", "d_qk >= n", "several contexts"]),
        (4, 2, 1, ["more", "d_qk >= n"]),
        (9, 9, 1, ["is the rank"]),  # n - 1 = D, and a constant
        (9, 9, None, ["is the rank"]),
    ],
)
def test_the_relation_to_the_published_number_has_its_reasons(n, d_qk, n_contexts, reasons) -> None:
    found = memoriser_rank(RandomExamples(100, n, 8, n_contexts=n_contexts), MemoriserShape(4, 8, d_qk))
    words = ["less", "more", "is the rank", "at most D dimensions", "d_qk >= n", "several contexts"]
    assert [word for word in words if word in found.relation] == reasons


def test_contexts_without_examples_do_not_count() -> None:
    rng, shape = np.random.default_rng(0), MemoriserShape(4, 5, 5)
    for n in (1, 3):
        vectors = rng.random((9, 5)), rng.random((4, n, 5)), rng.random(9)
        some = VectorExamples.of(*vectors, context_of=np.full(9, 2))
        alone = VectorExamples.of(vectors[0], vectors[1][2], vectors[2])
        assert memoriser_rank(some, shape) == memoriser_rank(alone, shape)


def test_the_result_says_its_formula_and_conditions() -> None:
    shape = MemoriserShape(n_heads=2, d_model=8, d_qk=4, positions=False)
    narrow = memoriser_rank(RandomExamples(50, 4, 3, n_contexts=4), shape, readout_bias=False)
    assert narrow.rank == 2 * 3 + 1  # the bias of the embedding lies outside of three dimensions
    assert any("span D = 3 of 8 dimensions" in condition for condition in narrow.conditions)
    assert narrow.formula.startswith("min over m <= g")
    even = memoriser_rank(RandomExamples(48, 4, 8, n_contexts=4), shape, readout_bias=False)
    assert (even.rank, even.formula) == (16, "min(N, H s + min(g, D - s)), s = min(D, g (n - 1))")
    vectors = VectorExamples.of(np.ones((5, 8)), np.ones((3, 1, 8)), np.arange(5), context_of=np.array([0, 0, 0, 0, 2]))
    assert memoriser_rank(vectors, shape).rank == 2


def test_refuses_what_has_no_rank() -> None:
    with pytest.raises(InputError, match="at least one context"):
        rank_of_sizes([], 2, 1, 4)
    with pytest.raises(InputError, match="got 1 contexts, 0 tokens"):
        rank_of_sizes([3], 0, 1, 4)
    with pytest.raises(InputError, match="d_model = 8 dimensions"):
        memoriser_rank(RandomExamples(5, 2, 4), MemoriserShape(d_model=8, embedded=False))


def large_layers(_grid: Grid) -> Iterator[Case]:
    for d_qk, sizes in product((1, 8), ([123], [1] * 515)):
        yield sizes, 16, MemoriserShape(8, 64, d_qk, embedded=False, positions=False), 64


if __name__ == "__main__":
    for cases in (read_as_they_are, embedded, large_layers):
        compared, differing = mismatches(cases(LARGE))
        print(f"{cases.__name__}: {compared:,} cases (each without and with a bias), {len(differing)} mismatches")
        for case in differing:
            print(case)
