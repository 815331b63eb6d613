"""The studies of open questions: what they hold constant, and their verdicts on made-up results."""

from collections import Counter
from functools import cache
from math import log, log2
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from factrank.experiments.statistics.expressions import numbers
from factrank.experiments.statistics.summaries import summary_table
from factrank.experiments.store.columns import trial_columns
from factrank.experiments.store.result_tables import Tables
from factrank.experiments.study.study_results import results_of
from factrank.families.attention import init_layer
from factrank.studies.wong import vo_against_qk
from factrank.studies.wong.questions import bits_by_family, rank_or_information, sign_of_d_qk, stored_bits
from factrank.studies.wong.questions.bits_by_family import BITS_BY_FAMILY
from factrank.studies.wong.questions.cp_at_scale import CP_AT_SCALE
from factrank.studies.wong.questions.least_d_qk import LEAST_D_QK
from factrank.studies.wong.questions.rank_or_information import RANK_OR_INFORMATION
from factrank.studies.wong.questions.sign_of_d_qk import SIGN_OF_D_QK
from factrank.studies.wong.questions.stored_bits import STORED_BITS
from factrank.studies.wong.questions.tables_or_trainings import TABLES_OR_TRAININGS
from small_studies import trials_listed as trials_of

STUDIES = (RANK_OR_INFORMATION, SIGN_OF_D_QK, STORED_BITS, LEAST_D_QK, CP_AT_SCALE)
PUBLISHED = Path(__file__).parents[2] / "reproductions" / "nichani2025" / "tables"


@cache
def rows_of(study, size):
    return [trial_columns(trial) | {"status": "finished"} for trial in trials_of(study, size)]


def table(rows):
    names = {name: None for row in rows for name in row}
    return pa.table({name: [row.get(name) for row in rows] for name in names or {"hash": None}})


def noise(row, scale=0.002):
    return scale * np.random.default_rng(int(row["hash"][:12], 16)).normal()


def verdicts(study, measured, size="quick"):
    rows = [row | measured(row) for row in rows_of(study, size)]
    judged = results_of(study, size, Tables(table(rows), table([]), table([]))).judged
    return {claim.name: verdict for claim, verdict in judged}


@pytest.mark.parametrize("study", STUDIES, ids=lambda study: study.name)
def test_seeds_draw_tables_and_weights(study):
    for size in ("quick", "full"):
        trials = trials_of(study, size)
        assert all(dict(trial.data.arguments)["seed"] == trial.seed for trial in trials)
        assert len({trial.seed for trial in trials}) >= (3 if size == "quick" else 10)


def test_trainings_are_nested_in_tables():
    for size, n_tables, n_trainings in (("quick", 3, 2), ("full", 30, 4)):
        trials = trials_of(TABLES_OR_TRAININGS, size)
        trainings = Counter((dict(trial.data.arguments)["seed"], trial.seed) for trial in trials)
        assert set(trainings.values()) == {4}  # shapes
        assert Counter(table for table, _ in trainings) == dict.fromkeys(range(300, 300 + n_tables), n_trainings)
        assert len({seed for _, seed in trainings}) == n_tables * n_trainings  # no seed on two tables


@pytest.mark.parametrize("column", ["data.seed", "seed"])
def test_tables_and_trainings_are_told_apart(column):
    def measured(row):
        luck = 0.1 * np.random.default_rng(row[column]).normal()
        return {"recall": 0.5 + 0.01 * row["model.d_vo"] + luck + noise(row, 0.0001)}

    found = verdicts(TABLES_OR_TRAININGS, measured, "full")
    verdict = found["recall, tables and trainings"]
    larger, smaller = (verdict.between, verdict.within) if column == "data.seed" else (verdict.within, verdict.between)
    assert larger == pytest.approx(0.1, rel=0.3)
    assert smaller < 0.3 * larger
    assert verdict.n_seeds == 30
    for name in ("rises with d_vo on nested trainings", "d_vo counts more than d_qk on nested trainings"):
        assert (found[name].status, found[name].value) == ("reproduced", pytest.approx(0.01, rel=0.01))


