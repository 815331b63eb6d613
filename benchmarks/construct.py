"""What constructing, verifying and editing cost, and how constructed layers compare with trained ones.

    python benchmarks/construct.py            # 1,000,000 facts; then 1,000 edits on 100,000 facts
    python benchmarks/construct.py --train    # trained against constructed, on whatever device there is
    python benchmarks/construct.py --sets     # 10,000,000 facts, several values per (key, query): steps and times

Constructing includes the proof that every fact is recalled; verifying repeats it from the saved file. After every batch
of edits the logits of all other facts are compared bit for bit with those before.
"""

from __future__ import annotations

import os
import resource
import sys
import tempfile
import time
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from factrank.databases.database import Database
from factrank.databases.generators.random_tables import uniform
from factrank.databases.vocabulary import Vocabulary
from factrank.errors import InputError
from factrank.experiments.models import Constructed, verify
from factrank.families.attention.attention_layer import AttentionLayer
from factrank.families.attention.editing.changes import Change, of_keys
from factrank.families.attention.editing.fact_edits import edit_file
from factrank.families.attention.forms.registry import CONSTRUCTIONS
from factrank.families.attention.layer_files import SavedLayer, load_layer
from factrank.families.attention.layer_shape import LayerShape
from factrank.families.attention.searching import construct
from factrank.tensors import measure

GIB = 2**30 if sys.platform == "darwin" else 2**20
PAIRS_AT_ONCE = 2**13


def peak() -> str:
    return f"peak memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / GIB:.2f} GiB"


def describe(found: Constructed) -> str:
    sizes = f"{found.parameters:,} parameters, {1 / found.facts_per_parameter:.2f} per fact"
    bits = f"{found.bits_per_parameter:.2f} bits per parameter, {found.bits_per_stored_bit:.3f} per stored bit"
    proof = f"margin {found.certificate.margin:g} ({found.certificate.arithmetic})"
    return f"{found.form:<16} {sizes}, {bits}, {proof}"


def construct_million() -> None:
    start = time.perf_counter()
    database = uniform(100_000, 10, 1_000, seed=0)
    print(f"{database.n_facts:,} facts made in {time.perf_counter() - start:.1f} s; load {os.getloadavg()[0]:.1f}")
    for only in (None, "binary"):
        start = time.perf_counter()
        found = construct(database, only=only)
        seconds = time.perf_counter() - start
        assert found.certified
        print(f"  {describe(found)}; constructed and proved in {seconds:.1f} s, {peak()}", flush=True)
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "million.safetensors")
            found.save(path)
            size = path.stat().st_size / 2**20
            start = time.perf_counter()
            saved = load_layer(path)
            certificate = verify(saved.layer, saved.database)
            seconds = time.perf_counter() - start
        assert certificate.certified
        print(f"    a file of {size:.0f} MiB, read and verified again in {seconds:.1f} s, {peak()}", flush=True)


# ---------------------------------------------------------------- edits


@eqx.filter_jit
def _logits(layer: AttentionLayer, keys: jax.Array, queries: jax.Array) -> jax.Array:
    return layer.logits(keys, queries)


def unchanged(before: SavedLayer, after: SavedLayer, touched: set[tuple[int, int]]) -> int:
    """How many facts that were not touched have the same logits bit for bit; an error where one has not."""
    pairs = before.database.triples[:, :2]
    others = np.array([pair for pair in pairs.tolist() if tuple(pair) not in touched])
    n_values = before.database.n_values
    for start in range(0, len(others), PAIRS_AT_ONCE):
        some = others[start : start + PAIRS_AT_ONCE]
        keys, rows = np.unique(some[:, 0], return_inverse=True)
        both = []
        for saved in (before, after):
            device = jax.tree.map(jnp.asarray, of_keys(saved.layer, keys))
            both.append(np.asarray(_logits(device, jnp.asarray(rows), jnp.asarray(some[:, 1])))[:, :n_values])
        assert both[0].tobytes() == both[1].tobytes()
    return len(others)


def random_changes(database: Database, rng: np.random.Generator, n: int) -> list[Change]:
    """Values set and facts deleted, some keys and values new."""
    changes: dict[tuple[str, str], Change] = {}
    while len(changes) < n:
        key, query, _ = (
            database.vocabularies[axis][int(code)] for axis, code in enumerate(rng.choice(database.triples))
        )
        kind = rng.random()
        if kind < 0.1:
            change = Change(key, query)
        elif kind < 0.2:
            change = Change(
                f"new key {rng.integers(10**9)}", query, database.values[int(rng.integers(database.n_values))]
            )
        elif kind < 0.22:
            change = Change(key, query, f"new value {rng.integers(10**9)}")
        else:
            change = Change(key, query, database.values[int(rng.integers(database.n_values))])
        changes[change.key, change.query] = change
    return list(changes.values())


