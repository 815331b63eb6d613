"""Claims on planted tables: values that are known, directions, too few seeds, missing trials, intervals that cover."""

from dataclasses import replace
from typing import get_args

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import linregress, pearsonr, spearmanr, ttest_1samp

from factrank.errors import InputError
from factrank.experiments.specs.data import generated
from factrank.experiments.specs.training_spec import Training
from factrank.experiments.specs.trial import Trial
from factrank.experiments.statistics.claims import (
    OF_ONE_COLUMN,
    Claim,
    Kind,
    Quantity,
)
from factrank.experiments.statistics.expressions import columns_in, frozen_where, numbers, selected, values
from factrank.experiments.statistics.fits import Fit
from factrank.experiments.statistics.quantities import over_draws, sample_of
from factrank.experiments.statistics.verdicts import RESAMPLES, Verdict, _weights, evaluate
from factrank.experiments.store.columns import row_of
from factrank.experiments.training import train_many
from factrank.families.attention.layer_shape import LayerShape
from planted_results import linear, noise, planted

SLOPE = Quantity("slope", "recall", "model.d_vo", within=("model.d_qk",))
AGAINST_QK = Quantity("slope", "recall", "model.d_qk", within=("model.d_vo",))


def claim(quantity, published, tolerance=0.0):
    return Claim("planted", "planted", quantity, published, tolerance)


class TestValues:
    def test_planted_slope_and_difference_of_slopes(self):
        table = planted(10, linear(0))
        assert evaluate(claim(SLOPE, "rises"), table).value == pytest.approx(0.05)
        assert evaluate(claim(AGAINST_QK, "rises"), table).value == pytest.approx(0.01)
        both = Quantity("slope", "recall", "model.d_vo", ("model.d_qk",), minus=AGAINST_QK)
        verdict = evaluate(claim(both, "greater"), table)
        assert verdict.value == pytest.approx(0.04)
        assert verdict.status == "reproduced"

    def test_minus_is_taken_in_turn(self):
        def mean(d_vo, minus=None):
            return Quantity("mean", "recall", where=(("model.d_vo", d_vo),), minus=minus)

        table = planted(10, lambda d_vo, d_qk, seed: 10.0**d_vo)
        verdict = evaluate(claim(mean(4, mean(3, mean(2))), "greater"), table)
        assert verdict.value == pytest.approx(10_000 - (1_000 - 100))

    @given(st.integers(0, 10_000), st.integers(3, 6))
    def test_agrees_with_scipy_in_each_group(self, key, n_seeds):
        table = planted(n_seeds, linear(0.2, shared=0.1) if key % 2 else lambda a, b, s: noise(key, a, b, s, scale=1))
        for kind, reference in (
            ("slope", lambda x, y: linregress(x, y).slope),
            ("correlation", lambda x, y: pearsonr(x, y).statistic),
            ("rank correlation", lambda x, y: spearmanr(x, y).statistic),
        ):
            expected = []
            for d_qk in (1, 2):
                rows = table.filter(pa.array(selected(table, (("model.d_qk", d_qk),))))
                expected.append(reference(rows["model.d_vo"].to_numpy(), rows["recall"].to_numpy()))
            quantity = Quantity(kind, "recall", "model.d_vo", ("model.d_qk",))
            assert evaluate(claim(quantity, "rises"), table).value == pytest.approx(np.mean(expected), abs=1e-12)

    def test_groups_hide_no_paradox(self):
        """Inside each d_qk recall rises with d_vo, over all of them it falls: `within` says which one is meant."""
        rows = [(a, b, seed) for b, shift in ((1, 10), (2, 0)) for a in (shift, shift + 1) for seed in range(10)]
        table = pa.table(
            {
                "model.d_vo": [a for a, _, _ in rows],
                "model.d_qk": [b for _, b, _ in rows],
                "seed": [seed for *_, seed in rows],
                "recall": [0.1 * a - (2.0 if b == 1 else 0.0) for a, b, _ in rows],
            }
        )
        assert evaluate(claim(SLOPE, "rises"), table).value == pytest.approx(0.1)
        assert evaluate(claim(Quantity("slope", "recall", "model.d_vo"), "falls"), table).status == "reproduced"

    def test_best_and_ties(self):
        best = Quantity("best", "recall", "model.d_vo")
        peaked = planted(10, lambda d_vo, d_qk, seed: -abs(d_vo - 3) + noise(seed, scale=1))
        verdict = evaluate(claim(best, 3, 0.5), peaked)
        assert (verdict.value, verdict.interval, verdict.status) == (3.0, (3.0, 3.0), "reproduced")
        tied = planted(10, lambda d_vo, d_qk, seed: float(d_vo in (2, 3)))
        assert evaluate(claim(best, "greater"), tied).value == 2.5
        assert evaluate(claim(best, 2.5, 0.1), planted(10, lambda d_vo, d_qk, seed: noise(seed, scale=1))) == Verdict(
            "not comparable", n_seeds=10, why="the numbers do not vary, so that it is not defined"
        )  # the middle of all widths is no answer

    def test_arithmetic_on_columns(self):
        table = planted(3, linear(0))
        where = (("model.d_qk + model.d_vo", 3),)
        assert selected(table, where).sum() == 2 * 3
        best = Quantity("best", "recall", "model.d_vo - model.d_qk", where=where)
        assert evaluate(claim(best, "greater"), table).value == 1.0  # (2, 1) rather than (1, 2)


