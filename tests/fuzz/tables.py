"""Hostile tables: delimited text, JSON Lines, RDF in three syntaxes and Parquet, zipped and not, with any options."""

from __future__ import annotations

import gzip
import io
import json
from collections.abc import Sequence
from pathlib import Path
from random import Random

import pyarrow as pa
import pyarrow.parquet as pq

from fuzz.hostile import NAMES, changed_bytes, encodable_text, some_plain, some_text, written

SUFFIXES = [
    ".csv",
    ".tsv",
    ".txt",
    ".jsonl",
    ".nt",
    ".parquet",
    ".csv.gz",
    ".jsonl.gz",
    ".nt.gz",
    ".nq",
    ".ttl",
    ".dat",
]
BOMB_BLOCK = 16 << 20
KNOWN = ["key", "query", "value"]
HEADERS = [KNOWN, KNOWN, KNOWN, ["head", "relation", "tail"], ["name", "born", "city"], ["a", "b", "c", "d"]]
CELL_TYPES = [
    pa.string(),
    pa.large_binary(),
    pa.float64(),
    pa.int64(),
    pa.bool_(),
    pa.list_(pa.string()),
    pa.timestamp("ns"),
    pa.decimal128(20, 2),
    pa.dictionary(pa.int8(), pa.string()),
]
FOR_ALL = [
    ["--wide"],
    ["--long", "1", "2", "3"],
    ["--long", "value", "query", "key"],
    ["--missing", "NA"],
    ["--missing", ""],
]
FOR_TEXT = [["--encoding", "latin-1"], ["--encoding", "utf-16"], ["--suffix", ".jsonl"], ["--suffix", ".csv"]]
FOR_DELIMITED = [["--header"], ["--no-header"], ["--no-quotes"], ["--delimiter", ";"], ["--delimiter", "tab"]]


def make(random: Random, folder: Path) -> list[str]:
    """A table, valid or broken, and a command that reads it."""
    if random.random() < 0.01:
        return _bomb(random, folder)
    suffix = random.choice(SUFFIXES)
    content = _content(random, suffix.removesuffix(".gz"))
    if random.random() < 0.4:
        content = changed_bytes(random, content)
    if suffix.endswith(".gz"):
        content = gzip.compress(content, 1) if random.random() < 0.95 else content
        content = changed_bytes(random, content) if random.random() < 0.2 else content
    path = folder / f"facts{random.choice(['', '', chr(27) + '[31m'])}{suffix}"
    path.write_bytes(content)
    options = [word for _ in range(random.choice([0, 0, 1, 1, 2])) for word in random.choice(_options(random, suffix))]
    options += ["--multi"] if random.random() < 0.7 else []
    options += ["--delimiter", ","] if suffix == ".dat" and random.random() < 0.9 else []
    if random.random() < 0.2:
        return ["measure", str(path), "--budget", "0", "--explain", *options]
    return ["convert", str(path), str(folder / random.choice(["out.jsonl", "out.nt", "out.ttl", "out.csv"])), *options]


def _bomb(random: Random, folder: Path) -> list[str]:
    """A small file that unzips to 1.5 GiB: one endless line, a quote that is never closed, or names without number."""
    path = folder / f"facts{random.choice(['.csv', '.tsv', '.jsonl', '.nt'])}.gz"
    start, block = random.choice([(b"", b"x"), (b'key,query,value\na,b,"', b"line\n"), (b"a", b",")])
    path.write_bytes(gzip.compress(start) + gzip.compress(block * (BOMB_BLOCK // len(block)), 1) * 96)
    return ["convert", str(path), str(folder / "out.jsonl"), *random.choice([[], ["--wide"], ["--no-header"]])]


def _options(random: Random, suffix: str) -> list[list[str]]:
    """Options that go with a format, and now and then those of another."""
    if random.random() < 0.1 or suffix[:4] in (".csv", ".tsv", ".txt", ".dat"):
        return FOR_ALL + FOR_DELIMITED + FOR_DELIMITED + FOR_TEXT
    return FOR_ALL if suffix == ".parquet" else FOR_ALL + FOR_TEXT


def _content(random: Random, suffix: str) -> bytes:
    n_rows, odd = random.choice([0, *[1, 2, 8, 60] * 3]), random.choice([0.0, 0.02, 0.2])
    header = random.choice(HEADERS)
    if suffix == ".parquet":
        return _parquet(random, header, n_rows, odd)
    if suffix in (".nt", ".nq"):
        return written("".join(_statement(random, odd) for _ in range(n_rows)))
    if suffix == ".ttl":
        return written("@prefix e: <urn:e:> .\n" + "".join(_statement(random, odd, TURTLE) for _ in range(n_rows)))
    if suffix == ".jsonl":
        return written(
            "".join(json.dumps(_object(random, header, odd), ensure_ascii=False) + "\n" for _ in range(n_rows))
        )
    mark = random.choice([*"," * 6, "\t", ";", "|"]) if suffix in (".csv", ".dat") else "\t"
    lines = [header, *([_field(random, odd) for _ in header] for _ in range(n_rows))]
    text = random.choice(["\n", "\r\n", "\r"]).join(mark.join(line) for line in lines)
    return text.encode(random.choice(["utf-8"] * 8 + ["utf-16", "utf-32", "latin-1"]), "ignore")


def _field(random: Random, odd: float) -> str:
    text = some_text(random) if random.random() < odd else random.choice([*"abcdefgh", "\x1b[31m", "\u202e[red]"])
    return '"' + text.replace('"', '""') + '"' if random.random() < 0.2 else text


def _object(random: Random, header: list[str], odd: float) -> dict[str, object]:
    usual = [*"abcd", "\x1b[31m", "\u202e[red]", 3, 0.5, True]
    return {name: some_plain(random, 1) if random.random() < odd else random.choice(usual) for name in header}


TURTLE = ("e:f", "[]", "[ e:g 1.5 ; e:h true ]", "( 1 [] 'i' )", '"""two\nlines"""', "<j>")


def _statement(random: Random, odd: float, more: Sequence[str] = ()) -> str:
    nodes = ["<urn:a>", "<urn:b>", "_:c", "<urn:\\u0041>", "<urn:factrank:%1B>"]
    terms = [*nodes, '"d"', '"e"@en', '"1"^^<urn:int>', r'"\u001b\n"', f'"{some_text(random)}"']
    end = "" if random.random() < odd / 4 else "."
    predicate = random.choice(terms if random.random() < odd / 4 else nodes[:2])
    object_ = terms[-1] if random.random() < odd else random.choice([*terms[:-1], *more])
    return f"{random.choice(nodes)} {predicate} {object_} {end}\n"


def _parquet(random: Random, header: list[str], n_rows: int, odd: float) -> bytes:
    names = [encodable_text(random) if random.random() < odd else name for name in header]
    arrays = []
    for _ in names:
        kind = random.choice(CELL_TYPES) if random.random() < odd else pa.string()
        some = [*"abcd", "\x1b[31m"] + [name for name in [None, *NAMES] if odd and "\ud800" not in (name or "")]
        texts = [random.choice(some) for _ in range(n_rows)]
        try:
            arrays.append(pa.array(texts, pa.string()).cast(kind))
        except (pa.ArrowException, ValueError):
            arrays.append(pa.nulls(n_rows, pa.string()))
    stream = io.BytesIO()
    pq.write_table(
        pa.Table.from_arrays(arrays, names=names), stream, compression=random.choice(["none", "zstd", "snappy"])
    )
    return stream.getvalue()
