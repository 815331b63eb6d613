"""Database: a frozen set of (key, query, value) facts with three vocabularies.

A database is the 0/1 tensor D[k, q, v] of Wong 2025 (arXiv 2502.05076, section 2), kept as the coordinates of its ones.
A *fiber* is the vector D[k, q, :]; it is *valid* when the database has a fact there. *Functional* means at most one
value per fiber, *full* a value for every (key, query).
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
from scipy.special import gammaln

from factrank.databases.cells import spell
from factrank.databases.vocabulary import Vocabulary
from factrank.errors import ConflictError, InputError
from factrank.foreign_text import quoted, shown_name

Column = Literal["key", "query", "value"]
COLUMNS: tuple[Column, ...] = get_args(Column)
Fact = tuple[str, str, str]
SHOWN_OFFENDERS = 5
SHOWN_FACTS = 3


@dataclass(frozen=True, eq=False, repr=False)
class Database:
    """A set of facts: integer-coded triples, sorted and distinct, and the names behind the codes.

    The same string may be key, query and value at once. Two databases are equal when they have the same facts and the
    same names on each axis, in whatever order; `hash` agrees with that. A vocabulary may hold names without a fact
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
    """How many exact repetitions were dropped when the facts were collected; not part of the identity."""

    def __post_init__(self) -> None:
        triples = np.asarray(self.triples)
        if triples.ndim != 2 or triples.shape[1] != 3 or triples.dtype.kind not in "iu":
            raise InputError(f"triples must be integers of shape [facts, 3]; got {triples.dtype} {triples.shape}")
        if len(triples) and (triples.min() < 0 or (triples.max(axis=0) >= self.shape).any()):
            raise InputError(f"triples hold codes outside the vocabularies of sizes {self.shape}")
        distinct = _sorted_distinct(triples, self.shape)
        distinct.setflags(write=False)
        object.__setattr__(self, "triples", distinct)
        object.__setattr__(self, "duplicates", self.duplicates + len(triples) - len(distinct))

    # ---------------------------------------------------------------- making one

    @classmethod
    def from_facts(cls, facts: Iterable[tuple[object, object, object]], *, multi: bool = False) -> Database:
        """Collect (key, query, value) triples; everything becomes text: 2, 2.0 and "2" are one name.

        Two values for one (key, query) raise a `ConflictError` unless `multi`.
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

    def require_functional(self, source: str = "") -> Database:
        """This database, or a `ConflictError` that lists the first fibers with several values."""
        if self.functional:
            return self
        starts = self._fiber_starts
        sizes = np.diff(np.append(starts, len(self)))
        offenders = []
        for start, size in zip(starts[sizes > 1][:SHOWN_OFFENDERS], sizes[sizes > 1], strict=False):
            key, query, _ = map(shown_name, self._named(self.triples[start]))
            values = [shown_name(self.values[int(v)]) for v in self.triples[start : start + min(size, 4), 2]]
            offenders.append(f"({key}, {query}): {', '.join(values)}{', ...' if size > 4 else ''}")
        n_offenders = int((sizes > 1).sum())
        more = n_offenders - len(offenders)
        where = f"{source}: " if source else ""
        raise ConflictError(
            f"{where}{n_offenders} (key, query) pairs have more than one value, e.g.\n  "
            + "\n  ".join(offenders)
            + (f"\n  and {more} more" if more else "")
            + "\nIf that is meant, ask for a multi-valued database (multi=True, or --multi on the command line)."
        )

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
        """(n_keys, n_queries, n_values), the shape of the tensor D."""
        return len(self.keys), len(self.queries), len(self.values)

    @property
    def vocabularies(self) -> tuple[Vocabulary, Vocabulary, Vocabulary]:
        """The names on the three axes, in the order of `COLUMNS`."""
        return self.keys, self.queries, self.values

    @cached_property
    def _fiber_starts(self) -> Int[np.ndarray, " fibers"]:
        """Row at which each valid fiber begins; the triples are sorted by (key, query, value)."""
        changes = np.any(np.diff(self.triples[:, :2], axis=0) != 0, axis=1)
        return np.flatnonzero(np.concatenate([np.ones(min(len(self), 1), dtype=bool), changes]))

    @property
    def n_fibers(self) -> int:
        """Number of valid fibers: (key, query) pairs with at least one fact."""
        return len(self._fiber_starts)

    @property
    def functional(self) -> bool:
        """At most one value per (key, query)."""
        return self.n_fibers == len(self)

    @property
    def full(self) -> bool:
        """A value for every (key, query)."""
        return self.n_fibers == self.n_keys * self.n_queries

    @cached_property
    def determined(self) -> tuple[Column, ...]:
        """The columns that the other two determine.

        ("value",) for a functional database. Real knowledge graphs are often multi-valued one way and functional
        another: then `view` shows them the functional way.
        """
        return tuple(column for axis, column in enumerate(COLUMNS) if self._count_without(axis) == len(self))

    def _count_without(self, axis: int) -> int:
        if axis == 2:
            return self.n_fibers
        kept = [other for other in range(3) if other != axis]
        return len(_pairs(self.triples, kept[0], kept[1], self.shape[kept[1]]))

    @cached_property
    def values_per_query(self) -> Int[np.ndarray, " queries"]:
        """|V_q| for every query: how many different values it takes."""
        return np.bincount(_pairs(self.triples, 1, 2, self.n_values) // max(self.n_values, 1), minlength=self.n_queries)

    @cached_property
    def values_per_key(self) -> Int[np.ndarray, " keys"]:
        """|V_k| for every key."""
        return np.bincount(_pairs(self.triples, 0, 2, self.n_values) // max(self.n_values, 1), minlength=self.n_keys)

    @cached_property
    def bits(self) -> float:
        r"""Information in the facts, the support given.

        $n \log_2 |V|$; a fiber with m values counts $\log_2 \binom{|V|}{m}$.
        """
        sizes = np.diff(np.append(self._fiber_starts, len(self)))
        return float(_log2_choose(np.full(len(sizes), self.n_values), sizes).sum())

    @cached_property
    def bits_by_query(self) -> float:
        r"""The same with each query's own range: $\sum_q n_q \log_2 |V_q|$."""
        sizes = np.diff(np.append(self._fiber_starts, len(self)))
        ranges = self.values_per_query[self.triples[self._fiber_starts, 1]]
        return float(_log2_choose(ranges, sizes).sum())

    # ---------------------------------------------------------------- looking up

    def fiber(self, key: str, query: str) -> tuple[str, ...]:
        """The values of one (key, query); empty when the database says nothing there."""
        k, q = self.keys.index(key), self.queries.index(query)
        rows = self.triples
        low, high = np.searchsorted(rows[:, 0], [k, k + 1])
        first, last = low + np.searchsorted(rows[low:high, 1], [q, q + 1])
        return tuple(self.values[int(v)] for v in rows[first:last, 2])

    def values_of_query(self, query: str) -> tuple[str, ...]:
        """V_q: the values that occur with a query."""
        return self._values_where(1, self.queries.index(query))

    def values_of_key(self, key: str) -> tuple[str, ...]:
        """V_k: the values that occur with a key."""
        return self._values_where(0, self.keys.index(key))

    def _values_where(self, axis: int, code: int) -> tuple[str, ...]:
        return tuple(self.values[int(v)] for v in np.unique(self.triples[self.triples[:, axis] == code, 2]))

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

    # ---------------------------------------------------------------- other databases from this one

    def select(
        self,
        *,
        keys: Iterable[str] | None = None,
        queries: Iterable[str] | None = None,
        values: Iterable[str] | None = None,
        compact: bool = True,
    ) -> Database:
        """The sub-database of the facts with these keys, queries and values; `compact=False` keeps all names."""
        kept = np.ones(len(self), dtype=bool)
        for axis, (names, vocabulary) in enumerate(zip((keys, queries, values), self.vocabularies, strict=True)):
            if names is not None:
                wanted = np.zeros(len(vocabulary), dtype=bool)
                wanted[vocabulary.codes([names] if isinstance(names, str) else names)] = True
                kept &= wanted[self.triples[:, axis]]
        selected = Database(self.triples[kept], *self.vocabularies)
        return selected.compact() if compact else selected

    def compact(self) -> Database:
        """The same facts without the names that have none."""
        columns, vocabularies = [], []
        for axis, vocabulary in enumerate(self.vocabularies):
            used = np.bincount(self.triples[:, axis], minlength=len(vocabulary)) > 0
            columns.append((np.cumsum(used) - 1)[self.triples[:, axis]])
            vocabularies.append(vocabulary if used.all() else vocabulary.take(np.flatnonzero(used)))
        keys, queries, values = vocabularies
        return Database(np.column_stack(columns).astype(np.int32), keys, queries, values, self.duplicates)

    def union(self, other: Database, *, multi: bool = False) -> Database:
        """The facts of both. A fiber that gets several values raises a `ConflictError` unless `multi`."""
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
        """The same facts with the axes permuted: which column now plays key, query and value.

        >>> db = Database.from_facts([("Lima", "capital_of", "Peru"), ("Cusco", "city_of", "Peru")])
        >>> db.view("value", "query", "key").fiber("Peru", "city_of")
        ('Cusco',)
        """
        if sorted((key, query, value)) != sorted(COLUMNS):
            raise InputError(f"a view names key, query and value once each; got {key}, {query}, {value}")
        order = [COLUMNS.index(column) for column in (key, query, value)]
        keys, queries, values = (self.vocabularies[axis] for axis in order)
        return Database(self.triples[:, order], keys, queries, values)

    # ---------------------------------------------------------------- identity

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of the facts and names in a canonical order: equal exactly for equal databases."""
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
    """The distinct rows in lexicographic order, as int32."""
    _, n_queries, n_values = shape
    if shape[0] * n_queries * n_values >= 2**63:
        return np.unique(triples, axis=0).astype(np.int32)
    index = triples[:, 0].astype(np.int64)  # and then in place: with millions of facts every copy counts
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
    """The distinct pairs of two columns, as first * size + second."""
    return _unique(triples[:, first].astype(np.int64) * size + triples[:, second])


def _unique(index: Int[np.ndarray, " n"]) -> Int[np.ndarray, " m"]:
    """`np.unique` by sorting, which is several times faster here than its hash table."""
    index = np.sort(index)
    return index[np.append(True, index[1:] != index[:-1])] if len(index) else index


def _log2_choose(n: Int[np.ndarray, " m"], k: Int[np.ndarray, " m"]) -> Float[np.ndarray, " m"]:
    """log2 of the binomial coefficients; log2 n exactly where k = 1."""
    found: Float[np.ndarray, " m"] = np.log2(np.maximum(n, 1))
    several = np.flatnonzero(k != 1)
    n, k = n[several], k[several]
    found[several] = (gammaln(n + 1.0) - gammaln(k + 1.0) - gammaln(n - k + 1.0)) / np.log(2.0)
    return found
