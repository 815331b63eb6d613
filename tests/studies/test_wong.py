"""The catalogue, and its first study: what it asks for, and verdicts on tables that were made up."""

from dataclasses import asdict
from functools import cache

import numpy as np
import pyarrow as pa
import pytest

from factrank.errors import InputError
from factrank.experiments.specs.data import Generated
from factrank.experiments.statistics.expressions import selected
from factrank.experiments.statistics.verdicts import evaluate
from factrank.experiments.store.columns import row_of
from factrank.experiments.training import train_many
from factrank.studies import CATALOGUE, study
from small_studies import trials_listed

STUDY = study("vo-against-qk")
FULL_ONLY = (
    "moving parameters to VO helps in wider layers",
    "moving parameters to VO helps with several heads",
    "the best split with several heads favours VO",
)


def trials_of(size):
    return trials_listed(STUDY, size)


@cache
def trial_table(size):
    return pa.Table.from_pylist([settings(trial) for trial in trials_of(size)])


def settings(trial):
    """The columns of a trial that claims name."""
    database = {f"data.{name}": value for name, value in trial.data.arguments}
    return {f"model.{name}": value for name, value in asdict(trial.model).items()} | database | {"seed": trial.seed}


def made_up(size, recall):
    """A table as training would give it; `recall(d_vo, d_qk)` plus what each table of facts adds."""
    table = trial_table(size)
    luck = 0.02 * np.random.default_rng(0).normal(size=10)
    d_vo, d_qk, seed = (table[name].to_pylist() for name in ("model.d_vo", "model.d_qk", "seed"))
    found = [float(recall(*shape) + luck[s]) for *shape, s in zip(d_vo, d_qk, seed, strict=True)]
    table = table.append_column("recall", pa.array(found))
    return table.append_column("recall_0.95", pa.array([number - 0.1 for number in found]))


def paper(d_vo, d_qk):
    """As the paper says: d_vo decides, d_qk helps where d_vo is small."""
    return 0.3 + 0.05 * d_vo + (0.02 * d_qk if d_vo <= 3 else 0.0)


def against(d_vo, d_qk):
    """The other way round: d_vo harms, and d_qk helps where d_vo is large only."""
    return (0.3 + 0.05 * d_qk if d_vo > 3 else 1.3 - 0.02 * d_qk) - 0.01 * d_vo


def verdicts(size, recall):
    table = made_up(size, recall)
    return {claim.name: evaluate(claim, table).status for claim in STUDY.claims}


def test_names_and_near_names():
    assert all(name == made.name for name, made in CATALOGUE.items())
    with pytest.raises(InputError, match="did you mean vo-against-qk"):
        study("vo-vs-qk")
    with pytest.raises(InputError, match=r"there are .*vo-against-qk"):
        study("zzz")


def test_grid_and_sizes():
    quick, full = trials_of("quick"), trials_of("full")
    assert set(quick) <= set(full)
    diagonals = 3 * 3 * (8 + 12) * 10 + 2 * 3 * 8 * 10
    assert len(full) == len(set(full)) == 3 * (8**2 + 10**2 + 12**2) * 10 + diagonals
    assert len(quick) == 8**2 * 3
    shapes = {(trial.model.d_vo, trial.model.d_qk) for trial in quick}
    assert shapes == {(d_vo, d_qk) for d_vo in range(1, 9) for d_qk in range(1, 9)}
    for trial in quick:
        assert isinstance(trial.data, Generated)
        assert dict(trial.data.arguments)["seed"] == trial.seed  # the same table for all shapes of a seed
    assert quick[0].data.build().n_facts == 200


def test_constant_parameters_are_constant():
    claim = next(claim for claim in STUDY.claims if claim.name == "moving parameters to VO helps")
    table = made_up("quick", paper)
    kept = [
        trial.model.parameters(20, 10, 20)
        for trial, chosen in zip(trials_of("quick"), selected(table, claim.quantity.where), strict=True)
        if chosen
    ]
    assert len(kept) == 8 * 3
    assert len(set(kept)) == 1


@pytest.mark.parametrize("size", ["quick", "full"])
def test_a_world_like_the_papers_reproduces_it(size):
    found = verdicts(size, paper)
    wider = {found.pop(name) for name in FULL_ONLY}
    assert set(found.values()) == {"reproduced"}
    assert wider == {"reproduced" if size == "full" else "not comparable"}


def test_a_world_against_the_paper_does_not():
    assert set(verdicts("full", against).values()) == {"not reproduced"}


def test_a_world_where_nothing_matters_does_not():
    found = verdicts("full", lambda d_vo, d_qk: 0.5)
    assert found.pop("d_qk is neutral at larger d_vo") == "reproduced"
    best = [claim.name for claim in STUDY.claims if claim.quantity.kind == "best"]
    assert {found.pop(name) for name in best} == {"not comparable"}  # there is no best split
    assert set(found.values()) == {"undecided"}


def test_a_corner_of_it_trains():
    """A few of its trials, as the engine runs them, carry every column that the claims read."""
    corner = [trial for trial in trials_of("quick") if {trial.model.d_vo, trial.model.d_qk} <= {1, 8}]
    results = train_many([trial for trial in corner if trial.model.d_qk == 8])
    table = pa.Table.from_pylist([row_of(result) for result in results])
    claim = next(claim for claim in STUDY.claims if claim.name == "rises with d_vo")
    verdict = evaluate(claim, table)
    assert (verdict.status, verdict.n_seeds) == ("reproduced", 3)
