"""The kinds of quantities that are no sums, against loops written from their definitions; claims on long tables."""

from dataclasses import replace
from functools import partial
from math import sqrt

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import norm, spearmanr, t

from factrank.errors import InputError
from factrank.experiments.specs.data import generated
from factrank.experiments.specs.trial import Trial
from factrank.experiments.statistics.claims import Claim, Quantity
from factrank.experiments.statistics.quantities import over_draws, sample_of
from factrank.experiments.statistics.verdicts import _weights, evaluate
from factrank.experiments.store.columns import trial_columns
from factrank.experiments.store.result_tables import Tables
from factrank.experiments.study.study import Study
from factrank.experiments.study.study_results import results_of
from factrank.families.attention.layer_shape import LayerShape


def claim(quantity, published=None, tolerance=0.0, data="trials"):
    return Claim("planted", "planted", quantity, published, tolerance, data=data)


def noisy(n_seeds=5, key=0):
    """Recall that rises and then levels off, and counts that are often 0."""
    rng = np.random.default_rng(key)
    rows = [(d_qk, group, seed) for d_qk in (1, 2, 3, 5) for group in (0, 1) for seed in range(n_seeds)]
    return pa.table(
        {
            "d_qk": [d_qk for d_qk, _, _ in rows],
            "group": [group for _, group, _ in rows],
            "seed": [seed for *_, seed in rows],
            "recall": [min(d_qk, 2 + group) + 0.5 * rng.normal() for d_qk, group, _ in rows],
            "violates": rng.integers(0, 2, len(rows)).astype(float),
            "memorised": rng.integers(0, 2, len(rows)).astype(float) + (np.array([row[2] for row in rows]) == 0),
        }
    )


def least(rows, slack=0.6):
    places = sorted({row["d_qk"] for row in rows})
    means = {place: np.mean([row["recall"] for row in rows if row["d_qk"] == place]) for place in places}
    return next(place for place in places if means[place] >= means[places[-1]] - slack)


def least_near_best(rows, slack=0.6):
    places = sorted({row["d_qk"] for row in rows})
    means = {place: np.mean([row["recall"] for row in rows if row["d_qk"] == place]) for place in places}
    return next(place for place in places if means[place] >= max(means.values()) - slack)


def first(rows, least_recall=1.5):
    """The mean over drawn seeds of the least d_qk with enough recall; not defined where one never has it."""
    places = [
        [row["d_qk"] for row in rows if row["draw"] == draw and row["recall"] >= least_recall]
        for draw in {row["draw"] for row in rows}
    ]
    return np.mean([min(found) for found in places]) if all(places) else np.nan


def greatest(rows):
    """Each drawn seed counts by itself, so that `draw` tells apart a seed that was drawn twice."""
    return np.mean(
        [max(row["recall"] for row in rows if row["draw"] == draw) for draw in {row["draw"] for row in rows}]
    )


def fraction(rows):
    below = sum(row["memorised"] for row in rows)
    return sum(row["violates"] for row in rows) / below if below else np.nan


KINDS = [
    (Quantity("least", "recall", "d_qk", slack=0.6), least),
    (Quantity("least near best", "recall", "d_qk", slack=0.2), partial(least_near_best, slack=0.2)),
    (Quantity("first", "recall - 1.5", "d_qk"), first),
    (Quantity("greatest", "recall"), greatest),
    (Quantity("fraction", "violates", "memorised"), fraction),
]


@pytest.mark.parametrize(("quantity", "definition"), KINDS, ids=lambda part: getattr(part, "kind", ""))
@pytest.mark.parametrize("within", [(), ("group",)], ids=["all", "within"])
def test_values_are_those_of_a_loop_over_resamples(quantity, definition, within):
    n_seeds, table = 5, noisy()
    by_seed = {seed: [row for row in table.to_pylist() if row["seed"] == seed] for seed in range(n_seeds)}

    def on(seeds):
        rows = [row | {"draw": draw} for draw, seed in enumerate(seeds) for row in by_seed[seed]]
        if not within:
            return definition(rows)
        return np.mean([definition([row for row in rows if row["group"] == group]) for group in (0, 1)])

    draws = np.unique(np.random.default_rng(0).multinomial(n_seeds, np.full(n_seeds, 1 / n_seeds), size=300), axis=0)
    sample = sample_of(table, quantity.column, quantity.against, within)
    found = over_draws(quantity.kind, sample, draws.astype(float), quantity.slack)
    assert found.values == pytest.approx([on(np.repeat(np.arange(n_seeds), draw)) for draw in draws], nan_ok=True)
    asked = Quantity(quantity.kind, quantity.column, quantity.against, within, slack=quantity.slack)
    assert evaluate(claim(asked), table).value == pytest.approx(on(range(n_seeds)))


