r"""Recall: how many of the facts a model gets right, over all facts, under argmax and under softmax>=tau.

Argmax is right where the margin of the fact's fiber is positive: ties are wrong, and so is a margin that is not a
number. A fiber with several values is right when each of them is strictly above all others; then all its facts are.
softmax>=tau is right where the least probability among the fiber's values is at least tau, which a fiber with m values
can reach only for $\tau \le 1/m$.

An *artifact* is a fiber where the database says nothing and some value has probability at least tau: a confident answer
to a question that has none (Wong 2025, arXiv 2502.17305).

An empty database is recalled: every share of no facts is 1, and the least and median margin are infinite.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from math import inf
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from factrank.databases import Database
from factrank.readouts.attention_statistics import HeadStatistics, attention_statistics
from factrank.readouts.evaluation_blocks import ReadsFacts, cells_per_pair, in_blocks, pairs, require_match
from factrank.readouts.fiber_margins import margins, probabilities
from factrank.readouts.fiber_values import fibers_of
from factrank.readouts.handing_in import AnyModel, with_facts
from factrank.readouts.plain_data import finite_data
from factrank.readouts.readout import require_threshold

DEFAULT_TAU = 0.95
"""The threshold at which rank and accuracy agreed best (Wong 2025, figure 3)."""


class FactMargins(NamedTuple):
    """Margin and probability of every fact, in the order of the database's triples."""

    margins: Float[np.ndarray, " facts"]
    probabilities: Float[np.ndarray, " facts"]


@dataclass(frozen=True)
class QueryRecall:
    """The recall of the facts of one query; margin is the least."""

    query: str
    facts: int
    recall: float
    recall_tau: float
    margin: float
    median_margin: float


@dataclass(frozen=True)
class RecallReport:
    """What a model recalls of a database.

    Arguments:
        n_facts: number of facts.
        recall: share of facts right under argmax.
        recall_tau: share of facts right under softmax>=tau.
        tau: the threshold.
        margin: the least margin of a fact; not a number when some margin is not.
        median_margin: the median margin.
        by_query: the same for each query, in the order of the database's queries.
        artifacts: fibers without a fact where some value has probability at least tau.
        silent_fibers: fibers without a fact.
        attention: what each head attends to on the facts; None for models without attention parts.
    """

    n_facts: int
    recall: float
    recall_tau: float
    tau: float
    margin: float
    median_margin: float
    by_query: tuple[QueryRecall, ...]
    artifacts: int
    silent_fibers: int
    attention: tuple[HeadStatistics, ...] | None

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON; numbers that are infinite or not a number become null."""
        fields = asdict(self)
        plain: dict[str, Any] = finite_data({"facts": fields.pop("n_facts"), **fields})
        return plain


def recall(given: AnyModel, database: Database | None = None, tau: float = DEFAULT_TAU) -> RecallReport:
    """The recall of all facts, per query too, with artifacts and attention statistics.

    Arguments:
        given: a model that reads facts, or something trained, constructed or loaded that has one.
        database: the facts, if not those that came with the model; other codes are matched by name.
        tau: the threshold of softmax>=tau.
    """
    require_threshold(tau)
    layer, database = with_facts(given, database)
    facts = margins_of(layer, database)
    queries = database.triples[:, 1]
    order = np.argsort(queries, kind="stable")
    ends = np.cumsum(np.bincount(queries, minlength=database.n_queries))[:-1]
    by_query = tuple(
        QueryRecall(name, len(rows), *_summary(FactMargins(*(column[rows] for column in facts)), tau))
        for name, rows in zip(database.queries, np.split(order, ends), strict=True)
    )
    artifacts, silent = _artifacts(layer, database, tau)
    right, right_tau, least, median = _summary(facts, tau)
    return RecallReport(
        n_facts=database.n_facts,
        recall=right,
        recall_tau=right_tau,
        tau=tau,
        margin=least,
        median_margin=median,
        by_query=by_query,
        artifacts=artifacts,
        silent_fibers=silent,
        attention=attention_statistics(layer, database),
    )


def margins_of(layer: ReadsFacts, database: Database) -> FactMargins:
    """Margin and probability of every fact."""
    require_match(layer, database)
    triples, fibers = database.triples, fibers_of(database)
    found = FactMargins(np.empty(len(triples)), np.empty(len(triples)))
    cells = cells_per_pair(layer) + layer.n_values * fibers.shape[1]
    for rows, results in in_blocks(
        _margins, layer, len(triples), lambda rows: (triples[rows, 0], triples[rows, 1], fibers[rows]), cells
    ):
        found.margins[rows], found.probabilities[rows] = results
    return found


def share(right: Bool[np.ndarray, " facts"], of_none: float = 1.0) -> float:
    """The share of facts that are right; of no facts every one is, unless another share is said to be theirs."""
    return float(right.mean()) if len(right) else of_none


def _summary(facts: FactMargins, tau: float) -> tuple[float, float, float, float]:
    """Argmax recall, tau recall, least and median margin."""
    right, right_tau = share(facts.margins > 0), share(facts.probabilities >= tau)
    if not len(facts.margins):
        return right, right_tau, inf, inf
    with np.errstate(invalid="ignore"):  # the median of an infinite and a minus infinite margin is not a number
        return right, right_tau, float(facts.margins.min()), float(np.median(facts.margins))


def _artifacts(layer: ReadsFacts, database: Database, tau: float) -> tuple[int, int]:
    """How many fibers without a fact have a value of probability at least tau, and how many such fibers there are."""
    n_pairs = database.n_keys * database.n_queries
    valid = np.unique(database.triples[:, 0].astype(np.int64) * database.n_queries + database.triples[:, 1])
    if len(valid) == n_pairs:
        return 0, 0
    artifacts = 0
    for rows, (largest,) in in_blocks(_largest, layer, n_pairs, pairs(layer), cells_per_pair(layer)):
        confident = largest.astype(np.float64) >= tau
        first, last = np.searchsorted(valid, [rows.start, rows.stop])
        confident[valid[first:last] - rows.start] = False
        artifacts += int(confident.sum())
    return artifacts, n_pairs - len(valid)


def _margins(
    layer: ReadsFacts, keys: Int[Array, " n"], queries: Int[Array, " n"], fibers: Int[Array, "n m"], _option: int
) -> tuple[Float[Array, " n"], Float[Array, " n"]]:
    logits = layer.logits(keys, queries)
    return margins(logits, fibers), probabilities(logits, fibers)


def _largest(
    layer: ReadsFacts, keys: Int[Array, " n"], queries: Int[Array, " n"], _option: int
) -> tuple[Float[Array, " n"]]:
    logits = layer.logits(keys, queries)
    return (jnp.exp(logits.max(axis=1) - jax.nn.logsumexp(logits, axis=1)),)
