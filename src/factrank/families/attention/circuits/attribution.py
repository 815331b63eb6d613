r"""Path attribution: what the direct path and each head contribute to the margin of a fact.

The logits of a pair are a sum over paths, $L = \sum_p P_p$ with p the direct path or a head. With v the fact's value
and w its strongest competitor under the whole sum,

$$\mathrm{margin} = L_v - L_w = \sum_p \bigl( P_{p,v} - P_{p,w} \bigr),$$

so the contributions add up to the margin. A path is right *alone* when its own argmax is (ties are wrong). A fact that
no path gets right alone but the sum does shows the additive motif; their share is the `additive_share`.

In a fiber with several values v is the one with the least logit, and a path is right alone when all of them stand
strictly above all others in it. Where every value belongs to the fiber there is no competitor: the margin is infinite
and the contributions are not numbers.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import nan
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from factrank.databases import Database
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
    """What each path contributes to the lead of one value at one (key, query); value and competitor are codes.

    There is no competitor, None, where the layer knows one value only.
    """

    value: int
    competitor: int | None
    margin: float
    direct: float
    heads: tuple[float, ...]


@dataclass(frozen=True, eq=False)
class Attribution:
    """What each path contributes to the margin of every fact, in the order of the database's triples.

    Arguments:
        margins: the margin of each fact.
        direct: what the direct path contributes to it.
        heads: what each head contributes; direct + heads.sum(axis=1) is the margin.
        right: which facts the sum gets right.
        right_alone: which facts each path gets right alone, the direct path first.
    """

    margins: Float[np.ndarray, " facts"]
    direct: Float[np.ndarray, " facts"]
    heads: Float[np.ndarray, "facts heads"]
    right: Bool[np.ndarray, " facts"]
    right_alone: Bool[np.ndarray, "facts paths"]

    @property
    def additive_share(self) -> float:
        """Share of facts that no single path gets right but the sum does; 0 of no facts, as each path has them all."""
        return share(self.right & ~self.right_alone.any(axis=1), of_none=0.0)

    @property
    def direct_alone(self) -> float:
        """Share of facts that the direct path alone gets right."""
        return share(self.right_alone[:, 0])

    @property
    def heads_alone(self) -> tuple[float, ...]:
        """Share of facts that each head alone gets right."""
        return tuple(share(column) for column in self.right_alone[:, 1:].T)

    def to_dict(self) -> dict[str, Any]:
        """The shares as plain data."""
        return {
            "facts": len(self.margins),
            "additive_share": self.additive_share,
            "direct_alone": self.direct_alone,
            "heads_alone": list(self.heads_alone),
        }


def attribute_facts(given: AnyModel, database: Database | None = None) -> Attribution:
    """The contributions of all paths to the margins of all facts: those given, else those that came with the layer."""
    model, facts = with_facts(given, database)
    require_match(model, facts)
    triples, fibers = facts.triples, fibers_of(facts)
    blocks = _contributions(parts_of(model), triples[:, :2], fibers)
    return Attribution(blocks.margins, blocks.paths[:, 0], blocks.paths[:, 1:], blocks.margins > 0, blocks.right)


def additive_numbers(model: ReadsFacts, database: Database) -> dict[str, float]:
    """The shares of the additive motif as plain numbers: additive_share, direct_alone, heads_alone of the best head.

    NaN for models whose tensor is not a sum over paths, and where a path is not finite.
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
    """The contributions of all paths at one (key, query), for a value (by default the layer's answer).

    They are those to its lead over the competitor, by default the value with the largest other logit. All are asked for
    by name or code; names need a database, which came with the layer or is given.
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
        raise InputError(f"the competitor is another value than the one that is asked for; got {value} for both")
    if len(total) == 1:
        return PairAttribution(value, None, np.inf, np.nan, (np.nan,) * (len(paths) - 1))
    rest = np.where(np.arange(len(total)) == value, -np.inf, total)
    competitor = int(rest.argmax()) if asked[1] is None else asked[1]
    direct, *heads = (paths[:, value] - paths[:, competitor]).tolist()
    return PairAttribution(value, competitor, float(total[value] - total[competitor]), direct, (*heads,))


# -------------------------------------------------------------------- blocks of facts


@dataclass(frozen=True, eq=False)
class _Contributions:
    margins: Float[np.ndarray, " n"]
    paths: Float[np.ndarray, "n paths"]
    right: Bool[np.ndarray, "n paths"]


def _contributions(parts: LayerTensor, pairs: Int[np.ndarray, "n 2"], fibers: Int[np.ndarray, "n m"]) -> _Contributions:
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
    return _Contributions(*(np.concatenate(column, dtype=column[0].dtype) for column in columns))


@eqx.filter_jit
def _paths(parts: LayerTensor, keys: Int[Array, " n"], queries: Int[Array, " n"]) -> Float[Array, "n paths values"]:
    return paths_at(parts, keys, queries)


def paths_at(parts: LayerTensor, keys: Int[Array, " n"], queries: Int[Array, " n"]) -> Float[Array, "n paths values"]:
    """What each path writes at a list of pairs: the direct path first, then the heads."""
    n_keys = parts.attention.shape[1]
    weights = parts.attention[:, keys, queries]
    heads = weights[..., :1] * parts.circuits[:, keys] + weights[..., 1:] * parts.circuits[:, n_keys + queries]
    return jnp.concatenate([parts.direct[queries][:, None], jnp.moveaxis(heads, 0, 1)], axis=1)


def _attributed(
    parts: LayerTensor, keys: Int[Array, " n"], queries: Int[Array, " n"], fibers: Int[Array, "n m"], _option: int
) -> tuple[Array, ...]:
    """Margin, contributions, and whether each path is right alone."""
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
