"""Token ids: the embedding rows of keys and queries and the output columns of values, from names or from order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Int

from factrank.databases import COLUMNS, Column, Database, Vocabulary, close_names
from factrank.errors import InputError
from factrank.foreign_text import few, quoted

Ids = Int[np.ndarray, " n"]
Tokens = Any
"""Token id of every name: one mapping, or three items for keys, queries and values, each a mapping or a list of ids.

`token_ids` checks the types, so that a mistake is an `InputError`.
"""


class TokenIds(NamedTuple):
    """Embedding row of every key and query, and output column of every value, in the order of the codes."""

    keys: Ids
    queries: Ids
    values: Ids


class TokenTables(NamedTuple):
    """Number of embedding rows for keys and for queries, of outputs, and whether both embeddings are one table."""

    keys: int
    queries: int
    outputs: int
    shared: bool


def token_ids(tokens: Tokens, database: Database | None, sizes: TokenTables) -> TokenIds:
    """Return the ids of all keys, queries and values.

    Raises:
        InputError: a name has no id, an id is out of range or used twice, or the order is ambiguous.
    """
    if tokens is None:
        found = _in_order(database, sizes)
    else:
        by_axis = (tokens,) * 3 if isinstance(tokens, Mapping) else tokens
        if not isinstance(by_axis, tuple | list) or len(by_axis) != 3:
            raise InputError("tokens must be a mapping from names to ids, or three of them: keys, queries, values")
        vocabularies = (None,) * 3 if database is None else database.vocabularies
        found = TokenIds(*(_ids(*axis) for axis in zip(COLUMNS, by_axis, vocabularies, strict=True)))
    for column, ids, size in zip(COLUMNS, found, sizes[:3], strict=True):
        _require_in_range(column, ids, size)
    return found


def require_all_outputs(ids: TokenIds, n_outputs: int, other_outputs: str) -> None:
    """Raise an `InputError` if outputs that are not values would be dropped without permission."""
    if other_outputs not in ("refuse", "ignore"):
        raise InputError(f"other_outputs must be 'refuse' or 'ignore'; got {other_outputs!r}")
    if other_outputs == "refuse" and len(ids.values) < n_outputs:
        raise InputError(
            f"the model has {n_outputs:,} outputs, {len(ids.values):,} of them values of the database. Another output "
            "could have the largest logit: pass other_outputs='ignore' to compare the values only"
        )


def _in_order(database: Database | None, sizes: TokenTables) -> TokenIds:
    if database is None:
        raise InputError(
            "which tokens are keys, queries and values? Pass a database, or tokens=(keys, queries, values)"
        )
    n_keys, n_queries, n_values = database.shape
    n_tokens = n_keys + n_queries
    if sizes.shared:
        keys_fit = sizes.keys in (n_tokens, n_tokens + n_values)
        first_query = n_keys
    else:
        keys_fit = (sizes.keys, sizes.queries) == (n_keys, n_queries)
        first_query = 0
    all_tokens = sizes.shared and sizes.keys == sizes.outputs == n_tokens + n_values
    if not keys_fit or not (sizes.outputs == n_values or all_tokens):
        rows = f"{sizes.keys:,}" if sizes.shared else f"{sizes.keys:,} and {sizes.queries:,}"
        raise InputError(
            f"which tokens are keys, queries and values? The embedding has {rows} rows and the unembedding "
            f"{sizes.outputs:,} outputs, the database {n_keys:,} keys, {n_queries:,} queries and {n_values:,} values: "
            "pass tokens, the id of every name"
        )
    first_value = n_tokens if all_tokens else 0
    return TokenIds(
        np.arange(n_keys),
        np.arange(first_query, first_query + n_queries),
        np.arange(first_value, first_value + n_values),
    )


def _ids(column: Column, given: Any, names: Sequence[str] | None) -> Ids:
    ids: Any
    if isinstance(given, Mapping):
        if names is None:
            raise InputError(f"the ids of the {_many(column)} are given by name: pass the database too")
        missing = [name for name in names if name not in given]
        if missing:
            close = close_names(missing[0], Vocabulary(name for name in given if isinstance(name, str)))
            hint = f"; did you mean {few(close)}?" if close else ""
            raise InputError(f"no token for {len(missing):,} {_many(column)}: {few(missing)}{hint}")
        ids = [given[name] for name in names]
    else:
        ids = given.tolist() if hasattr(given, "tolist") else given
        if isinstance(ids, str) or not isinstance(ids, Sequence):
            raise InputError(
                f"the tokens of the {_many(column)} must be a mapping or a list of ids; got {quoted(given)}"
            )
        if names is not None and len(ids) != len(names):
            raise InputError(f"expected the tokens of {len(names):,} {_many(column)}; got {len(ids):,}")
    wrong = [one for one in ids if not _is_id(one)]
    if wrong:
        raise InputError(f"a token id must be an integer below 2^62; the {_many(column)} have {few(wrong)}")
    return np.array(ids, dtype=np.int64)


def _is_id(given: object) -> bool:
    return isinstance(given, int | np.integer) and not isinstance(given, bool) and abs(int(given)) < 2**62


def _require_in_range(column: Column, ids: Ids, size: int) -> None:
    if not len(ids):
        raise InputError(f"there are no {_many(column)}")
    outside = ids[(ids < 0) | (ids >= size)]
    if len(outside):
        table = "output" if column == "value" else "embedding row"
        raise InputError(f"token {outside[0]} of the {_many(column)} is no {table}: they are 0 to {size - 1:,}")
    distinct, counts = np.unique(ids, return_counts=True)
    if len(distinct) < len(ids):
        raise InputError(f"two {_many(column)} have the same token {distinct[counts > 1][0]}")


def _many(column: Column) -> str:
    return {"key": "keys", "query": "queries", "value": "values"}[column]
