"""Hostile model files: memories, factual recall and memorisers, changed and sealed again with a valid checksum."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

import factrank
from factrank.experiments.models.constructed import Constructed
from factrank.experiments.models.model_files import FORMAT, VERSION
from factrank.nn.sealed_file import Sealed, read_sealed
from fuzz.layers import write_changed


def make(random: Random, folder: Path) -> list[str]:
    """A model file with a few changes, and a command that opens it."""
    path = folder / "model.safetensors"
    write_changed(random, path, random.choice(_originals()), FORMAT, VERSION)
    return [random.choice(["verify"] * 8 + ["ask", "edit"]), str(path)]


@cache
def _originals() -> list[Sealed]:
    with TemporaryDirectory() as folder:
        return [_sealed(made, Path(folder) / "model.safetensors") for made in _constructed()]


def _constructed() -> list[Constructed]:
    cities = factrank.Database.from_facts([("Oslo", "country", "Norway"), ("Lima", "country", "Peru")])
    sizes, shape = {"n_examples": 6, "context_size": 4, "d_input": 5, "n_contexts": 1}, factrank.MemoriserShape(2, 8, 4)
    return [
        factrank.construct_memory(cities, factrank.MemoryShape(4)),
        factrank.construct_factual_recall(cities, factrank.FactualRecallShape(16, 1, 1, 4, length=6)),
        factrank.solve(factrank.RandomExamples(**sizes), shape),
        factrank.solve(factrank.VectorExamples.of([[1.0, 0.0], [0.0, 1.0]], [[1.0, 2.0], [3.0, 5.0]], [0, 1]), shape),
    ]


def _sealed(made: Constructed, path: Path) -> Sealed:
    made.save(path)
    return read_sealed(path, FORMAT, VERSION)
