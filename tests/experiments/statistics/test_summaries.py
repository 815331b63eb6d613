"""Summaries against `evaluate` on the rows of each setting, fits against least squares by hand."""

from itertools import product

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_quantities import long_tables, trials

from factrank.errors import InputError
from factrank.experiments.statistics.claims import Claim, Quantity
from factrank.experiments.statistics.expressions import selected
from factrank.experiments.statistics.fits import Fit, FitResult, fit_result
from factrank.experiments.statistics.summaries import Summary, summary_table
from factrank.experiments.statistics.verdicts import evaluate
from factrank.experiments.study.study import Chart, Study
from factrank.experiments.study.study_results import results_of
from factrank.report.study.study_findings import fit_text

MEAN = Quantity("mean", "recall")


def table(n_seeds=4, key=0):
    rng = np.random.default_rng(key)
    rows = [(d, q, seed) for d in (8, 10) for q in ("few", "many") for seed in range(n_seeds)]
    recall = rng.random(len(rows))
    recall[rng.integers(len(rows))] = np.nan
    return pa.table(
        {
            "model.d_model": [row[0] for row in rows],
            "queries": [row[1] for row in rows],
            "seed": [row[2] for row in rows],
            "recall": recall,
            "memorised": rng.integers(0, 2, len(rows)).astype(float),
            "status": ["finished"] * len(rows),
        }
    )


QUANTITIES = (
    ("mean", MEAN),
    ("few", Quantity("mean", "recall", where=(("queries", "few"),))),
    ("difference", Quantity("mean", "memorised", minus=MEAN)),
    ("fraction", Quantity("fraction", "recall", "memorised")),
    ("greatest", Quantity("greatest", "recall", within=("queries",))),
)


class TestSummaries:
    @pytest.mark.parametrize("over", [(), ("model.d_model",), ("queries", "model.d_model")])
    @pytest.mark.parametrize("key", [0, 1])
    def test_rows_are_what_evaluate_says_of_each_setting(self, key, over):
        own = table(key=key)
        found = summary_table(Summary("all", "All", QUANTITIES, over), own).to_pylist()
        expected = []
        for label, quantity in QUANTITIES:
            for setting in product(*({"model.d_model": (8, 10), "queries": ("few", "many")}[name] for name in over)):
                where = tuple(zip(over, setting, strict=True))
                if selected(own, (*where, *quantity.where)).any():
                    rows = own.filter(pa.array(selected(own, where)))
                    expected.append((label, dict(where), evaluate(Claim("-", "-", quantity, None), rows)))
        assert len(found) == len(expected)
        for row, (label, setting, verdict) in zip(found, expected, strict=True):
            assert row["quantity"] == label
            assert {name: row[name] for name in over} == setting
            assert (row["value"], row["seeds"]) == (verdict.value, verdict.n_seeds)
            assert (row["low"], row["high"]) == (verdict.interval or (None, None))
            assert row["why"] == ("" if verdict.status == "measured" else verdict.why)

    def test_order_of_settings(self):
        rows = [(b, a) for b in ("z", "a") for a in (10, 9, 1)]
        own = pa.table({"a": [a for _, a in rows], "b": [b for b, _ in rows], "seed": [0] * 6, "recall": [0.5] * 6})
        found = summary_table(Summary("s", "S", (("mean", MEAN),), ("a", "b")), own)
        expected = [(1, "z"), (1, "a"), (9, "z"), (9, "a"), (10, "z"), (10, "a")]
        assert list(zip(found["a"].to_pylist(), found["b"].to_pylist(), strict=True)) == expected
        assert set(found["why"].to_pylist()) == {"1 seed: too few, 3 are the least"}

    def test_arithmetic_and_rows_without_a_setting(self):
        own = pa.table({"a": [1, 2, 3, None], "b": [3, 2, 1, 1], "seed": [0, 1, 2, 3], "recall": [0.1, 0.2, 0.3, 0.4]})
        found = summary_table(Summary("s", "S", (("mean", MEAN),), ("a + b",)), own)
        assert found["a + b"].to_pylist() == [4]
        assert found["value"].to_pylist() == pytest.approx([0.2])
        assert found["seeds"].to_pylist() == [3]
        nowhere = summary_table(Summary("s", "S", (("mean", MEAN),), ("c",)), own)
        assert nowhere.num_rows == 0
        assert nowhere.column_names == ["quantity", "c", "value", "low", "high", "seeds", "why"]

    def test_long_tables_with_missing_trials(self):
        """Each setting of the trials is a row that says who is missing; those of readings are known from readings."""
        quantity = Quantity("mean", "recall", where=(("tau", 0.9),))
        by_shape = Summary("shape", "By shape", (("recall", quantity),), ("model.d_vo",), data="readings")
        by_tau = Summary("tau", "By tau", (("recall", MEAN),), ("tau", "model.d_vo"), data="readings")
        study = Study("long", "Long", None, "?", "!", trials, summaries=(by_shape, by_tau))
        (_, shapes), (_, taus) = results_of(study, "full", long_tables(kept=lambda at: at < 10 or at == 12)).summaries
        assert shapes["model.d_vo"].to_pylist() == [1, 2]
        assert shapes["why"].to_pylist() == ["", "9 of 10 trials have no value (9 missing)"]
        assert shapes["value"].to_pylist() == [pytest.approx(0.9 + 0.045), None]
        assert list(zip(taus["tau"].to_pylist(), taus["model.d_vo"].to_pylist(), strict=True)) == [
            (tau, d_vo) for tau in (0.5, 0.9) for d_vo in (1, 2)
        ]
        assert taus["value"].to_pylist() == [pytest.approx(0.545), None, pytest.approx(0.945), None]

    def test_mistakes_are_named(self):
        good = {"name": "s", "title": "S", "quantities": (("mean", MEAN),), "over": ("a",)}
        for changes, message in (
            ({"name": "a b"}, "name of a summary"),
            ({"quantities": ()}, "one or more quantities"),
            ({"quantities": (("one", MEAN), ("one", MEAN))}, "different labels"),
            ({"over": ("a", "b", "c", "d", "e")}, "at most 4"),
            ({"over": ("value",)}, "value is a column of the summary"),
            ({"x": "b"}, "x must be one of a, quantity"),
            ({"over": ("a + ",)}, "nor valid arithmetic"),
        ):
            with pytest.raises(InputError, match=message):
                Summary(**good | changes)
        with pytest.raises(InputError, match="two charts or summaries have the same name"):
            Study(
                *("s", "S", None, "?", "!", trials),
                charts=(Chart("s", "S", "lines", "a", "b"),),
                summaries=(Summary(**good),),
            )
        misspelt = Summary(**good | {"over": ("model.d_ov",)})
        with pytest.raises(InputError, match=r"summary s: no trial has a setting 'model\.d_ov'; did you mean"):
            Study("s", "S", None, "?", "!", trials, summaries=(misspelt,)).trials_of("full")


