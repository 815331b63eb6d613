r"""Path attribution: the contribution of the direct path and of each head to the margin of a fact.

The logits of a pair are a sum over paths, $L = \sum_p P_p$, where p is the direct path or a head. If v is the value of
the fact and w its strongest competitor under the whole sum,

$$\mathrm{margin} = L_v - L_w = \sum_p \bigl( P_{p,v} - P_{p,w} \bigr),$$

so the contributions add up to the margin. A path is right *alone* if its argmax is the fact (a tie is wrong). A fact
that the sum gets right but no path gets right alone shows the additive motif; `additive_share` is the fraction of such
facts.

If a fiber has several values, v is the value with the smallest logit, and a path is right alone if all values of the
fiber are strictly above all others. If every value belongs to the fiber, there is no competitor: the margin is
infinite and the contributions are NaN.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import nan
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pyarrow as pa
from jaxtyping import Array, Bool, Float, Int

from factrank.databases import Database, to_table
from factrank.display import Drawn
from factrank.errors import InputError
from factrank.families.attention.circuits.layer_parts import has_parts, parts_of
from factrank.families.attention.layer_tensor import LayerTensor
from factrank.nn import on_device
from factrank.readouts import (
    AnyModel,
    ReadsFacts,
    code_of,
    fibers_of,
    full_precision,
    handed_in,
    in_blocks,
    margins,
    require_match,
    share,
    with_facts,
)


@dataclass(frozen=True)
class PairAttribution:
    """Contribution of each path to the lead of one value over a competitor at one (key, query); values are codes.

    `competitor` is None if the layer has only one value.
    """

    value: int
    competitor: int | None
    margin: float
    direct: float
    heads: tuple[float, ...]


@dataclass(frozen=True, eq=False)
class Attribution(Drawn):
    """Contribution of each path to the margin of every fact, in the order of the database's triples.

    `table` has the names of the facts; polars, pandas and DuckDB take the attribution itself (Arrow).

    Arguments:
        margins: the margin of each fact.
        direct: contribution of the direct path.
        heads: contribution of each head; direct + heads.sum(axis=1) is the margin.
        right: whether the sum gets each fact right.
        right_alone: whether each path gets each fact right alone, the direct path first.
        database: the facts, with the codes of the layer.
    """

    margins: Float[np.ndarray, " facts"]
    direct: Float[np.ndarray, " facts"]
    heads: Float[np.ndarray, "facts heads"]
    right: Bool[np.ndarray, " facts"]
    right_alone: Bool[np.ndarray, "facts paths"]
    database: Database

    def __repr__(self) -> str:
        paths = f"{len(self.margins):,} facts x {self.right_alone.shape[1]:,} paths"
        return f"Attribution({paths}, {self.additive_share:.1%} right only in the sum)"

    @property
    def paths(self) -> tuple[str, ...]:
        """Return the names of the paths: "direct", "head 0", ..."""
        return "direct", *(f"head {head}" for head in range(self.heads.shape[1]))

    @cached_property
    def table(self) -> pa.Table:
        """Return one row per fact: its names, its margin, the contribution of each path, and whether it is right."""
        facts = to_table(self.database)
        contributions = np.column_stack([self.direct, self.heads]).T
        columns = {"margin": self.margins, **dict(zip(self.paths, contributions, strict=True)), "right": self.right}
        for name, column in columns.items():
            facts = facts.append_column(name, pa.array(column))
        return facts

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Export the table to polars, pandas, DuckDB and other readers of Arrow streams."""
        return self.table.__arrow_c_stream__(requested_schema)

    @property
    def additive_share(self) -> float:
        """Return the fraction of facts that the sum gets right but no single path does; 0 if there are no facts."""
        return share(self.right & ~self.right_alone.any(axis=1), of_none=0.0)

    @property
    def direct_alone(self) -> float:
        """Return the fraction of facts that the direct path gets right alone."""
        return share(self.right_alone[:, 0])

    @property
    def heads_alone(self) -> tuple[float, ...]:
        """Return the fraction of facts that each head gets right alone."""
        return tuple(share(column) for column in self.right_alone[:, 1:].T)

    def to_dict(self) -> dict[str, Any]:
        """Return the fractions as plain data."""
        return {
            "facts": len(self.margins),
            "additive_share": self.additive_share,
            "direct_alone": self.direct_alone,
            "heads_alone": list(self.heads_alone),
        }


def attribute_facts(given: AnyModel, database: Database | None = None) -> Attribution:
    """Attribute the margins of all facts to the paths of a layer; `Attribution.table` has them with their names.

    Arguments:
        given: a layer, or a trained, constructed or loaded object that contains one.
        database: the facts; defaults to the facts of `given`.

    >>> from factrank import construct, sample
    >>> found = attribute_facts(construct(sample("astrid")))
    >>> found.additive_share
    0.5
    >>> found.table.select(["key", "query", "value", "margin", "head 0"]).to_pylist()[0]
    {'key': 'Astrid', 'query': 'born_in', 'value': 'Singapore', 'margin': 1.0, 'head 0': 3.0}
    """
    model, facts = with_facts(given, database)
    require_match(model, facts)
    parts, pairs, fibers = parts_of(model), facts.triples[:, :2], fibers_of(facts)
    n_paths, n_values = 1 + parts.circuits.shape[0], parts.circuits.shape[2]
    results = in_blocks(
        _attributed,
        parts,
        len(pairs),
        lambda rows: (pairs[rows, 0], pairs[rows, 1], fibers[rows]),
        n_paths * n_values * (1 + fibers.shape[1]),
    )
    empty = (np.empty(0), np.empty((0, n_paths)), np.empty((0, n_paths), bool))
    columns = zip(empty, *(block for _, block in results), strict=True)
    found, paths, right = (np.concatenate(column, dtype=column[0].dtype) for column in columns)
    return Attribution(found, paths[:, 0], paths[:, 1:], found > 0, right, facts)