class TestVerdicts:
    @pytest.mark.parametrize(
        ("slope", "published", "tolerance", "status"),
        [
            (0.05, "rises", 0, "reproduced"),
            (0.05, "greater", 0, "reproduced"),
            (0.05, "falls", 0, "not reproduced"),
            (0.05, "flat", 0.02, "not reproduced"),
            (0.05, "not rising", 0.02, "not reproduced"),
            (-0.05, "less", 0, "reproduced"),
            (-0.05, "falls", 0, "reproduced"),
            (-0.05, "rises", 0, "not reproduced"),
            (-0.05, "not rising", 0, "reproduced"),
            (-0.05, "flat", 0.02, "not reproduced"),
            (0.05, "less", 0, "not reproduced"),
            (-0.05, "greater", 0, "not reproduced"),
            (0.0, "rises", 0, "undecided"),
            (0.0, "falls", 0, "undecided"),
            (0.0, "flat", 0.02, "reproduced"),
            (0.0, "not rising", 0.02, "reproduced"),
            (0.05, 0.06, 0.02, "reproduced"),
            (0.05, 0.04, 0.02, "reproduced"),
            (0.05, 0.08, 0.02, "not reproduced"),
            (0.05, 0.02, 0.02, "not reproduced"),
            (0.05, 0.0695, 0.02, "undecided"),
            (0.05, 0.0305, 0.02, "undecided"),
            (0.05, "flat", 0.0502, "undecided"),
            (-0.05, "flat", 0.0502, "undecided"),
            (0.05, "not rising", 0.05, "undecided"),
        ],
    )
    def test_directions_and_numbers(self, slope, published, tolerance, status):
        table = planted(12, lambda d_vo, d_qk, seed: slope * d_vo + noise(d_vo, d_qk, seed, scale=0.01))
        verdict = evaluate(claim(SLOPE, published, tolerance), table)
        assert (verdict.status, verdict.n_seeds) == (status, 12)
        assert verdict.why

    def test_direction_that_noise_hides_is_undecided(self):
        table = planted(10, lambda d_vo, d_qk, seed: 0.001 * d_vo + noise(d_vo, d_qk, seed, scale=1))
        verdict = evaluate(claim(SLOPE, "rises"), table)
        low, high = verdict.interval
        assert low < 0 < high
        assert (verdict.status, verdict.why) == ("undecided", "the interval is in part above 0")
        assert verdict.p > 0.05
        assert verdict.detectable > 0.001  # so that a slope of 0.001 could not have been seen

    @pytest.mark.parametrize(
        ("slope", "published", "why"),
        [
            (0.01, "flat", "within 0 ± 0.02, but above 0"),
            (-0.01, "flat", "within 0 ± 0.02, but below 0"),
            (0.01, "not rising", "at most 0.02, but above 0"),
            (0.0, "flat", "within 0 ± 0.02"),
        ],
    )
    def test_what_a_tolerance_lets_through_is_said(self, slope, published, why):
        table = planted(12, lambda d_vo, d_qk, seed: slope * d_vo + noise(d_vo, d_qk, seed, scale=0.005))
        verdict = evaluate(claim(SLOPE, published, 0.02), table)
        assert (verdict.status, verdict.why) == ("reproduced", f"the interval is {why}")

    @pytest.mark.parametrize(
        ("slope", "published", "tolerance", "status"),
        [
            (0.05, "rises", 0, "by construction"),
            (-0.05, "rises", 0, "not reproduced"),
            (0.05, "falls", 0, "not reproduced"),
            (-0.05, "falls", 0, "by construction"),
            (0.05, 0.06, 0.02, "by construction"),
            (0.05, 0.08, 0.02, "not reproduced"),
        ],
    )
    def test_what_cannot_fail_is_by_construction_unless_it_fails(self, slope, published, tolerance, status):
        table = planted(12, lambda d_vo, d_qk, seed: slope * d_vo + noise(d_vo, d_qk, seed, scale=0.01))
        verdict = evaluate(replace(claim(SLOPE, published, tolerance), by_construction="a theorem"), table)
        assert verdict.status == status
        assert (verdict.why == "a theorem") == (status == "by construction")

    def test_few_seeds(self):
        for n_seeds, status, why in (
            (1, "not comparable", "1 seed: too few, 3 are the least"),
            (2, "not comparable", "2 tables: too few, 3 are the least"),
            (3, "reproduced", "the interval is above 0 (3 tables)"),
            (9, "reproduced", "the interval is above 0 (9 tables)"),
            (10, "reproduced", "the interval is above 0"),
        ):
            verdict = evaluate(claim(SLOPE, "rises"), planted(n_seeds, linear(0.001)))
            assert (verdict.status, verdict.n_seeds) == (status, n_seeds)
            assert verdict.why == why

    def test_three_tables_have_the_interval_of_student(self):
        slopes = np.array([0.9, 1.0, 1.2])
        verdict = evaluate(claim(SLOPE, "rises"), planted(3, lambda d_vo, d_qk, seed: d_vo * slopes[seed]))
        test = ttest_1samp(slopes, 0)
        assert verdict.interval == pytest.approx(tuple(test.confidence_interval(0.95)))
        assert verdict.p == pytest.approx(test.pvalue)

    def test_interval_of_a_mean_is_a_studentised_bootstrap(self):
        by_table = np.random.default_rng(3).exponential(size=8)
        table = planted(8, lambda d_vo, d_qk, seed: by_table[seed])
        drawn = _weights(8)[1:].astype(int)
        samples = [np.repeat(by_table, draw) for draw in drawn]
        kept = [(own.mean() - by_table.mean()) / (own.std(ddof=1) / 8**0.5) for own in samples if own.std() > 0]
        low, high = by_table.mean() - np.quantile(kept, [0.975, 0.025]) * by_table.std(ddof=1) / 8**0.5
        verdict = evaluate(claim(Quantity("mean", "recall"), "greater"), table)
        assert verdict.interval == pytest.approx((low, high))
        assert verdict.p == pytest.approx(
            2 * (1 + np.sum(kept >= by_table.mean() / (by_table.std(ddof=1) / 8**0.5))) / (1 + len(kept))
        )

    def test_equal_numbers_are_a_sign_test(self):
        verdict = evaluate(claim(SLOPE, "rises"), planted(6, lambda d_vo, d_qk, seed: d_vo))
        assert (verdict.interval, verdict.p) == ((1.0, 1.0), 2 * 0.5**6)

    def test_same_table_same_interval_in_any_order(self):
        table = planted(10, linear(0.1))
        shuffled = table.take(np.random.default_rng(0).permutation(table.num_rows))
        first, second = (evaluate(claim(SLOPE, "rises"), rows) for rows in (table, shuffled))
        assert first == evaluate(claim(SLOPE, "rises"), table)
        assert second.interval == pytest.approx(first.interval, abs=1e-12)


