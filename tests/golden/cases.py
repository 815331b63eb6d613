"""Case: something that is computed and compared, and the plain data that results are turned into."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, is_dataclass
from functools import cache
from typing import Any

import numpy as np

import factrank
from golden import doors

Plain = Any
"""Dictionaries, lists, text, numbers, None."""


@dataclass(frozen=True)
class Case:
    """What computes the result, whether the suite compares it too, and by how much its numbers may differ.

    A tolerance of 0 means equal bits, otherwise |a - b| <= tolerance * max(1, |a|, |b|).
    """

    make: Callable[[], Plain]
    quick: bool = False
    tolerance: float = 0.0


Cases = Mapping[str, Case]


def plain(value: Any) -> Plain:
    """The value as plain data; a dataclass by its fields."""
    if is_dataclass(value) and not isinstance(value, type):
        return plain(asdict(value))
    if isinstance(value, Mapping):
        return {str(name): plain(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, np.ndarray):
        return plain(value.tolist())
    if isinstance(value, np.generic):
        return value.item()
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise TypeError(f"no plain data: {type(value).__name__}")


def refusal_or(compute: Callable[[], Plain]) -> Plain:
    """The result, or the message of the error that refuses it."""
    try:
        return compute()
    except factrank.FactrankError as error:
        return {"refused": str(error)}


def weights_of(model: Any) -> Plain:
    """Each part of a model by its size, its norm, its sum along a fixed wave, and its first entries."""
    return {name: _part(np.asarray(part)) for name, part in sorted(doors.to_arrays(model).items())}


def digest_of(model: Any) -> str:
    """SHA-256 of all weights."""
    digest = hashlib.sha256()
    for name, part in sorted(doors.to_arrays(model).items()):
        digest.update(f"{name} {part.dtype.name} {list(part.shape)}\n".encode())
        digest.update(np.ascontiguousarray(part).tobytes())
    return digest.hexdigest()


def _part(array: np.ndarray) -> Plain:
    flat = array.astype(np.float64).ravel()
    wave = np.cos(np.arange(flat.size))
    scale = max(1.0, float(np.abs(flat).sum()))  # a sum of many numbers is as exact as they are together
    return {
        "type": f"{array.dtype.name}{list(array.shape)}",
        "norm": float(np.sqrt((flat * flat).sum())),
        "along": float((flat * wave).sum()) / scale,
        "first": flat[:3].tolist(),
    }


@cache
def databases() -> dict[str, factrank.Database]:
    """Small tables of every kind by name: full, sparse, structured, set-valued, of known rank, the smallest."""
    made = {
        "astrid": factrank.sample("astrid"),
        "one fact": factrank.Database.from_facts([("a", "b", "c")]),
        "two facts": factrank.Database.from_facts([("Oslo", "country", "Norway"), ("Lima", "country", "Peru")]),
        "shared names": factrank.Database.from_facts([("a", "b", "x"), ("b", "a", "y"), ("a", "a", "x")]),
        "sets": factrank.Database.from_facts(
            [("a", "q", "x"), ("a", "q", "y"), ("b", "q", "x"), ("b", "r", "z"), ("c", "r", "y"), ("c", "r", "z")],
            multi=True,
        ),
        "two kinds": _two_kinds(),
        "constant": factrank.Database.from_facts([(f"k{key}", "q", "x") for key in range(3)]),
    }
    generated: dict[str, tuple[str, dict[str, Any]]] = {
        "uniform": ("uniform", {"n_keys": 6, "n_queries": 3, "n_values": 5, "seed": 0}),
        "sparse": ("uniform", {"n_keys": 9, "n_queries": 4, "n_values": 7, "n_facts": 20, "seed": 1}),
        "disjoint": ("disjoint", {"n_keys": 6, "n_queries": 3, "values_per_query": 4, "seed": 0}),
        "structured": ("structured", {"n_keys": 8, "n_queries": 3, "values_per_query": 4, "n_classes": 3, "seed": 0}),
        "bijections": ("bijections", {"n_keys": 5, "n_queries": 3, "seed": 0}),
        "zipf": ("zipf", {"n_keys": 12, "n_queries": 4, "n_values": 9, "n_facts": 24, "exponent": 1.0, "seed": 0}),
        "associations": ("associations", {"n_inputs": 8, "n_outputs": 5, "kind": "random", "seed": 0}),
        "answer sets": ("answer-sets", {"n_keys": 6, "n_queries": 3, "answers_per_query": 3, "seed": 0}),
        "boxes": ("boxes", {"shapes": [[2, 1], [1, 3], [2, 2]], "seed": 0}),
        "overlapping boxes": ("overlapping-boxes", {"n_keys": 6, "n_queries": 5, "rank": 3, "seed": 0}),
        "unit": ("unit", {"n": 4}),
        "matmul": ("matmul", {"n": 2}),
        "w-state": ("w-state", {}),
        "diagonal": ("diagonal", {"n": 4}),
        "diagonal2": ("diagonal2", {"n": 4}),
    }
    return made | {name: factrank.generate(kind, **sizes) for name, (kind, sizes) in generated.items()}


def _two_kinds() -> factrank.Database:
    """Three queries with one of six values, one with two or three of nine others: parts want different closed forms."""
    rng = np.random.default_rng(0)
    facts = [(f"k{key}", f"q{query}", f"v{rng.integers(6)}") for key in range(15) for query in range(3)]
    sets = [rng.choice(9, size=2 + key % 2, replace=False) for key in range(15)]
    facts += [(f"k{key}", "several", f"w{value}") for key, values in enumerate(sets) for value in values]
    return factrank.Database.from_facts(facts, multi=True)