def additive_numbers(model: ReadsFacts, database: Database) -> dict[str, float]:
    """Return `additive_share`, `direct_alone`, and `heads_alone` of the best head.

    All are NaN if the model's tensor is not a sum over paths, or if a path is not finite.
    """
    names = ("additive_share", "direct_alone", "heads_alone")
    if not has_parts(model):
        return dict.fromkeys(names, nan)
    found = attribute_facts(on_device(model), database)
    without_rival = np.isposinf(found.margins) & np.isnan(found.direct)
    if not (np.isfinite(found.margins) | without_rival).all():
        return dict.fromkeys(names, nan)
    shares = found.additive_share, found.direct_alone, max(found.heads_alone)
    return dict(zip(names, shares, strict=True))


def attribute(
    given: AnyModel,
    key: str | int,
    query: str | int,
    value: str | int | None = None,
    competitor: str | int | None = None,
    *,
    database: Database | None = None,
) -> PairAttribution:
    """Attribute the lead of one value over a competitor at one (key, query) to the paths of a layer.

    Arguments:
        given: a layer, or a trained, constructed or loaded object that contains one.
        key: a name or code.
        query: a name or code.
        value: a name or code; defaults to the layer's answer.
        competitor: a name or code; defaults to the value with the largest other logit.
        database: resolves names; defaults to the database of `given`.

    >>> from factrank import construct, sample
    >>> attribute(construct(sample("astrid")), "Astrid", "born_in")
    PairAttribution(value=0, competitor=1, margin=1.0, direct=-2.0, heads=(3.0,))
    """
    model, own = handed_in(given)
    database = own if database is None else database
    codes = code_of("key", key, model, database), code_of("query", query, model, database)
    asked = [None if one is None else code_of("value", one, model, database) for one in (value, competitor)]
    parts = parts_of(model)
    at = np.array([codes[0]], dtype=np.int32), np.array([codes[1]], dtype=np.int32)
    with full_precision(parts):
        paths = np.asarray(_paths(parts, *map(jnp.asarray, at)))[0]
    total = paths.sum(axis=0)
    value = int(total.argmax()) if asked[0] is None else asked[0]
    if asked[1] == value:
        raise InputError(f"value and competitor must differ; both are {value}")
    if len(total) == 1:
        return PairAttribution(value, None, np.inf, np.nan, (np.nan,) * (len(paths) - 1))
    rest = np.where(np.arange(len(total)) == value, -np.inf, total)
    competitor = int(rest.argmax()) if asked[1] is None else asked[1]
    direct, *heads = (paths[:, value] - paths[:, competitor]).tolist()
    return PairAttribution(value, competitor, float(total[value] - total[competitor]), direct, (*heads,))


def paths_at(parts: LayerTensor, keys: Int[Array, " n"], queries: Int[Array, " n"]) -> Float[Array, "n paths values"]:
    """Return the logits that each path writes at a list of pairs: the direct path first, then the heads."""
    n_keys = parts.attention.shape[1]
    weights = parts.attention[:, keys, queries]
    heads = weights[..., :1] * parts.circuits[:, keys] + weights[..., 1:] * parts.circuits[:, n_keys + queries]
    return jnp.concatenate([parts.direct[queries][:, None], jnp.moveaxis(heads, 0, 1)], axis=1)


_paths = eqx.filter_jit(paths_at)


def _attributed(
    parts: LayerTensor, keys: Int[Array, " n"], queries: Int[Array, " n"], fibers: Int[Array, "n m"], _option: int
) -> tuple[Array, ...]:
    """Return margins, contributions, and whether each path is right alone."""
    paths = paths_at(parts, keys, queries)
    total = paths.sum(axis=1)
    weakest = jnp.take_along_axis(total, fibers, axis=1).argmin(axis=1)
    values = jnp.take_along_axis(fibers, weakest[:, None], axis=1)
    belongs = (fibers[:, :, None] == jnp.arange(total.shape[1])).any(axis=1)
    competitors = jnp.where(belongs, -jnp.inf, total).argmax(axis=1)[:, None]
    lead = jnp.take_along_axis(paths, values[:, None], axis=2) - jnp.take_along_axis(
        paths, competitors[:, None], axis=2
    )
    contributions = jnp.where(belongs.all(axis=1)[:, None], jnp.nan, lead[..., 0])
    alone = jax.vmap(lambda logits: margins(logits, fibers) > 0, in_axes=1, out_axes=1)(paths)
    return margins(total, fibers), contributions, alone
