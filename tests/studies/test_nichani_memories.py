"""The studies of associative memories: what they ask for, and verdicts on worlds whose capacities are known."""

from dataclasses import asdict, replace
from itertools import product
from math import log

import numpy as np
import pyarrow as pa
import pytest

from factrank.experiments.execution.runner import run_study
from factrank.experiments.statistics.expressions import missing_columns
from factrank.experiments.statistics.fits import fit_result
from factrank.experiments.statistics.summaries import summary_table
from factrank.experiments.statistics.verdicts import evaluate
from factrank.experiments.store.store import Store
from factrank.experiments.study.searches import rounds_of, search_table
from factrank.experiments.study.study_results import results_of
from factrank.experiments.study.trials_of_study import study_tables
from factrank.families.memory.memory_limit import asymptotic_memory_limit, memory_limit
from factrank.studies.nichani.memories import linear_memory, linear_memory_limit, mlp_memory, mlp_memory_few_outputs
from factrank.studies.nichani.memories.linear_memory import LINEAR_MEMORY
from factrank.studies.nichani.memories.linear_memory_limit import LINEAR_MEMORY_LIMIT
from factrank.studies.nichani.memories.linear_memory_training import LINEAR_MEMORY_TRAINING
from factrank.studies.nichani.memories.mlp_memory import MLP_MEMORY
from factrank.studies.nichani.memories.mlp_memory_few_outputs import MLP_MEMORY_FEW_OUTPUTS
from factrank.studies.nichani.settings import n_with
from small_studies import columns_named

STUDIES = (LINEAR_MEMORY, MLP_MEMORY, MLP_MEMORY_FEW_OUTPUTS, LINEAR_MEMORY_LIMIT)
EACH = pytest.mark.parametrize("study", STUDIES, ids=lambda study: study.name)
LUCK = 1 + 0.02 * np.random.default_rng(0).normal(size=12)
"""By what each seed holds more or less, so that intervals have a width."""
MOST_PROBES = 10


def found(study, size, capacity):
    """The rows of all searches in a world where `capacity(trial)` is what a memory holds, but for luck."""
    rows = []
    for search in study.searches_of(size):
        trial = search.family(search.guess)[0]
        shape, seed = trial.model, trial.seed
        lower = int(capacity(trial) * LUCK[seed])
        outputs = 32 if study is MLP_MEMORY_FEW_OUTPUTS else lower
        row = {"search": search.name, "status": "finished", "seed": seed, "data.seed": seed, "start": trial.start}
        row |= {f"model.{name}": value for name, value in asdict(shape).items()}
        row |= {"lower": lower, "upper": round(1.06 * lower), "log_lower": log(lower)}
        row |= {"parameters": float(shape.memory_parameters), "limit": memory_limit(shape.d_model)}
        row |= {"bits_per_parameter": lower * log(outputs) / log(2) / shape.memory_parameters}
        rows.append(row | {"limit_half": asymptotic_memory_limit(shape.d_model)})
    return pa.Table.from_pylist(rows)


def searched(study, size, capacity):
    """The same by the searches themselves, which ask for one size after the other."""
    searches, rows = study.searches_of(size), {}
    while new := [trial for part in rounds_of(searches, rows) for trial in part if trial.hash not in rows]:
        for trial in new:
            held = dict(trial.data.arguments)["n_inputs"] <= capacity(trial) * LUCK[trial.seed]
            rows[trial.hash] = {"status": "finished", "recall": float(held)}
    return search_table(searches, rows)


def verdicts(study, size, capacity):
    table = found(study, size, capacity)
    return {claim.name: evaluate(claim, table).status for claim in study.claims}


# ---------------------------------------------------------------- worlds


def linear_as_published(trial):
    return n_with(trial.model.d_model**2 / 1.3)


def linear_twice(trial):
    return n_with(2 * trial.model.d_model**2 / 1.3)


def mlp_as_published(trial):
    return n_with(trial.model.width * trial.model.d_model / 0.35)


def mlp_by_width(trial):
    """Wide MLPs hold less for their size."""
    return n_with(trial.model.width * trial.model.d_model / 0.35 / (trial.model.width / trial.model.d_model) ** 0.3)


def few_as_published(trial):
    return trial.model.width * trial.model.d_model / 1.2


def few_half(trial):
    return trial.model.width * trial.model.d_model / 2.4


LIMITS = {"drawn": 0.5, "logistic": 0.5, "two-sided": 0.25, "least squares": 0.2, "outer product": 0.125}


