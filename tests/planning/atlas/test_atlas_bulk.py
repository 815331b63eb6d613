"""Rows of the atlas, trained in bulk, end with the same bits as the trials that they name."""

import sys

import numpy as np
import pytest

from factrank.experiments.training import train_many
from factrank.families.attention.attention_layer import PARTS, draw_layer
from factrank.families.attention.facts_task import FactsTask
from factrank.families.attention.fused import fused_gpu
from factrank.families.attention.fused.bulk import BulkBlocks, first_weights, pack
from factrank.families.attention.fused.fused_engine import run_fused
from factrank.families.attention.fused.fused_plan import Tiles
from factrank.families.attention.fused.fused_run import Fibers
from factrank.planning.atlas.atlas_batches import batches_of, finished, known_of_tables, layers_of, trained_here
from factrank.planning.atlas.atlas_design import PARTS_OF_ATLAS, design
from factrank.planning.atlas.atlas_rows import (
    TABLE_KINDS,
    each,
    join_rows,
    n_rows,
    products_of,
    sizes_of_rows,
    take_rows,
)
from factrank.planning.atlas.atlas_tables import facts_of_row
from factrank.planning.atlas.atlas_trials import table_of_row, trial_of_row
from one_thread_gpu import COMPILER, one_thread_cupy

ROOM = 228352
"""Bytes of shared memory of a block of an H200."""

CACHES = (fused_gpu._kernel, fused_gpu.shared_room, fused_gpu.processors)


def small_rows(n_of_each=2, most_values=400, epochs=130):
    """A few rows of every kind of table, of updates and of other learning rates, which train in no time."""
    parts = {"main": 400, "updates": 40, "rates": 40, "left out": 40, "samples": 200}
    found = []
    for part, n in parts.items():
        rows = design(part, n, seed=3)
        rows = take_rows(rows, (products_of(rows) < 20_000 if part != "samples" else products_of(rows) < 80_000))
        rows = take_rows(rows, rows["n_values"] <= most_values)
        firsts = [np.flatnonzero(rows["kind"] == kind)[:n_of_each] for kind in range(len(TABLE_KINDS))]
        found.append(take_rows(rows, np.concatenate(firsts)))
    rows = join_rows(found)
    rows["epochs"] = np.full(n_rows(rows), epochs, dtype=np.int32)
    return rows


def tables_of(rows):
    return [table_of_row(row) for row in each(rows)]


@pytest.mark.parametrize("part", ["main", "left out", "samples", "updates"])
def test_rows_have_the_tables_that_generators_make(part):
    rows = design(part, 60, seed=1)
    for row in each(rows):
        table, (pairs, values) = table_of_row(row), facts_of_row(row)
        assert table.shape == (row["n_keys"], row["n_queries"], row["n_values"])
        assert len(table) == row["n_facts"]
        keys, queries, own = table.triples.T
        assert np.array_equal(keys.astype(int) * table.n_queries + queries, pairs)
        assert np.array_equal(own, values)


def test_first_weights_are_those_of_trials():
    rows = design("main", 10, seed=4)
    starts, weights = first_weights(sizes_of_rows(rows), rows["seed"])
    for place, row in enumerate(each(rows)):
        shape = trial_of_row(row).model
        sizes = row["n_keys"], row["n_queries"], row["n_values"]
        layer = draw_layer(shape, *sizes, rng=np.random.default_rng(row["seed"]))
        flat = np.concatenate([np.ravel(getattr(layer, part)) for part in PARTS])
        assert np.array_equal(weights[starts[place] : starts[place + 1]], flat)


def test_facts_are_packed_as_the_kernel_reads_them():
    rows = design("main", 40, seed=2)
    packed = pack(layers_of(rows), ROOM)
    for place, table in enumerate(tables_of(rows)):
        n_pairs = table.n_keys * table.n_queries
        tiles = Tiles.of(Fibers.of(table), int(packed.tiles[place]), n_pairs, table.n_queries)
        begin = packed.lists[place, 0]
        assert np.array_equal(packed.integers[begin : begin + len(tiles.integers)], tiles.integers)
        assert [begin + start for start in tiles.starts.values()] == packed.lists[place].tolist()
        assert (tiles.n_tiles, tiles.regular) == (packed.n_tiles[place], packed.regular[place])


def test_bits_of_tables():
    rows = small_rows(1)
    known = known_of_tables(layers_of(rows))
    for place, table in enumerate(tables_of(rows)):
        assert known["bits_by_query"][place] == pytest.approx(table.bits_by_query)
        assert known["values_used"][place] == len(np.unique(table.triples[:, 2]))


def require_same(rows, results):
    """Rows with their results against the results of trials, or what engines hand out."""
    for row, result in zip(each(rows), results, strict=True):
        n_facts = row["n_facts"]
        assert result.metrics["recall"] == row["right"] / n_facts
        assert result.metrics["recall_0.95"] == row["right_tau"] / n_facts
        assert np.float32(result.metrics["loss"]) == row["loss"]
        assert np.float32(result.metrics["margin"]) == row["margin"]
        assert np.float32(result.curves["loss"][0]) == row["loss_125"]
        assert result.curves["recall"][0] == row["right_125"] / n_facts
        assert row["right_250"] == -1


def test_bulk_on_the_cpu_equals_trials():
    rows = small_rows()
    assert set(rows["kind"].tolist()) == set(range(len(TABLE_KINDS)))
    samples = [
        table for table, kind in zip(tables_of(rows), rows["kind"], strict=True) if TABLE_KINDS[kind] == "sample"
    ]
    require_same(trained_here(rows), train_many(map(trial_of_row, each(rows)), databases=samples))


@pytest.mark.skipif(COMPILER is None, reason="needs a C++ compiler")
def test_bulk_on_a_gpu_equals_trials(monkeypatch, tmp_path):
    """On a device of one thread, which runs the same kernel."""
    monkeypatch.setitem(sys.modules, "cupy", one_thread_cupy(tmp_path, ROOM + 4096))
    for cached in CACHES:
        cached.cache_clear()
    rows = small_rows(1, most_values=8)
    trials = list(map(trial_of_row, each(rows)))
    tasks = [FactsTask(trial, table) for trial, table in zip(trials, tables_of(rows), strict=True)]
    finished_trials = [one for ended, _ in run_fused(trials, tasks, None, "gpu") for one in ended]
    wanted = sorted(finished_trials, key=lambda one: one.place)
    blocks = BulkBlocks()
    for places in batches_of(rows, ROOM):
        blocks.begin(pack(layers_of(take_rows(rows, places)), ROOM), places)
    for places, packed, results, _ in blocks.ended():
        some = take_rows(rows, places)
        require_same(finished(some, known_of_tables(packed.layers), results), [wanted[place] for place in places])
        flat = [np.concatenate([np.ravel(getattr(wanted[place].model, part)) for part in PARTS]) for place in places]
        assert np.array_equal(np.concatenate(flat), results.weights)
    for cached in CACHES:
        cached.cache_clear()


@pytest.mark.parametrize("part", PARTS_OF_ATLAS)
def test_designs_are_pure_functions_of_their_seed(part):
    n = 2 if part == "searches" else 50
    first, again, other = (design(part, n, seed=seed) for seed in (5, 5, 6))
    assert all(np.array_equal(first[name], again[name]) for name in first)
    assert not np.array_equal(first["seed"][:10], other["seed"][:10])
