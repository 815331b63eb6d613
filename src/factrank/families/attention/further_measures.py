"""Compute the measures of `layer_measures`, on the host, after training.

Measures that need a finite model are NaN for a diverged one, and layer_rank is NaN for models without a known bound.
Analyses are imported on first use, so a trial without such measures imports none of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from math import isfinite, nan

from factrank.databases import Database
from factrank.errors import InputError
from factrank.experiments import Reading, tau_recall
from factrank.experiments.specs import ModelSpec, Trial
from factrank.families.attention.attention_layer import AttentionLayer
from factrank.families.attention.layer_bounds import layer_rank_bounds
from factrank.families.attention.layer_measures import Additive, Hallucinations, PlantedCP, Ranks, Readings
from factrank.families.attention.layer_shape import LayerShape
from factrank.families.attention.pair_transformer import PairTransformer, TransformerShape

PairModel = AttentionLayer | PairTransformer
BITS_PER_PARAMETER = (2.0, 2.6, 3.6)
"""Measured capacities of language models (arXiv 2404.05405, 2505.24832), and of tensors fitted to tables in between."""
ADDITIVE = ("additive_share", "direct_alone", "heads_alone")


def further_measures(
    trial: Trial, database: Database, model: PairModel, numbers: Mapping[str, float]
) -> tuple[dict[str, float], list[Reading]]:
    """Return the numbers and readings that a trial requests; `numbers` are its final loss and recalls."""
    if not trial.measured_on_host:
        return {}, []
    further: dict[str, float] = {}
    if trial.measure(Hallucinations):
        further |= _hallucinations(trial, database, model)
    if trial.measure(Ranks):
        further |= _ranks(trial, database, model, numbers)
    if trial.measure(Additive):
        further |= _additive(database, model, numbers["loss"])
    if planted := trial.measure(PlantedCP):
        further |= _planted(database, planted.residual)
    readings = trial.measure(Readings)
    return further, [] if readings is None else _readings(readings, database, model)


# -------------------------------------------------------------------- numbers


def _hallucinations(trial: Trial, database: Database, model: PairModel) -> dict[str, float]:
    from factrank.readouts import recall  # noqa: PLC0415

    found = {tau: recall(model, database, tau) for tau in trial.taus}
    silent = {float(one.silent_fibers) for one in found.values()}
    counts = {f"hallucinations_{tau}": float(one.hallucinations) for tau, one in found.items()}
    return {**counts, "silent_fibers": silent.pop(), "facts": float(len(database))}


def _ranks(trial: Trial, database: Database, model: PairModel, numbers: Mapping[str, float]) -> dict[str, float]:
    from factrank.readouts import certified_ranks  # noqa: PLC0415

    ranks = {name: float(number) for name, number in certified_ranks(database).items()}
    layer_rank = _layer_rank(trial.model, database.shape)
    memorised = float(numbers["recall"] == 1)
    by_tau = {f"memorised_{tau}": float(numbers[tau_recall(tau)] == 1) for tau in trial.taus}
    return {
        **ranks,
        "facts": float(len(database)),
        "layer_rank": layer_rank,
        "parameters": float(model.parameters),
        "memorised": memorised,
        **by_tau,
        "violates": float(memorised and ranks["rank_lower"] > layer_rank),
        "memorised_rank": ranks["rank_lower"] if memorised else 0.0,
        **{f"predicted_{b}": _predicted(b * model.parameters, ranks["bits"]) for b in BITS_PER_PARAMETER},
    }


def _predicted(held: float, bits: float) -> float:
    """Return the fraction of a table's facts that `held` bits can store."""
    return 1.0 if held >= bits else held / bits


@lru_cache(maxsize=4096)
def _layer_rank(model: ModelSpec, shape: tuple[int, int, int]) -> float:
    """Return the largest possible rank of the tensor of a model of this shape; NaN if no bound is known."""
    if not isinstance(model, LayerShape | TransformerShape):
        return nan
    try:
        return float(layer_rank_bounds(model, *shape).upper.value)
    except InputError:  # layer norm, an MLP or several layers
        return nan


def _additive(database: Database, model: PairModel, loss: float) -> dict[str, float]:
    from factrank.families.attention.circuits import additive_numbers  # noqa: PLC0415

    if not isfinite(loss):
        return dict.fromkeys(ADDITIVE, nan)
    return {name: float(number) for name, number in additive_numbers(model, database).items()}


def _planted(database: Database, tolerance: float) -> dict[str, float]:
    from factrank.tensors.cp import planted_rank  # noqa: PLC0415

    rank, residual = planted_rank(database, tolerance)
    return {"cp_rank": float(rank), "cp_residual": float(residual)}


# -------------------------------------------------------------------- readings


def _readings(spec: Readings, database: Database, model: PairModel) -> list[Reading]:
    from factrank.readouts import (  # noqa: PLC0415
        certified_ranks,
        readings_of,
    )

    rank_lower = certified_ranks(database)["rank_lower"] if spec.ranks else nan
    return readings_of(model, database, spec, rank_lower)
