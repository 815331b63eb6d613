"""Hypothesis strategies: small tensors of every kind, and slow references for them."""

from itertools import product

import numpy as np
from hypothesis import strategies as st

from factrank.databases.database import Database
from factrank.databases.vocabulary import Vocabulary
from factrank.tensors.core.zero_one import ZeroOneTensor


@st.composite
def tensors(draw, *, functional=None, most=6, empty=True):
    """A 0/1 tensor with at most `most` slices per axis; facts in random order, empty and equal slices included."""
    shape = tuple(draw(st.integers(1, most)) for _ in range(3))
    if functional is None:
        functional = draw(st.booleans())
    if functional:
        cells = list(product(range(shape[0]), range(shape[1])))
        chosen = draw(st.lists(st.sampled_from(cells), unique=True, min_size=0 if empty else 1))
        facts = [(k, q, draw(st.integers(0, shape[2] - 1))) for k, q in chosen]
    else:
        cells = list(product(*(range(size) for size in shape)))
        facts = draw(st.lists(st.sampled_from(cells), unique=True, min_size=0 if empty else 1))
    return ZeroOneTensor(np.array(facts, dtype=np.int64).reshape(-1, 3), shape)


def as_database(tensor):
    """The database with this tensor. Tests make it, not strategies: run-time type checks draw random numbers."""
    keys, queries, values = (Vocabulary.numbered(p, n) for p, n in zip("kqv", tensor.shape, strict=True))
    return Database(tensor.coordinates.astype(np.int32), keys, queries, values)


def dense_rank(matrix):
    return int(np.linalg.matrix_rank(matrix)) if matrix.size else 0


def dense_flattening_rank(tensor, axis):
    return dense_rank(np.moveaxis(tensor.dense(), axis, 0).reshape(tensor.shape[axis], -1))
