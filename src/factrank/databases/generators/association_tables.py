"""Associations: a function from inputs to outputs as a database with one query."""

from __future__ import annotations

from typing import Literal

import numpy as np

from factrank.databases.database import Database
from factrank.databases.generators.random_tables import require_positive, stream
from factrank.databases.vocabulary import Vocabulary
from factrank.errors import InputError


def associations(
    n_inputs: int, n_outputs: int, *, kind: Literal["injective", "random"] = "injective", seed: int
) -> Database:
    r"""A random function from inputs to outputs, for an associative memory.

    $f: [N] \to [M]$ has keys i0, i1, ..., one query f, and values o0, o1, ...

    injective: a uniform injection, which needs M >= N; random: every input has an independent uniform output. Outputs
    that no input has stay in the vocabulary, because a memory has to tell them apart from the right ones.

    >>> associations(4, 6, seed=1)
    Database(4 facts: 4 keys x 1 queries -> 6 values, functional, full)
      (i0, f, o0)
      (i1, f, o5)
      (i2, f, o3)
      ...
    """
    require_positive("associations", n_inputs=n_inputs, n_outputs=n_outputs)
    if kind not in ("injective", "random"):
        raise InputError(f"associations: kind must be one of injective, random, got {kind!r}")
    rng = stream("associations", seed)
    if kind == "random":
        outputs = rng.integers(n_outputs, size=n_inputs)
    elif n_inputs > n_outputs:
        raise InputError(f"associations: an injection needs n_outputs >= n_inputs = {n_inputs}, got {n_outputs}")
    else:
        outputs = rng.permutation(n_outputs)[:n_inputs]
    triples = np.column_stack([np.arange(n_inputs), np.zeros(n_inputs, dtype=np.int64), outputs])
    inputs, values = Vocabulary.numbered("i", n_inputs), Vocabulary.numbered("o", n_outputs)
    return Database(triples, inputs, Vocabulary(["f"]), values)
