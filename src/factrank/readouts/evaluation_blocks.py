"""Evaluation in blocks: what is asked of a model on many (key, query) pairs, in bounded memory and full precision.

A block is a fixed number of rows, so that one shape is compiled; the last block is padded by repeating its last row.
Results come back as NumPy arrays.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Protocol, runtime_checkable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PyTree, Shaped

from factrank.databases import Database
from factrank.errors import InputError

BLOCK_CELLS = 2**22
"""Numbers in the largest array of a block: 16 MiB in float32, a handful of which are alive at once."""


@runtime_checkable
class ReadsFacts(Protocol):
    """What a readout needs of a model: logits of (key, query) pairs, whatever kind of model it is."""

    @property
    def n_keys(self) -> int:
        """Number of key tokens."""

    @property
    def n_queries(self) -> int:
        """Number of query tokens."""

    @property
    def n_values(self) -> int:
        """Number of values to choose from."""

    def logits(self, keys: Int[Array, " n"], queries: Int[Array, " n"]) -> Float[Array, "n values"]:
        """The logits of a list of (key, query) pairs."""


Columns = Callable[[Int[np.ndarray, " rows"]], tuple[np.ndarray, ...]]
"""From row numbers to the columns of a block, so that nothing as long as all rows need exist."""


def in_blocks(
    compute: Callable[..., tuple[Array, ...]],
    model: PyTree,
    n_rows: int,
    columns: Columns,
    cells: int,
    option: int = 0,
) -> Iterator[tuple[slice, tuple[np.ndarray, ...]]]:
    """The results of compute(model, *columns, option) for all rows, a block at a time.

    Arguments:
        compute: traceable, one result row per row; a module-level function, so that it is compiled once.
        model: its first argument, with arrays.
        n_rows: how many rows there are.
        columns: gives the arguments of a block from its row numbers.
        cells: numbers per row in the largest array that `compute` makes.
        option: its last argument, a constant.
    """
    height = min(max(BLOCK_CELLS // max(cells, 1), 1), n_rows)
    height = 1 << max(height - 1, 0).bit_length()  # powers of two: databases of similar size share what is compiled
    for start in range(0, n_rows, height):
        stop = min(start + height, n_rows)
        block = columns(np.minimum(np.arange(start, start + height), n_rows - 1))
        with full_precision(model):
            results = _compiled(compute, model, tuple(jnp.asarray(column) for column in block), option)
            yielded = tuple(np.asarray(result)[: stop - start] for result in results)
        yield slice(start, stop), yielded


@eqx.filter_jit
def _compiled(
    compute: Callable[..., tuple[Array, ...]], model: PyTree, columns: tuple[Array, ...], option: int
) -> tuple[Array, ...]:
    return compute(model, *columns, option)


def full_precision(model: PyTree) -> ExitStack:
    """A context for evaluation: no shortened products, and 64-bit numbers where the model's weights are 64-bit."""
    stack = ExitStack()
    stack.enter_context(jax.default_matmul_precision("highest"))
    if any(getattr(leaf, "dtype", None) == np.float64 for leaf in jax.tree.leaves(model)):
        stack.enter_context(jax.enable_x64(True))
    return stack


def cells_per_pair(model: ReadsFacts) -> int:
    """Numbers that the forward pass holds per pair: the logits and, where there are heads, what each writes."""
    shape = getattr(model, "shape", None)
    if shape is None:
        return int(model.n_values)
    hidden = getattr(shape, "mlp_width", 0) or getattr(shape, "width", None) or 0  # of transformers, of memories
    return int(model.n_values + getattr(shape, "n_heads", 1) * shape.d_model + hidden)


def pairs(model: ReadsFacts) -> Columns:
    """The (key, query) of each row number, where the rows are all pairs in order."""
    n_queries = model.n_queries

    def columns(rows: Int[np.ndarray, " rows"]) -> tuple[np.ndarray, ...]:
        keys, queries = np.divmod(rows, n_queries)
        return keys.astype(np.int32), queries.astype(np.int32)

    return columns


def require_code(name: str, code: object, size: int) -> int:
    """A code as an integer, or an `InputError`; JAX would take one that does not exist for the last, silently."""
    if isinstance(code, bool) or not isinstance(code, int | np.integer) or not 0 <= code < size:
        raise InputError(f"the {name} is a code from 0 to {size - 1}, an integer; got {code!r}")
    return int(code)


def require_pairs(model: ReadsFacts, keys: Shaped[np.ndarray, " n"], queries: Shaped[np.ndarray, " n"]) -> None:
    """An `InputError` unless these are codes of keys and queries."""
    for name, codes, size in (("keys", keys, model.n_keys), ("queries", queries, model.n_queries)):
        integers = codes.dtype.kind in "iu"
        if len(codes) and not (integers and codes.min() >= 0 and codes.max() < size):
            got = f"{codes.min()} to {codes.max()}" if integers else f"numbers of type {codes.dtype}"
            raise InputError(f"the {name} are codes from 0 to {size - 1}, integers; got {got}")


def require_match(model: ReadsFacts, database: Database) -> None:
    """An `InputError` unless the codes of the database are the tokens of the model."""
    sizes = model.n_keys, model.n_queries, model.n_values
    if sizes != database.shape:
        of_model, of_database = ("{} keys, {} queries, {} values".format(*s) for s in (sizes, database.shape))
        raise InputError(f"the layer is made for {of_model}, the database has {of_database}")
