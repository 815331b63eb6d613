"""Record the golden results, or compare them with what the package computes now.

    python tests/golden/record.py [--check] [--only TOPIC[/CASE] ...] [--slow SECONDS]

Recording replaces the data of the topics that it runs. `--check` writes nothing, prints every field that differs, and
exits with 1 if there is one. `--only layers` runs one topic, `--only "layers/astrid parabola"` one case of it.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
QUICK_TO_COMPILE = (
    "--xla_backend_optimization_level=0",
    "--xla_cpu_use_fusion_emitters=false",
    "--xla_cpu_parallel_codegen_split_count=1",
)
"""What the suite compiles with, too: recording takes a quarter of the time."""

if __name__ == "__main__":
    sys.path[:0] = [str(ROOT / "src"), str(ROOT / "tests")]
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    os.environ.setdefault("XLA_FLAGS", " ".join(QUICK_TO_COMPILE))

from golden.cases import Case, Plain  # noqa: E402 - the folders have to be known first
from golden.compare import differences  # noqa: E402
from golden.data import TOPICS, cases_of, compute, recorded, tolerance_here, write  # noqa: E402


def main() -> int:
    """Record or compare; 1 if something differs."""
    options = _options()
    n_different = n_cases = 0
    with tempfile.TemporaryDirectory(prefix="factrank-golden-") as cache:
        os.environ.setdefault("FACTRANK_CACHE", cache)
        for topic, cases in _chosen(options.only):
            since = time.perf_counter()
            results: dict[str, Plain] = {}
            for name, case in cases.items():
                begun = time.perf_counter()
                results[name] = compute(case)
                taken = time.perf_counter() - begun
                if results[name] is not None and "raised" in results[name]:
                    print(f"{topic}/{name}: {results[name]['raised']}", flush=True)
                if taken >= options.slow:
                    print(f"{topic}/{name}: {taken:.1f} s", flush=True)
            if options.check:
                found = list(_differences(topic, cases, results, whole=topic in (options.only or TOPICS)))
                n_different += len(found)
                print(*found, sep="\n", end="\n" if found else "", flush=True)
            else:
                write(topic, results, whole=topic in (options.only or TOPICS))
            n_cases += len(cases)
            print(f"{topic}: {len(cases):,} cases in {time.perf_counter() - since:.0f} s", flush=True)
    if options.check:
        print(
            f"{n_cases:,} cases, {n_different:,} differences" if n_different else f"{n_cases:,} cases, all as recorded"
        )
    return 1 if n_different else 0


def _differences(topic: str, cases: dict[str, Case], results: dict[str, Plain], *, whole: bool) -> Iterator[str]:
    old = recorded(topic)
    for name, case in cases.items():
        if name not in old:
            yield f"{topic}/{name}: not recorded"
            continue
        for difference in differences(old[name], results[name], tolerance_here(case)):
            yield f"{topic}/{name}: {difference}"
    if whole:
        yield from (f"{topic}/{name}: recorded, and computed no more" for name in old if name not in cases)


def _chosen(only: list[str] | None) -> Iterator[tuple[str, dict[str, Case]]]:
    for topic in TOPICS:
        wanted = (
            None
            if only is None or topic in only
            else {one.partition("/")[2] for one in only if one.startswith(f"{topic}/")}
        )
        if wanted is None:
            yield topic, dict(cases_of(topic))
        elif wanted:
            yield topic, {name: cases_of(topic)[name] for name in wanted}


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="compare with the recorded results")
    parser.add_argument("--only", action="append", metavar="TOPIC[/CASE]", help=f"among {', '.join(TOPICS)}")
    parser.add_argument("--slow", type=float, default=5.0, help="print the time of cases that take so long")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
