"""The long form of the fuzzers: as many inputs as you like, from a seed.

    python tests/fuzz/long_form.py [--seed N] [--count N] [--only KIND] [--keep FOLDER]

Inputs are tried in processes of their own, a few hundred in each, so that a crash is a failure like any other. An input
that fails stays in the folder, and its path, its command and the complaint are printed; the exit code is then 1.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve()
sys.path.insert(0, str(HERE.parents[1]))

from fuzz.kinds import KINDS  # noqa: E402 - the folder of tests has to be known first
from fuzz.runner import try_input  # noqa: E402

AT_ONCE = 200
LONGEST_INPUT = 120
"""Seconds for one input."""


def main() -> int:
    """Try inputs of every kind; 1 if any fails."""
    options = _options()
    if options.part is not None:
        return _try_part(options.only, options.seed, *options.part, options.keep)
    keep = options.keep or Path(tempfile.mkdtemp(prefix="factrank-fuzz-"))
    n_failed = 0
    for name, kind in KINDS.items():
        if options.only in (None, name):
            count = options.count if options.only else round(options.count * kind.share)
            failed = sum(
                _part(name, options.seed, at, min(at + AT_ONCE, count), keep) for at in range(0, count, AT_ONCE)
            )
            print(f"{name}: {count:,} inputs, {failed} failed", flush=True)
            n_failed += failed
    print(
        f"seed {options.seed}: " + (f"{n_failed} inputs failed and are kept in {keep}" if n_failed else "all is well")
    )
    return 1 if n_failed else 0


def _part(name: str, seed: int, start: int, end: int, keep: Path) -> int:
    """Try some inputs in a process of its own; a new one goes on behind an input that ends it."""
    failed = 0
    while start < end:
        part = ["--only", name, "--seed", str(seed), "--keep", str(keep), "--part", str(start), str(end)]
        done = subprocess.run([sys.executable, str(HERE), *part], check=False)
        if done.returncode >= 0 and done.returncode <= AT_ONCE:
            return failed + done.returncode
        at = int((keep / "current").read_text())
        print(f"{keep / f'{name}-{seed}-{at}'}: the process ended with {done.returncode}", flush=True)
        failed, start = failed + 1, at + 1
    return failed


def _try_part(name: str, seed: int, start: int, end: int, keep: Path) -> int:
    """How many of these inputs fail."""
    failed = 0
    os.environ["FACTRANK_CACHE"] = str(keep / "cache")
    keep.mkdir(parents=True, exist_ok=True)
    for number in range(start, end):
        (keep / "current").write_text(str(number))
        folder = keep / f"{name}-{seed}-{number}"
        shutil.rmtree(folder, ignore_errors=True)
        signal.alarm(LONGEST_INPUT)  # ends the process
        failure = try_input(KINDS[name].make, f"{seed} {name} {number}", folder)
        signal.alarm(0)
        if failure is None:
            shutil.rmtree(folder)
        else:
            failed += 1
            print(f"{folder}: factrank {failure.arguments}\n{failure.complaint}", flush=True)
    return failed


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--count", type=int, default=11_000)
    parser.add_argument("--only", choices=list(KINDS))
    parser.add_argument("--keep", type=Path)
    parser.add_argument("--part", type=int, nargs=2, help=argparse.SUPPRESS)
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
