"""Ranks of WordNet, a graph of half a million facts: certified by `measure`, and every witness checked again.

    python benchmarks/wordnet.py [FOLDER] [--words] [--budget SECONDS]

FOLDER has the files data.noun, data.verb, data.adj and data.adv of WordNet 3.0, which the Debian package
`wordnet-base` installs in /usr/share/wordnet.

Keys are synsets. The facts are (synset, kind of pointer, synset) and, with each synset, its lexicographer file or, with
`--words`, its words. Exits with 1 if a witness is wrong, or if a method was skipped for lack of time.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from pathlib import Path

from factrank.databases import Database
from factrank.tensors import measure
from factrank.tensors.core import Core, ZeroOneTensor
from graphs import Fact, lower_holds, upper_holds

FOLDER = Path("/usr/share/wordnet")

PARTS = {"n": "noun", "v": "verb", "a": "adj", "s": "adj", "r": "adv"}
"""Part of speech of each letter; "s" is an adjective that has no antonym of its own."""

HEADER, POINTER = 2, 4
"""Fields of a word and of a pointer (wndb(5WN))."""

FOR_TIME = "of the budget"
"""The reasons of methods that were skipped for lack of time contain this."""


def facts_of(folder: Path, *, words: bool) -> Iterator[Fact]:
    """Yield the facts of the four data files; pointers between words count as pointers between their synsets."""
    for part in dict.fromkeys(PARTS.values()):
        path = folder / f"data.{part}"
        if not path.is_file():
            raise SystemExit(f"{path}: not found; FOLDER must have the data files of WordNet 3.0")
        for line in path.read_text(encoding="latin-1").splitlines():
            if line.startswith("  "):  # the licence
                continue
            offset, file, _, n_words, *fields = line.split("|")[0].split()
            synset, end = f"{part}:{offset}", HEADER * int(n_words, 16)
            if words:
                yield from ((synset, "word", word) for word in fields[:end:HEADER])
            else:
                yield synset, "file", file
            for at in range(end + 1, end + 1 + POINTER * int(fields[end]), POINTER):
                symbol, target, letter, _ = fields[at : at + POINTER]
                yield synset, symbol, f"{PARTS[letter]}:{target}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", type=Path, default=FOLDER)
    parser.add_argument("--words", action="store_true", help="words instead of lexicographer files")
    parser.add_argument("--budget", type=float, default=60.0, help="seconds (default: 60)")
    given = parser.parse_args()
    database = Database.from_facts(sorted(set(facts_of(given.folder, words=given.words))), multi=True)
    started, computed = time.perf_counter(), time.process_time()
    found = measure(database, given.budget)
    seconds, computed = time.perf_counter() - started, time.process_time() - computed
    sizes = f"{database.n_facts:,} facts, {database.n_keys:,} x {database.n_queries} x {database.n_values:,}"
    print(f"WordNet: {sizes}, measured in {seconds:.0f} s, {computed:.0f} s of computing")
    core, sound, complete = Core.of(ZeroOneTensor.of(database)), True, True
    ranks = {"rank": found.rank, "completion rank": found.completion_rank, "effective rank": found.effective_rank}
    for name, bounds in ranks.items():
        print(f"  {name} {bounds.bracket}; at least: {bounds.lower.method}; at most: {bounds.upper.method}")
        for skipped in bounds.skipped:
            late = FOR_TIME in skipped.reason
            complete &= not late
            print(f"    {'TOO LATE' if late else 'not run'}: {skipped.method}: {skipped.reason}")
    checks = {"least rank": lower_holds(found.rank, core), "largest rank": upper_holds(found.rank, database, core)}
    for name, words in checks.items():
        print(f"  {name}: {words}", flush=True)
        sound &= words != "WRONG"
    raise SystemExit(0 if sound and complete else 1)


if __name__ == "__main__":
    main()
