"""What `measure` costs on a large database: a million facts, 100,000 keys, 200 queries, 50,000 values, Zipf.

    python benchmarks/measure.py [FACTS]

Prints the brackets, a line per method with its seconds, and the peak memory.
"""

from __future__ import annotations

import resource
import sys
import time

from factrank.databases import zipf
from factrank.tensors import RankBounds, measure


def show(name: str, bounds: RankBounds) -> None:
    print(f"{name}: {bounds.lower.value:,} ({bounds.lower.method}) to {bounds.upper.value:,} ({bounds.upper.method})")
    for bound in bounds.tried:
        print(f"  {bound.method:<60} {bound.value:>12,} {bound.seconds:8.2f} s")
    for skipped in bounds.skipped:
        print(f"  {skipped.method:<60} {'skipped':>12}  {skipped.reason}")


def main() -> None:
    n_facts = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    start = time.perf_counter()
    database = zipf(100_000, 200, 50_000, n_facts, seed=0)
    print(f"{database.n_facts:,} facts generated in {time.perf_counter() - start:.1f} s")
    start = time.perf_counter()
    measurement = measure(database)
    seconds = time.perf_counter() - start
    show("rank", measurement.rank)
    show("completion rank", measurement.completion_rank)
    show("effective rank", measurement.effective_rank)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(f"all of it: {seconds:.1f} s (budget 10 s), peak memory {peak:.2f} GiB")


if __name__ == "__main__":
    main()
