"""The one place of the golden results that knows where things live inside the package: change it when they move."""

from __future__ import annotations

from factrank.constructions import CONSTRUCTIONS as FORMS
from factrank.constructions import Search as FormSearch
from factrank.constructions import (
    construct_memory,
    construct_recall,
    smallest_recall,
    solve,
    verify_memoriser,
    verify_memory,
    verify_recall,
)
from factrank.databases import Database
from factrank.databases.registry import GENERATORS
from factrank.models.layer_bounds import layer_rank_bounds
from factrank.models.part_arrays import to_arrays
from factrank.models.token_examples import TokenExamples
from factrank.readouts.database_ranks import certified_ranks
from factrank.runs.bundles import cut
from factrank.runs.columns import curve_rows, reading_rows, row_of
from factrank.runs.work import epoch_products, stored_scalars, working_numbers
from factrank.studies import PAPERS
from factrank.tensors.assumptions import check_assumptions
from factrank.tensors.bounds import RankBounds
from factrank.tensors.completion import completion_bounds
from factrank.tensors.decomposition import Decomposition
from factrank.tensors.effective import effective_bounds
from factrank.tensors.memoriser_rank import memoriser_rank
from factrank.tensors.memory_limit import memory_limit
from factrank.tensors.rank import rank_bounds
from factrank.tensors.steady import SteadyLedger
from factrank.tensors.zero_one import Core, ZeroOneTensor
from factrank.training.specification import canonical_json

__all__ = [
    "FORMS",
    "GENERATORS",
    "PAPERS",
    "Decomposition",
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
    "verify_memoriser",
    "verify_memory",
    "verify_recall",
    "working_numbers",
]


def steady_brackets(database: Database, limit: float) -> dict[str, RankBounds]:
    """The brackets of `measure`, where expected times decide what runs and never the clock."""
    core, ledger = Core.of(ZeroOneTensor.of(database)), SteadyLedger(limit)
    rank = rank_bounds(core, ledger)
    completion = completion_bounds(core, rank, ledger, full=database.full)
    effective = effective_bounds(core, completion, ledger)
    return {"rank": rank, "completion_rank": completion, "effective_rank": effective}
