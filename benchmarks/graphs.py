"""Ranks of public knowledge graphs: certified by `measure`, and every witness checked again by independent code.

    python benchmarks/graphs.py [FOLDER] [--budget SECONDS] [--graph nations]

FOLDER is a checkout or an unpacked source distribution of PyKEEN, which contains Nations, UMLS and Kinships. Without
it, the newest source distribution is fetched into a temporary folder; nothing of it is installed or run. Train,
validation and test triples together are the graph.

The check of an effective rank multiplies the terms in plain Python integers and compares, in every valid fiber, each
value of the fiber with each other value. Lower bounds are counted again from the facts.
"""

from __future__ import annotations

import argparse
import io
import re
import subprocess
import sys
import tarfile
import tempfile
import time
import urllib.parse
import urllib.request
from pathlib import Path

from factrank.databases import Database
from factrank.tensors import Measurement, measure
from factrank.tensors.bounds import RankBounds
from factrank.tensors.bounds.certified_bounds import LowerWitness
from factrank.tensors.core import Core, Decomposition, ZeroOneTensor
from factrank.tensors.cp import IntervalProof, ProjectedProof

INDEX = "https://pypi.org/simple"

SPLITS = ("train.txt", "valid.txt", "test.txt")

ROWS = (
    ("Nations", "nations", (0, 1, 2), 174, 15),
    ("UMLS", "umls", (0, 1, 2), 280, 12),
    ("Kinships", "kinships", (0, 1, 2), 969, 25),
    ("Kinships as (head, tail) -> relation", "kinships", (0, 2, 1), 84, 25),
)
"""Name, folder, columns as key, query and value, the bound on the effective rank before, and the aim."""

Fact = tuple[str, str, str]


def facts_of(folder: Path, columns: tuple[int, int, int]) -> list[Fact]:
    """The distinct facts of a graph, with its columns as key, query and value."""
    lines = [line for split in SPLITS for line in (folder / split).read_text(encoding="utf-8").splitlines()]
    rows = sorted({tuple(line.split("\t")) for line in lines if line.strip()})
    first, second, third = columns
    return [(row[first], row[second], row[third]) for row in rows]


def fetched(into: Path) -> Path:
    """The newest source distribution of PyKEEN on the index that pip uses: only its data files are unpacked."""
    command = [sys.executable, "-m", "pip", "config", "get", "global.index-url"]
    asked = subprocess.run(command, check=False, capture_output=True, text=True)
    page = f"{asked.stdout.strip().rstrip('/') or INDEX}/pykeen/"
    with urllib.request.urlopen(page) as answer:
        links = re.findall(r'href="([^"]+/pykeen-([0-9.]+)\.tar\.gz)[^"]*"', answer.read().decode())
    if not links:
        raise SystemExit(f"{page}: no source distribution of pykeen; give the folder of a checkout")
    link, _ = max(links, key=lambda found: [int(part) for part in found[1].split(".")])
    with urllib.request.urlopen(urllib.parse.urljoin(page, link)) as answer:
        content = io.BytesIO(answer.read())
    with tarfile.open(fileobj=content) as archive:
        members = [member for member in archive if "/datasets/" in member.name and member.name.endswith(SPLITS)]
        archive.extractall(into, members=members, filter="data")
    return into


def dataset(folder: Path, name: str) -> Path:
    found = sorted(folder.glob(f"**/datasets/{name}/train.txt"))
    if not found:
        raise SystemExit(f"{folder}: no folder datasets/{name} with {', '.join(SPLITS)}; give a checkout of PyKEEN")
    return found[0].parent


