"""What `measure` costs on a large database: a million facts, 100,000 keys, 200 queries, 50,000 values, Zipf.

    python benchmarks/measure.py [FACTS]

Prints the brackets, a line per method with its seconds, and the peak memory; then the ratio of the sparse exact rank to
a dense one on a table that NumPy can still hold; then what loading 10 million facts takes (benchmarks/load.py).
"""

from __future__ import annotations

import resource
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

from factrank.databases.generators.random_tables import zipf
from factrank.tensors.bounds.certified_bounds import RankBounds
from factrank.tensors.core.zero_one import ZeroOneTensor, flattening
from factrank.tensors.matrix.matrix_ranks import matrix_rank_bounds
from factrank.tensors.measurement import measure

GIB = 2**30 if sys.platform == "darwin" else 2**20


def show(name: str, bounds: RankBounds) -> None:
    print(f"{name}: {bounds.lower.value:,} ({bounds.lower.method}) to {bounds.upper.value:,} ({bounds.upper.method})")
    for bound in bounds.tried:
        print(f"  {bound.method:<62} {bound.value:>13,} {bound.seconds:8.2f} s")
    for skipped in bounds.skipped:
        print(f"  {skipped.method:<62} {'skipped':>13}  {skipped.reason}")


def measure_large(n_facts: int) -> None:
    database = zipf(100_000, 200, 50_000, n_facts, seed=0)
    start = time.perf_counter()
    measurement = measure(database)
    seconds = time.perf_counter() - start
    for name, bounds in measurement.brackets.items():
        show(name.replace("_", " "), bounds)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / GIB
    print(f"{n_facts:,} facts, all of it: {seconds:.1f} s (budget 10 s), peak memory {peak:.2f} GiB")


def compare_with_dense() -> None:
    matrix = flattening(ZeroOneTensor.of(zipf(3_000, 20, 500, 30_000, seed=0)), 0)
    start = time.perf_counter()
    lower, upper = matrix_rank_bounds(matrix)
    sparse = time.perf_counter() - start
    dense_matrix = matrix.toarray().astype(np.float64)
    start = time.perf_counter()
    dense_rank = np.linalg.matrix_rank(dense_matrix)
    dense = time.perf_counter() - start
    print(f"key flattening {matrix.shape[0]:,} x {matrix.shape[1]:,}: rank {lower} to {upper}, NumPy {dense_rank}")
    print(f"seconds, dense NumPy / sparse certified: {dense / sparse:.0f}")


def main() -> None:
    measure_large(int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000)
    compare_with_dense()
    subprocess.run([sys.executable, Path(__file__).with_name("load.py")], check=True)


if __name__ == "__main__":
    main()
