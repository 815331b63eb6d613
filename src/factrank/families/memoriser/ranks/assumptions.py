"""Check the assumptions of the memorisation theorem of Mahdavi, Liao and Thrampoulidis (2024) on token vectors.

An example is a context of n tokens in R^d and a query, which is one of its tokens (the first, [CLS], in the authors'
notebooks). The theorem assumes n < d and

1. the queries of all examples have Kruskal rank at least n: any n of them are linearly independent;
2. the tokens of every context are linearly independent: each context has rank n.

General position, assumed by earlier theorems, is stronger: any d of the vectors are independent.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypedDict

import numpy as np
from jaxtyping import Shaped

from factrank.errors import InputError
from factrank.families.memoriser.ranks.kruskal import (
    CONFIDENCE,
    SUBSETS,
    GeneralPosition,
    KruskalRank,
    SubsetSample,
    context_ranks,
    general_position,
    kruskal_rank,
    sample_subsets,
)

AssumptionVerdict = Literal["proved", "not refuted", "fails", "not tested"]
"""Verdict on an assumption; "proved" if all subsets were tried, "not refuted" if only random ones were."""


@dataclass(frozen=True)
class CheckedAssumptions:
    """Results of the check, and the resulting verdicts on the assumptions and on general position.

    `at_context_size` is the sample of random n-subsets of the queries; the authors plot the fraction of independent
    ones. `failing_context` is the index of the first context with rank below n.
    """

    context_size: int | None
    n_contexts: int
    queries: KruskalRank
    at_context_size: SubsetSample | None
    least_context_rank: int | None
    full_contexts: int
    failing_context: int | None
    tokens: GeneralPosition | None

    @property
    def size_verdict(self) -> AssumptionVerdict:
        """Whether n < d."""
        if self.context_size is None:
            return "not tested"
        return "proved" if self.context_size < self.queries.dimension else "fails"

    @property
    def queries_verdict(self) -> AssumptionVerdict:
        """Whether the queries have Kruskal rank at least n."""
        if self.context_size is None:
            return "not tested"
        return in_words(self.queries.at_least(self.context_size))

    @property
    def contexts_verdict(self) -> AssumptionVerdict:
        """Whether every context has rank n."""
        if not self.n_contexts:
            return "not tested"
        return "proved" if self.full_contexts == self.n_contexts else "fails"

    @property
    def refuted(self) -> bool:
        """Whether an assumption fails."""
        return "fails" in self._verdicts

    @property
    def proved(self) -> bool:
        """Whether all three assumptions are proved, rather than not refuted or not tested."""
        return set(self._verdicts) == {"proved"}

    @property
    def _verdicts(self) -> tuple[AssumptionVerdict, ...]:
        return self.size_verdict, self.queries_verdict, self.contexts_verdict

    def metrics(self) -> dict[str, float]:
        """Return the results by name; NaN if not tested.

        `assumptions_refuted` and `assumptions_proved` are 1 or 0, and both 0 when random subsets decide nothing.
        General position is 1, 0, or NaN if undecided.
        """
        nothing = float("nan")
        sample = self.at_context_size
        tokens = nothing if self.tokens is None else _truth(self.tokens.holds)
        return {
            "queries": float(self.queries.n_vectors),
            "dimension": float(self.queries.dimension),
            "context_size": nothing if self.context_size is None else float(self.context_size),
            "query_rank": float(self.queries.rank),
            "kruskal_lower": float(self.queries.lower),
            "kruskal_upper": float(self.queries.upper),
            "independent_share": nothing if sample is None else sample.independent_share,
            "dependent_share_below": nothing if sample is None else sample.share_below,
            "least_context_rank": nothing if self.least_context_rank is None else float(self.least_context_rank),
            "full_context_share": self.full_contexts / self.n_contexts if self.n_contexts else nothing,
            "queries_in_general_position": _truth(self.queries.general_position),
            "tokens_in_general_position": tokens,
            "assumptions_refuted": float(self.refuted),
            "assumptions_proved": float(self.proved),
        }


def in_words(holds: bool | None) -> AssumptionVerdict:
    """Return the verdict for a property that is true, false or undecided (None)."""
    return "not refuted" if holds is None else "proved" if holds else "fails"


def queries_of(
    contexts: Shaped[np.ndarray, "b n d"], position: int = 0, *, with_mean: bool = False
) -> Shaped[np.ndarray, "b d"]:
    """Return the query of each example: the token at a position, counted from the end if negative.

    `with_mean` adds the mean of the context, as attention with equal weights would. This distinguishes examples whose
    query is the same token (the authors' notebook checks it for ViT).

    >>> import numpy as np
    >>> queries_of(np.arange(12.0).reshape(2, 3, 2), -1).tolist()
    [[4.0, 5.0], [10.0, 11.0]]
    """
    n = contexts.shape[1]
    if not -n <= position < n:
        raise InputError(f"the query position must be within the {n} tokens; got {position}")
    chosen = contexts[:, position]
    if not with_mean:
        return chosen
    # Sums less precise than float32 would make dependent queries look independent at the tolerance of short types.
    return np.asarray(chosen + contexts.mean(axis=1, dtype=np.float64), dtype=np.result_type(contexts, np.float32))


def check_assumptions(
    queries: Shaped[np.ndarray, "q d"],
    contexts: Shaped[np.ndarray, "b n d_tokens"] | None = None,
    *,
    context_size: int | None = None,
    subsets: int = SUBSETS,
    seed: int = 0,
    tolerance: float | None = None,
    confidence: float = CONFIDENCE,
) -> CheckedAssumptions:
    """Check the assumptions on queries [Q, d] and contexts [B, n, d].

    Without contexts, only the queries are checked, and `context_size` is the number of queries that must be
    independent.

    >>> rng = np.random.default_rng(0)
    >>> check_assumptions(rng.normal(size=(6, 8)), rng.normal(size=(6, 4, 8))).queries_verdict
    'proved'
    """
    if contexts is not None:
        _require_contexts(queries, contexts, context_size)
    n = contexts.shape[1] if contexts is not None else context_size
    if n is not None and n < 1:
        raise InputError(f"context_size must be at least 1; got {n}")
    ways: Ways = {"subsets": subsets, "seed": seed, "tolerance": tolerance, "confidence": confidence}
    sample = sample_subsets(queries, n, **ways) if n is not None and n <= len(queries) else None
    found = kruskal_rank(queries, known=None if sample is None else sample.witness, **ways)
    if contexts is None or n is None:
        return CheckedAssumptions(n, 0, found, sample, None, 0, None, None)
    ranks, d = context_ranks(contexts, tolerance), contexts.shape[2]
    failing = next((i for i, rank in enumerate(ranks.tolist()) if rank < n), None)
    # A context without full rank is a set of dependent tokens, unless it merely has more tokens than dimensions.
    lacking = next((i for i, rank in enumerate(ranks.tolist()) if rank < min(n, d)), None)
    known = None if lacking is None else tuple(range(lacking * n, lacking * n + min(n, d)))
    tokens = general_position(contexts.reshape(-1, d), known=known, **ways)
    return CheckedAssumptions(n, len(ranks), found, sample, int(ranks.min()), int((ranks == n).sum()), failing, tokens)


class Ways(TypedDict):
    """Options for drawing and judging subsets."""

    subsets: int
    seed: int
    tolerance: float | None
    confidence: float


def _require_contexts(
    queries: Shaped[np.ndarray, "..."], contexts: Shaped[np.ndarray, "..."], context_size: int | None
) -> None:
    if contexts.ndim != 3 or 0 in contexts.shape:
        raise InputError(f"contexts must be an array [contexts, tokens, dimension]; got shape {contexts.shape}")
    if context_size not in (None, contexts.shape[1]):
        raise InputError(f"contexts have {contexts.shape[1]} tokens, but context_size is {context_size}")
    if queries.ndim == 2 and queries.shape[1] != contexts.shape[2]:
        raise InputError(
            f"queries and tokens must have the same dimension; got {queries.shape[1]} and {contexts.shape[2]}"
        )


def _truth(holds: bool | None) -> float:
    return float("nan") if holds is None else float(holds)
