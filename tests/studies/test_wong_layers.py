"""The studies of shapes, scale, routing, heads and architectures: what they ask for, and verdicts on made-up tables."""

from dataclasses import replace
from functools import cache

import numpy as np
import pyarrow as pa
import pytest

from factrank.experiments.statistics.expressions import missing_columns, numbers, selected
from factrank.experiments.statistics.fits import fit_result
from factrank.experiments.statistics.summaries import summary_table
from factrank.experiments.store.columns import reading_rows, row_of, trial_columns
from factrank.experiments.store.result_tables import Tables
from factrank.experiments.study.study_results import results_of
from factrank.experiments.training import train_many
from factrank.families.attention.layer_bounds import layer_rank_bounds
from factrank.families.attention.layer_shape import LayerShape
from factrank.studies.wong import architectures, attention_storage, effective_rank, heads_against_width, scale_up
from factrank.studies.wong.additive_motif import ADDITIVE_MOTIF
from factrank.studies.wong.architectures import ARCHITECTURES
from factrank.studies.wong.attention_storage import ATTENTION_STORAGE
from factrank.studies.wong.effective_rank import EFFECTIVE_RANK
from factrank.studies.wong.heads_against_width import HEADS_AGAINST_WIDTH
from factrank.studies.wong.minimal_routing import MINIMAL_ROUTING
from factrank.studies.wong.scale_up import SCALE_UP
from factrank.studies.wong.vo_against_qk import VO_AGAINST_QK
from small_studies import columns_named
from small_studies import trials_listed as trials_of

STUDIES = (
    SCALE_UP,
    MINIMAL_ROUTING,
    HEADS_AGAINST_WIDTH,
    ADDITIVE_MOTIF,
    ARCHITECTURES,
    ATTENTION_STORAGE,
    EFFECTIVE_RANK,
)
EACH = pytest.mark.parametrize("study", STUDIES, ids=lambda study: study.name)
LUCK = 0.01 * np.random.default_rng(0).normal(size=20)
"""What each seed adds, so that intervals have a width."""


@cache
def rows_of(study, size):
    return [trial_columns(trial) | {"status": "finished"} for trial in trials_of(study, size)]


def table(rows):
    """Rows as a table; a column that some rows lack is null there."""
    names = {name: None for row in rows for name in row}
    return pa.table({name: [row.get(name) for row in rows] for name in names or {"hash": None}})


def verdicts(study, measured, readings=lambda row: (), size="quick"):
    """The verdicts where training gave `measured(row)` for each trial, and `readings(row)` for its readouts."""
    rows = [row | measured(row) for row in rows_of(study, size)]
    long = [{"hash": row["hash"]} | reading for row in rows for reading in readings(row)]
    tables = Tables(table(rows), table([]), table(long))
    return {claim.name: verdict for claim, verdict in results_of(study, size, tables).judged}


def statuses(found, *names):
    return [found[name].status for name in names]


# ---------------------------------------------------------------- what they ask for


@EACH
def test_quick_is_within_full_and_seeds_are_paired(study):
    quick, full = trials_of(study, "quick"), trials_of(study, "full")
    assert set(quick) <= set(full)
    assert {trial.seed for trial in quick} == {0, 1, 2}
    assert len({trial.seed for trial in full}) >= 10
    assert len(full) <= 6000
    for trial in full:
        assert dict(trial.data.arguments)["seed"] == trial.seed


def test_minimal_routing_has_its_baseline():
    """Every d_qk up to d_model for d_vo 1, 2 and 3, and 20 seeds."""
    full = trials_of(MINIMAL_ROUTING, "full")
    for d_vo in (1, 2, 3):
        assert {trial.model.d_qk for trial in full if trial.model.d_vo == d_vo} == set(range(1, 9))
    queries = {dict(trial.data.arguments)["n_queries"] for trial in full}
    assert (min(queries), max(queries)) == (2, 40)
    assert len({trial.seed for trial in full}) == 20


@pytest.mark.parametrize("d_model", [8, 12])
def test_heads_times_width_is_fixed_and_so_is_the_bound(d_model):
    shapes = heads_against_width.shapes(d_model)
    assert {shape.n_heads * shape.d_vo for shape in shapes} == {8}
    assert {shape.n_heads for shape in shapes} == {1, 2, 4, 8}
    assert len({layer_rank_bounds(shape, 40, 5, 40).upper.value for shape in shapes}) == 1  # with 5 queries only:
    assert len({layer_rank_bounds(shape, 40, 20, 40).upper.value for shape in shapes}) > 1  # here a head is its tokens
    equal = [shape for shape in shapes if shape.n_heads * shape.d_qk == 8]
    assert len(equal) == 4
    assert len({shape.parameters(40, 20, 40) for shape in equal}) == 1
    assert len([shape for shape in shapes if shape.d_qk == 2]) == 4