def as_expected(trial):
    """Trained memories above 1/2, less and less; the others at their constants."""
    above = 3 / trial.model.d_model if trial.start in ("drawn", "logistic") else 0.0
    return n_with((LIMITS[trial.start] + above) * trial.model.d_model**2)


def all_alike(trial):
    return n_with(0.3 * trial.model.d_model**2)


# ---------------------------------------------------------------- what they ask for


@EACH
def test_seeds_are_paired_and_names_those_of_full(study):
    quick, full = (study.searches_of(size) for size in ("quick", "full"))
    assert {one.name for one in quick} <= {one.name for one in full}
    for searches, seeds in ((quick, range(3)), (full, range(12))):
        trials = [trial for search in searches for trial in search.family(search.guess)]
        assert {trial.seed for trial in trials} == set(seeds)
        assert all(dict(trial.data.arguments)["seed"] == trial.seed for trial in trials)


def first_trials(study):
    return [search.family(search.guess)[0] for search in study.searches_of("full")]


def test_settings_are_the_authors():
    for trial in first_trials(LINEAR_MEMORY):
        assert (trial.training.learning_rate, trial.training.epochs, trial.training.stop_at) == (1000, 4096, 0.99)
    widths = [*linear_memory.WIDTHS["full"], linear_memory.LARGEST]
    assert widths == [int(2 ** (half / 2)) for half in range(6, 17)]
    for study in (MLP_MEMORY, MLP_MEMORY_FEW_OUTPUTS):
        trials = first_trials(study)
        assert {(one.training.learning_rate, one.training.epochs) for one in trials} == {(0.03, 32768)}
        assert {one.model.width / one.model.d_model for one in trials} == {1, 2, 4, 8}
    assert {dict(one.data.arguments)["n_outputs"] for one in trials} == {32}
    assert {trial.start for trial in first_trials(LINEAR_MEMORY_LIMIT)} == set(linear_memory_limit.GUESSES)