def recalls(terms: Decomposition, database: Database) -> bool:
    """Whether each value of every fiber exceeds all others: plain Python integers, one fiber at a time."""
    scale = 1
    for denominator in terms.denominators.tolist():
        scale *= int(denominator)
    rows: list[dict[int, dict[int, int]]] = []
    for factor in terms.factors:
        entries: dict[int, dict[int, int]] = {}
        for index, term, weight in zip(
            factor.index.tolist(), factor.term.tolist(), factor.weight.tolist(), strict=True
        ):
            of_index = entries.setdefault(index, {})
            of_index[term] = of_index.get(term, 0) + int(weight)
        rows.append(entries)
    sets: dict[tuple[int, int], set[int]] = {}
    for key, query, value in database.triples.tolist():
        sets.setdefault((key, query), set()).add(value)
    whole = [scale // int(denominator) for denominator in terms.denominators.tolist()]
    for (key, query), values in sets.items():
        on_key, on_query = rows[0].get(key, {}), rows[1].get(query, {})
        both = {term: whole[term] * x * on_query[term] for term, x in on_key.items() if term in on_query}
        logits = []
        for value in range(database.n_values):
            on_value = rows[2].get(value, {})
            logits.append(sum(x * on_value[term] for term, x in both.items() if term in on_value))
        rivals = [x for value, x in enumerate(logits) if value not in values]
        if rivals and min(logits[value] for value in values) <= max(rivals):
            return False
    return True


def upper_holds(bounds: RankBounds, database: Database, core: Core) -> str:
    """Says how the witness of an upper bound on the rank was checked."""
    witness = bounds.upper.witness
    if isinstance(witness, IntervalProof | ProjectedProof):
        return "proof repeated" if witness.verify(core.tensor) else "WRONG"
    if callable(witness):
        return "multiplied out" if witness().equals(ZeroOneTensor.of(database)) else "WRONG"
    return "no witness"


def lower_holds(bounds: RankBounds, core: Core) -> str:
    witness = bounds.lower.witness
    if not isinstance(witness, LowerWitness):
        return "by its argument"
    return "counted again" if witness.recompute(core.tensor) >= bounds.lower.value else "WRONG"


def effective_holds(measurement: Measurement, database: Database) -> str:
    witness = measurement.effective_rank.upper.witness
    if not callable(witness):
        return "no terms"
    terms = witness()
    right = terms.n_terms == measurement.effective_rank.upper.value and recalls(terms, database)
    return "every fiber checked" if right else "WRONG"


def show(name: str, facts: list[Fact], before: int, aim: int, budget: float) -> bool:
    database = Database.from_facts(facts, multi=True)
    start = time.perf_counter()
    found = measure(database, budget)
    seconds = time.perf_counter() - start
    core = Core.of(ZeroOneTensor.of(database))
    sizes = f"{database.n_facts:,} facts, {database.n_keys} x {database.n_queries} x {database.n_values}"
    print(f"{name}: {sizes}, measured in {seconds:.0f} s")
    effective, rank = found.effective_rank, found.rank
    checks = [lower_holds(effective, core), effective_holds(found, database)]
    print(f"  effective rank {effective.bracket}; before: at most {before}; aim: at most {aim}")
    print(f"    at least: {effective.lower.method} ({checks[0]}); at most: {effective.upper.method} ({checks[1]})")
    checks.append(upper_holds(rank, database, core))
    estimate = f"; {rank.estimate.value} numerically" if rank.estimate else ""
    print(f"  rank {rank.bracket}{estimate}; at most: {rank.upper.method} ({checks[2]})")
    for skipped in (*rank.skipped, *found.completion_rank.skipped, *effective.skipped):
        print(f"    without result: {skipped.method}: {skipped.reason}", flush=True)
    return "WRONG" not in checks and effective.upper.value <= aim


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", type=Path)
    parser.add_argument("--budget", type=float, default=60.0, help="seconds for each graph (default: 60)")
    kinds = sorted({kind for _, kind, *_ in ROWS})
    parser.add_argument("--graph", action="append", choices=kinds, help="only this graph; repeatable")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = arguments.folder or fetched(Path(temporary))
        reached = [
            show(name, facts_of(dataset(folder, kind), columns), before, aim, arguments.budget)
            for name, kind, columns, before, aim in ROWS
            if kind in (arguments.graph or kinds)
        ]
    raise SystemExit(0 if all(reached) else 1)


if __name__ == "__main__":
    main()