def thousand_edits() -> None:
    database, rng = uniform(10_000, 10, 900, seed=1), np.random.default_rng(0)
    for only in ("parabola", "binary", "shared-heads"):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "edited.safetensors")
            construct(database, only=only).save(path)
            seconds, n_compared = 0.0, 0
            for _ in range(10):
                before = load_layer(path)
                changes = random_changes(before.database, rng, 100)
                start = time.perf_counter()
                edited = edit_file(path, changes)
                seconds += time.perf_counter() - start
                assert edited.certificate.certified
                after = load_layer(path)
                assert not verify(after.layer, after.database).differences(edited.certificate)
                codes = after.database.keys, after.database.queries
                touched = {(codes[0].index(one.key), codes[1].index(one.query)) for one in changes}
                n_compared += unchanged(before, after, touched)
            words = f"{only}: 1,000 edits in 10 batches, {seconds / 10:.2f} s a batch with its certificate"
            print(f"  {words}; {n_compared:,} times an untouched fact had the same logits bit for bit", flush=True)


# ---------------------------------------------------------------- training


SHAPES = [
    LayerShape(d_model, n_heads, width, width)
    for d_model, n_heads, width in ((8, 4, 2), (12, 4, 3), (16, 4, 4), (24, 8, 3), (32, 8, 4), (48, 8, 6), (64, 16, 4))
]


def trained_against_constructed(n_keys: int = 1_000, n_queries: int = 10, n_values: int = 100) -> None:
    from factrank.experiments.specs.data import Given
    from factrank.experiments.specs.training_spec import Training
    from factrank.experiments.specs.trial import Trial
    from factrank.experiments.training import train_many

    database = uniform(n_keys, n_queries, n_values, seed=0)
    print(f"{database.n_facts:,} facts: {n_keys:,} keys x {n_queries} queries -> {n_values:,} values")
    print(f"on {jax.local_devices()[0].device_kind}")
    for name in ("parabola", "shared-heads", "binary"):
        if CONSTRUCTIONS[name].refusal(database, "float32") is None:
            start = time.perf_counter()
            found = construct(database, only=name)
            print(f"  {describe(found)}; {time.perf_counter() - start:.2f} s", flush=True)
    training = Training(learning_rate=0.01, epochs=20_000, stop="recall")
    for shape in SHAPES:
        trials = [Trial(Given(database.fingerprint), shape, training, seed=seed) for seed in range(4)]
        start = time.perf_counter()
        results = train_many(trials, databases=[database])
        seconds = time.perf_counter() - start
        best = max(results, key=lambda result: result.recall)
        parameters = shape.parameters(*database.shape)
        bits = f"{database.bits / parameters:.2f} bits per parameter" if best.recall == 1 else "not all facts"
        sizes = f"{parameters:,} parameters, {parameters / database.n_facts:.2f} per fact, {bits}"
        words = f"recall {best.recall:.4f} after {best.epochs:,} epochs, best of 4 seeds ({best.engine})"
        print(
            f"  trained {shape.d_model:>3}x{shape.n_heads:<2} {sizes}; {words}, {seconds:.1f} s for the 4", flush=True
        )


def ten_million_of_sets() -> None:
    """Measure and construct a table that no closed form holds; prints each step when it begins."""
    shape, rng = (1_000_000, 10, 10_000), np.random.default_rng(0)
    cells = rng.permutation(np.unique(rng.integers(0, np.prod(shape), 10_001_000)))[:10_000_000]
    keys, queries, values = (Vocabulary.numbered(name, size) for name, size in zip("kqv", shape, strict=True))
    triples = np.column_stack(np.unravel_index(np.sort(cells), shape)).astype(np.int32)
    database = Database(triples, keys, queries, values)
    print(f"{database.n_facts:,} facts, {database.n_fibers:,} (key, query) pairs; load {os.getloadavg()[0]:.1f}")

    def clock() -> str:
        return f"{time.perf_counter() - start:6.1f} s, {time.process_time() - computed:5.1f} s of computing"

    start, computed = time.perf_counter(), time.process_time()
    found = measure(database, budget=10.0)
    print(f"{clock()}: measured, rank {found.rank.bracket}", flush=True)
    start, computed = time.perf_counter(), time.process_time()
    try:
        print(describe(construct(database, report=lambda step: print(f"{clock()}: {step}", flush=True))))
    except InputError as refusal:
        print(refusal)
    print(f"{clock()}: done, {peak()}")


def main() -> None:
    if "--sets" in sys.argv[1:]:
        ten_million_of_sets()
        return
    if "--train" in sys.argv[1:]:
        trained_against_constructed()
        return
    construct_million()
    thousand_edits()


if __name__ == "__main__":
    main()
