r"""Recall: the fraction of facts that a model recalls under argmax and under softmax>=tau.

Argmax recalls a fact if the margin of its fiber is positive; ties and NaN margins are errors. The facts of a fiber with
several values are recalled if each of the values is strictly above all others. softmax>=tau recalls a fact if the
smallest probability among the values of its fiber is at least tau, which is possible for m values only if
$\tau \le 1/m$.

A *hallucination* is a missing entry, a (key, query) without a fact, for which some value has probability at least tau:
a confident answer to a question that has none (called an artifact in Wong 2025, arXiv 2502.17305).

The recall of an empty database is 1, and its smallest and median margins are infinite.
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
from factrank.display import Drawn
from factrank.readouts.attention_statistics import HeadStatistics, attention_statistics
from factrank.readouts.evaluation_blocks import ReadsFacts, cells_per_pair, in_blocks, pairs, require_match
from factrank.readouts.fiber_margins import margins, probabilities
from factrank.readouts.fiber_values import fibers_of
from factrank.readouts.handing_in import AnyModel, reserved_code, with_facts
from factrank.readouts.plain_data import finite_data, percent
from factrank.readouts.readout import require_threshold

DEFAULT_TAU = 0.95
"""Threshold at which rank and accuracy agree best (Wong 2025, figure 3)."""


class FactMargins(NamedTuple):
    """Margin and probability of every fact, in the order of the database's triples."""

    margins: Float[np.ndarray, " facts"]
    probabilities: Float[np.ndarray, " facts"]


@dataclass(frozen=True)
class QueryRecall:
    """Recall of the facts of one query; `margin` is the smallest margin."""

    query: str
    facts: int
    recall: float
    recall_tau: float
    margin: float
    median_margin: float


@dataclass(frozen=True)
class RecallReport(Drawn):
    """Recall of the facts of a database by a model.

    Arguments:
        n_facts: Number of facts.
        recall: Fraction of facts recalled by argmax.
        recall_tau: Fraction of facts recalled by softmax>=tau.
        tau: The threshold.
        margin: Smallest margin of a fact; NaN if any margin is NaN.
        median_margin: Median margin.
        by_query: Recall of each query, in the order of the database's queries.
        hallucinations: Number of missing entries for which some value has probability at least tau.
        silent_fibers: Number of missing entries.
        abstentions: Number of missing entries that the layer answers by its reserved value, which is not a
            hallucination; None if it has none.
        attention: Attention statistics of each head on the facts; None if the model has no attention parts.
    """

    n_facts: int
    recall: float
    recall_tau: float
    tau: float
    margin: float
    median_margin: float
    by_query: tuple[QueryRecall, ...]
    hallucinations: int
    silent_fibers: int
    attention: tuple[HeadStatistics, ...] | None
    abstentions: int | None = None

    def __repr__(self) -> str:
        sure = f"{percent(self.recall_tau)} with probability >= {self.tau:g}"
        pairs = f"{self.hallucinations:,} hallucinations on {self.silent_fibers:,} pairs without a fact"
        return (
            f"RecallReport({self.n_facts:,} facts, {percent(self.recall)} recalled, {sure}, least margin "
            f"{self.margin:.3g}, {pairs})"
        )

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON; infinite numbers and NaN become None."""
        fields = asdict(self)
        if self.abstentions is None:
            del fields["abstentions"]
        plain: dict[str, Any] = finite_data({"facts": fields.pop("n_facts"), **fields})
        return plain


def recall(given: AnyModel, database: Database | None = None, tau: float = DEFAULT_TAU) -> RecallReport:
    """Measure the recall of all facts, in total and per query, with hallucinations and attention statistics.

    Arguments:
        given: A layer, or a trained, constructed or loaded model.
        database: The facts; by default the facts that belong to the model. Other codes are matched by name.
        tau: The threshold of softmax>=tau.

    Raises:
        InputError: If the model has no facts and none are given, a name is unknown, or tau is not in (0, 1).

    >>> from factrank import construct, sample
    >>> report = recall(construct(sample("astrid")))
    >>> report.recall, report.n_facts
    (1.0, 8)
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
    reserved = reserved_code(given, database)
    hallucinations, abstentions, n_missing = _hallucinations(layer, database, tau, reserved)
    right, right_tau, least, median = _summary(facts, tau)
    return RecallReport(
        n_facts=database.n_facts,
        recall=right,
        recall_tau=right_tau,
        tau=tau,
        margin=least,
        median_margin=median,
        by_query=by_query,
        hallucinations=hallucinations,
        silent_fibers=n_missing,
        attention=attention_statistics(layer, database),
        abstentions=None if reserved is None else abstentions,
    )


def margins_of(layer: ReadsFacts, database: Database) -> FactMargins:
    """Return the margin and probability of every fact."""
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
    """Return the fraction of facts that are recalled, or `of_none` if there are no facts."""
    return float(right.mean()) if len(right) else of_none


def _summary(facts: FactMargins, tau: float) -> tuple[float, float, float, float]:
    """Return the argmax recall, tau recall, smallest margin and median margin."""
    right, right_tau = share(facts.margins > 0), share(facts.probabilities >= tau)
    if not len(facts.margins):
        return right, right_tau, inf, inf
    with np.errstate(invalid="ignore"):  # the median of infinity and minus infinity is NaN
        return right, right_tau, float(facts.margins.min()), float(np.median(facts.margins))


def _hallucinations(layer: ReadsFacts, database: Database, tau: float, reserved: int | None) -> tuple[int, int, int]:
    """Count the missing entries with a confident answer, those answered by the reserved value, and all."""
    n_pairs = database.n_keys * database.n_queries
    valid = np.unique(database.triples[:, 0].astype(np.int64) * database.n_queries + database.triples[:, 1])
    if len(valid) == n_pairs:
        return 0, 0, 0
    hallucinations = abstentions = 0
    option = -1 if reserved is None else reserved
    for rows, (largest, abstains) in in_blocks(_largest, layer, n_pairs, pairs(layer), cells_per_pair(layer), option):
        confident = largest.astype(np.float64) >= tau
        first, last = np.searchsorted(valid, [rows.start, rows.stop])
        silent = np.ones(len(confident), dtype=bool)
        silent[valid[first:last] - rows.start] = False
        hallucinations += int((confident & silent).sum())
        abstentions += int((abstains & silent).sum())
    return hallucinations, abstentions, n_pairs - len(valid)


def _margins(
    layer: ReadsFacts, keys: Int[Array, " n"], queries: Int[Array, " n"], fibers: Int[Array, "n m"], _option: int
) -> tuple[Float[Array, " n"], Float[Array, " n"]]:
    logits = layer.logits(keys, queries)
    return margins(logits, fibers), probabilities(logits, fibers)


def _largest(
    layer: ReadsFacts, keys: Int[Array, " n"], queries: Int[Array, " n"], reserved: int
) -> tuple[Float[Array, " n"], Bool[Array, " n"]]:
    """Return the largest probability of a value that is not reserved, and whether the reserved one is the largest."""
    logits = layer.logits(keys, queries)
    others = jnp.where(jnp.arange(logits.shape[1]) == reserved, -jnp.inf, logits).max(axis=1)
    return jnp.exp(others - jax.nn.logsumexp(logits, axis=1)), others < logits.max(axis=1)
