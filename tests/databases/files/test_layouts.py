"""What a file leaves open: delimiter, encoding, missing cells, quotes, several files, standard input, bounds."""

from __future__ import annotations

import gzip
import io
import json
import sys
import tracemalloc
from contextlib import suppress
from pathlib import Path

import pytest

from factrank.databases.files.formats import FileLayout, read, read_changes, write
from factrank.databases.files.text_blocks import _Loan
from factrank.databases.tables import from_table
from factrank.errors import ConflictError, InputError, InputWarning


def saved(folder: Path, content: str | bytes, name: str = "facts.csv") -> Path:
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


# ---------------------------------------------------------------- delimiters, quotes, encodings


@pytest.mark.parametrize(
    ("spelled", "mark"), [(";", ";"), ("|", "|"), ("tab", "\t"), ("\\t", "\t"), ("\t", "\t"), (" ", " ")]
)
@pytest.mark.parametrize("name", ["facts.csv", "facts.tsv.gz", "facts.dat"])
def test_delimiters(tmp_path: Path, spelled: str, mark: str, name: str) -> None:
    text = f"key{mark}query{mark}value\na{mark}b,c{mark}{'d'}\n".encode()
    path = saved(tmp_path, gzip.compress(text) if name.endswith(".gz") else text, name)
    assert set(read(path, delimiter=spelled)) == {("a", "b,c", "d")}


@pytest.mark.parametrize("delimiter", ["", ";;", '"', "\n", "é", "\0"])
def test_delimiters_that_are_none(tmp_path: Path, delimiter: str) -> None:
    with pytest.raises(InputError, match="expected one ASCII character"):
        read(saved(tmp_path, "key,query,value\na,b,c\n"), delimiter=delimiter)


def test_one_column_suggests_the_delimiter(tmp_path: Path) -> None:
    path = saved(tmp_path, "key;query;value\na;b;c\n")
    for wide in (False, True):
        with pytest.raises(InputError, match=r"if ';' separates the columns, pass delimiter=.;. \(--delimiter"):
            read(path, wide=wide)


def test_quotes_as_letters(tmp_path: Path) -> None:
    path = saved(tmp_path, 'key\tquery\tvalue\n"a\tb"\t"c"\nd"\te\tf\n', "facts.tsv")
    with pytest.raises(InputError, match="line 2: expected 3 fields, found 2"):
        read(path)
    assert set(read(path, quotes=False)) == {('"a', 'b"', '"c"'), ('d"', "e", "f")}
    path = saved(tmp_path, 'key\tquery\tvalue\na\tb\tc\n"d\te\tf\n', "lone.tsv")
    with pytest.raises(InputError, match=r"line 3: a quote in this record .* pass quotes=False \(--no-quotes\)"):
        read(path)
    assert ('"d', "e", "f") in read(path, quotes=False)


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-32", "latin-1", "cp1252", "utf-8-sig"])
@pytest.mark.parametrize("name", ["facts.csv", "facts.jsonl", "facts.csv.gz"])
def test_encodings(tmp_path: Path, encoding: str, name: str) -> None:
    write(read(saved(tmp_path, "key,query,value\nÅse,née,Ünï\n")), tmp_path / name)
    content = (tmp_path / name).read_bytes()
    text = (gzip.decompress(content) if name.endswith(".gz") else content).decode().encode(encoding)
    path = saved(tmp_path, gzip.compress(text) if name.endswith(".gz") else text, name)
    assert set(read(path, encoding=encoding)) == {("Åse", "née", "Ünï")}
    if encoding in ("utf-16", "utf-32", "utf-8-sig"):
        assert set(read(path)) == {("Åse", "née", "Ünï")}, "recognised by its byte order mark"
    else:
        with pytest.raises(InputError, match=r"line 1: a NUL byte|line \d: not UTF-8 text.*--encoding"):
            read(path)


def test_other_encodings_in_pieces_and_damaged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("factrank.databases.source_files.PIECE_BYTES", 5)
    facts = "".join(f"k{n},é,{n}\n" for n in range(50))
    path = saved(tmp_path, ("key,query,value\n" + facts).encode("utf-16"))
    assert len(read(path)) == 50
    path.write_bytes(path.read_bytes() + b"\x00")
    with pytest.raises(InputError, match="from line 52 on: not utf-16 text"):
        read(path)
    for name in ("zip", "no such", "rot13", "", "nul\0"):
        with pytest.raises(InputError, match=r"encoding \(--encoding\): unknown encoding"):
            read(path, encoding=name)


def test_options_are_for_the_files_that_have_them(tmp_path: Path) -> None:
    write(read(saved(tmp_path, "key,query,value\na,b,c\n")), tmp_path / "facts.parquet")
    write(read(saved(tmp_path, "key,query,value\na,b,c\n")), tmp_path / "facts.jsonl")
    with pytest.raises(InputError, match="only text files have an encoding"):
        read(tmp_path / "facts.parquet", encoding="latin-1")
    for options in ({"delimiter": ";"}, {"quotes": False}):
        with pytest.raises(InputError, match="only CSV and TSV files"):
            read(tmp_path / "facts.jsonl", **options)


