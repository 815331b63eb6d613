"""The studies of factual recall: what they ask for, verdicts on tables that were made up, and one that is run."""

from dataclasses import replace
from functools import cache
from itertools import product
from math import isqrt, log

import numpy as np
import pyarrow as pa
import pytest

from factrank.experiments.capacity.capacity_interval import Criterion
from factrank.experiments.capacity.capacity_search import CapacitySearch
from factrank.experiments.execution.runner import run_study
from factrank.experiments.specs import Best
from factrank.experiments.statistics.expressions import numbers
from factrank.experiments.statistics.verdicts import evaluate
from factrank.experiments.store.store import Store
from factrank.experiments.study.searches import search_table
from factrank.experiments.study.study import Study
from factrank.experiments.study.trials_of_study import study_tables
from factrank.families.factual_recall import FactSequences, TestRecall
from factrank.families.factual_recall.factual_recall_shape import FactualRecallOneHotShape
from factrank.studies.nichani import (
    attention_against_mlp,
    attention_against_mlp_criteria,
    beyond_memorisation,
    frequent_facts_first,
    hallucination,
    where_facts_are,
)
from factrank.studies.nichani import factual_recall_capacity as recall_capacity
from factrank.studies.nichani import factual_recall_capacity_criteria as recall_capacity_criteria
from factrank.studies.nichani import factual_recall_capacity_variants as recall_capacity_variants
from factrank.studies.nichani import factual_recall_dynamics as recall_dynamics

SEARCHED = (recall_capacity.RECALL_CAPACITY, recall_capacity_variants.RECALL_CAPACITY_VARIANTS)
LISTED = (
    attention_against_mlp.ATTENTION_AGAINST_MLP,
    recall_dynamics.RECALL_DYNAMICS,
    hallucination.HALLUCINATION,
    where_facts_are.WHERE_FACTS_ARE,
    frequent_facts_first.FREQUENT_FACTS_FIRST,
    beyond_memorisation.BEYOND_MEMORISATION,
)
CRITERIA = (
    recall_capacity_criteria.RECALL_CAPACITY_CRITERIA,
    attention_against_mlp_criteria.ATTENTION_AGAINST_MLP_CRITERIA,
)
SIZES = ("quick", "full")


@cache
def listed(trials, size):
    return trials(size)


@cache
def trial_rows(trials, size):
    """The settings that claims name, of all listed trials; the hashes of `trial_columns` take longer than the rest."""
    rows = []
    for trial in listed(trials, size):
        data, model = FactSequences.of(trial.data), vars(trial.model)
        kind = {"model.kind": "one_hot" if isinstance(trial.model, FactualRecallOneHotShape) else "sequence"}
        rows.append(
            {f"data.{name}": value for name, value in data.facts.arguments}
            | {"data.key_exponent": data.key_exponent, "data.copy_fraction": data.copy_fraction}
            | {f"model.{name}": value for name, value in model.items()}
            | {"training.learning_rate": trial.training.learning_rate, "start": trial.start, "seed": trial.seed}
            | kind
        )
    return rows


def table_of_trials(study, size, numbers_of):
    """A table as training would give it: `numbers_of(row, luck)` with a little luck of each seed."""
    rng = np.random.default_rng(0)
    luck = 0.01 * rng.normal(size=12)
    rows = [row | numbers_of(row, luck[row["seed"]]) | {"status": "finished"} for row in trial_rows(study.trials, size)]
    return pa.Table.from_pylist(rows)


def curves_of(study, size, epochs, numbers_of):
    """The same with a row for each recorded epoch."""
    rows = [
        row | {"epoch": epoch, "status": "finished"} | numbers_of(row, epoch)
        for row in trial_rows(study.trials, size)
        for epoch in epochs
    ]
    return pa.Table.from_pylist(rows)


def verdicts(study, **tables):
    return {claim.name: evaluate(claim, tables[claim.data]).status for claim in study.claims}


# ---------------------------------------------------------------- what they ask for


@pytest.mark.parametrize("study", [*SEARCHED, *LISTED, *CRITERIA], ids=lambda study: study.name)
def test_no_trial_comes_twice_and_seeds_are_those_of_no_pilot(study):
    first = [search.trials(search.guess)[0] for search in study.searches_of("full")]
    assert len(set(first)) == len(first) or study in CRITERIA  # there two searches share their trials
    seeds = {trial.seed for trial in [*listed(study.trials, "full"), *first]}
    assert max(seeds) < 1000  # pilots had those


