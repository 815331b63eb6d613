"""Tables of the trials that a study asks for, and claims on them."""

import numpy as np
import pyarrow as pa
import pytest

from factrank.experiments.specs.data import generated
from factrank.experiments.specs.trial import Trial
from factrank.experiments.statistics.claims import (
    Claim,
    Quantity,
)
from factrank.experiments.statistics.verdicts import Verdict
from factrank.experiments.store.columns import trial_columns
from factrank.experiments.store.result_tables import Tables
from factrank.experiments.study.study import Study
from factrank.experiments.study.study_results import results_of
from factrank.experiments.study.trials_of_study import study_table
from factrank.families.attention.layer_shape import LayerShape


def only(trials):
    """Tables of trials alone."""
    return Tables(trials, pa.table({}), pa.table({}))


def tiny(size):
    facts = generated("uniform", n_keys=4, n_queries=3, n_values=4, seed=0)
    return [
        Trial(facts, LayerShape(4, 1, 2, d_vo), seed=seed)
        for d_vo in (1, 2, 3)
        for seed in range(3 if size == "quick" else 10)
    ]


RISES = Claim("planted", "planted", Quantity("slope", "recall", "model.d_vo"), "rises")
TINY = Study("tiny", "Tiny", None, "?", "!", tiny, claims=(RISES,))


class TestStudyTable:
    def rows(self, size, skip=()):
        own = [trial for at, trial in enumerate(tiny(size)) if at not in skip]
        return pa.Table.from_pylist(
            [{**trial_columns(t), "status": "finished", "recall": 0.1 * t.model.d_vo} for t in own]
        )

    def test_order_and_other_trials(self):
        full = self.rows("full")
        mixed = full.take(np.random.default_rng(0).permutation(full.num_rows))
        own = study_table(TINY, "quick", mixed)
        assert own["hash"].to_pylist() == [trial.hash for trial in tiny("quick")]
        assert results_of(TINY, "quick", only(mixed)).judged[0][1].status == "reproduced"

    def test_missing_trials_are_rows_without_numbers(self):
        own = study_table(TINY, "full", self.rows("full", skip=(4, 17)))
        assert own.num_rows == 30
        assert [at for at, status in enumerate(own["status"].to_pylist()) if status == "missing"] == [4, 17]
        assert own["model.d_vo"].to_pylist()[17] == 2
        verdict = results_of(TINY, "full", only(self.rows("full", skip=(4, 17)))).judged[0][1]
        assert verdict == Verdict("not comparable", why="2 of 30 trials have no value (2 missing)")

    @pytest.mark.parametrize("empty", [pa.table({}), pa.table({"hash": pa.array([], pa.string())})])
    def test_empty_store(self, empty):
        assert set(study_table(TINY, "quick", empty)["status"].to_pylist()) == {"missing"}
        assert results_of(TINY, "quick", only(empty)).judged[0][1].status == "not comparable"
