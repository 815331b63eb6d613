r"""Ranking: the place of each held-out fact among all values that its (key, query) could have.

The values of a (key, query) are ordered by their logits $z$. If S is the set of its other known values, the place of
the value $v$ is at best and at worst

$$\mathrm{optimistic} = 1 + |\{w \notin S : z_w > z_v\}|, \qquad
  \mathrm{pessimistic} = |\{w \notin S : z_w \ge z_v\}|,$$

and its realistic rank is their mean, as in PyKEEN: a model that gives all values the same logit is in the middle, not
first. Leaving out S is called *filtered*: another right answer above v is no error. From the realistic ranks r of the
facts follow the mean reciprocal rank (MRR), the mean of $1/r$, and Hits@k, the fraction with $r \le k$.

NaN logits are errors: NaN at v counts as $-\infty$, at another value as $+\infty$.

These ranks are places in an order and have nothing to do with the rank of a tensor.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int

from factrank.databases import Database, known_facts, recode
from factrank.display import Shown
from factrank.errors import InputError
from factrank.readouts.evaluation_blocks import ReadsFacts, cells_per_pair, in_blocks, require_match
from factrank.readouts.handing_in import AnyModel, handed_in
from factrank.readouts.plain_data import percent
from factrank.readouts.readout import logits_of
from factrank.tensors.core import ranges

HITS = (1, 3, 10)
"""The k of Hits@k."""


class FactRanks(NamedTuple):
    """Best and worst place of every held-out fact, and the number of values that it competes with, itself included."""

    optimistic: Int[np.ndarray, " facts"]
    pessimistic: Int[np.ndarray, " facts"]
    candidates: Int[np.ndarray, " facts"]

    @property
    def realistic(self) -> Float[np.ndarray, " facts"]:
        """Mean of the optimistic and the pessimistic rank."""
        return np.asarray((self.optimistic + self.pessimistic) / 2)


@dataclass(frozen=True)
class RankingMetrics:
    """Metrics of the realistic ranks of some facts.

    Arguments:
        n_facts: Number of facts.
        mrr: Mean reciprocal rank.
        hits: Hits@k for each k of `HITS`.
        mean_rank: Mean rank.
        chance: Expected mean reciprocal rank of a random order of the same candidates.
    """

    n_facts: int
    mrr: float
    hits: dict[int, float]
    mean_rank: float
    chance: float

    @classmethod
    def of(cls, ranks: FactRanks) -> RankingMetrics:
        """Return the metrics of ranks; there must be at least one."""
        places = ranks.realistic
        harmonic = np.cumsum(1.0 / np.arange(1, ranks.candidates.max() + 1))
        return cls(
            n_facts=len(places),
            mrr=float((1.0 / places).mean()),
            hits={k: float((places <= k).mean()) for k in HITS},
            mean_rank=float(places.mean()),
            chance=float((harmonic[ranks.candidates - 1] / ranks.candidates).mean()),
        )

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON."""
        hits = {f"hits_at_{k}": share for k, share in self.hits.items()}
        return {"facts": self.n_facts, "mrr": self.mrr, **hits, "mean_rank": self.mean_rank, "chance": self.chance}