@pytest.mark.parametrize("n_queries", [10, 20])
def test_architectures_have_equal_parameters(n_queries):
    plain, *others = (shape.parameters(20, n_queries, 20) for shape in architectures.VARIANTS.values())
    assert all(abs(other - plain) <= 0.02 * plain for other in others)


def test_variants_are_told_apart():
    """Each variant's selection finds its own trials and no others."""
    rows = table(rows_of(ARCHITECTURES, "full"))
    found = np.array([selected(rows, architectures.rows_of(name)) for name in architectures.VARIANTS])
    assert (found.sum(axis=0) == 1).all()
    assert (found.sum(axis=1) == 2 * 20).all()


@pytest.mark.parametrize(("n_facts", "sizes"), list(scale_up.TABLES.items()))
def test_scale_up_compares_equal_parameters(n_facts, sizes):
    assert sizes[0] * sizes[1] == n_facts
    widths = scale_up.STARVED["full"][n_facts]
    assert set(widths) <= set(scale_up.WIDTHS["full"][n_facts])
    for width in widths:
        wide, starved = scale_up.wide(width), scale_up.starved(width)
        assert wide.parameters(*sizes) == starved.parameters(*sizes)
        wide_rank, starved_rank = (layer_rank_bounds(shape, *sizes).upper.value for shape in (wide, starved))
        assert wide_rank > 2 * starved_rank


def test_storage_has_the_sizes_of_the_closed_form():
    for trial in trials_of(ATTENTION_STORAGE, "full"):
        n_queries = dict(trial.data.arguments)["n_queries"]
        assert (trial.model.n_heads, trial.model.d_vo, trial.model.d_model) == (1, 1, 2 * n_queries + 1)
    six = [trial for trial in trials_of(ATTENTION_STORAGE, "quick") if trial.model.d_qk == attention_storage.QUERIES]
    assert {trial.training.precision for trial in six} == {"float32", "float64", "bfloat16"}


def test_tables_of_the_effective_rank_study_count_alike():
    built = [spec.build() for spec in effective_rank.tables(0)]
    assert {(database.shape, len(database), round(database.bits, 6)) for database in built} == {
        ((20, 10, 20), 200, round(200 * np.log2(20), 6))
    }


def test_vo_against_qk_fits_a_share():
    """Where the best d_vo is a fixed share of d_vo + d_qk, the rule finds it without error."""
    rows = [
        {
            "model.d_model": d_model,
            "model.n_heads": heads,
            "model.d_qk": d_model - d_vo + 1,
            "model.d_vo": d_vo,
            "data.n_keys": size,
            "data.n_queries": n_queries,
            "data.n_values": size,
            "seed": seed,
            "recall": -((d_vo - (d_model + 1) / 3) ** 2) + LUCK[seed],
        }
        for size, heads in ((20, 1), (40, 1), (40, 2), (40, 4))
        for d_model in (8, 11)
        for n_queries in (10, 20)
        for d_vo in range(1, d_model + 1)
        for seed in range(3)
    ]
    found = {one.name: summary_table(one, table(rows)) for one in VO_AGAINST_QK.summaries}
    for name, n_heads in (("best-split", 1), ("best-split-by-heads", 3)):
        assert sorted(found[name]["value"].to_pylist()) == [3.0] * 2 * n_heads + [4.0] * 2 * n_heads
    for fit in VO_AGAINST_QK.fits:
        result = fit_result(fit, found[fit.summary])
        assert result.coefficients[0] == pytest.approx(1 / 3)
        assert result.error == pytest.approx(0, abs=1e-9)


# ---------------------------------------------------------------- what their trials give


def few(study):
    """A trial of every kind of table and measurement that the fused engine trains: lanes would compile for seconds."""
    kinds = {}
    for trial in trials_of(study, "quick"):
        if isinstance(trial.model, LayerShape) and trial.training.precision == "float32":
            kinds.setdefault((trial.data.generator, trial.measures), trial)
    return [replace(trial, training=replace(trial.training, epochs=3)) for trial in kinds.values()]


