"""Measures of memorisers in addition to loss, recall and margins."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from factrank.errors import InputError
from factrank.experiments.specs import Measure, ResultColumn, as_floats
from factrank.nn import require_sizes


@dataclass(frozen=True)
class Saturation(Measure):
    """Measure the fraction of heads that give one token of the context an attention weight above a threshold."""

    threshold: float
    columns: ClassVar[tuple[ResultColumn, ...]] = (
        ResultColumn(
            "saturated", "fraction of saturated heads", "", "(example, head) with a weight above the threshold"
        ),
        ResultColumn("saturated_least", "examples at which the least saturated head is", "", "as a fraction of all"),
        ResultColumn("saturated_most", "examples at which the most saturated head is", "", "as a fraction of all"),
        ResultColumn("saturated_any", "examples with a saturated head", "", "as a fraction of all"),
    )

    def __post_init__(self) -> None:
        as_floats(self, "threshold")
        if not 0 < self.threshold < 1:
            raise InputError(f"the saturation threshold must be between 0 and 1; got {self.threshold}")


@dataclass(frozen=True)
class Tolerance(Measure):
    """Largest error of a real label that counts as correct; 0.01 unless a trial specifies it."""

    error: float = 0.01
    implied: ClassVar[bool] = True

    def __post_init__(self) -> None:
        as_floats(self, "error")


@dataclass(frozen=True)
class Assumptions(Measure):
    """Check whether the vectors are as independent as the theorem of Mahdavi et al. assumes.

    The check runs on the host and draws `subsets` random subsets of the queries.
    """

    subsets: int
    columns: ClassVar[tuple[ResultColumn, ...]] = (
        ResultColumn("queries", meaning="number of different queries"),
        ResultColumn("dimension", meaning="dimension of the vectors"),
        ResultColumn("context_size", meaning="tokens of a context"),
        ResultColumn("query_rank", "rank of the queries", "", "at the tolerance of the check"),
        ResultColumn("kruskal_lower", "Kruskal rank of the queries, at least", "", "what is proved"),
        ResultColumn(
            "kruskal_upper", "Kruskal rank of the queries, at most", "", "by dependent queries that were found"
        ),
        ResultColumn("independent_share", meaning="fraction of the random n-subsets of queries that are independent"),
        ResultColumn(
            "dependent_share_below", meaning="at most this fraction of all n-subsets depends, at 99 % confidence"
        ),
        ResultColumn("least_context_rank", "least rank of a context", "", "over all contexts"),
        ResultColumn("full_context_share", "fraction of contexts of full rank", "", "whose tokens are independent"),
        ResultColumn("queries_in_general_position", meaning="1, 0, or NaN if not decided"),
        ResultColumn("tokens_in_general_position", meaning="1, 0, or NaN if not decided"),
        ResultColumn("assumptions_refuted", "fraction where an assumption is refuted", "", "1 or 0 for each trial"),
        ResultColumn("assumptions_proved", "fraction where all assumptions are proved", "", "1 or 0 for each trial"),
    )

    def __post_init__(self) -> None:
        require_sizes({"subsets": self.subsets})