# ---------------------------------------------------------------- rank or information


def test_all_kinds_have_equal_facts_values_and_bits():
    trials = [trial for trial in trials_of(RANK_OR_INFORMATION, "full") if trial.seed == 0 and trial.model.d_model == 4]
    tables = [trial.data.build() for trial in trials]
    assert {(one.n_facts, one.n_queries, one.n_values, one.bits_by_query) for one in tables} == {(200, 5, 8, 600.0)}
    rows = table([trial_columns(trial) for trial in trials])
    kinds, missing = numbers(rows, rank_or_information.KIND), numbers(rows, rank_or_information.MISSING)
    assert len(tables) == len(set(kinds)) == 32
    assert sum(missing == 0) == 20


def test_every_kind_has_30_tables():
    counted = Counter((trial.data, trial.model.d_model) for trial in trials_of(RANK_OR_INFORMATION, "full"))
    assert set(counted.values()) == {1}
    assert len(counted) == 32 * 30 * len(rank_or_information.WIDTHS["full"])


def sizes(row):
    """Ranks as certified bounds would give them; classes of keys lower the lower bound."""
    functions, shared = row["data.n_functions"], row["data.n_shared"]
    planted = shared + 1 + functions * (7 - shared)
    partial = row["data.n_missing"]
    lower = 32 + 2 * row["seed"] + functions if partial else min(planted, row["data.n_classes"])
    return {"rank_lower": lower, "rank_upper": lower if partial else planted, "effective_upper": functions + 1}


def independent(row):
    return row["data.n_classes"] * (1 + (row["data.n_functions"] - 1) * (1 - row["data.n_shared"] / 8))


def recalled(measure):
    def measured(row):
        found = sizes(row)
        recall = 1 - measure(row, found) / 1000 + noise(row)
        return found | {"recall": recall, "recall_0.95": recall}

    return measured


def test_rank_and_information_are_told_apart():
    by_rank = verdicts(RANK_OR_INFORMATION, recalled(lambda _, found: 10 * found["rank_upper"]))
    by_values = verdicts(RANK_OR_INFORMATION, recalled(lambda row, _: independent(row)))
    beyond_values, beyond_rank = "rank counts beyond independent values", "independent values count beyond rank"
    assert by_rank[beyond_values].status == "reproduced"
    assert by_values[beyond_rank].status == "reproduced"
    assert by_rank[beyond_rank].value > by_values[beyond_rank].value
    assert by_rank["independent values against rank"].value > 0 > by_values["independent values against rank"].value
    assert by_rank[beyond_values].n_seeds == 20


def test_rank_and_completion_rank_are_told_apart():
    def planted(row, _):
        return 10 * (row["data.n_shared"] + 1 + row["data.n_functions"] * (7 - row["data.n_shared"]))

    found = verdicts(RANK_OR_INFORMATION, recalled(planted))
    assert found["completion rank counts beyond rank"].status == "reproduced"
    assert found["completion rank counts beyond rank"].n_seeds == 12
    assert abs(found["rank counts beyond completion rank"].value) < 0.3


# ---------------------------------------------------------------- d_qk


def test_loads_are_equal_whatever_the_number_of_queries():
    tables = [dict(trial.data.arguments) for trial in trials_of(SIGN_OF_D_QK, "full")]
    assert all(one["n_keys"] * one["n_queries"] == one["n_facts"] for one in tables)
    assert len({(one["n_facts"], one["n_queries"], one["seed"]) for one in tables}) == 3 * 3 * 100


@pytest.mark.parametrize("sign", [1, -1])
def test_the_sign_of_d_qk_is_judged_from_both_sides(sign):
    def measured(row):
        slope = sign * (0.01 if row["data.n_queries"] == sign_of_d_qk.MANY else -0.01)
        return {"recall": 0.5 + slope * row["model.d_qk"] + noise(row, 0.001)}

    found = verdicts(SIGN_OF_D_QK, measured)
    expected = "reproduced" if sign > 0 else "not reproduced"
    for name in (
        "few queries, large d_vo: d_qk hurts",
        "many queries, large d_vo: d_qk helps",
        "more queries gain more at equal load",
    ):
        assert found[name].status == expected