class TestNotComparable:
    def test_trial_without_a_value(self):
        table = planted(10, linear(0))
        recall = table["recall"].to_pylist()
        status = table["status"].to_pylist()
        recall[3], status[3], recall[5], status[5] = None, "failed", float("nan"), "diverged"
        broken = table.set_column(table.column_names.index("recall"), "recall", pa.array(recall, pa.float64()))
        broken = broken.set_column(broken.column_names.index("status"), "status", pa.array(status))
        verdict = evaluate(claim(SLOPE, "rises"), broken)
        assert verdict == Verdict(
            "not comparable", why="2 of 80 trials have no value (1 diverged, 1 failed)"
        )  # no number is shown that leaves them out

    @pytest.mark.parametrize("kind", get_args(Kind))
    @pytest.mark.parametrize("infinite", [float("inf"), float("-inf")])
    def test_an_infinite_number_is_no_value(self, kind, infinite):
        quantity = Quantity(kind, "recall", "" if kind in OF_ONE_COLUMN else "model.d_vo")
        table = planted(10, lambda d_vo, d_qk, seed: infinite if seed == 4 else 0.1 * d_vo + 0.01 * seed)
        verdict = evaluate(claim(quantity, "rises"), table)
        assert verdict == Verdict("not comparable", why="8 of 80 trials have no value (8 finished)")

    @pytest.mark.parametrize(("n_groups", "status"), [(1, "measured"), (2, "not comparable"), (20, "not comparable")])
    def test_quantities_that_few_resamples_have(self, n_groups, status):
        """Each group has a sum in one seed only: a resample without one of these seeds has no value."""
        rows = [(group, seed) for group in range(n_groups) for seed in range(20)]
        hits = [float(group == seed) for group, seed in rows]
        columns = {"group": [group for group, _ in rows], "seed": [seed for _, seed in rows]}
        table = pa.table(columns | {"status": ["finished"] * len(rows), "above": hits, "below": hits})
        verdict = evaluate(claim(Quantity("fraction", "above", "below", ("group",)), None), table)
        assert (verdict.status, verdict.value, verdict.n_seeds) == (status, 1.0, 20)
        # (1 - 1/20)^20 = 0.36 of the resamples lack a given seed; 0.59 of them lack one of two.
        draws = _weights(20)[1:, :n_groups]
        n_defined = int((draws > 0).all(axis=1).sum())
        assert (n_defined >= RESAMPLES / 2) == (status == "measured")
        if status == "measured":
            assert verdict.interval == (1.0, 1.0)
        else:
            assert verdict.interval is None
            assert verdict.why == f"defined on {n_defined:,} of 10,000 resamples of the seeds, fewer than half"

    def test_a_diverged_trial_is_no_measurement(self):
        """What a model that diverged recalls is stored as 0, and says nothing of its shape."""
        trial = Trial(
            generated("uniform", n_keys=6, n_queries=4, n_values=6, seed=0),
            LayerShape(4, 1, 2, 2),
            Training(epochs=20, learning_rate=1e30),
        )
        (result,) = train_many([trial])
        assert result.status == "diverged"
        row = row_of(result)
        table = pa.Table.from_pylist([{**row, "seed": seed, "recall": 0.0} for seed in range(10)])
        verdict = evaluate(claim(Quantity("mean", "recall"), 0.0, tolerance=0.1), table)
        assert verdict == Verdict("not comparable", why="10 of 10 trials have no value (10 diverged)")

    def test_trial_that_is_not_there(self):
        table = planted(10, linear(0))
        verdict = evaluate(claim(SLOPE, "rises"), table.slice(1))
        assert verdict.status == "not comparable"
        assert "database seed 0 has 7 of 8 trials" in verdict.why

    def test_seed_on_one_side_only(self):
        table = planted(10, linear(0))
        sides = [Quantity("mean", "recall", where=(("model.d_vo", d_vo),)) for d_vo in (1, 2)]
        quantity = Quantity("mean", "recall", where=sides[1].where, minus=sides[0])
        kept = ~(selected(table, (("model.d_vo", 1), ("seed", 4))))
        assert "different tables" in evaluate(claim(quantity, "greater"), table.filter(pa.array(kept))).why

    @pytest.mark.parametrize(
        ("quantity", "why"),
        [
            (Quantity("mean", "recal"), "no trial has a value of recal"),
            (Quantity("slope", "recall", "model.width"), "no trial has a value of model.width"),
            (Quantity("mean", "recall", where=(("model.d_vo", 99),)), "no trial with model.d_vo = 99"),
            (Quantity("mean", "recall", where=(("model.width", 1),)), "no trial with model.width = 1"),
            (Quantity("slope", "recall", "model.d_vo", where=(("model.d_vo", 1),)), "do not vary"),
            (Quantity("mean", "status"), "80 of 80 trials have no value"),
        ],
    )
    def test_nothing_to_compute(self, quantity, why):
        verdict = evaluate(claim(quantity, "greater"), planted(10, linear(0)))
        assert verdict.status == "not comparable"
        assert why in verdict.why

    def test_empty_table(self):
        assert evaluate(claim(SLOPE, "rises"), pa.table({})).status == "not comparable"
        assert evaluate(claim(SLOPE, "rises"), planted(0, linear(0))).status == "not comparable"

    def test_constant_numbers_have_a_slope_and_no_correlation(self):
        table = planted(10, lambda d_vo, d_qk, seed: 0.7)
        assert evaluate(claim(SLOPE, "flat", 0.01), table).value == 0
        correlation = Quantity("correlation", "recall", "model.d_vo")
        assert evaluate(claim(correlation, "rises"), table).status == "not comparable"