def grid(value, quantity="best"):
    settings_ = [(a, b) for a in (1, 2, 4, 8) for b in (3, 5, 9)]
    return pa.table(
        {
            "quantity": [quantity] * len(settings_),
            "a": [a for a, _ in settings_],
            "model.b": [b for _, b in settings_],
            "value": [value(a, b) for a, b in settings_],
        }
    )


class TestFits:
    TERMS = ("1", "a", "a / model.b", "a * a")

    @settings(max_examples=30)
    @given(st.integers(0, 100_000), st.integers(1, 4), st.floats(1e-3, 1e3))
    def test_against_least_squares_and_refits_by_hand(self, key, n_terms, scale):
        rng = np.random.default_rng(key)
        own = grid(lambda a, b: float(scale * (a / b + rng.normal())))
        a, b, y = (np.array(own[name].to_pylist(), dtype=float) for name in ("a", "model.b", "value"))
        terms = np.stack([np.ones_like(a), a, a / b, a * a], axis=1)[:, :n_terms]
        result = fit_result(Fit("f", "F", "s", self.TERMS[:n_terms]), own)

        def prediction_errors(matrix):
            for at in range(len(y)):
                others = np.arange(len(y)) != at
                yield y[at] - matrix[at] @ np.linalg.lstsq(matrix[others], y[others])[0]

        def rms(errors):
            return np.sqrt(np.mean(np.square(list(errors))))

        expected = np.linalg.lstsq(terms, y)[0]
        assert result.coefficients == pytest.approx(expected, rel=1e-7, abs=1e-9 * scale)
        assert result.error == pytest.approx(rms(y - terms @ expected), rel=1e-7)
        assert result.left_out == pytest.approx(rms(prediction_errors(terms)), rel=1e-7)
        assert result.constant_error == pytest.approx(np.std(y))
        assert result.constant_left_out == pytest.approx(rms(prediction_errors(np.ones((len(y), 1)))))
        assert result.r_squared == pytest.approx(1 - result.error**2 / np.var(y), abs=1e-9)
        assert (result.n_settings, result.n_without) == (12, 0)

    def test_planted_rule_is_found(self):
        result = fit_result(
            Fit("f", "F", "s", ("1", "a", "a / model.b")), grid(lambda a, b: 0.5 - 2.0 * a + 3.0 * a / b)
        )
        assert result.coefficients == pytest.approx((0.5, -2, 3))
        assert result.left_out == pytest.approx(0, abs=1e-9)
        assert result.formula == "best = 0.5 - 2 a + 3 a / b"
        assert result.to_dict()["formula"] == result.formula

    def test_intervals_of_coefficients_are_those_of_the_textbook(self):
        """For a straight line: slope +- t s / sqrt(sum (x - mean)^2)."""
        x, y = np.array([1.0, 2.0, 4.0, 7.0, 11.0]), np.array([2.0, 3.5, 3.0, 8.0, 9.5])
        table = pa.table({"quantity": ["best"] * 5, "d": x, "value": y})
        result = fit_result(Fit("line", "A line", "best", ("1", "d"), intervals=True), table)
        slope, intercept = np.polyfit(x, y, 1)
        error = np.sqrt(((y - intercept - slope * x) ** 2).sum() / 3)
        reach = 3.182446305284263 * error / np.sqrt(((x - x.mean()) ** 2).sum())
        assert result.intervals[1] == pytest.approx((slope - reach, slope + reach))
        reach *= np.sqrt((x**2).mean())
        assert result.intervals[0] == pytest.approx((intercept - reach, intercept + reach))
        assert f"[{result.intervals[1][0]:.3g}, {result.intervals[1][1]:.3g}]" in fit_text(result)
        assert fit_result(Fit("line", "A line", "best", ("1", "d")), table).intervals is None
        assert fit_result(Fit("line", "A line", "best", ("1", "d"), intervals=True), table[:2]).intervals is None

    def test_settings_without_a_value_are_counted(self):
        own = grid(lambda a, b: None if a == 8 else 2.0 * a)
        result = fit_result(Fit("f", "F", "s", ("a",)), own)
        assert (result.coefficients, result.n_settings, result.n_without) == (pytest.approx((2.0,)), 9, 3)

    def test_the_quantity_that_is_named(self):
        both = pa.concat_tables([grid(lambda a, b: 1.0 * a, "one"), grid(lambda a, b: 5.0 * a, "five")])
        assert fit_result(Fit("f", "F", "s", ("a",), quantity="five"), both).coefficients == pytest.approx((5.0,))

    @pytest.mark.parametrize(
        ("terms", "value", "why"),
        [
            (("a", "2 * a"), lambda a, b: 1.0 * a, "combination of the others"),
            (("1", "a", "model.b"), lambda a, b: 1.0 if (a, b) in ((1, 3), (2, 3)) else None, "too few for 3 terms"),
            (("1",), lambda a, b: None, "0 settings with a value"),
        ],
    )
    def test_no_fit(self, terms, value, why):
        result = fit_result(Fit("f", "F", "s", terms), grid(value))
        assert why in result.why
        assert (result.coefficients, result.error, result.formula) == (None, None, "")

    def test_a_setting_that_alone_determines_a_coefficient(self):
        own = grid(lambda a, b: 1.0 * a + b if a == 1 or (a, b) == (2, 3) else None)
        result = fit_result(Fit("f", "F", "s", ("1", "model.b", "a")), own)
        assert result.error == pytest.approx(0, abs=1e-9)
        assert result.left_out is None
        assert "cannot be left out" in result.why

    def test_constant_values_have_no_r_squared(self):
        assert fit_result(Fit("f", "F", "s", ("1", "a")), grid(lambda a, b: 0.3)).r_squared is None

    def test_in_a_study(self):
        means = Summary(
            "means", "Means", (("recall", MEAN), ("twice", Quantity("mean", "2 * recall"))), ("model.d_vo",)
        )
        line = Fit("line", "A line", "means", ("1", "model.d_vo"), quantity="twice")
        study = Study("s", "S", None, "?", "!", trials, summaries=(means,), fits=(line,))
        ((fit, result),) = results_of(study, "full", long_tables()).fits
        assert fit is line
        assert isinstance(result, FitResult)
        assert result.coefficients == pytest.approx((1.8, 0.0), abs=1e-9)

    def test_mistakes_are_named(self):
        means = Summary("means", "Means", (("one", MEAN), ("two", MEAN)), ("model.d_vo",))

        def study(fit):
            return Study("s", "S", None, "?", "!", trials, summaries=(means,), fits=(fit,))

        for build, message in (
            (lambda: Fit("f", "F", "means", ()), "one or more different terms"),
            (lambda: Fit("f", "F", "means", ("1", "1")), "one or more different terms"),
            (lambda: Fit("f", "F", "means", ("a + ",)), "nor valid arithmetic"),
            (lambda: study(Fit("f", "F", "nothing", ("1",))), "no summary 'nothing'; there are: means"),
            (lambda: study(Fit("f", "F", "means", ("1",))), "quantity must be one of one, two"),
            (
                lambda: study(Fit("f", "F", "means", ("model.d_qk",), "one")),
                "'model.d_qk' is not a setting of summary means",
            ),
        ):
            with pytest.raises(InputError, match=message):
                build()
