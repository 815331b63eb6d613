"""Database: a frozen set of (key, query, value) facts with three vocabularies.

A database is the 0/1 tensor D[k, q, v] of Wong 2025 (arXiv 2502.05076, section 2), kept as the coordinates of its ones.
A *fiber* is the vector D[k, q, :]; it is *valid* if it contains a fact. *Functional* means at most one value per fiber,
*full* at least one.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal, get_args

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from jaxtyping import Float, Int

from factrank.databases.cells import spell
from factrank.databases.vocabulary import Vocabulary
from factrank.display import Drawn
from factrank.errors import ConflictError, InputError
from factrank.foreign_text import quoted, shown_name

Column = Literal["key", "query", "value"]
COLUMNS: tuple[Column, ...] = get_args(Column)
Fact = tuple[str, str, str]
SHOWN_OFFENDERS, SHOWN_VALUES, SHOWN_FACTS = 5, 4, 3


@dataclass(frozen=True, eq=False, repr=False)
class Database(Drawn):
    """A set of facts: sorted, distinct triples of integer codes, and the vocabularies that map codes to names.

    A string may be used as a key, a query and a value. Two databases are equal if they have the same facts and the same
    names on each axis, in any order; `hash` is consistent with this. A vocabulary may contain names without a fact
    (`compact` drops them).

    >>> db = Database.from_facts([("Astrid", "born_in", "Singapore"), ("Colin", "born_in", "Malaysia")])
    >>> db
    Database(2 facts: 2 keys x 1 queries -> 2 values, functional, full)
      (Astrid, born_in, Singapore)
      (Colin, born_in, Malaysia)
    >>> db.fiber("Colin", "born_in")
    ('Malaysia',)
    """

    triples: Int[np.ndarray, "facts 3"]
    keys: Vocabulary
    queries: Vocabulary
    values: Vocabulary
    duplicates: int = field(default=0)
    """Number of repeated facts that were dropped; ignored by `==`."""

    def __post_init__(self) -> None:
        triples = np.asarray(self.triples)
        if triples.ndim != 2 or triples.shape[1] != 3 or triples.dtype.kind not in "iu":
            raise InputError(f"triples must be integers of shape [facts, 3]; got {triples.dtype} {triples.shape}")
        if len(triples) and (triples.min() < 0 or (triples.max(axis=0) >= self.shape).any()):
            raise InputError(f"triples contain codes outside the vocabularies of sizes {self.shape}")
        distinct = _sorted_distinct(triples, self.shape)
        distinct.setflags(write=False)
        object.__setattr__(self, "triples", distinct)
        object.__setattr__(self, "duplicates", self.duplicates + len(triples) - len(distinct))

    # ---------------------------------------------------------------- construction

    @classmethod
    def from_facts(cls, facts: Iterable[tuple[object, object, object]], *, multi: bool = False) -> Database:
        """Create a database from (key, query, value) triples. Cells become text: 2, 2.0 and "2" are the same name.

        Arguments:
            facts: The triples.
            multi: Allow several values for one (key, query).

        Raises:
            ConflictError: If a (key, query) has two values and `multi` is false.
            InputError: If a fact is not a triple or has an empty cell.
        """
        codes: tuple[dict[str, int], ...] = ({}, {}, {})
        rows: list[int] = []
        for row, fact in enumerate(facts, start=1):
            if not isinstance(fact, tuple | list) or len(fact) != 3:
                raise InputError(f"fact {row}: expected (key, query, value), got {quoted(fact)}")
            for column, code, cell in zip(COLUMNS, codes, fact, strict=True):
                name = spell(cell)
                if name is None:
                    raise InputError(f"fact {row}: the {column} is empty in {quoted(fact)}")
                rows.append(code.setdefault(name, len(code)))
        triples = np.array(rows, dtype=np.int32).reshape(-1, 3)
        keys, queries, values = (Vocabulary(code) for code in codes)
        database = cls(triples, keys, queries, values)
        return database if multi else database.require_functional()

    def conflicts(self, most: int = SHOWN_OFFENDERS) -> list[tuple[str, str]]:
        """Return the first (key, query) pairs that have several values."""
        starts = self.fiber_starts[self.fiber_counts > 1]
        return [self._named(self.triples[start])[:2] for start in starts[:most]]

    def require_functional(self, source: str = "") -> Database:
        """Return this database, or raise a `ConflictError` that lists the first fibers with several values."""
        if self.functional:
            return self
        lines = []
        for key, query in self.conflicts():
            values = self.fiber(key, query)
            shown = ", ".join(map(shown_name, values[:SHOWN_VALUES])) + (", ..." if len(values) > SHOWN_VALUES else "")
            lines.append(f"  ({shown_name(key)}, {shown_name(query)}): {shown}")
        n_conflicts = int((self.fiber_counts > 1).sum())
        if n_conflicts > len(lines):
            lines.append(f"  and {n_conflicts - len(lines)} more")
        title = f"{source}: " if source else ""
        title += f"{n_conflicts} (key, query) pairs have more than one value, e.g."
        advice = "If this is intended, allow several values per pair: multi=True (--multi)."
        raise ConflictError("\n".join([title, *lines, advice]))

    # ---------------------------------------------------------------- sizes

    @property
    def n_facts(self) -> int:
        """Number of facts."""
        return len(self.triples)

    @property
    def n_keys(self) -> int:
        """Number of names on the key axis."""
        return len(self.keys)

    @property
    def n_queries(self) -> int:
        """Number of names on the query axis."""
        return len(self.queries)

    @property
    def n_values(self) -> int:
        """Number of names on the value axis."""
        return len(self.values)

    @property
    def shape(self) -> tuple[int, int, int]:
        """Shape of the tensor D: (n_keys, n_queries, n_values)."""
        return len(self.keys), len(self.queries), len(self.values)

    @property
    def vocabularies(self) -> tuple[Vocabulary, Vocabulary, Vocabulary]:
        """Names on the three axes, in the order of `COLUMNS`."""
        return self.keys, self.queries, self.values

    @cached_property
    def fiber_starts(self) -> Int[np.ndarray, " fibers"]:
        """First row of each valid fiber; the triples are sorted by (key, query, value)."""
        changes = np.any(np.diff(self.triples[:, :2], axis=0) != 0, axis=1)
        return np.flatnonzero(np.concatenate([np.ones(min(len(self), 1), dtype=bool), changes]))

    @cached_property
    def fiber_counts(self) -> Int[np.ndarray, " fibers"]:
        """Number of values of each valid fiber."""
        return np.diff(np.append(self.fiber_starts, len(self)))

    @property
    def n_fibers(self) -> int:
        """Number of valid fibers: (key, query) pairs with at least one fact."""
        return len(self.fiber_starts)

    @property
    def functional(self) -> bool:
        """Whether every (key, query) has at most one value."""
        return self.n_fibers == len(self)

    @property
    def full(self) -> bool:
        """Whether every (key, query) has a value."""
        return self.n_fibers == self.n_keys * self.n_queries

    @cached_property
    def determined(self) -> tuple[Column, ...]:
        """Columns that are determined by the other two: ("value",) for a functional database.

        Knowledge graphs are often multi-valued in one direction and functional in another; `view` permutes the axes.
        """
        return tuple(column for axis, column in enumerate(COLUMNS) if self._count_without(axis) == len(self))

    def _count_without(self, axis: int) -> int:
        if axis == 2:
            return self.n_fibers
        kept = [other for other in range(3) if other != axis]
        return len(_pairs(self.triples, kept[0], kept[1], self.shape[kept[1]]))

    @cached_property
    def values_per_query(self) -> Int[np.ndarray, " queries"]:
        """Number of distinct values |V_q| of every query."""
        return np.bincount(_pairs(self.triples, 1, 2, self.n_values) // max(self.n_values, 1), minlength=self.n_queries)

    @cached_property
    def bits(self) -> float:
        r"""Information content given the support: $\log_2 \binom{|V|}{m}$ for a fiber with m values."""
        return float(_log2_choose(np.full(self.n_fibers, self.n_values), self.fiber_counts).sum())

    @cached_property
    def bits_by_query(self) -> float:
        r"""Information content if the range of each query is known: $\sum_q n_q \log_2 |V_q|$."""
        ranges = self.values_per_query[self.triples[self.fiber_starts, 1]]
        return float(_log2_choose(ranges, self.fiber_counts).sum())

    # ---------------------------------------------------------------- lookup

    def fiber(self, key: str, query: str) -> tuple[str, ...]:
        """Return the values of a (key, query); empty if the entry is missing."""
        k, q = self.keys.index(key), self.queries.index(query)
        rows = self.triples
        low, high = np.searchsorted(rows[:, 0], [k, k + 1])
        first, last = low + np.searchsorted(rows[low:high, 1], [q, q + 1])
        return tuple(self.values[int(v)] for v in rows[first:last, 2])

    def values_of_query(self, query: str) -> tuple[str, ...]:
        """Return the distinct values V_q of a query."""
        found = self.triples[self.triples[:, 1] == self.queries.index(query), 2]
        return tuple(self.values[int(v)] for v in np.unique(found))

    def _named(self, triple: Int[np.ndarray, "3"]) -> Fact:
        key, query, value = (int(code) for code in triple)
        return self.keys[key], self.queries[query], self.values[value]

    def __len__(self) -> int:
        return len(self.triples)

    def __iter__(self) -> Iterator[Fact]:
        for triple in self.triples:
            yield self._named(triple)

    def __contains__(self, fact: object) -> bool:
        if not (isinstance(fact, tuple) and len(fact) == 3):
            return False
        key, query, value = fact
        return key in self.keys and query in self.queries and value in self.fiber(key, query)

    # ---------------------------------------------------------------- derived databases

    def select(
        self,
        *,
        keys: Iterable[str] | None = None,
        queries: Iterable[str] | None = None,
        values: Iterable[str] | None = None,
        compact: bool = True,
    ) -> Database:
        """Return the facts with the given keys, queries and values.

        Arguments:
            keys: Keys to keep; all if None.
            queries: Queries to keep; all if None.
            values: Values to keep; all if None.
            compact: Drop names that are left without a fact.

        >>> db = Database.from_facts([("Lima", "country", "Peru"), ("Oslo", "country", "Norway")])
        >>> db.select(keys=["Oslo"])
        Database(1 facts: 1 keys x 1 queries -> 1 values, functional, full)
          (Oslo, country, Norway)
        """
        kept = np.ones(len(self), dtype=bool)
        for axis, (names, vocabulary) in enumerate(zip((keys, queries, values), self.vocabularies, strict=True)):
            if names is not None:
                wanted = np.zeros(len(vocabulary), dtype=bool)
                wanted[vocabulary.codes([names] if isinstance(names, str) else names)] = True
                kept &= wanted[self.triples[:, axis]]
        selected = Database(self.triples[kept], *self.vocabularies)
        return selected.compact() if compact else selected

    def compact(self) -> Database:
        """Drop names without a fact."""
        columns, vocabularies = [], []
        for axis, vocabulary in enumerate(self.vocabularies):
            used = np.bincount(self.triples[:, axis], minlength=len(vocabulary)) > 0
            columns.append((np.cumsum(used) - 1)[self.triples[:, axis]])
            vocabularies.append(vocabulary if used.all() else vocabulary.take(np.flatnonzero(used)))
        keys, queries, values = vocabularies
        return Database(np.column_stack(columns).astype(np.int32), keys, queries, values, self.duplicates)

    def union(self, other: Database, *, multi: bool = False) -> Database:
        """Return the facts of both databases; also written `db | other`.

        Raises:
            ConflictError: If a (key, query) has two values and `multi` is false.
        """
        columns, vocabularies = [], []
        for axis, (mine, theirs) in enumerate(zip(self.vocabularies, other.vocabularies, strict=True)):
            merged = Vocabulary(pc.unique(pa.concat_arrays([mine.names, theirs.names])))
            recoded = pc.index_in(theirs.names, value_set=merged.names).to_numpy(zero_copy_only=False)
            columns.append(np.concatenate([self.triples[:, axis], recoded[other.triples[:, axis]]]))
            vocabularies.append(merged)
        keys, queries, values = vocabularies
        triples = _sorted_distinct(np.column_stack(columns), (len(keys), len(queries), len(values)))
        joined = Database(triples, keys, queries, values)
        return joined if multi else joined.require_functional()

    def __or__(self, other: Database) -> Database:
        return self.union(other, multi=not (self.functional and other.functional))

    def view(self, key: Column, query: Column, value: Column) -> Database:
        """Permute the axes: use the given columns as key, query and value.

        >>> db = Database.from_facts([("Lima", "capital_of", "Peru"), ("Cusco", "city_of", "Peru")])
        >>> db.view("value", "query", "key").fiber("Peru", "city_of")
        ('Cusco',)
        """
        if sorted((key, query, value)) != sorted(COLUMNS):
            raise InputError(f"a view needs each of key, query and value once; got {key}, {query}, {value}")
        order = [COLUMNS.index(column) for column in (key, query, value)]
        keys, queries, values = (self.vocabularies[axis] for axis in order)
        return Database(self.triples[:, order], keys, queries, values)

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Export the facts as text columns key, query and value, for `polars.DataFrame(db)` and other Arrow readers."""
        from factrank.databases.tables import to_table  # noqa: PLC0415 - tables are built of databases

        return to_table(self).__arrow_c_stream__(requested_schema)

    # ---------------------------------------------------------------- identity

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of the facts and names in canonical order; equal if and only if the databases are."""
        digest = hashlib.sha256(b"factrank database 1")
        columns = []
        for axis, vocabulary in enumerate(self.vocabularies):
            order = pc.sort_indices(vocabulary.names)
            rank = np.empty(len(order), dtype=np.int32)
            rank[order.to_numpy()] = np.arange(len(order), dtype=np.int32)
            columns.append(rank[self.triples[:, axis]])
            names = vocabulary.names.take(order)
            lengths = pc.binary_length(names).to_numpy().astype("<i8")
            digest.update(lengths.tobytes())
            digest.update(memoryview(names.buffers()[2] or b"")[: lengths.sum()])
        ordered = _sorted_distinct(np.column_stack(columns), self.shape)
        digest.update(np.array(self.shape, dtype="<i8").tobytes())
        digest.update(ordered.astype("<i4").tobytes())
        return digest.hexdigest()

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Database):
            return NotImplemented
        return self.shape == other.shape and len(self) == len(other) and self.fingerprint == other.fingerprint

    def __hash__(self) -> int:
        return hash(self.fingerprint)

    def __repr__(self) -> str:
        kind = ("functional" if self.functional else "multi-valued") + (", full" if self.full else "")
        sizes = f"{self.n_keys} keys x {self.n_queries} queries -> {self.n_values} values"
        lines = [f"Database({self.n_facts} facts: {sizes}, {kind})"]
        lines += [f"  ({', '.join(map(shown_name, self._named(triple)))})" for triple in self.triples[:SHOWN_FACTS]]
        return "\n".join(lines + (["  ..."] if len(self) > SHOWN_FACTS else []))


def _sorted_distinct(triples: Int[np.ndarray, "rows 3"], shape: tuple[int, int, int]) -> Int[np.ndarray, "facts 3"]:
    """Return the distinct rows in lexicographic order, as int32."""
    _, n_queries, n_values = shape
    if shape[0] * n_queries * n_values >= 2**63:
        return np.unique(triples, axis=0).astype(np.int32)
    index = triples[:, 0].astype(np.int64)  # then in place, to avoid copies of millions of facts
    index *= n_queries
    index += triples[:, 1]
    index *= n_values
    index += triples[:, 2]
    if not np.all(index[1:] > index[:-1]):
        index = _unique(index)
    distinct = np.empty((len(index), 3), dtype=np.int32)
    for axis, size in ((2, n_values), (1, n_queries)):
        np.remainder(index, max(size, 1), out=distinct[:, axis], casting="unsafe")
        index //= max(size, 1)
    distinct[:, 0] = index
    return distinct


def _pairs(triples: Int[np.ndarray, "rows 3"], first: int, second: int, size: int) -> Int[np.ndarray, " pairs"]:
    """Return the distinct pairs of two columns, encoded as first * size + second."""
    return _unique(triples[:, first].astype(np.int64) * size + triples[:, second])


def _unique(index: Int[np.ndarray, " n"]) -> Int[np.ndarray, " m"]:
    """Return `np.unique(index)` by sorting, several times faster than its hash table here."""
    index = np.sort(index)
    return index[np.append(True, index[1:] != index[:-1])] if len(index) else index


def _log2_choose(n: Int[np.ndarray, " m"], k: Int[np.ndarray, " m"]) -> Float[np.ndarray, " m"]:
    """Return log2 of binomial coefficients, exactly log2 n if k = 1."""
    found: Float[np.ndarray, " m"] = np.log2(np.maximum(n, 1))
    several = np.flatnonzero(k != 1)
    if not len(several):
        return found
    from scipy.special import gammaln  # noqa: PLC0415 - takes a quarter of a second to load

    n, k = n[several], k[several]
    found[several] = (gammaln(n + 1.0) - gammaln(k + 1.0) - gammaln(n - k + 1.0)) / np.log(2.0)
    return found
