"""Validation of a plan: train its best layer and compare the recall with the interval."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt
from typing import Any

import numpy as np

from factrank.databases import Database
from factrank.databases.generators import generate
from factrank.errors import InputError
from factrank.planning.atlas import trained_recalls
from factrank.planning.plans import Plan, plan
from factrank.planning.table_sizes import TableSizes
from factrank.planning.trained_sizes import MEASURED_PRODUCTS, TrainedLayer, products

MOST_FACTS, FEWEST_FACTS = 2000, 60
"""A plan for more facts is validated on a smaller table; if that layer still takes long to train, on smaller ones."""

KEPT = 24
"""Keys or queries, whichever are fewer, are kept up to this number when a table is scaled down."""


@dataclass(frozen=True)
class Validation:
    """Result of training a plan.

    Arguments:
        plan: the plan whose best layer was trained: the given one, or the same question about a smaller table.
        layer: the layer that was trained.
        recalls: its recall from each seed.
        scaled: the table was smaller than the table of the given plan.
        held: the median recall is in the interval; None if the layer has none.
    """

    plan: Plan
    layer: TrainedLayer
    recalls: tuple[float, ...]
    scaled: bool
    held: bool | None


def validate(wanted: Plan, table: Database | None = None, seeds: Sequence[int] = (0, 1, 2)) -> Validation:
    """Train the best layer of a plan, on its table or on a random one of its sizes.

    A plan that takes long to train is scaled down: the same question, with the same width and heads and with
    proportionally fewer parameters, about a part of the table, or about a random table of the same proportions.

    Raises:
        InputError: if the plan has no layer to train.
    """
    own, facts = wanted, table
    most = MOST_FACTS
    while _is_large(own) and most >= FEWEST_FACTS:
        own, facts = _scaled_down(wanted, table, most)
        most //= 2
    if own.best is None:
        raise InputError("the plan has no layer that could be trained")
    if facts is None:
        facts = _random_table(own.table)
    recalls = tuple(trained_recalls(facts.compact() if own.table.is_real else facts, [own.best.shape], seeds)[0])
    low, high, middle = own.best.recall_low, own.best.recall_high, sorted(recalls)[len(recalls) // 2]
    held = None if low is None or high is None else low <= middle <= high
    return Validation(own, own.best, recalls, own is not wanted, held)


def smaller(table: TableSizes, most_facts: int) -> TableSizes:
    """Return the sizes of a table of the same proportions with about this many facts.

    The larger of keys and queries and the values shrink by one ratio, and so does the smaller one if it is large. The
    fraction of pairs that have a fact stays.

    >>> big = TableSizes.given({"n_facts": 2e6, "n_keys": 2e5, "n_queries": 10, "n_values": 5000})
    >>> smaller(big, 2000).shape
    (200, 10, 5)
    """
    few, many = sorted((table.n_keys, table.n_queries))
    filled = table.n_facts / (few * many)
    kept = min(few, max(KEPT, round(few * sqrt(most_facts / table.n_facts))))
    reduced = max(1, round(most_facts / (kept * filled)))
    n_keys, n_queries = (kept, reduced) if table.n_keys <= table.n_queries else (reduced, kept)
    n_facts = max(round(n_keys * n_queries * filled), n_keys, n_queries)
    n_values = min(n_facts, max(2, round(table.n_values * reduced / many)))
    sizes = {"n_facts": n_facts, "n_keys": n_keys, "n_queries": n_queries, "n_values": n_values}
    return TableSizes.given(sizes)


def _is_large(wanted: Plan) -> bool:
    if wanted.table.n_facts > MOST_FACTS:
        return True
    return wanted.best is not None and products(wanted.table, wanted.best.shape) > MEASURED_PRODUCTS


def _scaled_down(wanted: Plan, table: Database | None, most_facts: int) -> tuple[Plan, Database | None]:
    """Return the plan for a smaller table, and that table if it is a part of the given one."""
    part = None if table is None else _part(table, most_facts)
    sizes = smaller(wanted.table, most_facts) if part is None else TableSizes.of(part)
    limits: dict[str, Any] = {"d_model": wanted.limits.d_model, "heads": wanted.limits.heads}
    if wanted.limits.max_parameters is not None:
        limits["max_parameters"] = max(1, int(wanted.limits.max_parameters * sizes.bits / wanted.table.bits))
    same = {"recall": wanted.recall, "precision": wanted.precision, **limits}
    if part is not None:
        return plan(part, **same), part
    names = ("n_facts", "n_keys", "n_queries", "n_values")
    return plan(**{name: getattr(sizes, name) for name in names}, **same), None


def _part(table: Database, most_facts: int) -> Database:
    """Return the facts of some random keys, and of some random queries if few keys have that many facts."""
    facts, rng = table.compact(), np.random.default_rng(0)
    for axis, fewest in ((0, KEPT), (1, KEPT), (0, 2)):
        n_names = facts.shape[axis]
        kept = min(n_names, max(fewest, round(n_names * most_facts / len(facts))))
        is_kept = np.zeros(n_names, dtype=bool)
        is_kept[rng.permutation(n_names)[:kept]] = True
        facts = Database(facts.triples[is_kept[facts.triples[:, axis]]], *facts.vocabularies).compact()
    return facts


def _random_table(table: TableSizes) -> Database:
    sizes = {"n_keys": table.n_keys, "n_queries": table.n_queries, "n_values": table.n_values}
    return generate("uniform", **sizes, n_facts=table.n_facts, seed=0)