def test_interval_of_a_number_without_a_standard_error_has_widened_percentiles():
    n_seeds, table = 5, noisy()
    quantity = Quantity("least", "recall", "d_qk", slack=0.6)
    tail = norm.cdf(-sqrt(n_seeds / (n_seeds - 1)) * t.ppf(0.975, n_seeds - 1))
    resampled = over_draws("least", sample_of(table, "recall", "d_qk", ()), _weights(n_seeds)[1:], 0.6).values
    assert evaluate(claim(quantity), table).interval == pytest.approx(np.quantile(resampled, [tail, 1 - tail]))


class TestPlanted:
    def table(self, recall, n_seeds=10):
        rows = [(d_qk, seed) for d_qk in (1, 2, 4, 8) for seed in range(n_seeds)]
        columns = {"d_qk": [d_qk for d_qk, _ in rows], "seed": [seed for _, seed in rows]}
        return pa.table(columns | {"recall": [float(recall(*row)) for row in rows]})

    def test_least_finds_the_knee(self):
        table = self.table(lambda d_qk, seed: {1: 0.5, 2: 0.79, 4: 0.8, 8: 0.8}[d_qk] + 0.001 * seed)
        for slack, knee in ((0.0, 4), (0.005, 4), (0.02, 2), (0.5, 1)):
            verdict = evaluate(claim(Quantity("least", "recall", "d_qk", slack=slack)), table)
            assert (verdict.value, verdict.interval) == (knee, (knee, knee))

    def test_least_near_best_is_measured_from_the_best_place(self):
        table = self.table(lambda d_qk, seed: {1: 0.5, 2: 0.79, 4: 0.8, 8: 0.3}[d_qk] + 0.001 * seed)
        for kind, slack, found in (
            ("least near best", 0.0, 4),
            ("least near best", 0.02, 2),
            ("least near best", 0.5, 1),
            ("least", 0.02, 1),
        ):
            assert evaluate(claim(Quantity(kind, "recall", "d_qk", slack=slack)), table).value == found

    def test_least_pairs_seeds(self):
        """What a database shares over all d_qk, however large, does not move the knee."""
        table = self.table(lambda d_qk, seed: min(d_qk, 4) / 10 + 100.0 * seed)
        assert evaluate(claim(Quantity("least", "recall", "d_qk", slack=0.05)), table).interval == (4, 4)

    def test_first_is_of_each_seed(self):
        table = self.table(lambda d_qk, seed: d_qk - 1 - seed % 2)
        verdict = evaluate(claim(Quantity("first", "recall - 1", "d_qk")), table)
        assert verdict.value == pytest.approx((2 + 4) / 2)
        never = evaluate(claim(Quantity("first", "recall - 7", "d_qk")), table)
        assert never.status == "not comparable"
        assert "recall - 7 is below 0 throughout in a table" in never.why

    def test_greatest_is_of_each_seed(self):
        table = self.table(lambda d_qk, seed: d_qk * (seed + 1))
        assert evaluate(claim(Quantity("greatest", "recall")), table).value == pytest.approx(8 * 5.5)

    def test_fraction_without_a_denominator(self):
        table = self.table(lambda d_qk, seed: 0.0)
        verdict = evaluate(claim(Quantity("fraction", "d_qk", "recall")), table)
        assert verdict.status == "not comparable"
        assert verdict.why == "the sum of recall is 0, so that it is not defined"

    def test_difference_of_two_that_are_no_sums(self):
        table = self.table(lambda d_qk, seed: min(d_qk, 4))
        second = Quantity("least", "recall", "d_qk", where=(("d_qk", (1, 2)),))
        quantity = Quantity("least", "recall", "d_qk", minus=second)
        assert evaluate(claim(quantity), table).value == 4 - 2

    @settings(max_examples=20)
    @given(st.integers(0, 1000), st.floats(0, 2))
    def test_more_slack_needs_no_more(self, key, slack):
        table = noisy(key=key)
        found = [evaluate(claim(Quantity("least", "recall", "d_qk", slack=own)), table).value for own in (slack, 0.0)]
        assert found[0] <= found[1]


class TestNothingPublished:
    table = noisy(n_seeds=10)

    def test_measured(self):
        compared = evaluate(claim(Quantity("mean", "recall"), "greater"), self.table)
        verdict = evaluate(claim(Quantity("mean", "recall")), self.table)
        assert (verdict.status, verdict.why, verdict.p) == ("measured", "nothing to compare with", None)
        assert replace(verdict, status=compared.status, why=compared.why, p=compared.p) == compared
        few = evaluate(claim(Quantity("mean", "recall")), noisy(3))
        assert (few.status, few.why) == ("measured", "nothing to compare with (3 seeds)")

    def test_what_cannot_be_measured_is_not_comparable(self):
        assert evaluate(claim(Quantity("mean", "recall")), noisy(2)).status == "not comparable"
        assert evaluate(claim(Quantity("mean", "nonsense")), self.table).status == "not comparable"

    def test_mistakes_are_named(self):
        for build, message in (
            (lambda: claim(Quantity("mean", "recall"), None, 0.1), "tolerance requires a published result"),
            (lambda: Quantity("greatest", "recall", "d_qk"), "kind greatest takes no second column"),
            (lambda: Quantity("least", "recall"), "kind least needs a second column"),
            (lambda: Quantity("fraction", "recall"), "kind fraction needs a second column"),
            (
                lambda: Quantity("mean", "recall", slack=0.1),
                "slack requires one of the kinds least, least near best; got mean",
            ),
            (lambda: Quantity("least", "recall", "d_qk", slack=-0.1), "slack of a quantity must be 0 or more"),
        ):
            with pytest.raises(InputError, match=message):
                build()