class TestIntervals:
    @pytest.mark.parametrize("n_seeds", [5, 10])
    def test_cover_the_planted_value_as_often_as_they_say(self, n_seeds):
        """95 %, within what 200 repetitions can tell (four standard errors), also for few seeds."""
        slopes = np.random.default_rng(1).normal(0.05, 0.03, size=(200, n_seeds))
        covered = 0
        for own in slopes:
            table = planted(n_seeds, lambda d_vo, d_qk, seed, own=own: own[seed] * d_vo, d_vo=(1, 2), d_qk=(1,))
            low, high = evaluate(claim(SLOPE, "rises"), table).interval
            covered += low <= 0.05 <= high
        assert covered / 200 >= 0.89

    def test_pairs_by_database(self):
        """What all shapes on one database share cancels in a difference, and not in a mean."""
        table = planted(10, linear(0.001, shared=0.3))
        mean = Quantity("mean", "recall", where=(("model.d_vo", 2),))
        one = Quantity("mean", "recall", where=(("model.d_vo", 1),))
        difference = Quantity("mean", "recall", where=mean.where, minus=one)
        widths = [
            np.ptp(evaluate(claim(quantity, "greater"), table).interval) for quantity in (difference, mean, SLOPE)
        ]
        assert widths[0] < 0.01 < 0.1 < widths[1]
        assert widths[2] < 0.01

    def test_database_counts_once_however_many_trainings_it_has(self):
        rows = [(base, seed) for base in range(4) for seed in range(5)]
        table = pa.table(
            {
                "data.seed": [base for base, _ in rows],
                "seed": [seed for _, seed in rows],
                "recall": [float(base) for base, _ in rows],
            }
        )
        assert evaluate(claim(Quantity("mean", "recall"), "greater"), table).n_seeds == 4
        one = table.filter(pa.array(selected(table, (("data.seed", 2),))))
        assert evaluate(claim(Quantity("mean", "recall"), "greater"), one).n_seeds == 5


