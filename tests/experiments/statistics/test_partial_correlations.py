"""Partial correlations against a regression written from the definition, and on columns with a planted common cause."""

import numpy as np
import pyarrow as pa
import pytest
from scipy.stats import rankdata

from factrank.errors import InputError
from factrank.experiments.statistics.claims import Claim, Quantity
from factrank.experiments.statistics.quantities import over_draws, sample_of
from factrank.experiments.statistics.summaries import Summary, summary_table
from factrank.experiments.statistics.verdicts import evaluate

N_KINDS, N_TABLES = 14, 4


def planted(key=0):
    """Recall falls with the rank alone; bits rise with the rank and have noise of their own."""
    rng = np.random.default_rng(key)
    rank = np.repeat(rng.normal(size=N_KINDS), N_TABLES)
    n_rows = N_KINDS * N_TABLES
    return pa.table(
        {
            "data.seed": np.tile(np.arange(N_TABLES), N_KINDS),
            "functions": np.repeat(np.arange(N_KINDS) // 2, N_TABLES),
            "shared": np.repeat(np.arange(N_KINDS) % 2, N_TABLES),
            "group": np.tile([0, 1], n_rows // 2),
            "rank": rank,
            "bits": rank + 0.5 * rng.normal(size=n_rows),
            "width": rng.normal(size=n_rows),
            "recall": -rank + 0.3 * rng.normal(size=n_rows),
        }
    )


KINDS = "2 * functions + shared"


def residuals(column, controls, weights):
    root = np.sqrt(weights)
    terms = np.column_stack([np.ones(len(column)), *controls])
    fitted = terms @ np.linalg.lstsq(terms * root[:, None], column * root)[0]
    return column - fitted


def by_regression(table, x, y, controls, weights, ranks):
    """The correlation of residuals, averaged over the two groups."""
    found = []
    for group in (0, 1):
        own = table["group"].to_numpy() == group
        columns = [table[name].to_numpy()[own] for name in (x, y, *controls)]
        columns = [rankdata(column) for column in columns] if ranks else columns
        first, second = (residuals(column, columns[2:], weights[own]) for column in columns[:2])
        products = [np.sum(weights[own] * a * b) for a, b in ((first, second), (first, first), (second, second))]
        found.append(products[0] / np.sqrt(products[1] * products[2]))
    return np.mean(found)


@pytest.mark.parametrize("ranks", [False, True])
@pytest.mark.parametrize("controls", [("rank",), ("rank", "width")])
def test_every_draw_is_the_correlation_of_residuals(ranks, controls):
    table = planted()
    sample = sample_of(table, "recall", "bits", ("group",), KINDS, controls)
    assert len(sample.units) == N_KINDS
    weights = np.random.default_rng(1).multinomial(N_KINDS, np.full(N_KINDS, 1 / N_KINDS), size=5).astype(float)
    weights[0] = 1
    draws = over_draws("rank correlation" if ranks else "correlation", sample, weights)
    expected = [by_regression(table, "bits", "recall", controls, row[sample.unit], ranks) for row in weights]
    np.testing.assert_allclose(draws.values, expected, rtol=1e-9)


def test_influences_are_derivatives():
    sample = sample_of(planted(), "recall", "bits", ("group",), KINDS, ("rank", "width"))
    weights = np.ones((1, N_KINDS))
    step = 1e-6
    moved = np.vstack([weights, np.ones((N_KINDS, N_KINDS)) + step * np.eye(N_KINDS)])
    values = over_draws("correlation", sample, moved).values
    found = over_draws("correlation", sample, weights).influences[0]
    np.testing.assert_allclose(found / N_KINDS, (values[1:] - values[0]) / step, atol=1e-5)


def test_a_common_cause_is_held_constant():
    table = planted()
    plain = Claim("bits", "Bits.", Quantity("correlation", "recall", "bits"), "less", kinds=KINDS)
    given = Claim("rank", "Rank.", Quantity("correlation", "recall", "rank", given=("bits",)), "less", kinds=KINDS)
    spurious = Claim("bits", "Bits.", Quantity("correlation", "recall", "bits", given=("rank",)), None, kinds=KINDS)
    assert evaluate(plain, table).status == "reproduced"
    assert evaluate(given, table).status == "reproduced"
    low, high = evaluate(spurious, table).interval
    assert low < 0 < high


def test_what_the_controls_determine_has_no_partial_correlation():
    verdict = evaluate(
        Claim("same", "Same.", Quantity("correlation", "recall", "rank", given=("2 * rank + 1",)), None), planted()
    )
    assert verdict.status == "not comparable"


def test_a_summary_may_be_over_kinds():
    summary = Summary("bits", "Bits", (("bits", Quantity("correlation", "recall", "bits")),), ("group",), kinds=KINDS)
    found = summary_table(summary, planted())
    assert found["seeds"].to_pylist() == [N_KINDS, N_KINDS]


def test_only_correlations_hold_columns_constant():
    with pytest.raises(InputError, match="held constant"):
        Quantity("slope", "recall", "rank", given=("bits",))
