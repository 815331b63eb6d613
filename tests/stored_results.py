"""What a store gives back of results."""

import jax
import numpy as np

from factrank.experiments.store.columns import row_of


def require_stored(store, results):
    """Rows and weights are those of the results, in their precision; returns the rows as they were computed."""
    store.append(results, keep_weights=True)
    stored = {row["hash"]: row for row in store.trials().to_pylist()}
    rows = [row_of(result) for result in results]
    assert rows
    for row, result in zip(rows, results, strict=True):
        assert {name: stored[row["hash"]].get(name) for name in row} == row  # columns of nulls are left out
        again = store.weights(result.trial.hash)
        assert jax.tree.structure(again) == jax.tree.structure(result.weights)
        for part, other in zip(jax.tree.leaves(result.weights), jax.tree.leaves(again), strict=True):
            assert part.dtype == other.dtype
            np.testing.assert_array_equal(part, other)
    assert not store.problems()
    return rows