class TestData:
    def test_mistakes_are_named(self):
        for build, message in (
            (lambda: Quantity("slope", "recall"), "against"),
            (lambda: Quantity("mean", "recall", "model.d_vo"), "second column"),
            (lambda: claim(SLOPE, float("inf")), "finite"),
            (lambda: claim(SLOPE, "flat"), "tolerance"),
            (lambda: claim(SLOPE, "rises", -1.0), "tolerance"),
            (lambda: frozen_where((("model.d_vo",),)), "pairs"),
            (lambda: frozen_where("model.d_vo"), "pairs"),
        ):
            with pytest.raises(InputError, match=message):
                build()
        for made, field, wrong in ((SLOPE, "kind", "median"), (claim(SLOPE, "rises"), "published", "sinks")):
            altered = replace(made)
            object.__setattr__(altered, field, wrong)  # run-time type checks do not let it through the front door
            with pytest.raises(InputError, match=wrong):
                altered.__post_init__()

    @pytest.mark.parametrize(
        "text",
        [
            "y / (x - 1",
            "(x + 1) y",
            "2 (x)) + 1",
            "1 +",
            "+ 1",
            "x + ",
            "x ** 2",
            "x ^ 2",
            "-",
            "x * exp(y)",
            "log(x)(y)",
        ],
    )
    def test_arithmetic_that_is_not_understood(self, text):
        for build in (
            lambda: Quantity("mean", text),
            lambda: Quantity("mean", "recall", where=((text, 1),)),
            lambda: Fit("rule", "Rule", "means", ("1", text)),
        ):
            with pytest.raises(InputError) as error:
                build()
            assert f"{text!r} is neither a column nor valid arithmetic" in str(error.value)
            assert "use column names, numbers, + - * / between spaces, parentheses, log" in str(error.value)

    def test_names_with_odd_letters(self):
        """Dashes, brackets and numbers with signs alone are no arithmetic."""
        table = pa.table({"loss (nats)": [1.0, 2.0], "a-b": [3.0, 4.0]})
        assert numbers(table, "loss (nats)").tolist() == [1.0, 2.0]
        assert numbers(table, "a-b * -1 + 1e-1").tolist() == [-2.9, -3.9]
        assert columns_in("a-b / 2 - c.d") == ["a-b", "c.d"]
        assert columns_in("loss (nats)") == ["loss (nats)"]
        assert columns_in("-a-b * log") == ["a-b", "log"]

    def test_selections(self):
        table = pa.table({"a": [1, 2, None, 4], "b": ["x", "y", "x", None], "c": [True, False, True, None]})
        for where, expected in (
            ({"a": 1.0}, [True, False, False, False]),
            ({"a": [1, 4]}, [True, False, False, True]),
            ({"a": None}, [False, False, True, False]),
            ({"b": "x", "c": True}, [True, False, True, False]),
            ({"c": 1}, [False] * 4),
            ({"no such": None}, [True] * 4),
            ({"a * 2": 8}, [False, False, False, True]),
        ):
            assert selected(table, frozen_where(where)).tolist() == expected

    def test_expressions(self):
        table = pa.table({"a": [2, 3], "b-c": [10.0, 0.0], "a + d": [7, 8]})
        assert numbers(table, "2 * a - b-c / 4 + 1").tolist() == [2.5, 7.0]
        assert numbers(table, "a / b-c").tolist()[0] == 0.2
        assert np.isnan(numbers(table, "a / b-c")[1])
        assert numbers(table, "a + d").tolist() == [7.0, 8.0]  # a column of that name comes first
        assert values(table, "a - 2") == [0, 1]
        assert columns_in("a + 1e3 * b-c") == ["a", "b-c"]
        with pytest.raises(InputError, match="no column 'e'"):
            numbers(table, "a + e")
        for nonsense in ("", "a +  + a", "__import__('os').system('true')"):
            with pytest.raises(InputError):
                numbers(table, nonsense)

    def test_sums_over_resamples_equal_the_plain_way(self):
        """One product of matrices against the quantity on tables that hold the drawn seeds again and again."""
        table = planted(5, linear(0.3, shared=0.2))
        sample = sample_of(table, "recall", "model.d_vo", ("model.d_qk",))
        draws = np.random.default_rng(0).integers(0, 4, size=(20, 5)) + 1
        fast = {
            kind: over_draws(kind, sample, draws.astype(float)).values
            for kind in ("mean", "slope", "correlation", "best")
        }
        for at, draw in enumerate(draws):
            again = pa.concat_tables(
                table.filter(pa.array(selected(table, (("seed", seed),))))
                for seed, times in enumerate(draw)
                for _ in range(times)
            )
            own = sample_of(again, "recall", "model.d_vo", ("model.d_qk",))
            for kind, found in fast.items():
                assert found[at] == pytest.approx(over_draws(kind, own, np.ones((1, 5))).values[0], abs=1e-12)