@dataclass(frozen=True, eq=False, repr=False)
class RankingReport(Shown):
    """Places that a model gives to held-out facts.

    Arguments:
        facts: The facts that were ranked, in the codes of the model.
        ranks: Rank of each fact, in the order of `facts.triples`.
        metrics: Metrics over all facts.
        by_query: Metrics of each query that has facts, by its name.
        filtered: Whether the other known values of each (key, query) were left out.
        n_unknown: Number of held-out facts that were skipped because the model does not know one of their names.
    """

    facts: Database
    ranks: FactRanks
    metrics: RankingMetrics
    by_query: dict[str, RankingMetrics]
    filtered: bool
    n_unknown: int

    @property
    def mrr(self) -> float:
        """Mean reciprocal rank over all facts."""
        return self.metrics.mrr

    @property
    def hits(self) -> dict[int, float]:
        """Hits@k over all facts, for each k of `HITS`."""
        return self.metrics.hits

    def __repr__(self) -> str:
        hits = ", ".join(f"Hits@{k} {percent(share)}" for k, share in self.hits.items())
        kind = "filtered" if self.filtered else "not filtered"
        return f"RankingReport({len(self.facts):,} facts, {kind}: MRR {self.mrr:.3f}, {hits})"

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON."""
        by_query = [{"query": query, **metrics.to_dict()} for query, metrics in self.by_query.items()]
        return {
            **self.metrics.to_dict(),
            "filtered": self.filtered,
            "unknown": self.n_unknown,
            "by_query": by_query,
        }


def ranking(
    given: AnyModel,
    held_out: Database,
    known: Database | Sequence[Database] = (),
    *,
    filtered: bool = True,
    skip_unknown: bool = False,
) -> RankingReport:
    """Rank held-out facts among all values of their (key, query), and report MRR and Hits@k.

    The usual protocol of link prediction: the model is trained on one split and ranks the facts of another, where facts
    of any split that are also right are left out. Known are the facts that belong to the model, the held-out facts and
    those in `known`. Only values are predicted; to predict keys too, add each fact's inverse to the table.

    Arguments:
        given: A layer, or a trained, constructed or loaded model.
        held_out: The facts to rank. If the model has facts of its own, names are matched; otherwise codes.
        known: More known facts, such as the validation split, matched by name. Facts with other names are ignored.
        filtered: Leave out the other known values of a (key, query); otherwise every value competes.
        skip_unknown: Skip and count held-out facts with a name that the model does not know, instead of an error.

    Raises:
        InputError: If there are no facts to rank, the sizes do not match, or the model does not know a name.

    >>> from factrank import construct, split_facts
    >>> table = Database.from_facts([(f"k{i}", f"q{j}", f"v{(i + j) % 3}") for i in range(6) for j in range(3)])
    >>> parts = split_facts(table, {"train": 0.75, "test": 0.25})
    >>> ranking(construct(parts["train"]), parts["train"])
    RankingReport(14 facts, filtered: MRR 1.000, Hits@1 100%, Hits@3 100%, Hits@10 100%)
    >>> len(ranking(construct(parts["train"]), parts["test"]).ranks.realistic)
    4
    """
    model, own = handed_in(given)
    facts = held_out if own is None else _in_codes_of(own, held_out, skip_unknown=skip_unknown)
    n_unknown = len(held_out) - len(facts)
    if not len(facts):
        raise InputError(
            f"no facts to rank: the model does not know a name of any of {n_unknown:,} facts"
            if n_unknown
            else "no facts to rank"
        )
    require_match(model, facts)
    others = [known] if isinstance(known, Database) else list(known)
    judged_by = [facts, *([] if own is None else [own]), *(known_facts(each, onto=facts) for each in others)]
    every = reduce(lambda one, other: one.union(other, multi=True), judged_by) if filtered else facts
    ranks = ranks_of(model, facts, every if filtered else None)
    queries = facts.triples[:, 1]
    by_query = {
        facts.queries[int(code)]: RankingMetrics.of(FactRanks(*(column[queries == code] for column in ranks)))
        for code in np.unique(queries)
    }
    return RankingReport(facts, ranks, RankingMetrics.of(ranks), by_query, filtered, n_unknown)


def ranks_of(model: ReadsFacts, facts: Database, known: Database | None) -> FactRanks:
    """Return the ranks of facts, without the other values that `known` has for the same (key, query).

    Both databases have the codes of the model.
    """
    keys, queries, values = facts.triples.T
    pairs = keys.astype(np.int64) * facts.n_queries + queries
    others = np.empty((0, 3), np.int32) if known is None else known.triples
    known_pairs = others[:, 0].astype(np.int64) * facts.n_queries + others[:, 1]
    first, last = (np.searchsorted(known_pairs, pairs, side) for side in ("left", "right"))
    optimistic, pessimistic = np.empty(len(facts), np.int64), np.empty(len(facts), np.int64)
    candidates = np.full(len(facts), facts.n_values)
    blocks = in_blocks(logits_of, model, len(facts), lambda rows: (keys[rows], queries[rows]), cells_per_pair(model))
    for rows, (logits,) in blocks:
        scores, place = logits.astype(np.float64), np.arange(len(logits))
        own = scores[place, values[rows]]
        scores[np.isnan(scores)] = np.inf
        scores[place, values[rows]] = own = np.where(np.isnan(own), -np.inf, own)
        sizes = last[rows] - first[rows]
        row, other = np.repeat(place, sizes), others[ranges(first[rows], sizes), 2]
        kept = other != values[rows][row]
        row, other = row[kept], other[kept]
        without, left_out = own[row], scores[row, other]
        n_above = (scores > own[:, None]).sum(axis=1) - np.bincount(row[left_out > without], minlength=len(own))
        n_tied = (scores == own[:, None]).sum(axis=1) - np.bincount(row[left_out == without], minlength=len(own))
        optimistic[rows], pessimistic[rows] = n_above + 1, n_above + n_tied
        candidates[rows] -= np.bincount(row, minlength=len(own))
    return FactRanks(optimistic, pessimistic, candidates)


def _in_codes_of(own: Database, held_out: Database, *, skip_unknown: bool) -> Database:
    if skip_unknown:
        return known_facts(held_out, onto=own)
    try:
        return recode(held_out, onto=own)
    except InputError as error:
        advice = "leave out the facts with such names with skip_unknown=True (--skip-unknown)"
        raise InputError(f"the model does not know all names of the held-out facts: {error}; {advice}") from None
