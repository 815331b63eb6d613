"""How fast, and with how much memory, a large file of facts is loaded.

    python benchmarks/load.py [TRIPLES]

Writes TRIPLES facts (10,000,000 unless told) over 100,000 keys, 200 queries and 50,000 values, in random order, as CSV
and as Parquet; then loads each with `factrank.databases.read` and, as the baseline, with polars. Polars only parses;
factrank also codes, sorts and checks the facts. Peak memory is the largest resident size of the loading process.

Every step runs in a process of its own, and this one stays small: on Linux a new process begins with the peak of the
process that starts it. For the same reason each step imports what it needs itself.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sized
from pathlib import Path

N_KEYS, N_QUERIES, N_VALUES = 100_000, 200, 50_000
MIB = 2**20
BYTES_PER_UNIT = 1 if sys.platform == "darwin" else 1024
FILES = ("facts.csv", "facts.parquet")


def write_facts(folder: Path, n_triples: int) -> None:
    import numpy as np
    import polars as pl

    random = np.random.default_rng(0)
    fibers = random.choice(N_KEYS * N_QUERIES, size=n_triples, replace=False, shuffle=True)
    codes = {
        "key": fibers // N_QUERIES,
        "query": fibers % N_QUERIES,
        "value": random.integers(N_VALUES, size=n_triples),
    }
    sizes = {"key": N_KEYS, "query": N_QUERIES, "value": N_VALUES}
    names = {column: pl.Series([f"{column}_{i:06}" for i in range(size)]) for column, size in sizes.items()}
    facts = pl.DataFrame({column: names[column].gather(codes[column]) for column in sizes})
    facts.write_csv(folder / FILES[0])
    facts.write_parquet(folder / FILES[1])


def factrank_loader() -> Callable[[Path], Sized]:
    from factrank.databases.files.formats import read

    return read


def polars_loader() -> Callable[[Path], Sized]:
    import polars as pl

    return lambda path: pl.read_csv(path) if path.suffix == ".csv" else pl.read_parquet(path)


LOADERS = {"factrank": factrank_loader, "polars": polars_loader}


def peak_mib() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * BYTES_PER_UNIT / MIB


def load(loader: str, path: Path) -> None:
    """Load one file in this process and print what it took."""
    loaded_by = LOADERS[loader]()
    imports = peak_mib()
    start = time.perf_counter()
    facts = loaded_by(path)
    seconds = time.perf_counter() - start
    print(json.dumps({"seconds": seconds, "peak": peak_mib(), "imports": imports, "facts": len(facts)}))


def in_new_process(*arguments: object) -> str:
    command = [sys.executable, __file__, *map(str, arguments)]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def compare(path: Path, n_triples: int) -> None:
    kind = path.suffix.lstrip(".")
    size = path.stat().st_size / MIB
    print(f"{kind} file size: {size:.0f} MiB")
    found = {loader: json.loads(in_new_process("--load", loader, path)) for loader in LOADERS}
    for loader, taken in found.items():
        if taken["facts"] != n_triples:
            raise SystemExit(f"{loader} loaded {taken['facts']} of {n_triples} facts")
        print(f"{kind} {loader} seconds: {taken['seconds']:.2f}")
        print(f"{kind} {loader} peak memory: {taken['peak']:.0f} MiB, {taken['imports']:.0f} of them after the imports")
        print(f"{kind} {loader} peak memory / file size: {taken['peak'] / size:.1f}")
    for quantity in ("seconds", "peak"):
        print(f"{kind} {quantity}, factrank / polars: {found['factrank'][quantity] / found['polars'][quantity]:.2f}")


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure the loading of a large file of facts.")
    parser.add_argument("triples", nargs="?", type=int, default=10_000_000, help="number of facts (10,000,000)")
    parser.add_argument("--load", nargs=2, metavar=("LOADER", "PATH"), help=argparse.SUPPRESS)
    parser.add_argument("--write", metavar="FOLDER", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.load:
        load(arguments.load[0], Path(arguments.load[1]))
    elif arguments.write:
        write_facts(Path(arguments.write), arguments.triples)
    else:
        with tempfile.TemporaryDirectory() as folder:
            in_new_process(arguments.triples, "--write", folder)
            for name in FILES:
                compare(Path(folder, name), arguments.triples)


if __name__ == "__main__":
    main()
