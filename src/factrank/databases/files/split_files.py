"""Read and write splits: a file for each, or one N-Quads file with a named graph for each."""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from itertools import combinations
from pathlib import Path

from factrank.databases.agreement import agreement_of
from factrank.databases.conflicts import require_functional
from factrank.databases.database import Database, Fact
from factrank.databases.files.formats import (
    FORMATS,
    AnyPath,
    FileLayout,
    format_of,
    named_facts,
    opened,
    opened_tables,
    united,
)
from factrank.databases.files.rdf import Rdf
from factrank.databases.splits import Splits
from factrank.errors import InputError, InputWarning
from factrank.foreign_text import few, quoted, shown_name
from factrank.host import replacing

SPLIT_NAMES = ("train", "training", "valid", "validation", "dev", "test", "testing")
"""Names of the files of a folder that are splits, without their suffixes."""

DEFAULT_GRAPH = "default"
"""Name of the split of all facts outside of named graphs."""


def read_splits(  # noqa: PLR0913 - one argument for each ambiguity of a file
    paths: Mapping[str, AnyPath | Sequence[AnyPath]] | AnyPath,
    *,
    long: Sequence[str | int] | None = None,
    wide: bool = False,
    multi: bool = False,
    header: bool | None = None,
    missing: Sequence[str] = (),
    delimiter: str | None = None,
    quotes: bool = True,
    encoding: str | None = None,
    suffix: str | None = None,
) -> Splits:
    r"""Read the splits of a table, such as train, valid and test; their vocabularies are shared.

    If a fact is in two splits, it stays in both, and an `InputWarning` reports how many such facts there are. Names
    that only a later split has become names of all splits (see `Splits`).

    Arguments:
        paths: A file, or several, for each name of a split; "-" is standard input. Or a folder with files that are
            called train, valid or validation or dev, and test, with any known suffix. Or one N-Quads file, in which
            each named graph is a split; facts outside of named graphs are the split "default".
        long: The key, query and value columns, as for `factrank.read`; likewise all further arguments.
        wide: The first column contains the keys, every other column is a query.
        multi: Allow several values for one (key, query). If false, a (key, query) may not have different values in
            different splits either.
        header: Whether the first line of a CSV or TSV file is a header. Files of knowledge graphs often have none.
        missing: Texts that mark an empty cell.
        delimiter: Field delimiter of delimited text.
        quotes: Whether fields may be enclosed in quotes.
        encoding: Python name of the text encoding.
        suffix: Read the files as if they had this suffix.

    Raises:
        InputError: If a file cannot be read, or there is none; the message names the file.
        ConflictError: If a (key, query) has two values and `multi` is false; the message names files and lines.

    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = pathlib.Path(folder, "train.txt").write_text("Oslo\tcountry\tNorway\nLima\tcountry\tPeru\n")
    ...     _ = pathlib.Path(folder, "test.txt").write_text("Cusco\tcountry\tPeru\n")
    ...     read_splits(folder, header=False)
    Splits(3 keys x 1 queries -> 2 values)
      train: 2 facts
      test: 1 facts
    """
    layout = FileLayout(long, wide, header, missing, delimiter, quotes, encoding, suffix)
    if not isinstance(paths, Mapping) and not Path(paths).is_dir():
        return _read_graphs(paths, layout, multi=multi)
    files = paths if isinstance(paths, Mapping) else _files_in(Path(paths))
    lists = {name: [path] if isinstance(path, str | os.PathLike) else list(path) for name, path in files.items()}
    if not lists or not all(lists.values()):
        raise InputError("no file to read: each split needs a file, such as {'train': 'train.csv', 'test': 'test.csv'}")
    with ExitStack() as stack:
        tables = opened_tables([path for one in lists.values() for path in one], layout, stack)
        waiting = iter(tables)
        splits = Splits({name: united([next(waiting).read() for _ in one]) for name, one in lists.items()})
        if not multi:
            title = ", ".join(str(table.source) for table in tables)
            require_functional(splits.everything, title, lambda: named_facts(tables))
    _warn_of_shared_facts(splits)
    return splits


