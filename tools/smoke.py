"""A smoke test of the wheel: every file of the source is in it, and the main commands work.

    python tools/smoke.py    in an environment where the wheel is installed

Samples are measured, facts are written into a layer and proved, a study is trained and its report written, all in a
temporary folder. `make wheel` runs it on several versions of Python.
"""

from __future__ import annotations

import os
import platform
import subprocess
import sys
import tempfile
from pathlib import Path

COMMANDS = [
    "--version",
    "samples",
    "measure sample:astrid --budget 1 --chart sizes.svg",
    "construct sample:countries -o countries.safetensors --budget 1",
    "verify countries.safetensors sample:countries",
    "generate uniform --keys 6 --queries 3 --values 6 -o facts.parquet",
    "convert facts.parquet facts.ttl",
    "train facts.ttl --d-model 4 --heads 1 --d-qk 2 --d-vo 2 --seeds 2 --epochs 50",
    "explore countries.safetensors --budget 1 -o countries.html",
    "ls generators",
    "ls families --json",
    "study new width",
    "study run width.yaml",
]
SOURCE = Path(__file__).resolve().parents[1] / "src" / "factrank"


def main() -> None:
    """Run all of it; the first thing that fails ends it."""
    import factrank  # noqa: PLC0415

    place = Path(factrank.__file__)
    if "site-packages" not in place.parts:
        sys.exit(f"this is about an installed factrank; found {place}")
    for path in (path for path in SOURCE.rglob("*") if path.is_file() and "__pycache__" not in path.parts):
        name = path.relative_to(SOURCE)
        if not (place.parent / name).is_file() or (place.parent / name).read_bytes() != path.read_bytes():
            sys.exit(f"{name} is not in the wheel, or differs from the source")
    program = Path(sys.executable).with_name("factrank" + (".exe" if os.name == "nt" else ""))
    with tempfile.TemporaryDirectory() as folder:
        for command in COMMANDS:
            run = subprocess.run([program, *command.split()], cwd=folder, capture_output=True, text=True, check=False)
            if run.returncode:
                sys.exit(f"factrank {command}: exit code {run.returncode}\n{run.stdout}{run.stderr}")
        report = Path(folder, "factrank-store", "reports", "width-quick.html")
        if report.stat().st_size < 100_000:
            sys.exit(f"{report.name} is too small")
    print(f"factrank {factrank.__version__} works on Python {platform.python_version()}, {platform.platform()}")


if __name__ == "__main__":
    main()