# ---------------------------------------------------------------- missing cells


@pytest.mark.parametrize("suffix", [".csv", ".jsonl", ".parquet", ".nt"])
def test_missing_values_are_no_facts(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"facts{suffix}"
    write(read(saved(tmp_path, "key,query,value\na,b,NA\nc,d,e\nf,b,?\nc,g,e\n")), path)
    assert len(read(path)) == 4
    assert len(read(path, missing=["NA"])) == 3
    database = read(path, missing=["NA", "?"])
    assert set(database) == {("c", "d", "e"), ("c", "g", "e")}
    assert (tuple(database.keys), tuple(database.values)) == (("c",), ("e",))


def test_missing_keys_and_queries_are_errors(tmp_path: Path) -> None:
    for text in ("key,query,value\na,b,c\nNA,b,c\n", "key,query,value\na,b,c\nd,NA,NA\n"):
        with pytest.raises(InputError, match=r"line 3: empty cell in column '(key|query)'"):
            read(saved(tmp_path, text), missing=["NA"])
    with pytest.raises(InputError, match="line 2: empty cell in column 'value'"):
        read(saved(tmp_path, "key,query,value\na,b,\n"))
    assert len(read(saved(tmp_path, "key,query,value\na,b,\nc,d,e\n"), missing=[""])) == 1


def test_missing_cells_of_wide_tables(tmp_path: Path) -> None:
    path = saved(tmp_path, "name,born,city\nAnn,NA,Oslo\nBob,-,NA\nCem,1,-\n")
    facts = {("Ann", "city", "Oslo"), ("Cem", "born", "1")}
    assert set(read(path, wide=True, missing=["NA", "-"])) == facts
    table = {"name": ["Ann", "Bob", "Cem"], "born": ["NA", "-", "1"], "city": ["Oslo", "NA", "-"]}
    import pyarrow as pa

    assert set(from_table(pa.table(table), wide=True, missing=["NA", "-"])) == facts


def test_missing_values_delete_in_a_table_of_changes(tmp_path: Path) -> None:
    path = saved(tmp_path, "a;b;NA\nc;d;e\n", "changes.csv")
    layout = FileLayout(header=False, missing=["NA"], delimiter=";")
    assert [change[1:] for change in read_changes(path, layout)] == [("a", "b", None), ("c", "d", "e")]


# ---------------------------------------------------------------- several files, standard input


def test_several_files_are_one_table(tmp_path: Path) -> None:
    first = saved(tmp_path, "key,query,value\na,q,1\na,q,1\nb,q,2\n")
    second = saved(tmp_path, '{"s": "b", "p": "q", "o": "2"}\n{"s": "c", "p": "q", "o": "3"}\n', "more.jsonl")
    database = read([first, second])
    assert set(database) == {("a", "q", "1"), ("b", "q", "2"), ("c", "q", "3")}
    assert database.duplicates == 2
    third = saved(tmp_path, "key,query,value\nx,y,z\nc,q,4\n", "other.csv")
    with pytest.raises(ConflictError, match=r"more.jsonl, line 2: \(c, q, 3\)\n .*other.csv, line 3: \(c, q, 4\)"):
        read([first, second, third])
    assert len(read([first, second, third], multi=True)) == 5
    with pytest.raises(InputError, match="no file"):
        read([])


def piped(monkeypatch: pytest.MonkeyPatch, content: bytes) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))


@pytest.mark.parametrize("suffix", [None, ".jsonl", ".tsv.gz", ".parquet"])
def test_standard_input(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, suffix: str | None) -> None:
    database = read(saved(tmp_path, "key,query,value\na,q,1\nb,q,2\n"))
    path = tmp_path / f"again{suffix or '.csv'}"
    write(database, path)
    piped(monkeypatch, path.read_bytes())
    assert read("-", suffix=suffix) == database


def test_standard_input_has_a_name_in_errors(monkeypatch: pytest.MonkeyPatch) -> None:
    piped(monkeypatch, b"key,query,value\na,q\n")
    with pytest.raises(InputError, match=r"^standard input, line 2: expected 3 fields"):
        read("-")
    piped(monkeypatch, b"")
    with pytest.raises(InputError, match=r"^standard input: the file is empty"):
        read("-")
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(InputError, match=r"^standard input: cannot be read"):
        read("-")