@pytest.mark.parametrize(("least", "status"), [({5: 2, 20: 4}, "reproduced"), ({5: 4, 20: 2}, "not reproduced")])
def test_the_least_d_qk_is_found(least, status):
    def measured(row):
        enough = row["model.d_qk"] >= least[row["data.n_queries"]]
        return {"recall": 0.5 + 0.02 * enough + noise(row, 0.0002)}

    found = verdicts(LEAST_D_QK, measured)
    assert found["more queries need more d_qk"].status == status
    assert found["small d_vo needs routing, sharply"].value == 2


# ---------------------------------------------------------------- bits


def test_bits_per_parameter_count_the_parameters_of_the_layer():
    trial = trials_of(STORED_BITS, "full")[0]
    database = trial.data.build()
    layer = init_layer(trial.model, database.n_keys, database.n_queries, database.n_values, key=0)
    for loss, bits in ((0.0, 200 * log2(20)), (log(20), 0.0), (log(2), 200 * (log2(20) - 1))):
        row = table([trial_columns(trial) | {"loss": loss}])
        assert numbers(row, stored_bits.STORED)[0] == pytest.approx(bits, abs=1e-3)
        assert numbers(row, stored_bits.PER_PARAMETER)[0] * layer.parameters == pytest.approx(bits, abs=1e-3)


def test_families_are_counted_as_they_count_themselves():
    counted = {"attention": 0, "memory": 0, "sequence": 0}
    for trial in trials_of(BITS_BY_FAMILY, "quick"):
        row = table([trial_columns(trial)])
        kind = row["model.kind"][0].as_py()
        counted[kind] += 1
        if kind == "sequence":
            assert numbers(row, bits_by_family.RECALL_WEIGHTS)[0] == trial.model.counted_parameters
        elif kind == "memory":
            weights = bits_by_family.LINEAR_WEIGHTS if trial.model.width is None else bits_by_family.MLP_WEIGHTS
            assert numbers(row, weights)[0] == 16 * 16 * (1 if trial.model.width is None else 4)
    assert min(counted.values()) >= 3


def test_memories_and_transformers_are_published_trials():
    published = set()
    for name in ("linear-memory", "mlp-memory", "attention-against-mlp"):
        published |= set(pq.read_table(PUBLISHED / f"{name}.parquet", columns=["hash"])["hash"].to_pylist())
    own = set(trials_of(STORED_BITS, "full"))
    others = [trial for trial in trials_of(BITS_BY_FAMILY, "full") if trial not in own]
    assert {trial.hash for trial in others} <= published
    assert len(others) == 12 * (4 + 6 + 6)


# ---------------------------------------------------------------- the best split, out of sample


def test_the_error_of_a_rule_is_its_distance_from_the_best_split():
    """With the best d_vo planted at 0.812 (d_model + 1) that rule is off by rounding alone, the others are not."""

    def measured(row):
        best = round(0.812 * (row["model.d_model"] + 1))
        return {"recall": 0.5 - 0.01 * abs(row["model.d_vo"] - best) + noise(row, 0.0005)}

    summary = next(one for one in vo_against_qk.OUT_OF_SAMPLE if one.name == "rules-out-of-sample")
    rows = [trial_columns(trial) for trial in vo_against_qk.diagonals() if trial.model.n_heads == 1 and trial.seed < 3]
    found = summary_table(summary, table([row | measured(row) for row in rows]))
    errors = dict(zip(found["quantity"].to_pylist(), found["value"].to_pylist(), strict=True))
    assert errors["constant fraction"] < 0.5 < errors["two thirds"]
    assert errors["by queries less constant"] == pytest.approx(
        errors["fraction by queries"] - errors["constant fraction"]
    )
