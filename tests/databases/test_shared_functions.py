"""Tables whose queries share functions: equal bits, a planted rank, and missing facts that can be completed."""

import numpy as np
import pytest

from factrank.databases.generators import shared_functions
from factrank.errors import InputError
from factrank.readouts import certified_ranks

KEYS, QUERIES, VALUES = 40, 5, 8


def planted_rank(n_functions, n_shared):
    return n_shared + 1 + n_functions * (VALUES - 1 - n_shared)


@pytest.mark.parametrize(("n_functions", "n_shared"), [(1, 0), (2, 0), (3, 4), (4, 2), (5, 0), (5, 5)])
def test_the_rank_is_planted_and_the_bits_are_fixed(n_functions, n_shared):
    database = shared_functions(60, QUERIES, VALUES, n_functions, n_shared, seed=3)
    ranks = certified_ranks(database)
    assert ranks["rank_lower"] == ranks["rank_upper"] == planted_rank(n_functions, n_shared)
    assert ranks["bits_by_query"] == 60 * QUERIES * 3
    assert database.full


@pytest.mark.parametrize(("n_functions", "n_shared", "n_classes"), [(2, 0, None), (3, 4, None), (5, 0, 16), (5, 6, 8)])
def test_the_planted_rank_bounds_the_completion_rank(n_functions, n_shared, n_classes):
    whole, part = (
        shared_functions(KEYS, QUERIES, VALUES, n_functions, n_shared, n_classes, n_missing, seed=5)
        for n_missing in (0, 1)
    )
    assert set(part) < set(whole)
    assert part.n_facts == KEYS * (QUERIES - 1)
    assert certified_ranks(whole)["rank_lower"] <= planted_rank(n_functions, n_shared)
    assert certified_ranks(part)["completion_lower"] <= planted_rank(n_functions, n_shared)
    assert certified_ranks(part)["rank_lower"] > certified_ranks(part)["completion_lower"]


def test_functions_values_and_classes_are_shared():
    database = shared_functions(KEYS, QUERIES, VALUES, 2, 3, 16, seed=1)
    table = database.triples[:, 2].reshape(KEYS, QUERIES)
    assert len(np.unique(table, axis=0)) <= 16
    assert len(np.unique(table.T, axis=0)) == 2
    shared = table[:, 0] < 3
    assert (table[shared] == table[shared][:, :1]).all()
    assert (table[~shared] >= 3).all()
    assert all(len(np.unique(column)) == VALUES for column in table.T)


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ({"n_functions": 6}, "n_functions must be between 1 and 5, got 6"),
        ({"n_functions": 2, "n_shared": 8}, "n_shared must be between 0 and 7, got 8"),
        ({"n_functions": 2, "n_classes": 41}, "n_classes must be between 1 and 40, got 41"),
        ({"n_functions": 2, "n_missing": 5}, "n_missing must be between 0 and 4, got 5"),
    ],
)
def test_impossible_sizes_are_refused(sizes, message):
    with pytest.raises(InputError, match=message):
        shared_functions(KEYS, QUERIES, VALUES, **sizes, seed=0)
