"""The one place of the golden results that knows where things live inside the package: change it when they move."""

from __future__ import annotations

from typing import Any

from factrank.databases.database import Database
from factrank.databases.generators.registry import GENERATORS
from factrank.experiments.execution.study_bundles import study_bundles as cut
from factrank.experiments.models.verification import verify
from factrank.experiments.registry import family_of
from factrank.experiments.specs.specification import canonical_json
from factrank.experiments.specs.trial import Trial
from factrank.experiments.store.columns import curve_rows, reading_rows, row_of
from factrank.families.attention.forms.construction import FormSearch
from factrank.families.attention.forms.registry import CONSTRUCTIONS as FORMS
from factrank.families.attention.layer_bounds import layer_rank_bounds
from factrank.families.factual_recall.certified_sizes import smallest_factual_recall as smallest_recall
from factrank.families.factual_recall.factual_recall_form import construct_factual_recall as construct_recall
from factrank.families.factual_recall.factual_recall_shape import FactualRecallShape
from factrank.families.memoriser.examples.token_examples import TokenExamples
from factrank.families.memoriser.ranks.assumptions import check_assumptions
from factrank.families.memoriser.ranks.label_ranks import memoriser_rank
from factrank.families.memoriser.solving.memoriser_solve import solve
from factrank.families.memory.memory_construction import construct_memory
from factrank.families.memory.memory_limit import memory_limit
from factrank.nn.part_arrays import to_arrays
from factrank.readouts.database_ranks import certified_ranks
from factrank.studies import PAPERS
from factrank.tensors.bounds.certified_bounds import RankBounds
from factrank.tensors.bounds.completion import completion_bounds
from factrank.tensors.bounds.effective import effective_bounds
from factrank.tensors.bounds.rank import rank_bounds
from factrank.tensors.bounds.steady_ledger import SteadyLedger
from factrank.tensors.core.decomposition import Decomposition
from factrank.tensors.core.zero_one import Core, ZeroOneTensor

__all__ = [
    "FORMS",
    "GENERATORS",
    "PAPERS",
    "Decomposition",
    "FactualRecallShape",
    "FormSearch",
    "TokenExamples",
    "canonical_json",
    "certified_ranks",
    "check_assumptions",
    "construct_memory",
    "construct_recall",
    "curve_rows",
    "cut",
    "epoch_products",
    "layer_rank_bounds",
    "memoriser_rank",
    "memory_limit",
    "reading_rows",
    "row_of",
    "smallest_recall",
    "solve",
    "steady_brackets",
    "stored_scalars",
    "to_arrays",
    "verify",
    "working_numbers",
]


def steady_brackets(database: Database, limit: float) -> dict[str, RankBounds]:
    """The brackets of `measure`, where expected times decide what runs and never the clock."""
    core, ledger = Core.of(ZeroOneTensor.of(database)), SteadyLedger(limit)
    rank = rank_bounds(core, ledger)
    completion = completion_bounds(core, rank, ledger, full=database.full)
    effective = effective_bounds(core, completion, ledger)
    return {"rank": rank, "completion_rank": completion, "effective_rank": effective}


def stored_scalars(trial: Trial, data: Any) -> int:
    """The parameters of a trial's model."""
    return family_of(trial.model).work(trial, data).parameters


def epoch_products(trial: Trial, data: Any) -> int:
    """The work of one epoch."""
    return family_of(trial.model).work(trial, data).products


def working_numbers(trial: Trial, data: Any, *, in_lanes: bool) -> int:
    """What a forward pass keeps, in lanes or in an engine of the family's own."""
    work = family_of(trial.model).work(trial, data)
    return work.numbers if in_lanes or not family_of(trial.model).engines else work.numbers_elsewhere
