"""What is measured of a trained model on the host, each only where the trial asks for it.

    artifacts     artifacts_<tau>, silent_fibers, facts
    ranks         rank_lower, rank_upper, completion_lower, completion_upper, effective_lower, effective_upper,
                  proposition (Wong 2025, proposition 2.1), bits, bits_by_query, facts, parameters; layer_rank, a
                  certified upper bound of the rank of the layer's tensor from its shape; memorised and
                  memorised_<tau>, 1 where every fact is right; violates, 1 where every fact is right and the rank of
                  the database certainly exceeds layer_rank; memorised_rank, rank_lower where every fact is right, else
                  0; predicted_<b>, the recall min(1, b parameters / bits) of a layer that holds b bits per parameter
    additive      additive_share, direct_alone, heads_alone
    planted_cp    cp_rank, cp_residual
    readings      a row for each readout

What needs a finite model is NaN for one that has diverged, and so is layer_rank for models without a known bound. What
analyses need is imported where they are asked for: a trial that asks for nothing loads nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from math import isfinite, nan

from factrank.databases import Database
from factrank.errors import InputError
from factrank.experiments import Reading, tau_recall
from factrank.experiments.specs import ModelSpec, Readings, Trial
from factrank.families.attention.attention_layer import AttentionLayer
from factrank.families.attention.layer_bounds import layer_rank_bounds
from factrank.families.attention.layer_shape import LayerShape
from factrank.families.attention.pair_transformer import PairTransformer, TransformerShape

PairModel = AttentionLayer | PairTransformer
BITS_PER_PARAMETER = (2.0, 2.6, 3.6)
"""What language models were found to hold (arXiv 2404.05405, 2505.24832), and tensors fitted to tables between them."""
ADDITIVE = ("additive_share", "direct_alone", "heads_alone")


def further_measures(
    trial: Trial, database: Database, model: PairModel, numbers: Mapping[str, float]
) -> tuple[dict[str, float], list[Reading]]:
    """The numbers and the readings that a trial asks for; `numbers` are the loss and the recalls of its end."""
    measures = trial.measures
    if not measures.on_host:
        return {}, []
    further: dict[str, float] = {}
    if measures.artifacts:
        further |= _artifacts(trial, database, model)
    if measures.ranks:
        further |= _ranks(trial, database, model, numbers)
    if measures.additive:
        further |= _additive(database, model, numbers["loss"])
    if measures.planted_cp is not None:
        further |= _planted(database, measures.planted_cp)
    return further, [] if measures.readings is None else _readings(measures.readings, database, model)


# -------------------------------------------------------------------- numbers


def _artifacts(trial: Trial, database: Database, model: PairModel) -> dict[str, float]:
    from factrank.readouts import recall  # noqa: PLC0415

    found = {tau: recall(model, database, tau) for tau in trial.measures.taus}
    silent = {float(one.silent_fibers) for one in found.values()}
    counts = {f"artifacts_{tau}": float(one.artifacts) for tau, one in found.items()}
    return {**counts, "silent_fibers": silent.pop(), "facts": float(len(database))}


def _ranks(trial: Trial, database: Database, model: PairModel, numbers: Mapping[str, float]) -> dict[str, float]:
    from factrank.readouts import certified_ranks  # noqa: PLC0415

    ranks = {name: float(number) for name, number in certified_ranks(database).items()}
    layer_rank = _layer_rank(trial.model, database.shape)
    memorised = float(numbers["recall"] == 1)
    by_tau = {f"memorised_{tau}": float(numbers[tau_recall(tau)] == 1) for tau in trial.measures.taus}
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
    """The share of a table's facts that so many bits are enough for."""
    return 1.0 if held >= bits else held / bits


@lru_cache(maxsize=4096)
def _layer_rank(model: ModelSpec, shape: tuple[int, int, int]) -> float:
    """The largest rank that the tensor of a model of this shape can have; NaN where no bound is known."""
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