# -------------------------------------------------------------------- long tables


def trials(size):
    return [
        Trial(generated("uniform", n_keys=4, n_queries=3, n_values=4, seed=seed), LayerShape(4, 1, 2, d_vo), seed=seed)
        for d_vo in (1, 2)
        for seed in range(3 if size == "quick" else 10)
    ]


def long_tables(status=lambda at: "finished", kept=lambda at: True):
    """Each trial with a reading at two taus, whose `recall` is not that of the trial."""
    own = list(enumerate(trials("full")))
    rows = [{**trial_columns(one), "status": status(at), "recall": 0.9} for at, one in own if kept(at)]
    readings = [
        {"hash": one.hash, "tau": tau, "recall": one.model.d_vo * tau + 0.01 * one.seed}
        for at, one in own
        for tau in (0.5, 0.9)
        if kept(at) and status(at) == "finished"
    ]
    foreign = {"hash": "of another study", "tau": 0.5, "recall": 99.0}
    return Tables(pa.Table.from_pylist(rows), pa.table({}), pa.Table.from_pylist([foreign, *reversed(readings)]))


def judged(tables, where=(), data="readings"):
    one = claim(Quantity("mean", "recall", where=(("tau", 0.9), *where)), data=data)
    return results_of(Study("long", "Long", None, "?", "!", trials, claims=(one,)), "full", tables).judged[0][1]


class TestLongTables:
    def test_a_column_of_the_long_table_hides_that_of_the_trial(self):
        verdict = judged(long_tables(), where=(("model.d_vo", 2),))
        assert verdict.value == pytest.approx(2 * 0.9 + 0.045)
        assert (verdict.n_seeds, verdict.status) == (10, "measured")

    def test_rows_are_those_of_the_trials_in_their_order(self):
        tables = long_tables()
        rows = tables.rows("readings")
        assert rows["hash"].to_pylist() == [one.hash for one in trials("full") for _ in range(2)]
        slow = {found["hash"]: found for found in tables.trials.to_pylist()}
        assert rows["model.d_vo"].to_pylist() == [slow[name]["model.d_vo"] for name in rows["hash"].to_pylist()]
        assert "recall" not in tables.beside("readings").column_names
        with pytest.raises(InputError, match="trials, curves, readings"):
            tables.rows("drafts")

    @pytest.mark.parametrize("status", ["diverged", "failed"])
    def test_an_unsound_trial_is_missed_even_without_rows(self, status):
        tables = long_tables(status=lambda at: status if at == 4 else "finished")
        assert judged(tables).why == f"1 of 20 trials have no value (1 {status})"
        assert judged(tables, where=(("model.d_vo", 2),)).status == "measured"  # it is not asked for

    def test_a_trial_that_never_ran_is_missed(self):
        tables = long_tables(kept=lambda at: at not in (3, 17))
        assert judged(tables).why == "2 of 20 trials have no value (2 missing)"
        assert judged(tables, where=(("model.d_vo", 1),)).why == "1 of 10 trials have no value (1 missing)"

    def test_lost_readings_are_missed(self):
        tables = long_tables()
        lost = Tables(tables.trials, tables.curves, tables.readings.slice(0, tables.readings.num_rows - 1))
        assert judged(lost, where=()).status == "measured"  # tau 0.5 of one trial, which nobody asks for
        quantity = Quantity("mean", "recall")
        study = Study("long", "Long", None, "?", "!", trials, claims=(claim(quantity, data="readings"),))
        assert "has 3 of 4 readings" in results_of(study, "full", lost).judged[0][1].why

    def test_nothing_stored(self):
        assert judged(Tables.empty()).why == "20 of 20 trials have no value (20 missing)"
        tables = long_tables()
        without = Tables(tables.trials, tables.curves, Tables.empty().readings)
        assert judged(without).why == "no reading with tau = 0.9"
        assert judged(tables, data="curves").status == "not comparable"


def test_ranks_of_ties_are_averaged():
    """Ties of different sizes, without which the last of each tie would give the same correlation."""
    x, y = [0, 0, 0, 1, 2, 2, 5], [3, 1, 1, 1, 2, 7, 7]
    table = pa.table({"x": x, "y": y, "seed": [0] * 7})
    found = over_draws("rank correlation", sample_of(table, "y", "x", ()), np.ones((1, 1))).values
    assert found == pytest.approx(spearmanr(x, y).statistic, abs=1e-12)
