"""`plan`: how large a layer must be for given facts, from three sources that are kept apart.

Proved sizes are closed forms, trained ones come from the law of the capacity atlas, and excluded ones cannot store the
table whatever their weights.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from factrank.databases import Database
from factrank.display import Drawn
from factrank.errors import InputError
from factrank.families.attention import LayerShape
from factrank.nn import Precision, dtype_of
from factrank.planning.exclusions import Exclusion, exclusion, least_parameters
from factrank.planning.low_rank_updates import UpdatePlan, plan_update
from factrank.planning.proved_sizes import ProvedLayer, proved_layers
from factrank.planning.table_sizes import LARGEST, TableSizes, whole_number
from factrank.planning.trained_sizes import (
    HEADS,
    WIDEST,
    TrainedLayer,
    best_within,
    described,
    planned_shape,
    rank_of,
    smallest_planned,
)

SENSELESS = 20
"""Layers with this many times the parameters of the smallest are left out."""

MOST_HEADS = 4096


@dataclass(frozen=True)
class LayerLimits:
    """LayerLimits of the layers of a plan; None if there is no limit."""

    d_model: int | None = None
    heads: int | None = None
    max_parameters: int | None = None

    def allow(self, shape: LayerShape, parameters: int) -> bool:
        """Return whether a layer is within the limits."""
        sizes = (shape.d_model, self.d_model), (shape.n_heads, self.heads), (parameters, self.max_parameters)
        return all(most is None or size <= most for size, most in sizes)


@dataclass(frozen=True)
class Plan(Drawn):
    """Layers for a table.

    Arguments:
        table: sizes of the table.
        recall: requested fraction of the facts.
        precision: precision of the weights.
        limits: limits of the layers.
        proved: closed forms, fewest parameters first, in every precision; they recall all facts.
        trained: planned layers, one for each number of heads, best first.
        excluded: planned layers that cannot store the table, with the reason.
        least_parameters: the information floor in the precision.
        update: capacity of a low-rank update of a frozen layer, if requested.
    """

    table: TableSizes
    recall: float
    precision: Precision
    limits: LayerLimits
    proved: tuple[ProvedLayer, ...]
    trained: tuple[TrainedLayer, ...]
    excluded: tuple[tuple[LayerShape, Exclusion], ...]
    least_parameters: int
    update: UpdatePlan | None = None

    def __repr__(self) -> str:
        proved = f"{self.proved[0].form} with {self.proved[0].parameters:,} parameters" if self.proved else "nothing"
        trained = f"about {self.best.parameters:,} parameters" if self.best else "nothing"
        return f"Plan({self.table.n_facts:,} facts, recall {self.recall:g}: proved {proved}, trained {trained})"

    @property
    def best(self) -> TrainedLayer | None:
        """Return the first trained layer; None if there is none.

        Without a limit this is the one with the fewest parameters that is expected to recall enough; with a width or a
        number of parameters, the one with the highest expected recall, of equal ones the smallest.
        """
        return self.trained[0] if self.trained else None

    @property
    def front(self) -> list[dict[str, Any]]:
        """Return the Pareto front of each source: no other layer has at most the parameters, heads and d_model."""
        here = [one for one in self.proved if one.precision == self.precision]
        return [*_front("proved", here), *_front("trained", self.trained)]

    def to_dict(self) -> dict[str, Any]:
        """Return the plan as plain data."""
        excluded = [{**asdict(shape), **asdict(why)} for shape, why in self.excluded]
        return {**asdict(self), "excluded": excluded, "front": self.front}


def plan(  # noqa: PLR0913 - what a user may ask
    facts: Database | None = None,
    *,
    n_facts: int | float | None = None,
    n_keys: int | float | None = None,
    n_queries: int | float | None = None,
    n_values: int | float | None = None,
    recall: float = 1.0,
    precision: Precision = "float32",
    d_model: int | None = None,
    heads: int | None = None,
    max_parameters: int | None = None,
    lora: int | None = None,
) -> Plan:
    """Plan a layer for a table, or for any table of given sizes.

    Arguments:
        facts: the table; or give all four of its sizes, as whole numbers (2e6 is one):
        n_facts: number of facts.
        n_keys: number of keys.
        n_queries: number of queries.
        n_values: number of values.
        recall: fraction of the facts that a layer is to recall.
        precision: precision of the weights.
        d_model: plan layers of this width only.
        heads: plan layers with this number of heads only.
        max_parameters: find the best layers with at most this many parameters.
        lora: also plan an update of this rank of a frozen layer of width d_model.

    Raises:
        InputError: if sizes or limits make no sense.

    >>> found = plan(n_facts=200, n_keys=20, n_queries=10, n_values=20, recall=0.95)
    >>> found.proved[0].form, found.best.shape.n_heads >= 2
    ('parabola', True)
    """
    table = _table(facts, {"n_facts": n_facts, "n_keys": n_keys, "n_queries": n_queries, "n_values": n_values})
    dtype_of(precision)
    wanted = require_fraction(recall)
    limits = _limits(d_model, heads, max_parameters)
    rank = None if lora is None else whole_number("lora", lora, WIDEST)
    shapes = _planned(table, wanted, limits)
    ruled_out = [(shape, exclusion(table, shape, precision, wanted)) for shape in shapes]
    trained = [described(table, shape, wanted) for shape, why in ruled_out if why is None]
    is_limited = limits.d_model is not None or limits.max_parameters is not None
    return Plan(
        table=table,
        recall=wanted,
        precision=precision,
        limits=limits,
        proved=tuple(one for one in proved_layers(table) if limits.allow(one.shape, one.parameters)),
        trained=tuple(sorted(trained, key=rank_of if is_limited else lambda layer: layer.parameters)),
        excluded=tuple((shape, why) for shape, why in ruled_out if why is not None),
        least_parameters=least_parameters(table, precision, wanted),
        update=None if rank is None else plan_update(table, limits.d_model, limits.heads or 1, rank),
    )


def require_fraction(recall: float) -> float:
    """Return a fraction of the facts, more than 0 and at most 1."""
    if isinstance(recall, bool) or not isinstance(recall, int | float) or not 0 < recall <= 1:
        raise InputError(f"recall is a fraction of the facts, more than 0 and at most 1; got {recall!r}")
    return float(recall)


def _limits(d_model: int | None, heads: int | None, max_parameters: int | None) -> LayerLimits:
    given = {"d_model": (d_model, WIDEST), "heads": (heads, MOST_HEADS), "max_parameters": (max_parameters, LARGEST)}
    return LayerLimits(
        **{name: None if size is None else whole_number(name, size, most) for name, (size, most) in given.items()}
    )


def _table(facts: Database | None, sizes: dict[str, int | float | None]) -> TableSizes:
    stated = {name: size for name, size in sizes.items() if size is not None}
    if facts is not None and stated:
        raise InputError(f"a table has sizes of its own: leave out {', '.join(stated)}")
    missing = [name for name in sizes if name not in stated]
    if facts is None and missing:
        raise InputError(f"give a table, or all of its sizes: {', '.join(missing)} missing")
    table = TableSizes.given(stated) if facts is None else TableSizes.of(facts)
    if table.n_values == 1:
        raise InputError("with one value there is nothing to tell apart: every layer recalls the table")
    return table


def _planned(table: TableSizes, recall: float, limits: LayerLimits) -> list[LayerShape]:
    """Return the planned layers: of the requested width, the best within the limit, or the smallest that are enough."""
    found: list[LayerShape | None] = []
    for n_heads in HEADS if limits.heads is None else (limits.heads,):
        if limits.d_model is not None:
            found.append(planned_shape(limits.d_model, n_heads))
        elif limits.max_parameters is not None:
            found.append(best_within(table, n_heads, limits.max_parameters))
        else:
            found.append(smallest_planned(table, n_heads, recall))
    sizes = {shape: shape.parameters(*table.shape) for shape in found if shape is not None}
    is_limited = limits.d_model is not None or limits.max_parameters is not None
    most = float("inf") if is_limited else min(sizes.values(), default=0) * SENSELESS
    return [shape for shape, size in sizes.items() if size <= most and limits.allow(shape, size)]


def _front(source: str, layers: Sequence[ProvedLayer] | Sequence[TrainedLayer]) -> list[dict[str, Any]]:
    sizes = {(one.parameters, one.shape.n_heads, one.shape.d_model) for one in layers}
    best = [one for one in sizes if not any(_dominates(other, one) for other in sizes)]
    return [
        {"source": source, "parameters": parameters, "n_heads": n_heads, "d_model": d_model}
        for parameters, n_heads, d_model in sorted(best)
    ]


def _dominates(one: tuple[int, ...], other: tuple[int, ...]) -> bool:
    return one != other and all(a <= b for a, b in zip(one, other, strict=True))