@pytest.mark.parametrize("study", LISTED, ids=lambda study: study.name)
def test_every_setting_has_every_seed(study):
    for size in SIZES:
        trials = listed(study.trials, size)
        assert len(set(trials)) == len(trials)
        counts = {}
        for trial in trials:
            given = dict(trial.source.arguments)
            shown = FactSequences.of(trial.data).options
            key = trial.model, trial.training, shown, given["structure"], given["n_keys"]
            counts.setdefault(key, []).append(trial.seed)
        assert {tuple(seeds) for seeds in counts.values()} == {tuple(range(12 if size == "full" else 3))}


def test_ablations_are_of_the_same_trials():
    assert where_facts_are.WHERE_FACTS_ARE.trials is attention_against_mlp.ATTENTION_AGAINST_MLP.trials


def test_parameters_are_constant_where_they_are_moved():
    models = {trial.model for trial in beyond_memorisation.BEYOND_MEMORISATION.trials("full")}
    assert len({model.counted_parameters for model in models}) == 1
    assert {model.d_vo for model in models} >= {1, 15}


def test_head_sizes_are_at_least_one():
    """The authors' scripts round alpha d / H down, to 0 in small models."""
    shapes = recall_capacity.shapes("full")
    assert min(shape.d_vo for shape in shapes) == 1
    assert all(shape.d_qk == shape.d_vo for shape in shapes)
    assert len(set(shapes)) == len(shapes)


def test_forms_of_the_task():
    for n_facts in (50, 200, 1000, 5000):
        wide = dict(recall_capacity_variants.many_subjects(n_facts, 0).arguments)
        assert 0.9 * n_facts < wide["n_keys"] * wide["n_queries"] <= n_facts
        assert 0.6 < wide["n_keys"] / wide["n_queries"] ** 2 < 1.6
        rich = dict(recall_capacity_variants.many_answers(n_facts, 0).arguments)
        assert rich["answers_per_query"] == rich["n_keys"] == rich["n_queries"] == isqrt(n_facts)


# ---------------------------------------------------------------- searches


def found(study, size, capacity_of):
    """The table of searches that end where `capacity_of(search's first trial)` says."""
    searches = study.searches_of(size)
    rows = {}
    for _ in range(12):
        asked = [trial for search in searches for part in search.rounds(rows) for trial in part]
        lacking = [trial for trial in asked if trial.hash not in rows]
        if not lacking:
            break
        for trial in lacking:
            given = dict(trial.source.arguments)
            n_facts = given["n_keys"] * given["n_queries"]
            bits = n_facts * log(given["answers_per_query"]) / log(2)
            held = n_facts <= capacity_of(trial) * (1 + 0.02 * (trial.seed % 3))
            rows[trial.hash] = {
                "status": "stopped" if held else "finished",
                "recall_sequences": 1.0 if held else 0.5,
                "facts": float(n_facts),
                "parameters": float(trial.model.counted_parameters),
                "bits_per_parameter": bits / trial.model.counted_parameters,
            }
    return search_table(searches, rows)


def world(study, rate):
    """The table of searches that hold so many facts per parameter, without the trials that would find it."""
    rows = []
    for search in study.searches_of("full"):
        trial = search.trials(search.guess)[0]
        model = trial.model
        facts = rate * model.counted_parameters * (1 + 0.01 * trial.seed)
        settings = {"model.d_model": model.d_model, "model.n_heads": model.n_heads, "model.mlp_width": model.mlp_width}
        settings |= {"model.d_vo": model.d_vo, "model.d_qk": model.d_qk, "seed": trial.seed, "status": "finished"}
        measured = {"facts": facts, "parameters": float(model.counted_parameters), "monotone": True}
        settings |= {"training.learning_rate": trial.training.learning_rate, **search.labels}
        rows.append(settings | measured | {"bits_per_parameter": 3 * facts / model.counted_parameters})
    return pa.Table.from_pylist(rows)


def test_the_published_rate():
    study = recall_capacity.RECALL_CAPACITY
    status = verdicts(study, searches=world(study, 0.15))
    assert {status.pop(claim.name) for claim in study.claims if claim.published is None} == {"measured"}
    assert set(status.values()) == {"reproduced"}
    twice = verdicts(study, searches=world(study, 0.3))
    assert twice["facts per parameter"] == twice["facts against parameters"] == "not reproduced"


