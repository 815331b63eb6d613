"""The sampling design of the atlas: which tables and layers are trained, as a pure function of a seed.

Sizes are log-uniform. A layer is drawn by its load (bits of the table per parameter, log-uniform), its number of heads,
and its split of d_qk and d_vo; d_model is the width that is nearest to the load.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from factrank.planning.atlas.atlas_rows import (
    SPEC,
    TABLE_KINDS,
    join_rows,
    n_rows,
    products_of,
    row_parameters,
    take_rows,
)

PARTS_OF_ATLAS = (
    "main",
    "larger",
    "longer",
    "rates",
    "fresh",
    "fresh larger",
    "left out",
    "samples",
    "searches",
    "updates",
    "planned",
    "planned larger",
)
"""Parts of the atlas; the column `part` is an index into them."""

LOADS = 0.1, 5.0
MOST_CELLS = 150_000
"""Largest product of facts and values in a table of the main part."""


@dataclass(frozen=True)
class Ranges:
    """Ranges of the sizes, and limits of a layer."""

    keys: tuple[int, int] = (5, 80)
    queries: tuple[int, int] = (2, 24)
    values: tuple[int, int] = (3, 80)
    inputs: tuple[int, int] = (5, 400)
    outputs: tuple[int, int] = (3, 400)
    heads: tuple[int, int] = (1, 16)
    d_model: int = 48
    cells: int = MOST_CELLS
    products: tuple[int, int] = (0, 2**19)
    thinned: bool = False
    """Whether layers of p products are kept with probability 1 / sqrt(p), because they take longer."""


MAIN_RANGES = Ranges()
LARGER = Ranges(
    keys=(20, 1000),
    queries=(2, 64),
    values=(5, 600),
    inputs=(50, 4000),
    outputs=(10, 600),
    d_model=128,
    cells=4_000_000,
    products=(2**17, 2**22),
    thinned=True,
)

SHARES: Mapping[str, float] = {
    "uniform": 0.48,
    "disjoint": 0.12,
    "structured": 0.08,
    "zipf": 0.14,
    "overlapping-boxes": 0.08,
    "associations": 0.06,
    "injections": 0.04,
}
"""Fraction of each kind of table."""


def design(part: str, n: int, *, seed: int) -> dict[str, Any]:
    """Return n rows of a part, without results; of searches, all rows of n searches."""
    rng = np.random.default_rng([seed, PARTS_OF_ATLAS.index(part)])
    rows = _DESIGNS[part](rng, n)
    rows["part"] = np.full(n_rows(rows), PARTS_OF_ATLAS.index(part))
    return {name: np.asarray(rows[name], dtype=kind) for name, kind in SPEC.items()}


# -------------------------------------------------------------------- tables


def _log_uniform(rng: np.random.Generator, ends: Any, n: int) -> Any:
    """Whole numbers from ends[0] to ends[1], each end a number or an array."""
    low, high = (np.log(np.asarray(end, dtype=float) + plus) for end, plus in zip(ends, (0, 1), strict=True))
    return np.floor(np.exp(rng.uniform(size=n) * (high - low) + low)).astype(np.int64)


def _some_facts(rng: np.random.Generator, n_pairs: Any, n: int) -> Any:
    """A tenth of the pairs, or up to nearly all of them."""
    return np.clip(_log_uniform(rng, (np.maximum(n_pairs // 10, 3), np.maximum(n_pairs - 1, 3)), n), 1, n_pairs)


def _tables(rng: np.random.Generator, n: int, shares: Mapping[str, float], ranges: Ranges) -> dict[str, Any]:
    kind = rng.choice([TABLE_KINDS.index(name) for name in shares], size=n, p=np.array(list(shares.values())))
    is_kind = {name: kind == place for place, name in enumerate(TABLE_KINDS)}
    own_range = is_kind["disjoint"] | is_kind["structured"]
    function = is_kind["associations"] | is_kind["injections"]
    n_keys = np.where(function, _log_uniform(rng, ranges.inputs, n), _log_uniform(rng, ranges.keys, n))
    n_queries = np.where(function, 1, _log_uniform(rng, ranges.queries, n))
    n_values = np.where(function, _log_uniform(rng, ranges.outputs, n), _log_uniform(rng, ranges.values, n))
    per_query = _log_uniform(rng, (2, np.maximum(2, ranges.values[1] // n_queries)), n)
    n_values = np.where(own_range, n_queries * per_query, n_values)
    n_values = np.where(is_kind["injections"], np.maximum(n_values, n_keys), n_values)
    n_values = np.where(is_kind["bijections"], n_keys, n_values)
    n_values = np.where(is_kind["overlapping-boxes"], np.minimum(n_values, n_keys * n_queries), n_values)
    n_pairs = n_keys * n_queries
    partial = is_kind["zipf"] | ((is_kind["uniform"] | is_kind["disjoint"]) & (rng.uniform(size=n) < 0.45))
    return {
        "kind": kind,
        "n_keys": n_keys,
        "n_queries": n_queries,
        "n_values": n_values,
        "n_facts": np.where(partial, _some_facts(rng, n_pairs, n), n_pairs),
        "n_classes": np.where(is_kind["structured"], _log_uniform(rng, (2, n_keys), n), 0),
        "exponent": np.where(is_kind["zipf"], rng.integers(16, 97, size=n) / 64, 0),  # exact in float32
        "table_seed": rng.integers(2**32, size=n),
    }


def nominal_bits(rows: Mapping[str, Any]) -> Any:
    """Return the bits of tables from their sizes; in some kinds each query chooses among its own values."""
    own_range = np.isin(rows["kind"], [TABLE_KINDS.index("disjoint"), TABLE_KINDS.index("structured")])
    return rows["n_facts"] * np.log2(np.where(own_range, rows["n_values"] // rows["n_queries"], rows["n_values"]))


# -------------------------------------------------------------------- layers


def _splits(rng: np.random.Generator, n: int) -> dict[str, Any]:
    """How d_qk and d_vo follow from d_model: as it is usually shared among the heads, or powers of it."""
    return {"usual": rng.uniform(size=n) < 0.3, "qk": rng.uniform(size=n), "vo": rng.uniform(size=n)}


def _widths(d_model: Any, n_heads: Any, splits: Mapping[str, Any]) -> tuple[Any, Any]:
    usual = np.maximum(1, d_model // n_heads)
    d_qk, d_vo = (
        np.where(splits["usual"], usual, np.rint(d_model ** splits[name]).astype(np.int64)) for name in ("qk", "vo")
    )
    return d_qk, d_vo


def _layers(rng: np.random.Generator, tables: Mapping[str, Any], ranges: Ranges) -> dict[str, Any]:
    """A layer for each table, and whether it keeps to the loads and to the range of products."""
    n = n_rows(tables)
    n_heads, splits = _log_uniform(rng, ranges.heads, n), _splits(rng, n)
    load = np.exp(rng.uniform(np.log(LOADS[0]), np.log(LOADS[1]), n))
    bits, tokens = nominal_bits(tables), tables["n_keys"] + tables["n_queries"] + tables["n_values"]
    best, d_model = np.full(n, np.inf), np.full(n, 2)
    for width in range(2, ranges.d_model + 1):
        d_qk, d_vo = _widths(np.full(n, width), n_heads, splits)
        off = np.abs(np.log(width * (tokens + 2 * n_heads * (d_qk + d_vo)) * load / bits))
        d_model, best = np.where(off < best, width, d_model), np.minimum(off, best)
    d_qk, d_vo = _widths(d_model, n_heads, splits)
    rows = {**tables, "d_model": d_model, "n_heads": n_heads, "d_qk": d_qk, "d_vo": d_vo}
    products, loads = products_of(rows), bits / row_parameters(rows)
    kept = (loads >= LOADS[0]) & (loads <= LOADS[1]) & (best < np.log(1.5)) & (rows["n_facts"] >= 8)
    kept &= (products >= ranges.products[0]) & (products <= ranges.products[1])
    if ranges.thinned:
        kept &= rng.uniform(size=n) < np.sqrt(ranges.products[0] / np.maximum(products, 1))
    rows["kept"] = kept & (rows["n_facts"] * rows["n_values"] <= ranges.cells)
    return rows


def _usual_training(rng: np.random.Generator, rows: dict[str, Any]) -> dict[str, Any]:
    n = n_rows(rows)
    rows.pop("kept", None)
    plain = {"epochs": 2000, "learning_rate": 0.01, "update": 0, "search": -1}
    return {**{name: np.full(n, value) for name, value in plain.items()}, "seed": rng.integers(2**32, size=n), **rows}


def _drawn(rng: np.random.Generator, n: int, shares: Mapping[str, float], ranges: Ranges) -> dict[str, Any]:
    """Return exactly n rows within the ranges; others are redrawn."""
    found: list[dict[str, Any]] = []
    while sum(map(n_rows, found)) < n:
        rows = _layers(rng, _tables(rng, max(n, 1000), shares, ranges), ranges)
        found.append(take_rows(rows, rows["kept"]))
    return _usual_training(rng, take_rows(join_rows(found), slice(n)))


# -------------------------------------------------------------------- parts


def _main(rng: np.random.Generator, n: int) -> dict[str, Any]:
    return _drawn(rng, n, SHARES, MAIN_RANGES)


def _larger(rng: np.random.Generator, n: int) -> dict[str, Any]:
    return _drawn(rng, n, SHARES, LARGER)


def _longer(rng: np.random.Generator, n: int) -> dict[str, Any]:
    return _drawn(rng, n, SHARES, Ranges(products=(0, 2**17))) | {"epochs": np.full(n, 20_000)}


def _rates(rng: np.random.Generator, n: int) -> dict[str, Any]:
    return _main(rng, n) | {"learning_rate": rng.choice([0.001, 0.003, 0.03, 0.1], size=n)}


def _left_out(rng: np.random.Generator, n: int) -> dict[str, Any]:
    return _drawn(rng, n, {"bijections": 1.0}, MAIN_RANGES)


def _samples(rng: np.random.Generator, n: int) -> dict[str, Any]:
    """Parts of the tables of true facts, the same 200 of them for all layers."""
    from factrank.planning.atlas.atlas_tables import sampled  # noqa: PLC0415 - the only part that reads tables

    tables = []
    for number in range(200):
        which = number % 2
        n_keys = int(_log_uniform(rng, (10, (118, 193)[which]), 1)[0])
        table = sampled(which, n_keys, number)
        tables.append((TABLE_KINDS.index("sample"), *table.shape, len(table), which, 0.0, number))
    names = ("kind", "n_keys", "n_queries", "n_values", "n_facts", "n_classes", "exponent", "table_seed")
    columns = dict(zip(names, map(np.array, zip(*tables, strict=True)), strict=True))
    ranges = Ranges(d_model=96, cells=4_000_000, products=(0, 2**22))
    found: list[dict[str, Any]] = []
    while sum(map(n_rows, found)) < n:
        rows = _layers(rng, take_rows(columns, rng.integers(200, size=n)), ranges)
        found.append(take_rows(rows, rows["kept"]))
    return _usual_training(rng, take_rows(join_rows(found), slice(n)))


SEARCH_SEEDS = 7


def _searches(rng: np.random.Generator, n: int) -> dict[str, Any]:
    """Searches for the needed size, each a table, a number of heads and a split: every d_model, with seven seeds.

    d_model is at least 2 and at most 48, and the layer has at most four parameters per bit.
    """
    ranges, found, number = Ranges(products=(0, 2**18)), list[dict[str, Any]](), 0
    while number < n:
        table = _tables(rng, 1, SHARES, ranges)
        n_heads, splits = _log_uniform(rng, ranges.heads, 1), _splits(rng, 1)
        widths = np.arange(2, ranges.d_model + 1)
        d_qk, d_vo = _widths(widths, n_heads, splits)
        rows = {name: np.repeat(column, len(widths)) for name, column in {**table, "n_heads": n_heads}.items()}
        rows |= {"d_model": widths, "d_qk": d_qk, "d_vo": d_vo}
        bits = nominal_bits(rows)
        used = row_parameters(rows) <= 4 * bits
        fits = products_of(rows).max(where=used, initial=0) <= ranges.products[1]
        if used.sum() < 4 or used.all() or not fits or bits[0] > 4000:
            continue
        rows = take_rows({**rows, "search": np.full(len(widths), number)}, used)
        rows = {name: np.repeat(column, SEARCH_SEEDS) for name, column in rows.items()}
        rows["seed"] = np.tile(rng.integers(2**32, size=SEARCH_SEEDS), n_rows(rows) // SEARCH_SEEDS)
        found.append(_usual_training(rng, rows))
        number += 1
    return join_rows(found)


PLANNED_WIDTHS = 20
PLANNED_LOADS = 3.0, 0.45
"""Bits per parameter of the narrowest and of the widest layer of a search."""


def planned_split(d_model: Any, n_heads: Any) -> tuple[Any, Any]:
    """Return the d_qk and d_vo of planned layers: narrow queries, and heads that together write 1.5 times d_model.

    >>> [int(width) for width in planned_split(16, 8)]
    [2, 3]
    """
    return 0 * d_model + 2, np.maximum(1, (3 * d_model + n_heads) // (2 * n_heads))


def _planned(rng: np.random.Generator, n: int, ranges: Ranges = MAIN_RANGES, least: int = 6) -> dict[str, Any]:
    """Return searches like `_searches` among planned layers, near the sizes that begin to recall their tables."""
    found, number = list[dict[str, Any]](), 0
    every = np.arange(2, 400)
    while number < n:
        table = _tables(rng, 1, SHARES, ranges)
        n_heads = 2 ** rng.integers(1, 5, size=1)
        d_qk, d_vo = planned_split(every, n_heads)
        rows = {name: np.repeat(column, len(every)) for name, column in {**table, "n_heads": n_heads}.items()}
        rows |= {"d_model": every, "d_qk": d_qk, "d_vo": d_vo}
        loads = nominal_bits(rows) / row_parameters(rows)
        wanted = np.flatnonzero((loads <= PLANNED_LOADS[0]) & (loads >= PLANNED_LOADS[1]))
        fits = len(wanted) >= 4 and products_of(rows)[wanted].max() <= ranges.products[1]
        enough = least if TABLE_KINDS[table["kind"][0]] in {"uniform", "zipf", "overlapping-boxes"} else 3
        too_large = rows["n_facts"][0] * rows["n_values"][0] > ranges.cells
        if not fits or too_large or every[loads >= 1.5].max(initial=0) < enough:
            continue
        if len(wanted) > PLANNED_WIDTHS:
            spaced = np.geomspace(every[wanted[0]], every[wanted[-1]], PLANNED_WIDTHS)
            wanted = np.unique(np.rint(spaced).astype(int)) - every[0]
        rows = take_rows({**rows, "search": np.full(len(every), number)}, wanted)
        rows = {name: np.repeat(column, SEARCH_SEEDS) for name, column in rows.items()}
        rows["seed"] = np.tile(rng.integers(2**32, size=SEARCH_SEEDS), n_rows(rows) // SEARCH_SEEDS)
        found.append(_usual_training(rng, rows))
        number += 1
    return join_rows(found)


def _planned_larger(rng: np.random.Generator, n: int) -> dict[str, Any]:
    return _planned(rng, n, replace(LARGER, products=(0, 2**21)), least=12)


def _updates(rng: np.random.Generator, n: int) -> dict[str, Any]:
    """Return updates of rank d_vo of a frozen layer; the loads are bits per trained parameter."""
    found: list[dict[str, Any]] = []
    while sum(map(n_rows, found)) < n:
        tables = _tables(rng, n, {"uniform": 0.7, "zipf": 0.15, "associations": 0.15}, MAIN_RANGES)
        d_model, n_heads = _log_uniform(rng, (8, 64), n), _log_uniform(rng, (1, 8), n)
        rank, d_qk = _log_uniform(rng, (1, d_model), n), np.maximum(1, d_model // n_heads)
        rows = {**tables, "d_model": d_model, "n_heads": n_heads, "d_qk": d_qk, "d_vo": rank}
        loads = nominal_bits(rows) / (2 * n_heads * d_model * rank)
        kept = (loads >= LOADS[0]) & (loads <= LOADS[1]) & (products_of(rows) <= 2**19)
        found.append(take_rows(rows, kept))
    return _usual_training(rng, take_rows(join_rows(found), slice(n))) | {"update": np.ones(n)}


_DESIGNS: Mapping[str, Any] = {
    "main": _main,
    "larger": _larger,
    "longer": _longer,
    "rates": _rates,
    "fresh": _main,
    "fresh larger": _larger,
    "left out": _left_out,
    "samples": _samples,
    "searches": _searches,
    "updates": _updates,
    "planned": _planned,
    "planned larger": _planned_larger,
}

FULL: Sequence[tuple[str, int]] = (
    ("fresh", 4000),
    ("searches", 600),
    ("left out", 3000),
    ("updates", 10_000),
    ("planned", 1200),
    ("planned larger", 400),
    ("rates", 30_000),
    ("longer", 20_000),
    ("samples", 4000),
    ("fresh larger", 1000),
    ("larger", 50_000),
    ("main", 900_000),
)
"""The whole atlas."""
