"""Measures of attention layers and pair transformers in addition to loss, recall and margins.

All of them are computed on the host after training, by `further_measures`.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import ClassVar, Literal, get_args

from factrank.errors import InputError
from factrank.experiments.specs import (
    Measure,
    ResultColumn,
    are_different,
    as_floats,
    require_flags,
    require_numbers,
    require_thresholds,
)

ReadingPrecision = Literal["float32", "float64", "bfloat16"]


@dataclass(frozen=True)
class Hallucinations(Measure):
    """Count confident predictions for missing entries; requires the logits of all keys x queries."""

    on_host: ClassVar[bool] = True
    columns: ClassVar[tuple[ResultColumn, ...]] = (
        ResultColumn("silent_fibers", "missing entries", "", "(key, query) pairs without a fact"),
        ResultColumn(
            "hallucinations_*", "hallucinations at confidence *", "", "confident answers where the table has no fact"
        ),
    )


@dataclass(frozen=True)
class Ranks(Measure):
    """Compute certified bounds on the ranks of the database and of the layer, and the recall they predict."""

    on_host: ClassVar[bool] = True
    columns: ClassVar[tuple[ResultColumn, ...]] = (
        ResultColumn(
            "memorised*", "fraction that recalls everything", "", "1 if every fact is right, also at a threshold"
        ),
        ResultColumn(
            "memorised_rank", "rank of the table where memorised", "", "`rank_lower` if every fact is right, else 0"
        ),
        ResultColumn("layer_rank", "greatest rank of the layer", "", "certified: no weights of its shape exceed it"),
        ResultColumn(
            "violates",
            "fraction of certified violations",
            "",
            "1 if every fact is right and `rank_lower` > `layer_rank`",
        ),
        ResultColumn("bits_by_query", "", "bits", "information in the facts, with each query's own range of values"),
        ResultColumn("predicted_*", meaning="recall of a layer that holds this many bits per parameter"),
        ResultColumn("proposition", meaning="size of the table by Wong 2025, Proposition 2.1"),
        ResultColumn("rank_lower", "rank of the table, at least", "", "certified lower bound of the rank"),
        ResultColumn("rank_upper", "rank of the table, at most", "", "certified upper bound of the rank"),
        ResultColumn("completion_lower", "completion rank, at least", "", "certified lower bound"),
        ResultColumn("completion_upper", "completion rank, at most", "", "certified upper bound"),
        ResultColumn("effective_lower", "effective rank, at least", "", "certified lower bound"),
        ResultColumn("effective_upper", "effective rank, at most", "", "certified upper bound"),
    )


@dataclass(frozen=True)
class Additive(Measure):
    """Count the facts that only the sum of all paths predicts correctly."""

    on_host: ClassVar[bool] = True
    columns: ClassVar[tuple[ResultColumn, ...]] = (
        ResultColumn(
            "additive_share", "fraction of facts that only the sum gets right", "", "no path alone answers them"
        ),
        ResultColumn("direct_alone", "recall of the direct path alone", "", "without the heads"),
        ResultColumn("heads_alone", "recall of the best head alone", "", "without the direct path and the other heads"),
    )


@dataclass(frozen=True)
class PlantedCP(Measure):
    """Estimate the rank of the database's tensor by a CP decomposition with this relative residual."""

    residual: float
    on_host: ClassVar[bool] = True
    columns: ClassVar[tuple[ResultColumn, ...]] = (
        ResultColumn("cp_rank", "rank by numerical CP", "", "estimate of the rank of the table, not certified"),
        ResultColumn("cp_residual", meaning="relative residual of that estimate"),
    )

    def __post_init__(self) -> None:
        as_floats(self, "residual")
        if not 0 < self.residual < 1:
            raise InputError(f"residual must be between 0 and 1, relative to the tensor; got {self.residual}")


@dataclass(frozen=True)
class Readings(Measure):
    """Evaluate the model under other readouts: one row for every combination of precision, temperature and tau.

    Arguments:
        taus: Thresholds of the softmax>=tau tensor.
        temperatures: Divisors of the logits.
        precisions: Precisions to which weights are rounded, and in which forward pass and softmax are computed.
        ranks: Whether to add three proxies of the rank of the softmax>=tau tensor.
        cp: Whether to add the numerical CP rank of that tensor, which takes minutes for large tensors.
    """

    taus: tuple[float, ...] = (0.95,)
    temperatures: tuple[float, ...] = (1.0,)
    precisions: tuple[ReadingPrecision, ...] = ("float32",)
    ranks: bool = False
    cp: bool = False
    on_host: ClassVar[bool] = True
    columns: ClassVar[tuple[ResultColumn, ...]] = (
        ResultColumn("argmax", "recall by argmax", "", "of a reading: in its precision and at its temperature"),
        ResultColumn("ones", "confident answers", "", "of a reading: ones of the 0/1 tensor of softmax>=tau"),
        ResultColumn(
            "flattening", "largest flattening rank", "", "of a reading: certified lower bound for that tensor"
        ),
        ResultColumn("upper", "least upper bound of the rank", "", "of a reading: certified, for that tensor"),
        ResultColumn("cp", "rank by numerical CP", "", "of a reading: estimate for that tensor, not certified"),
    )

    def __post_init__(self) -> None:
        require_thresholds(self)
        require_flags(self, "ranks", "cp")
        require_numbers(self, "temperatures")
        if not are_different(self.temperatures) or not all(0 < one < inf for one in self.temperatures):
            raise InputError(f"temperatures must be one or more distinct positive numbers; got {self.temperatures}")
        given, known = self.precisions, get_args(ReadingPrecision)
        if not isinstance(given, tuple | list) or not are_different(given) or not all(one in known for one in given):
            raise InputError(f"precisions must be distinct and among {', '.join(known)}; got {given!r}")
        object.__setattr__(self, "precisions", tuple(given))
