"""Hostile arrays: .npy files of any type, shape and content, and broken ones."""

from __future__ import annotations

import io
from pathlib import Path
from random import Random

import numpy as np

from fuzz.hostile import NUMBERS, changed_bytes

TYPES = ["f4", "f8", "f2", "i4", "i8", "u1", "?", "c16", "U3", "M8[s]", "V4", ">f8", *["f8"] * 12]
SHAPES = [
    (),
    (0,),
    (3,),
    (5, 4),
    (4, 3, 6),
    (2, 0, 3),
    (1, 1, 1),
    (2, 2, 2, 2),
    (12, 8),
    *[(5, 4), (4, 3, 6), (12, 8), (9, 2, 12)] * 3,
]


def make(random: Random, folder: Path) -> list[str]:
    """A file of vectors, and the command that checks them."""
    shape, kind = random.choice(SHAPES), random.choice(TYPES)
    drawn = np.random.default_rng(random.randrange(2**32)).normal(size=shape)
    with np.errstate(all="ignore"):
        array = drawn.astype(kind) if kind != "V4" else np.zeros(shape, kind)
        if array.dtype.kind in "fc" and array.size and random.random() < 0.4:
            array.flat[random.randrange(array.size)] = np.array(random.choice(NUMBERS), "f8").astype(array.dtype)
    stream = io.BytesIO()
    np.save(stream, array)
    content = stream.getvalue()
    if random.random() < 0.25:
        content = changed_bytes(random, content)
    elif random.random() < 0.1:
        content = content.replace(b"(", b"(99999999999, ", 1)
    path = folder / "vectors.npy"
    path.write_bytes(content)
    options = random.choice([[], ["--with-mean"], ["--query", "all"], ["--context-size", "2"], ["--json"]])
    return ["assumptions", str(path), "--subsets", "5", *options]