def test_equal_products_come_in_pairs():
    for module in (mlp_memory, mlp_memory_few_outputs):
        for both in module.EQUAL:
            shapes = [(d, m) for d, m in module.SHAPES["full"] if d * m == both]
            assert sorted(m // d for d, m in shapes) in ([1, 4], [2, 8])


# ---------------------------------------------------------------- verdicts on worlds that are known


def test_searches_find_the_published_line():
    """From their guesses, in few probes, to 6 %."""
    table = searched(LINEAR_MEMORY, "quick", linear_as_published)
    assert set(table["status"].to_pylist()) == {"finished"}
    assert max(table["probes"].to_pylist()) <= MOST_PROBES
    for row in table.to_pylist():
        held = n_with(row["model.d_model"] ** 2 / 1.3) * LUCK[row["seed"]]
        assert row["lower"] <= held < row["upper"] <= max(row["lower"] + 1, 1.06 * row["lower"])


def test_the_published_line_is_found():
    full = verdicts(LINEAR_MEMORY, "full", linear_as_published)
    assert full.pop("bits per parameter") == full.pop("the constant changes with d") == "measured"
    assert set(full.values()) == {"reproduced"}
    summary = LINEAR_MEMORY.summaries[0]
    fit = fit_result(LINEAR_MEMORY.fits[0], summary_table(summary, found(LINEAR_MEMORY, "full", linear_as_published)))
    assert fit.coefficients[0] == pytest.approx(1 / 1.3, rel=0.02)
    assert fit.intervals[0][0] < fit.coefficients[0] < fit.intervals[0][1]


def test_another_line_is_told_apart():
    full = verdicts(LINEAR_MEMORY, "full", linear_twice)
    assert full["facts rise with parameters"] == "reproduced"
    assert {full[name] for name in ("N log N = d² / 1.3", "slope of N log N")} == {"not reproduced"}


def test_mlp_memories():
    published = verdicts(MLP_MEMORY, "full", mlp_as_published)
    assert published.pop("bits per parameter") == "measured"
    assert set(published.values()) == {"reproduced"}
    by_width = verdicts(MLP_MEMORY, "full", mlp_by_width)
    assert (by_width["only m d counts"], by_width["facts rise with parameters"]) == ("not reproduced", "reproduced")
    few = verdicts(MLP_MEMORY_FEW_OUTPUTS, "full", few_as_published)
    assert few.pop("bits per parameter") == "measured"
    assert set(few.values()) == {"reproduced"}
    half = verdicts(MLP_MEMORY_FEW_OUTPUTS, "full", few_half)
    assert (half["N = m d / 1.2"], half["slope of N"]) == ("not reproduced", "not reproduced")


def test_one_combination_is_the_authors_training():
    """The factorial has every combination once a seed, and shares one with the study of Figure 1 (left)."""
    made = {trial for search in LINEAR_MEMORY_TRAINING.searches_of("full") for trial in search.trials(search.guess)}
    shared = made & {trial for search in LINEAR_MEMORY.searches_of("full") for trial in search.trials(search.guess)}
    assert (len(made), len(shared)) == (2 * 8 * 3, 2 * 3)
    trainings = {(one.training.learning_rate, one.training.epochs, one.training.precision) for one in made}
    assert trainings == set(product((10.0, 1000.0), (4096, 8192), ("tf32", "float32")))


def test_effects_of_training_are_told_apart():
    """A world in which float32 alone helps, at d = 128 alone."""

    def capacity(shape, training):
        helped = training.precision == "float32" and shape.d_model == 128
        return n_with(shape.d_model**2 / (1.3 if helped else 1.5))

    rows = []
    for search in LINEAR_MEMORY_TRAINING.searches_of("full"):
        trial = search.trials(search.guess)[0]
        lower = capacity(trial.model, trial.training)
        row = {"status": "finished", "seed": trial.seed, "model.d_model": trial.model.d_model, "lower": lower}
        row |= {f"training.{name}": getattr(trial.training, name) for name in ("learning_rate", "epochs", "precision")}
        rows.append(row | {"log_lower": log(lower)})
    values = {claim.name: evaluate(claim, pa.Table.from_pylist(rows)).value for claim in LINEAR_MEMORY_TRAINING.claims}
    assert values.pop("the precision at d = 128") == pytest.approx(-0.2)
    assert list(values.values()) == pytest.approx([0] * 5)


def test_the_limit():
    expected = verdicts(LINEAR_MEMORY_LIMIT, "full", as_expected)
    assert expected.pop("training over the finite-size estimate") == "measured"
    assert set(expected.values()) == {"reproduced"}
    alike = verdicts(LINEAR_MEMORY_LIMIT, "full", all_alike)
    assert alike.pop("training over the finite-size estimate") == "measured"
    assert alike.pop("training finds what there is") == "reproduced"
    assert set(alike.values()) <= {"not reproduced", "undecided"}
    estimate = summary_table(LINEAR_MEMORY_LIMIT.summaries[1], found(LINEAR_MEMORY_LIMIT, "full", as_expected))
    rows = [row for row in estimate.to_pylist() if row["quantity"] == "finite-size estimate"]
    assert [row["value"] for row in rows] == pytest.approx([memory_limit(row["model.d_model"]) for row in rows])


@EACH
def test_pictures_and_tables_have_their_columns(study):
    world = {
        LINEAR_MEMORY: linear_as_published,
        MLP_MEMORY: mlp_as_published,
        MLP_MEMORY_FEW_OUTPUTS: few_as_published,
        LINEAR_MEMORY_LIMIT: as_expected,
    }[study]
    table = found(study, "full", world)
    for part in (*study.charts, *study.summaries):
        assert (part.data, missing_columns(table, *part.columns)) == ("searches", [])
    for summary in study.summaries:
        values = summary_table(summary, table)
        assert set(values["why"].to_pylist()) == {""}, summary.name


# ---------------------------------------------------------------- a corner of it


def test_a_corner_runs(tmp_path):
    """Closed forms as the runner finds them: the table has every column that claims and charts name."""
    names = {f"{form}, d 8, seed {seed}" for form in ("least squares", "outer product") for seed in range(3)}
    chosen = [search for search in LINEAR_MEMORY_LIMIT.searches_of("quick") if search.name in names]
    corner = replace(LINEAR_MEMORY_LIMIT, searches=lambda _: chosen)
    store = Store(tmp_path)
    run_study(corner, "quick", store)
    table = study_tables(corner, "quick", store.tables()).searches
    assert table["status"].to_pylist() == ["finished"] * 6
    assert missing_columns(table, *(name for _, columns in columns_named(corner) for name in columns)) == []
    verdict = {claim.name: verdict for claim, verdict in results_of(corner, "quick", store.tables()).judged}
    assert verdict["least squares against the outer product"].status == "reproduced"
    assert min(table["lower"].to_pylist()[:3]) >= 8  # least squares is exact while the embeddings are independent
