"""`Splits`: the facts of one table in named parts, such as train, valid and test, which share their vocabularies."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from types import MappingProxyType
from typing import Any

import numpy as np
import pyarrow as pa

from factrank.databases.cells import EMPTY, code_column
from factrank.databases.columns import TableForm, listed
from factrank.databases.conflicts import require_functional
from factrank.databases.database import COLUMNS, Column, Database
from factrank.databases.recoding import known_facts, recode
from factrank.databases.tables import arrow_table, coded_facts, to_table
from factrank.errors import InputError
from factrank.foreign_text import few, quoted, shown_name

SPLIT_COLUMN = "split"
"""Name of the column that says to which split a row belongs."""


@dataclass(frozen=True, eq=False, repr=False)
class Splits(Mapping[str, Database]):
    """Databases by the name of their split. All have the same vocabularies, so one model can be evaluated on each.

    Databases with vocabularies of their own are recoded: the names of the first split come first, in its order, so its
    codes stay as they are; then those that only later splits have. A model trained on one split of a `Splits` therefore
    has a row for every name, also for names without a fact in that split (`unseen` lists them; `restricted_to` drops
    them). A fact may be in several splits (`shared` lists them).

    Arguments:
        parts: The databases by name.

    Raises:
        InputError: If there is no split, or a name is empty.

    >>> train = Database.from_facts([("Oslo", "country", "Norway"), ("Lima", "country", "Peru")])
    >>> test = Database.from_facts([("Cusco", "country", "Peru")])
    >>> splits = Splits({"train": train, "test": test})
    >>> splits
    Splits(3 keys x 1 queries -> 2 values)
      train: 2 facts
      test: 1 facts
    >>> splits["test"].shape, splits.unseen("test", "train")["key"]
    ((3, 1, 2), ('Cusco',))
    """

    parts: Mapping[str, Database]

    def __post_init__(self) -> None:
        if not self.parts:
            raise InputError("splits need at least one database, such as Splits({'train': train, 'test': test})")
        for name, part in self.parts.items():
            if not isinstance(name, str) or not name:
                raise InputError(f"a split needs a name, such as 'train'; got {quoted(name)}")
            if not isinstance(part, Database):
                raise InputError(f"the split {quoted(name)} must be a Database; got {type(part).__name__}")
        object.__setattr__(self, "parts", MappingProxyType(_with_shared_names(self.parts)))

    @classmethod
    def from_table(
        cls,
        table: Any,
        column: str = SPLIT_COLUMN,
        *,
        long: Sequence[str | int] | None = None,
        wide: bool = False,
        multi: bool = False,
        missing: Sequence[str] = (),
    ) -> Splits:
        """Read facts from an Arrow, polars or pandas table in which one column names the split of each row.

        Arguments:
            table: The table.
            column: The column with the names of the splits.
            long: The key, query and value columns among the others, as for `factrank.from_table`.
            wide: The first other column contains the keys, and every further one is a query.
            multi: Allow several values for one (key, query).
            missing: Texts that mark an empty cell.

        Raises:
            InputError: If there is no such column, it has an empty cell, or the table cannot be read.
            ConflictError: If a (key, query) has two values, in whatever splits, and `multi` is false.

        >>> import pyarrow as pa
        >>> rows = {"head": ["a", "b"], "relation": ["r", "r"], "tail": ["b", "a"], "split": ["train", "test"]}
        >>> Splits.from_table(pa.table(rows))["test"].fiber("b", "r")
        ('a',)
        """
        arrow = arrow_table(table)
        if column not in arrow.column_names:
            raise InputError(f"table: no column {quoted(column)}; the columns are {listed(arrow.column_names)}")
        of_row = code_column(arrow.column(column))
        if EMPTY in of_row.codes:
            row = int((of_row.codes == EMPTY).argmax())
            raise InputError(f"table, row {row + 1}: empty cell in column {quoted(column)}")
        facts = coded_facts(arrow.drop_columns([column]), TableForm(long, wide, missing=tuple(missing)), "table")
        everything = facts.database()
        if not multi:
            require_functional(everything, "table", lambda: ((f"row {row}", fact) for row, fact in facts.placed()))
        of_fact = of_row.codes[np.asarray(facts.rows) - 1]
        names = enumerate(of_row.names.to_pylist())
        vocabularies = everything.vocabularies
        return cls({name: Database(facts.triples[of_fact == code], *vocabularies) for code, name in names})

    # ---------------------------------------------------------------- a mapping

    def __getitem__(self, name: str) -> Database:
        if name not in self.parts:
            raise InputError(f"there is no split {quoted(name)}; the splits are {few(list(self.parts))}")
        return self.parts[name]

    def __contains__(self, name: object) -> bool:
        return name in self.parts

    def __iter__(self) -> Iterator[str]:
        return iter(self.parts)

    def __len__(self) -> int:
        return len(self.parts)

    def __hash__(self) -> int:
        return hash(frozenset(self.parts.items()))

    def __repr__(self) -> str:
        n_keys, n_queries, n_values = self.everything.shape
        lines = [f"Splits({n_keys} keys x {n_queries} queries -> {n_values} values)"]
        return "\n".join(lines + [f"  {shown_name(name)}: {len(part)} facts" for name, part in self.items()])

    # ---------------------------------------------------------------- facts and names

    @cached_property
    def everything(self) -> Database:
        """The facts of all splits: what is known when a prediction is judged."""
        triples = np.concatenate([part.triples for part in self.values()])
        return Database(triples, *next(iter(self.values())).vocabularies)

    def shared(self, one: str, other: str) -> Database:
        """Return the facts that two splits have in common; a held-out fact in the training split is no test."""
        both = np.concatenate([self[one].triples, self[other].triples])
        distinct, counts = np.unique(both, axis=0, return_counts=True)
        return Database(distinct[counts > 1], *self.everything.vocabularies)

    def unseen(self, name: str, of: str) -> dict[Column, tuple[str, ...]]:
        """Return the keys, queries and values with a fact in the split `name`, but none in the split `of`."""
        found = {}
        for axis, (column, vocabulary) in enumerate(zip(COLUMNS, self.everything.vocabularies, strict=True)):
            only = np.setdiff1d(self[name].triples[:, axis], self[of].triples[:, axis])
            found[column] = tuple(vocabulary[int(code)] for code in only)
        return found

    def restricted_to(self, name: str) -> Splits:
        """Drop all names without a fact in one split, and the facts of other splits that have such a name.

        A model cannot know a name that it never saw; PyKEEN drops these facts in the same way.

        >>> splits = Splits({
        ...     "train": Database.from_facts([("Oslo", "country", "Norway")]),
        ...     "test": Database.from_facts([("Cusco", "country", "Peru")]),
        ... })
        >>> len(splits.restricted_to("train")["test"])
        0
        """
        base = self[name].compact()
        return Splits({part: known_facts(facts, onto=base) for part, facts in self.items()})

    def view(self, key: Column, query: Column, value: Column) -> Splits:
        """Permute the axes of every split; see `Database.view`."""
        return Splits({name: part.view(key, query, value) for name, part in self.items()})

    def to_table(self) -> pa.Table:
        """Return the facts as an Arrow table of text with the columns key, query, value and split.

        `polars.from_arrow(splits.to_table())` and `splits.to_table().to_pandas()` are data frames.
        """
        tables = [
            to_table(part).append_column(SPLIT_COLUMN, pa.array([name] * len(part), pa.large_string()))
            for name, part in self.items()
        ]
        return pa.concat_tables(tables)


def split_facts(database: Database, fractions: Mapping[str, float], *, seed: int = 0) -> Splits:
    """Draw splits at random, such that each name with a fact has one in the first split.

    The facts are shuffled. The first fact of each key, query and value goes to the first split. Of the others, each
    later split takes `fraction * n_facts`, rounded, and the first split gets the rest.

    Arguments:
        database: The facts.
        fractions: Fraction of the facts in each split; they add up to 1.
        seed: Seed of the random generator.

    Returns:
        The splits, in the order of `fractions`.

    Raises:
        InputError: If a fraction is not in [0, 1], they do not add up to 1, or too few facts can be held out.

    >>> facts = Database.from_facts([(f"k{i}", f"q{j}", f"v{i * j % 3}") for i in range(8) for j in range(5)])
    >>> {name: len(part) for name, part in split_facts(facts, {"train": 0.8, "valid": 0.1, "test": 0.1}).items()}
    {'train': 32, 'valid': 4, 'test': 4}
    """
    first, *later = _checked_fractions(fractions)
    shuffled = np.random.default_rng(seed).permutation(database.triples)
    needed = np.zeros(len(shuffled), dtype=bool)
    for axis in range(3):
        needed[np.unique(shuffled[:, axis], return_index=True)[1]] = True
    free = shuffled[~needed]
    sizes = {name: round(fractions[name] * len(shuffled)) for name in later}
    if sum(sizes.values()) > len(free):
        raise InputError(
            f"{sum(sizes.values()):,} facts are to be held out, but only {len(free):,} of {len(shuffled):,} can be, "
            f"because each name needs a fact in {quoted(first)}; lower the fractions of {few(later)}"
        )
    *held_out, rest = np.split(free, np.cumsum(list(sizes.values())))
    triples = {first: np.concatenate([shuffled[needed], rest]), **dict(zip(later, held_out, strict=True))}
    return Splits({name: Database(rows, *database.vocabularies) for name, rows in triples.items()})


def _checked_fractions(fractions: Mapping[str, float]) -> list[str]:
    if not fractions or not all(0 <= fraction <= 1 for fraction in fractions.values()):
        raise InputError(f"a split needs fractions from 0 to 1, such as train=0.8, test=0.2; got {quoted(fractions)}")
    if not np.isclose(sum(fractions.values()), 1.0):
        raise InputError(f"the fractions of the splits must add up to 1; got {sum(fractions.values()):g}")
    return list(fractions)


def _with_shared_names(parts: Mapping[str, Database]) -> dict[str, Database]:
    vocabularies = [part.vocabularies for part in parts.values()]
    if all(each == vocabularies[0] for each in vocabularies[1:]):
        return dict(parts)
    names = [Database(np.empty((0, 3), np.int32), *each) for each in vocabularies]
    everyone = reduce(lambda one, other: one.union(other, multi=True), names)
    return {name: recode(part, onto=everyone) for name, part in parts.items()}
