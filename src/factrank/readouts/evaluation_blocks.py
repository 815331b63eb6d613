"""Evaluate a model on many (key, query) pairs in blocks, with bounded memory and full precision.

All blocks have the same number of rows, so only one shape is compiled; the last block is padded by repeating its last
row. Results are NumPy arrays.
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
"""Entries of the largest array of a block: 16 MiB in float32, and a few such arrays exist at a time."""


@runtime_checkable
class ReadsFacts(Protocol):
    """A model that computes logits of (key, query) pairs."""

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
        """Return the logits of a list of (key, query) pairs."""


Columns = Callable[[Int[np.ndarray, " rows"]], tuple[np.ndarray, ...]]
"""Maps row numbers to the columns of a block, so no array needs to be as long as all rows."""


def in_blocks(
    compute: Callable[..., tuple[Array, ...]],
    model: PyTree,
    n_rows: int,
    columns: Columns,
    cells: int,
    option: int = 0,
) -> Iterator[tuple[slice, tuple[np.ndarray, ...]]]:
    """Yield the results of compute(model, *columns, option) for all rows, one block at a time.

    Arguments:
        compute: Traceable function that returns one row per input row. Use a module-level function, to compile it once.
        model: First argument of `compute`, a pytree of arrays.
        n_rows: Number of rows.
        columns: Returns the arguments of a block, given its row numbers.
        cells: Entries per row of the largest array in `compute`.
        option: Last argument of `compute`, a constant.

    Yields:
        The rows of the block as a slice, and the results for them.
    """
    height = min(max(BLOCK_CELLS // max(cells, 1), 1), n_rows)
    height = 1 << max(height - 1, 0).bit_length()  # powers of two, to reuse compiled code for databases of similar size
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
    """Return a context without reduced-precision products, and with 64-bit arithmetic if the weights are 64-bit."""
    stack = ExitStack()
    stack.enter_context(jax.default_matmul_precision("highest"))
    if any(getattr(leaf, "dtype", None) == np.float64 for leaf in jax.tree.leaves(model)):
        stack.enter_context(jax.enable_x64(True))
    return stack


def cells_per_pair(model: ReadsFacts) -> int:
    """Return the entries that the forward pass keeps per pair: the logits, head outputs and hidden units."""
    shape = getattr(model, "shape", None)
    if shape is None:
        return int(model.n_values)
    hidden = getattr(shape, "mlp_width", 0) or getattr(shape, "width", None) or 0  # of transformers, of memories
    return int(model.n_values + getattr(shape, "n_heads", 1) * shape.d_model + hidden)


def pairs(model: ReadsFacts) -> Columns:
    """Return the `Columns` that enumerate every (key, query) pair in order."""
    n_queries = model.n_queries

    def columns(rows: Int[np.ndarray, " rows"]) -> tuple[np.ndarray, ...]:
        keys, queries = np.divmod(rows, n_queries)
        return keys.astype(np.int32), queries.astype(np.int32)

    return columns


def require_code(name: str, code: object, size: int) -> int:
    """Return a code as an integer, or raise `InputError` if it is out of range, which JAX would silently clamp."""
    if isinstance(code, bool) or not isinstance(code, int | np.integer) or not 0 <= code < size:
        raise InputError(f"the {name} must be an integer code from 0 to {size - 1}; got {code!r}")
    return int(code)


def require_pairs(model: ReadsFacts, keys: Shaped[np.ndarray, " n"], queries: Shaped[np.ndarray, " n"]) -> None:
    """Raise `InputError` unless all keys and queries are valid codes."""
    for name, codes, size in (("keys", keys, model.n_keys), ("queries", queries, model.n_queries)):
        integers = codes.dtype.kind in "iu"
        if len(codes) and not (integers and codes.min() >= 0 and codes.max() < size):
            got = f"{codes.min()} to {codes.max()}" if integers else f"numbers of type {codes.dtype}"
            raise InputError(f"the {name} must be integer codes from 0 to {size - 1}; got {got}")


def require_match(model: ReadsFacts, database: Database) -> None:
    """Raise `InputError` unless the model and the database have the same numbers of keys, queries and values."""
    sizes = model.n_keys, model.n_queries, model.n_values
    if sizes != database.shape:
        of_model, of_database = ("{} keys, {} queries, {} values".format(*s) for s in (sizes, database.shape))
        raise InputError(f"the layer has {of_model}, but the database has {of_database}")
