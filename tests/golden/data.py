"""The recorded data on disk, the topics that they belong to, and how a case is computed and judged here."""

from __future__ import annotations

import gzip
import json
from functools import cache
from importlib import import_module
from importlib.metadata import version
from pathlib import Path

from llvmlite.binding import get_host_cpu_name
from threadpoolctl import threadpool_limits

from golden.cases import Case, Cases, Plain
from golden.compare import COARSE

DATA = Path(__file__).with_name("data")
TOPICS = ("trials", "training", "layers", "readers", "sizes", "commands")
VERSIONS = ("jax", "numba", "numpy", "scipy", "typer", "rich")
MACHINE = "machine.json"


@cache
def cases_of(topic: str) -> Cases:
    """The cases of a topic by name."""
    found: Cases = import_module(f"golden.{topic}").cases()
    return found


def compute(case: Case) -> Plain:
    """The result as it will be read back, computed with one thread of linear algebra; an error is a result, too."""
    with threadpool_limits(1, user_api="blas"):
        try:
            return json.loads(json.dumps(case.make()))
        except Exception as error:  # whatever it is, the other cases are compared
            return {"raised": f"{type(error).__name__}: {error}"}


@cache
def recorded(topic: str) -> dict[str, Plain]:
    """The recorded results of a topic by case."""
    path = DATA / f"{topic}.json.gz"
    return dict(json.loads(gzip.decompress(path.read_bytes()))) if path.exists() else {}


def write(topic: str, results: dict[str, Plain], *, whole: bool) -> None:
    """Replace the recorded results of a topic, or those of some of its cases, by bytes that depend on these alone."""
    merged = results if whole else recorded(topic) | results
    lines = [f"{json.dumps(name)}: {json.dumps(merged[name], sort_keys=False)}" for name in sorted(merged)]
    text = "{\n" + ",\n".join(lines) + "\n}\n"
    DATA.mkdir(exist_ok=True)
    (DATA / f"{topic}.json.gz").write_bytes(gzip.compress(text.encode(), mtime=0))
    (DATA / MACHINE).write_text(json.dumps(machine(), indent=1) + "\n")
    recorded.cache_clear()


def machine() -> dict[str, str]:
    """What the last bits depend on."""
    return {"processor": get_host_cpu_name(), **{package: version(package) for package in VERSIONS}}


@cache
def is_same_machine() -> bool:
    """Whether the data were recorded on this kind of machine with these versions."""
    return bool(json.loads((DATA / MACHINE).read_text()) == machine())


def tolerance_here(case: Case) -> float:
    """By how much the numbers of a case may differ here; on another machine libraries add in another order."""
    return case.tolerance if is_same_machine() else max(case.tolerance, COARSE)