def test_standard_input_is_read_once(call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    piped(monkeypatch, b"key,query,value\na,q,1\n")
    with pytest.raises(InputError, match=r"^standard input \(-\) can only be read once"):
        read(["-", saved(tmp_path, "key,query,value\na,q,1\n"), "-"])
    code, _, err = call("edit", "any.safetensors", "--from", "-", "--from", "-")
    assert (code, "can only be read once" in err) == (2, True)


def test_standard_input_has_a_name_in_reports(call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    saved(tmp_path, "key,query,value\nb,q,2\n", "more.csv")
    piped(monkeypatch, b"key,query,value\na,q,1\n")
    assert call("measure", "more.csv", "-")[1].startswith("more.csv, standard input\n2 facts")


def test_changes_are_never_wide(tmp_path: Path) -> None:
    path = saved(tmp_path, "name,capital,currency\nNorway,Oslo,Krone\n")
    with pytest.warns(InputWarning) as read_in:
        read(path)
    with pytest.warns(InputWarning) as edited_in:
        assert len(list(read_changes(path))) == 1
    assert ["--wide" in str(each.message) for each in (*read_in, *edited_in)] == [False, True, False, False]


def test_every_command_that_reads_a_table_has_the_options(call, tmp_path: Path) -> None:
    for command in ("measure", "train", "construct", "recall", "verify", "convert", "edit"):
        text = call(command, "--help")[1]
        for option in ("--delimiter", "--encoding", "--missing", "--no-quotes", "--no-header", "--suffix"):
            assert option in text, command
    saved(tmp_path, "a;b;c\nk;q;NA\nk;r;'é\n".encode("latin-1"), "odd.txt")
    saved(tmp_path, "key;query;value\nl;r;1\n", "more.csv")
    options = ["--delimiter", ";", "--encoding", "latin-1", "--missing", "NA", "--no-quotes", "--header"]
    code, out, err = call("convert", "odd.txt", "more.csv", "both.jsonl", *options, "--long", "1", "2", "3")
    assert (code, out, err) == (0, "2 facts written to both.jsonl\n", "")
    lines = (tmp_path / "both.jsonl").read_text(encoding="utf-8").splitlines()
    assert json.loads(lines[0]) == {"key": "k", "query": "r", "value": "'é"}


def test_the_command_line_reports_guesses(call, tmp_path: Path) -> None:
    saved(tmp_path, "Oslo,capital_of,Norway\nLima,seat_of,Peru\n", "cities.csv")
    code, out, err = call("convert", "cities.csv", "out.csv")
    assert (code, out) == (0, "1 facts written to out.csv\n")
    assert "factrank: cities.csv: line 1 is taken as the header" in err
    assert "factrank: cities.csv: read as long, one fact per row" in err
    assert call("convert", "cities.csv", "out.csv", "--no-header") == (0, "2 facts written to out.csv\n", "")
    assert call("convert", "cities.csv", "out.csv", "--wide") == (0, "2 facts written to out.csv\n", "")


# ---------------------------------------------------------------- bounds


@pytest.mark.parametrize("name", ["facts.csv.gz", "facts.jsonl.gz", "facts.nt.gz", "facts.tsv.gz"])
def test_endless_lines_are_not_held(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setattr("factrank.databases.source_files.LONGEST_LINE", 1 << 20)
    path = saved(tmp_path, gzip.compress(b"x" * (32 << 20), 1), name)
    tracemalloc.start()
    try:
        with pytest.raises(InputError, match="line 1: longer than 1 MiB"):
            read(path)
        assert tracemalloc.get_traced_memory()[1] < 12 << 20
    finally:
        tracemalloc.stop()


def test_endless_quoted_fields_are_not_held(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("factrank.databases.files.records.LONGEST_LINE", 1 << 16)
    path = saved(tmp_path, 'key,query,value\na,b,"' + "a line of text\n" * (1 << 17))
    tracemalloc.start()
    try:
        with pytest.raises(InputError, match=r"line 2: a quote is open for more than 0 MiB; .*--no-quotes"):
            list(read_changes(path))
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


def test_columns_without_number_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"facts.csv: 40,001 columns, but at most 32,768"):
        read(saved(tmp_path, "key," + ",".join(map(str, range(40_000))) + "\na,b\n"), wide=True)


@pytest.mark.parametrize("end", ["\n", "\r", "\r\n"])
def test_lines_in_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, end: str) -> None:
    """Files with any line ends are cut into the same lines, wherever a piece ends."""
    path = saved(tmp_path, end.join(["key,query,value", *(f"k{n},q,{n}" for n in range(30)), "k,q"]))
    for size in (1, 2, 3, 7, 64):
        monkeypatch.setattr("factrank.databases.source_files.PIECE_BYTES", size)
        with pytest.raises(InputError, match="line 32: expected 3 fields, found 2"):
            list(read_changes(path))


@pytest.mark.parametrize(
    "content",
    [b"key,query,value\na,b\n", b'key,query,value\na,b,"c\n', b"key,query,value\na,b,c\0\n", b"a,b,c\n1,2,3\n"],
)
@pytest.mark.filterwarnings("ignore::factrank.errors.InputWarning")
def test_arrow_holds_nothing_of_pythons_afterwards(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: bytes
) -> None:
    """A thread that held a Python object while the interpreter ends would abort the process."""
    loans = []
    began = _Loan.__init__

    def recorded(self: _Loan, *arguments: object, **options: object) -> None:
        began(self, *arguments, **options)  # type: ignore[arg-type]
        loans.append(self)

    monkeypatch.setattr(_Loan, "__init__", recorded)
    monkeypatch.setattr("factrank.databases.files.text_blocks.BLOCK_BYTES", 64)
    path = saved(tmp_path, content + b"k,q,v\n" * 100)
    with suppress(InputError):
        read(path, multi=True)
    assert loans
    assert all(len(loan._lent) > 1 for loan in loans)
    assert not any(lent() for loan in loans for lent in loan._lent)