@EACH
def test_trials_give_every_column(study):
    results = train_many(few(study))
    settings = [trial_columns(trial) for trial in trials_of(study, "quick")[-1:]]
    tables = Tables(
        table([*(row_of(result) for result in results), *settings]),
        table([]),
        table([row for result in results for row in reading_rows(result)]),
    )
    for data, columns in columns_named(study):
        assert missing_columns(tables.rows(data), *columns) == [], data


# ---------------------------------------------------------------- verdicts on made-up tables


def test_minimal_routing_decides():
    def found(gain, *, enough):
        """Recall rises by `gain` per d_qk up to `enough`, at small d_vo only, twice as steeply at 20 queries."""

        def measured(row):
            steps = min(row["model.d_qk"], enough) - 1
            by_queries = 2 if row["data.n_queries"] == 20 else 1
            slope = gain * by_queries if row["model.d_vo"] < 6 else 0.0
            return {"recall": 0.4 + slope * steps + LUCK[row["seed"]]}

        return verdicts(MINIMAL_ROUTING, measured)

    published = ("small d_vo needs routing", "starved routing costs recall", "routing counts more at small d_vo")
    like = found(0.05, enough=4)
    assert statuses(like, *published) == ["reproduced"] * 3
    assert like[published[0]].value == pytest.approx(3)
    assert like["least d_qk by number of queries"].value == pytest.approx(0)
    assert like["gain of d_qk by number of queries"].value == pytest.approx(2 * 0.15 - 0.15)
    assert found(0.015, enough=4)["least d_qk by number of queries"].value == pytest.approx(1)
    assert set(statuses(found(0.0, enough=4), *published)) <= {"not reproduced", "undecided"}


def test_heads_against_width_decides():
    def found(by_heads, by_queries):
        def measured(row):
            heads, queries = row["model.n_heads"], row["data.n_queries"]
            return {"recall": 0.3 + (by_heads + by_queries * queries) * heads + LUCK[row["seed"]], "recall_0.95": 0.1}

        return verdicts(HEADS_AGAINST_WIDTH, measured)

    product = ("only the product counts", "only the product counts, equal d_qk")
    indifferent = found(0.0, 0.0)
    assert statuses(indifferent, *product) == ["reproduced"] * 2
    depends = found(0.02, 0.001)
    assert statuses(depends, *product) == ["not reproduced"] * 2
    assert depends["it depends on the number of queries"].value == pytest.approx(0.001 * 7 * (20 - 5))


def test_additive_motif_decides():
    def measured(row):
        share = 0.1 * row["model.n_heads"] if row["model.n_heads"] > 1 else 0.0
        return {"recall": 0.8, "additive_share": share, "heads_alone": 0.1, "direct_alone": 0.1}

    found = verdicts(ADDITIVE_MOTIF, measured)
    assert found["facts are recalled additively"].status == "by construction"
    assert found["by number of heads"].value == pytest.approx(0.1)
    assert found["one head is not enough alone"].value == 0
    shares = [0.1 * heads for heads in (2, 3, 4, 6, 8, 2, 8)]  # both families, 4 heads once
    assert found["share of what is recalled"].value == pytest.approx(np.mean(shares) / 0.8)


def test_architectures_are_compared_with_the_plain_layer():
    def measured(row):
        recall = 0.5 + 0.1 * ((row.get("model.n_layers") or 1) - 1) - 0.05 * bool(row.get("model.positions"))
        return {"recall": recall + LUCK[row["seed"]], "recall_0.95": 0.2}

    found = verdicts(ARCHITECTURES, measured)
    assert found["two layers"].value == pytest.approx(0.1)
    assert found["positions"].value == pytest.approx(-0.05)
    assert found["two heads"].value == pytest.approx(0)
    assert statuses(found, "two layers", "layer norm") == ["measured", "not comparable"]


def storage(found_by, bits):
    def measured(row):
        precise = bits[row["training.precision"]]
        long = 2.0 if row["training.epochs"] > 2000 else 1.0
        by_attention = found_by * row["model.d_qk"] * row["training.score_scale"] * long
        return {"recall": 0.4 + by_attention + precise + LUCK[row["seed"]], "recall_0.95": 0.1}

    def readings(row):
        recall = measured(row)["recall"]
        if row["training.precision"] == "float32" and row["training.score_scale"]:
            yield {"precision": "float32", "tau": 0.95, "temperature": 1.0, "argmax": recall}
            yield {"precision": "bfloat16", "tau": 0.95, "temperature": 1.0, "argmax": recall + bits["bfloat16"]}

    return verdicts(ATTENTION_STORAGE, measured, readings)