def write_splits(splits: Splits, path: AnyPath, *, suffix: str = ".tsv", wide: bool = False) -> list[Path]:
    """Write each split to a file of its own, or all of them to one N-Quads file, a named graph for each.

    Arguments:
        splits: The splits.
        path: A folder, which is created, for the files NAME + suffix; or a file that ends in .nq or .nq.gz.
        suffix: Suffix of the files in the folder, which determines their format.
        wide: Write one row per key and one column per query.

    Returns:
        The files that were written.

    Raises:
        InputError: If a split has no facts, which no file can express, or its name cannot be the name of a file.

    >>> import tempfile
    >>> splits = Splits({"train": Database.from_facts([("Oslo", "country", "Norway")])})
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     [path.name for path in write_splits(splits, folder, suffix=".parquet")]
    ['train.parquet']
    """
    target = Path(path)
    empty = [name for name, part in splits.items() if not len(part)]
    if empty:
        raise InputError(f"{target}: the splits {few(empty)} have no facts")
    if _is_quads(target, FileLayout()):
        with replacing(target) as stream:
            for name, part in splits.items():
                Rdf("N-Quads").write_graph(part, stream, "" if name == DEFAULT_GRAPH else name)
        return [target]
    file_format = format_of(suffix, f"{target}, suffix {suffix}", FileLayout())
    unfit = [name for name in splits if not re.fullmatch(r"\w[\w .-]*", name)]
    if unfit:
        raise InputError(f"{target}: {quoted(unfit[0])} cannot be the name of a file; rename the split")
    if suffix not in FORMATS:
        raise InputError(f"{target}: expected one of the suffixes {', '.join(FORMATS)}; got {suffix!r}")
    if target.exists() and not target.is_dir():
        raise InputError(f"{target}: expected a folder for the splits; this is a file")
    target.mkdir(parents=True, exist_ok=True)
    written = []
    for name, part in splits.items():
        written.append(target / f"{name}{suffix}")
        with replacing(written[-1]) as stream:
            file_format.write(part, stream, wide=wide)
    return written


def _files_in(folder: Path) -> dict[str, AnyPath]:
    found: dict[str, AnyPath] = {}
    for name in SPLIT_NAMES:
        files = [folder / f"{name}{suffix}" for suffix in FORMATS if (folder / f"{name}{suffix}").is_file()]
        if len(files) > 1:
            raise InputError(f"{folder}: {files[0].name} and {files[1].name} are both the split {name}; keep one")
        if files:
            found[name] = files[0]
    if not found:
        raise InputError(f"{folder}: no file train, valid or test with a known suffix ({' '.join(FORMATS)})")
    return found


def _is_quads(path: Path, layout: FileLayout) -> bool:
    return (layout.suffix or path.name).lower().endswith((".nq", ".nq.gz"))


def _read_graphs(path: AnyPath, layout: FileLayout, *, multi: bool) -> Splits:
    with opened(path, layout) as table:
        quads = table.file_format
        if not (isinstance(quads, Rdf) and quads.syntax == "N-Quads"):
            raise InputError(
                f"{table.source}: splits are read from a file for each, {{'train': ..., 'test': ...}}, from a folder "
                "with such files, or from an N-Quads file (.nq) with a named graph for each"
            )
        facts: dict[str, list[Fact]] = {}
        for (_, fact), graph in quads.placed_in_graphs(table.source, table.form):
            facts.setdefault(graph or DEFAULT_GRAPH, []).append(fact)
        if not facts:
            raise InputError(f"{table.source}: no facts")
        splits = Splits({name: Database.from_facts(some, multi=True) for name, some in facts.items()})
        if not multi:
            require_functional(splits.everything, str(table.source), lambda: named_facts([table]))
    _warn_of_shared_facts(splits)
    return splits


def _warn_of_shared_facts(splits: Splits) -> None:
    for one, other in combinations(splits, 2):
        n_shared = agreement_of(splits[one], splits[other]).shared
        if n_shared:
            shown = f"{n_shared:,} of {len(splits[other]):,} facts of {shown_name(other)} are also in {shown_name(one)}"
            warnings.warn(InputWarning(f"{shown}; they stay in both splits"), stacklevel=3)