def test_searches_end_around_the_capacity():
    table = found(recall_capacity.RECALL_CAPACITY, "quick", lambda trial: 0.2 * trial.model.counted_parameters)
    assert set(table["status"].to_pylist()) == {"finished"}
    for row in table.to_pylist():
        capacity = 0.2 * row["parameters"] * (1 + 0.02 * (row["seed"] % 3))
        assert row["facts"] <= capacity < row["upper_facts"]
    status = verdicts(recall_capacity.RECALL_CAPACITY, searches=table)
    assert status["a wider MLP holds more"] == status["larger heads hold more"] == "reproduced"


def test_another_rate_is_not_the_published_one():
    constant = found(recall_capacity.RECALL_CAPACITY, "quick", lambda trial: 20.0)
    status = verdicts(recall_capacity.RECALL_CAPACITY, searches=constant)
    assert status["a wider MLP holds more"] == status["larger heads hold more"] == "undecided"
    assert status["facts per parameter"] == "not reproduced"


def test_forms_are_told_apart():
    """A task that holds twice as much is seen in its own rows: labels say which form a search is of."""
    study = recall_capacity_variants.RECALL_CAPACITY_VARIANTS
    rows = world(study, 0.1).to_pylist()
    for row in rows:
        row["facts"] *= 2 if row["form"] == recall_capacity_variants.SUBJECTS else 1
        row["bits_per_parameter"] *= 2 if row["form"] == recall_capacity_variants.ANSWER_SETS else 1
    by_name = {claim.name: evaluate(claim, pa.Table.from_pylist(rows)) for claim in study.claims}
    assert {row["form"] for row in rows} == set(recall_capacity_variants.TASKS)
    assert by_name["S = R^2 against S = R: facts"].value == pytest.approx(0.1, rel=0.1)
    assert by_name["H = 16 against S = R: facts"].value == pytest.approx(0, abs=1e-9)
    assert by_name["D = S against S = R: bits"].value == pytest.approx(0.3, rel=0.1)
    assert {verdict.status for verdict in by_name.values()} == {"reproduced", "measured"}


def test_labels_are_columns_of_a_search():
    trial = recall_capacity.RECALL_CAPACITY.rounds("quick", {})[0][0]
    search = CapacitySearch("one", lambda size: [trial], guess=2, criterion=Criterion(), labels={"form": "S = R"})
    assert search_table([search], {})["form"].to_pylist() == ["S = R"]


# ---------------------------------------------------------------- two criteria


def test_evaluations_are_the_authors():
    """16,384 steps, an evaluation every 128 of them on 1,024 sequences; three rates for Figure 4 (left)."""
    search = recall_capacity_criteria.RECALL_CAPACITY_CRITERIA.searches_of("full")[0]
    trials = [*search.trials(search.guess), listed(attention_against_mlp_criteria.trials, "full")[0]]
    assert [trial.training.learning_rate for trial in trials] == [0.001, 0.003, 0.01, 0.01]
    for trial in trials:
        assert (trial.training.epochs, trial.training.stop, trial.training.batch_size) == (16384, "never", None)
        assert trial.curve_epochs == tuple(range(0, 16385, 128))
        assert (trial.measure(TestRecall), trial.measure(Best)) == (TestRecall(1024), Best())
    assert (len(attention_against_mlp_criteria.HEADS["full"]), len(attention_against_mlp_criteria.WIDTHS["full"])) == (
        13,
        13,
    )


def test_every_transformer_has_every_seed_and_both_criteria():
    names = [search.name for search in recall_capacity_criteria.RECALL_CAPACITY_CRITERIA.searches_of("full")]
    assert sorted(names) == sorted(
        f"{counted}, d {shape.d_model}, d_h {shape.d_vo}, m {shape.mlp_width}, seed {seed}"
        for counted, shape, seed in product(("authors", "at the end"), recall_capacity.shapes("full"), range(12))
    )


