"""What an interval is over: tables of facts, their trainings, kinds of table, and both ends of a capacity."""

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from factrank.experiments.statistics.claims import OF_ONE_COLUMN, Claim, Quantity
from factrank.experiments.statistics.nested_variance import variance_components
from factrank.experiments.statistics.quantities import over_draws, sample_of
from factrank.experiments.statistics.verdicts import evaluate
from planted_results import linear, noise, planted


def claim(quantity, published, tolerance=0.0):
    return Claim("planted", "planted", quantity, published, tolerance)


class TestUnits:
    """The unit of an interval is the table of facts."""

    def given(self, n_tables=10, n_seeds=3, between=0.02, within=0.001):
        """Given tables, each trained with several seeds."""
        rows = [(table, seed) for table in range(n_tables) for seed in range(n_seeds)]
        recall = [0.8 + noise(7, table, scale=between) + noise(8, table, seed, scale=within) for table, seed in rows]
        fingerprints = [f"{table:012x}{0:052x}" for table, _ in rows]
        return pa.table({"data.fingerprint": fingerprints, "seed": [seed for _, seed in rows], "recall": recall})

    def test_given_tables_are_the_unit(self):
        table = self.given()
        verdict = evaluate(claim(Quantity("mean", "recall"), None), table)
        means = np.array(table["recall"].to_pylist()).reshape(10, 3).mean(axis=1)
        assert verdict.n_seeds == 10
        assert np.diff(verdict.interval)[0] > 3 * means.std(ddof=1) / 10**0.5

    def test_one_table_leaves_the_training_seeds(self):
        verdict = evaluate(claim(Quantity("mean", "recall"), None), self.given(1, 5))
        assert (verdict.n_seeds, verdict.why) == (5, "nothing to compare with (5 seeds)")

    def test_variance_components(self):
        found = variance_components(claim(Quantity("mean", "recall"), None), self.given(200, 4))
        assert (found.between, found.within) == (pytest.approx(0.02, rel=0.15), pytest.approx(0.001, rel=0.15))
        assert (found.n_tables, found.n_trainings) == (200, 4)
        assert variance_components(claim(Quantity("mean", "recall"), None), self.given(10, 1)) is None
        assert variance_components(claim(Quantity("best", "recall", "seed"), None), self.given(10, 3)) is None

    def test_kinds_are_resampled_only_if_there_are_ten(self):
        rows = [(kind, seed) for kind in range(12) for seed in range(4)]
        recall = [0.1 * kind + noise(kind, seed, scale=0.01) for kind, seed in rows]
        columns = {"kind": [f"k{kind}" for kind, _ in rows], "data.seed": [seed for _, seed in rows], "recall": recall}
        table = pa.table(columns | {"seed": columns["data.seed"]})
        mean = claim(Quantity("mean", "recall"), "greater")
        fixed, drawn = evaluate(mean, table), evaluate(replace(mean, kinds="kind"), table)
        assert (fixed.n_seeds, drawn.n_seeds) == (4, 12)
        assert np.diff(drawn.interval) > 10 * np.diff(fixed.interval)
        few = evaluate(replace(mean, kinds="kind"), table.slice(0, 36))
        assert (few.status, few.why) == ("not comparable", "9 kinds: too few, 10 are the least")


class TestEnds:
    def test_a_capacity_is_taken_at_both_ends(self):
        seeds = list(range(12))
        lower = [100 + seed for seed in seeds]
        table = pa.table({"status": ["finished"] * 12, "seed": seeds, "lower": lower, "upper": [x + 10 for x in lower]})
        capacity = Claim("n", "N is 105.", Quantity("mean", "lower"), 105.0, 8.0, data="searches")
        verdict = evaluate(capacity, table)
        low, _ = evaluate(replace(capacity, data="trials"), table).interval
        _, high = evaluate(replace(capacity, data="trials", quantity=Quantity("mean", "upper")), table).interval
        assert verdict.interval == (low, high)
        assert verdict.value == np.mean(lower)
        assert verdict.status == "undecided"  # 105.5 at one end, 115.5 at the other
        assert evaluate(replace(capacity, tolerance=14.0), table).status == "reproduced"


@pytest.mark.parametrize("kind", ["mean", "slope", "correlation", "rank correlation", "greatest", "fraction"])
def test_influences_are_derivatives(kind):
    table = planted(6, linear(0.3, shared=0.2))
    sample = sample_of(table, "recall", "" if kind in OF_ONE_COLUMN else "model.d_vo", ("model.d_qk",))
    weights = np.random.default_rng(1).integers(1, 4, size=(1, 6)).astype(float)
    weights *= 6 / weights.sum()
    step = 1e-6
    found = over_draws(kind, sample, weights)
    for unit in range(6):
        moved = [over_draws(kind, sample, weights + sign * step * np.eye(6)[unit]).values[0] for sign in (1, -1)]
        assert found.influences[0, unit] == pytest.approx(6 * (moved[0] - moved[1]) / (2 * step), rel=1e-6, abs=1e-7)
