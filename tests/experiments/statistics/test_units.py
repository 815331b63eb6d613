"""What an interval is over: tables of facts, their trainings, kinds of table, and both ends of a capacity."""

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from factrank import generate
from factrank.experiments.specs.data import Given
from factrank.experiments.specs.trial import Trial
from factrank.experiments.statistics.claims import OF_ONE_COLUMN, Claim, Quantity
from factrank.experiments.statistics.nested_variance import variance_components
from factrank.experiments.statistics.quantities import over_draws, sample_of
from factrank.experiments.statistics.verdicts import evaluate
from factrank.experiments.store.columns import trial_columns
from factrank.experiments.store.result_tables import Tables
from factrank.experiments.study.study import Study
from factrank.experiments.study.study_results import results_of
from factrank.families.attention.layer_shape import LayerShape
from factrank.report.study.study_findings import spread_text
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

    @pytest.mark.parametrize(("between", "within"), [(0.0226, 0.002), (0.002, 0.0226), (0.0, 0.01)])
    def test_a_study_of_given_tables_with_known_variance(self, between, within):
        """200 studies of 10 given tables and 3 seeds: intervals contain the true mean, and components are found."""
        databases = tuple(generate("uniform", n_keys=4, n_queries=3, n_values=4, seed=seed) for seed in range(10))
        trials = [
            Trial(Given(one.fingerprint), LayerShape(4, 1, 2, 2), seed=seed) for one in databases for seed in range(3)
        ]
        mean = claim(Quantity("mean", "recall"), None)
        study = Study("mine", "Mine", None, "?", "!", lambda size: trials, claims=(mean,), databases=databases)
        rows = pa.Table.from_pylist([trial_columns(trial) | {"status": "finished"} for trial in trials])
        rng, hits, found = np.random.default_rng(25), 0, []
        for _ in range(200):
            recall = 0.8 + between * np.repeat(rng.normal(size=10), 3) + within * rng.normal(size=30)
            made = Tables(rows.append_column("recall", pa.array(recall)), pa.table({}), pa.table({}))
            ((_, verdict),) = results_of(study, "full", made).judged
            low, high = verdict.interval
            hits += low <= 0.8 <= high
            found.append([verdict.n_seeds, verdict.between**2, verdict.within**2])
        n_seeds, between_found, within_found = np.mean(found, axis=0)
        assert n_seeds == 10
        assert hits / 200 >= 0.94 - 3 * (0.94 * 0.06 / 200) ** 0.5
        assert within_found == pytest.approx(within**2, rel=0.1)
        # Estimates below 0 are reported as 0, which raises the mean where trainings vary most.
        assert between_found == pytest.approx(between**2, rel=0.1, abs=0.15 * within**2)

    def test_components_of_a_partial_correlation_hold_columns_constant(self):
        """Within each table the partial correlation is 1 or -1; without the control it is the same everywhere."""
        rows = [
            (table, seed, x, control)
            for table in range(6)
            for seed in range(2)
            for x in (0, 1, 2)
            for control in (0, 1, 5)
        ]
        columns = dict(zip(("data.seed", "seed", "x", "control"), map(list, zip(*rows, strict=True)), strict=True))
        recall = [
            (1 if table < 3 else -1) * x + 9.0 * control + noise(*row, scale=0.1)
            for row in rows
            for table, _, x, control in [row]
        ]
        table = pa.table(columns | {"recall": recall})
        partial = variance_components(claim(Quantity("correlation", "recall", "x", given=("control",)), None), table)
        plain = variance_components(claim(Quantity("correlation", "recall", "x"), None), table)
        assert partial.between > 5 * plain.between

    def test_a_verdict_has_both_components(self):
        mean = claim(Quantity("mean", "recall"), None)
        parts, verdict = variance_components(mean, self.given()), evaluate(mean, self.given())
        assert (verdict.between, verdict.within) == (parts.between, parts.within)
        assert spread_text(verdict).startswith("standard deviation 0.0")
        once = evaluate(mean, self.given(10, 1))
        assert (once.between, once.within, spread_text(once)) == (None, None, "")

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