def test_one_run_is_counted_by_two_criteria():
    """Both searches find their own capacity, and the second one asks again for everything that the first one ran."""
    study, rows = recall_capacity_criteria.RECALL_CAPACITY_CRITERIA, {}
    chosen = ("d 8, d_h 1, m 8, seed 0", "d 16, d_h 4, m 32, seed 9", "d 64, d_h 16, m 128, seed 0")
    searches = [one for one in study.searches_of("full") if one.name.endswith(chosen)]
    while lacking := [
        trial for search in searches for part in search.rounds(rows) for trial in part if trial.hash not in rows
    ]:
        for trial in lacking:
            n_facts, parameters = dict(trial.source.arguments)["n_keys"] ** 2, trial.model.counted_parameters
            best = trial.training.learning_rate == 0.003
            rows[trial.hash] = {
                "status": "finished",
                "best_test_recall": float(best and n_facts <= 0.16 * parameters),
                "recall_sequences": float(best and n_facts <= 0.1 * parameters),
                "facts": float(n_facts),
                "parameters": float(parameters),
            }
    table = search_table(searches, rows).to_pylist()
    assert {row["status"] for row in table} == {"finished"}
    for row in table:
        held = (0.16 if row["counted"] == "authors" else 0.1) * row["parameters"]
        assert row["facts"] <= held < row["upper_facts"] <= max(1.11 * row["facts"], (row["lower"] + 1) ** 2)
    for first, second in zip(searches[::2], searches[1::2], strict=True):
        own = first.rounds(rows)
        assert second.rounds(rows)[: len(own)] == own


def test_facts_per_parameter_by_two_criteria():
    study = recall_capacity_criteria.RECALL_CAPACITY_CRITERIA
    rows = world(study, 0.15).to_pylist()
    for row in rows:
        row["facts"] *= 1 if row["counted"] == "authors" else 0.6
    by_name = {claim.name: evaluate(claim, pa.Table.from_pylist(rows)) for claim in study.claims}
    assert by_name["facts per parameter, authors"].status == "reproduced"
    assert by_name["facts per parameter, at the end"].status == "not reproduced"
    assert by_name["the authors' criterion against the end"].value == pytest.approx(0.06, rel=0.1)
    assert by_name["a wider MLP holds more"].status == by_name["larger heads hold more"].status == "reproduced"
    assert {verdict.status for verdict in by_name.values()} == {"reproduced", "not reproduced", "measured"}


def test_boundaries_by_two_criteria():
    study = attention_against_mlp_criteria.ATTENTION_AGAINST_MLP_CRITERIA

    def recall(row, luck):
        line = row["model.mlp_width"] - attention_against_mlp.published(row["model.n_heads"])
        early, late = (min(1.0, 0.9 + 0.001 * (line + shift) + abs(luck)) for shift in (0, -20))
        numbers = {"best_test_recall": 1.0 if line >= 0 else early, "recall_sequences": 1.0 if line >= 20 else late}
        return numbers | {"best_recall_sequences": numbers["best_test_recall"]}

    found = verdicts(study, trials=table_of_trials(study, "full", recall))
    judged = {name: status for name, status in found.items() if "boundary" in name or "save" in name}
    assert {status for name, status in judged.items() if name.endswith("authors")} == {"reproduced"}
    assert {judged[f"the boundary at {heads} heads, at the end"] for heads in (8, 12, 16)} == {"not reproduced"}
    assert found["more heads help"] == found["a wider MLP helps"] == "reproduced"
    assert found["the authors' criterion against the end"] == "measured"


# ---------------------------------------------------------------- trials


def test_the_published_line_is_found():
    study = attention_against_mlp.ATTENTION_AGAINST_MLP

    def recall(row, luck):
        enough = row["model.mlp_width"] >= attention_against_mlp.published(row["model.n_heads"])
        line = row["model.mlp_width"] + 4 * row["model.n_heads"]
        return {"recall_sequences": 1.0 if enough else 0.9 * line / 80 + luck}

    found = verdicts(study, trials=table_of_trials(study, "full", recall))
    assert found.pop("recall on the published line") == "measured"
    assert set(found.values()) == {"reproduced"}
    steep = table_of_trials(study, "full", lambda row, luck: {"recall_sequences": 1.0 - abs(luck) * 0.1})
    status = verdicts(study, trials=steep)
    assert status["the boundary at 8 heads"] == status["what eight heads save"] == "not reproduced"


def test_parts_by_width():
    def parts(row, luck):
        share = row["model.mlp_width"] / 100
        attention = 0.02 * row["model.n_heads"] * (1 - share) + luck
        return {"recall": 1.0, "recall_attention_alone": attention, "recall_mlp_alone": 0.5 * share + luck}

    study = where_facts_are.WHERE_FACTS_ARE
    status = verdicts(study, trials=table_of_trials(study, "full", parts))
    assert set(status.values()) == {"reproduced", "measured"}


def curve(row, epoch, relation=2000, subject=4000):
    """Losses of a model that learns the relation at one step and the fact at a later one."""
    late = row["seed"] * 10
    return {
        "relation_loss": 1.386 if epoch < relation - 100 + late else 0.08 if epoch < relation + late else 0.01,
        "subject_loss": 2.08 if epoch < subject + late else 0.01,
        "loss": 3.47 if epoch < relation - 200 + late else 2.09 if epoch < subject + late else 0.02,
    }