def test_attention_storage_decides():
    directions = (
        "d_qk helps at d_vo = 1",
        "the attention map holds facts",
        "float64 holds more than float32",
        "float32 holds more than bfloat16",
        "rounding the weights loses facts",
    )
    like = storage(0.05, {"float64": 0.03, "float32": 0.0, "bfloat16": -0.05})
    assert statuses(like, *directions) == ["reproduced"] * 5
    assert like["rounding the weights loses facts"].value == pytest.approx(0.05)
    assert like["training finds the closed form"].value == pytest.approx(0.73, abs=0.02)
    against = storage(-0.01, {"float64": -0.03, "float32": 0.0, "bfloat16": 0.05})
    assert statuses(against, *directions) == ["not reproduced"] * 5


def ranks_of(row):
    ranks = {"disjoint": 20, "structured": 20, "overlapping-boxes": 20, "zipf": 60, "uniform": 120, "bijections": 140}
    effective = {"disjoint": 10, "structured": 6, "overlapping-boxes": 5}
    kind = row["data.generator"]
    return ranks[kind], effective.get(kind, 11)


@pytest.mark.parametrize(("sign", "status"), [(1, "reproduced"), (-1, "not reproduced")])
def test_effective_rank_decides(sign, status):
    def measured(row):
        rank, effective = ranks_of(row)
        recall = 0.5 - sign * (0.002 * rank + 0.01 * effective) + LUCK[row["seed"]]
        sizes = {"rank_lower": rank, "rank_upper": rank, "proposition": rank, "effective_lower": 2}
        return sizes | {"effective_upper": effective, "recall": recall, "recall_0.95": 0.1}

    found = verdicts(EFFECTIVE_RANK, measured)
    assert statuses(found, "higher rank, lower recall", "higher rank, lower recall, by the upper bound") == [status] * 2
    assert found["equal rank, different recall"].value == pytest.approx(sign * 0.05)
    assert found["effective rank at equal rank"].status == "measured"


def test_scale_up_decides():
    def found(slope, *, held):
        def measured(row):
            sizes = tuple(row.get(f"data.{name}") or row["data.rank"] for name in ("n_keys", "n_queries", "n_values"))
            shape = LayerShape(*(row[f"model.{name}"] for name in ("d_model", "n_heads", "d_qk", "d_vo")))
            layer_rank = layer_rank_bounds(shape, *sizes).upper.value
            rank = row.get("data.rank")
            recall = 0.5 + slope * (layer_rank / 1000 - (rank or 0) / 2000) + LUCK[row["seed"]] / 10
            numbers_ = {
                "recall": recall,
                "layer_rank": float(layer_rank),
                "bits": 6.0,
                "parameters": 2.0,
                "facts": 2000.0,
            }
            ranks = {"rank_lower": float(rank or 100), "rank_upper": float(rank or 800), "proposition": 900.0}
            memorised = float(held)
            violates = memorised * (ranks["rank_lower"] > layer_rank)
            estimated = {"cp_rank": float(rank)} if rank and shape.d_model == 3 else {}
            return (
                numbers_ | ranks | estimated | {"effective_upper": 21.0, "memorised": memorised, "violates": violates}
            )

        return verdicts(SCALE_UP, measured)

    published = ("rank predicts recall", "rank counts at equal parameters, 2,000 facts", "planted rank predicts recall")
    like = found(1.0, held=True)
    assert statuses(like, *published) == ["reproduced"] * 3
    assert like["layers of smaller rank hold planted tables"].value == pytest.approx(3 / 4)  # 63 > 50 alone obeys
    assert like["CP finds planted ranks"].value == 1
    assert statuses(like, "rank counts at equal parameters, 6,000 facts") == ["not comparable"]
    against = found(-1.0, held=False)
    assert statuses(against, *published) == ["not reproduced"] * 3
    assert statuses(against, "layers of smaller rank hold planted tables") == ["not comparable"]


def test_summaries_have_values():
    """The least d_qk for every number of queries and d_vo, as planted."""
    rows = [
        row | {"recall": min(row["model.d_qk"], 1 + row["model.d_vo"]) / 10 + LUCK[row["seed"]]}
        for row in rows_of(MINIMAL_ROUTING, "quick")
    ]
    results = results_of(MINIMAL_ROUTING, "quick", Tables(table(rows), table([]), table([])))
    summary, found = results.summaries[0]
    assert summary.name == "least-d_qk"
    assert len(found) == 3 * 4
    np.testing.assert_allclose(numbers(found, "value"), numbers(found, "1 + model.d_vo"))
    assert results.fits == []
