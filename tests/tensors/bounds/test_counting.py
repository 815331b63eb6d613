"""The effective rank that is typical for a size, by counting."""

import numpy as np
import pytest

from factrank.errors import InputError
from factrank.tensors.bounds.lower.counting import typical_effective_rank


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
    for n in range(40, 600, 5):
        size, bits = 20 + 30 + 40 - 3, n * np.log2(40) - 20
        differences = n * 40 * 39 / 2
        rank = typical_effective_rank(20, 30, 40, n)
        room = [r * size * np.log2(12 * np.e * differences / (r * size)) if r else 0 for r in (rank - 1, rank)]
        assert room[0] < bits <= room[1]


def test_sizes_that_hold_almost_nothing():
    assert typical_effective_rank(1, 1, 1, 1) == 0
    assert typical_effective_rank(5, 3, 4, 8) == 0
    assert typical_effective_rank(5, 3, 4, 8, excluded_bits=0) == 1
    with pytest.raises(InputError, match="cannot have"):
        typical_effective_rank(2, 2, 2, 5)