def test_plateau_and_fall_are_found_by_code():
    study = recall_dynamics.RECALL_DYNAMICS
    epochs = range(0, recall_dynamics.STEPS + 1, recall_dynamics.EVERY)

    def numbers_of(row, epoch):
        small = row["model.start_scale"] == recall_dynamics.START
        return curve(row, epoch) if small else curve(row, epoch, 1000, 1500)

    table = curves_of(study, "full", epochs, numbers_of)
    assert set(verdicts(study, curves=table).values()) == {"reproduced", "measured"}
    plateau = evaluate(next(claim for claim in study.claims if claim.name == "the plateau"), table)
    assert plateau.value == pytest.approx(2000, abs=recall_dynamics.EVERY)
    at_once = curves_of(study, "full", epochs, lambda row, epoch: curve(row, epoch, 2000, 1500))
    assert verdicts(study, curves=at_once)["the plateau"] == "not reproduced"


def test_hallucination_is_counted():
    study = hallucination.HALLUCINATION

    def numbers_of(row, epoch):
        one_hot = row["model.kind"] == "one_hot"
        relation, fact = (1024, 4096) if one_hot else (512, 1024)
        if epoch < relation:
            return {"in_range": 0.3, "recall_sequences": 0.0, "wrong_in_range": 0.3}
        known = epoch >= fact
        return {
            "in_range": 1.0,
            "recall_sequences": 1.0 if known else 0.125,
            "wrong_in_range": 0.0 if known else 0.875 if one_hot else 0.5 + 0.001 * row["seed"],
        }

    table = curves_of(study, "full", (0, 512, 1024, 2048, 4096), numbers_of)
    assert set(verdicts(study, curves=table).values()) == {"reproduced", "measured"}


def test_frequent_facts_first():
    study = frequent_facts_first.FREQUENT_FACTS_FIRST

    def at_end(row, luck):
        zipf, many = row["data.key_exponent"], row["data.n_keys"] == frequent_facts_first.TOO_MANY
        first, last = (0.6 + 0.3 * zipf, 0.6 - 0.5 * zipf) if many else (1.0, 1.0)
        return {"recall": (first + last) / 2 + luck, "recall_group_1": first, "recall_group_4": last + luck}

    def while_training(row, epoch):
        slow = 1 + row["data.key_exponent"]
        return {"recall_group_1": float(epoch >= 512), "recall_group_4": float(epoch >= 512 * slow)}

    epochs = (0, 256, 512, 1024, 2048)
    trials, curves = table_of_trials(study, "full", at_end), curves_of(study, "full", epochs, while_training)
    assert set(verdicts(study, trials=trials, curves=curves).values()) == {"reproduced", "measured"}


def test_copying_may_suffer():
    study = beyond_memorisation.BEYOND_MEMORISATION

    def numbers_of(row, luck):
        d_vo = row["model.d_vo"]
        return {"recall_sequences": 0.3 + 0.03 * d_vo + luck, "copying": min(1.0, (16 - d_vo) / 6) + luck}

    status = verdicts(study, trials=table_of_trials(study, "full", numbers_of))
    assert set(status.values()) == {"reproduced", "measured"}
    harmless = table_of_trials(study, "full", lambda row, luck: numbers_of(row, luck) | {"copying": 0.9 + luck})
    assert verdicts(study, trials=harmless)["copying suffers"] == "undecided"


# ---------------------------------------------------------------- one that is run


def test_a_corner_is_run(tmp_path):
    """A few small trials through the store carry every column that charts and claims read."""
    made = beyond_memorisation.BEYOND_MEMORISATION

    def few(size):
        kept = [
            trial for trial in made.trials(size) if trial.model.d_vo == 8 and FactSequences.of(trial.data).copy_fraction
        ]
        return [replace(trial, training=replace(trial.training, epochs=3)) for trial in kept]

    study = Study(made.name, made.title, made.source, made.question, made.method, few, made.charts, made.claims)
    store = Store(tmp_path / "store")
    run_study(study, "quick", store)
    trials = study_tables(study, "quick", store.tables()).trials
    assert {name for chart in made.charts for name in chart.columns} <= set(trials.column_names)
    assert set(trials["status"].to_pylist()) == {"finished"}
    assert all(0 <= share <= 1 for share in numbers(trials, "copying"))
