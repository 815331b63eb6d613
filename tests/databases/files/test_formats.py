"""Files: what is written is read back in every format, and nothing but a named error comes out of a bad file."""

from __future__ import annotations

import gzip
import itertools
import os
import stat
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from factrank.databases.database import Database
from factrank.databases.files.delimited import Delimited
from factrank.databases.files.formats import FORMATS, read, register_format, registered_format, write
from factrank.databases.files.records import Dialect
from factrank.errors import ConflictError, FactrankError, InputError

SUFFIXES = sorted(FORMATS)
VARIED_SUFFIXES = [".csv", ".tsv.gz", ".jsonl", ".nt.gz", ".parquet"]
WIDE_SUFFIXES = [".csv.gz", ".tsv", ".jsonl.gz", ".parquet"]
LINE_SUFFIXES = [".csv", ".tsv", ".jsonl", ".nt", ".nq", ".ttl"]

AWKWARD = [
    "a,b",
    "a\tb",
    'say "x"',
    '"',
    "two\nlines",
    "a\r\nb",
    "\r",
    "#",
    "01",
    "1",
    "1.0",
    "NA",
    "null",
    "NaN",
    "true",
]
AWKWARD += [
    " x ",
    "%41",
    "é",
    "日本",
    "\U0001f600",
    "\u2028",
    "\x85",
    "\x1f",
    "key",
    "_:b",
    "http://a.b/c",
    '"5"@en',
    "'",
]
names = st.sampled_from(AWKWARD) | st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1
)
facts = st.dictionaries(st.tuples(names, names), names, min_size=1, max_size=12)

thorough = settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])


def functional(facts: dict[tuple[str, str], str]) -> Database:
    return Database.from_facts((key, query, value) for (key, query), value in facts.items())


def people() -> Database:
    return Database.from_facts([("Ann", "city", "Oslo"), ("Ann", "born", "01"), ("Bob", "city", "Lima")])


@pytest.mark.parametrize("suffix", VARIED_SUFFIXES)
@given(facts=facts)
@thorough
def test_what_is_written_is_read_back(tmp_path: Path, suffix: str, facts: dict[tuple[str, str], str]) -> None:
    database = functional(facts)
    write(database, tmp_path / f"facts{suffix}")
    assert read(tmp_path / f"facts{suffix}") == database


@pytest.mark.parametrize("suffix", WIDE_SUFFIXES)
@given(facts=facts)
@example(facts={("Ann", "key"): "1", ("Ann", "key_"): "2", ("Bob", "KEY"): "3"})
@thorough
def test_wide_files_are_read_back(tmp_path: Path, suffix: str, facts: dict[tuple[str, str], str]) -> None:
    database = functional(facts)
    write(database, tmp_path / f"facts{suffix}", wide=True)
    assert read(tmp_path / f"facts{suffix}", wide=True) == database


def test_the_formats_of_the_suffixes() -> None:
    kinds = {
        ".csv": ".csv",
        ".tsv": ".tsv .tab .txt",
        ".jsonl": ".jsonl .ndjson",
        ".nt": ".nt",
        ".nq": ".nq",
        ".ttl": ".ttl",
    }
    expected = {name + gz: kind for kind, names in kinds.items() for name in names.split() for gz in ("", ".gz")}
    expected |= {".parquet": ".parquet", ".pq": ".parquet"}
    assert {suffix: FORMATS[kind] for suffix, kind in expected.items()} == FORMATS


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_several_values_are_read_back_when_asked_for(tmp_path: Path, suffix: str) -> None:
    database = Database.from_facts([("Ann", "likes", "tea"), ("Ann", "likes", "rum")], multi=True)
    write(database, tmp_path / f"facts{suffix}")
    assert read(tmp_path / f"facts{suffix}", multi=True) == database
    with pytest.raises(ConflictError, match=r"\(Ann, likes\)"):
        read(tmp_path / f"facts{suffix}")


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_names_keep_the_order_of_the_file(tmp_path: Path, suffix: str) -> None:
    write(people(), tmp_path / f"facts{suffix}")
    again = read(tmp_path / f"facts{suffix}")
    assert (tuple(again.keys), tuple(again.queries)) == (("Ann", "Bob"), ("city", "born"))
    assert tuple(again.values) == ("Oslo", "01", "Lima")


def test_suffixes_do_not_depend_on_case_and_gz_means_gzip(tmp_path: Path) -> None:
    write(people(), tmp_path / "Facts.CSV.GZ")
    text = gzip.decompress((tmp_path / "Facts.CSV.GZ").read_bytes()).decode()
    assert text == "key,query,value\nAnn,city,Oslo\nAnn,born,01\nBob,city,Lima\n"
    assert read(str(tmp_path / "Facts.CSV.GZ")) == people()


def test_writing_twice_gives_the_same_bytes(tmp_path: Path) -> None:
    for suffix in SUFFIXES:
        write(people(), tmp_path / f"a{suffix}")
        write(people(), tmp_path / f"b{suffix}")
        assert (tmp_path / f"a{suffix}").read_bytes() == (tmp_path / f"b{suffix}").read_bytes(), suffix


def test_large_files_are_written_in_several_batches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("factrank.databases.files.rows.CELLS_AT_ONCE", 7)
    database = Database.from_facts((f"k{i}", f"q{j}", i * j) for i, j in itertools.product(range(20), range(5)))
    for suffix in LINE_SUFFIXES:
        write(database, tmp_path / f"facts{suffix}")
        assert read(tmp_path / f"facts{suffix}") == database


# ---------------------------------------------------------------- writing in one step


def test_a_failed_write_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "facts.csv"
    write(people(), path)
    with pytest.raises(InputError, match="cannot be written: in delimited text an empty field"):
        write(Database.from_facts([("Ann", "city", "")]), path)
    assert read(path) == people()
    assert [entry.name for entry in tmp_path.iterdir()] == ["facts.csv"]


def test_a_link_stays_a_link_and_the_permissions_are_the_usual(tmp_path: Path) -> None:
    (tmp_path / "link.csv").symlink_to(tmp_path / "facts.csv")
    write(people(), tmp_path / "link.csv")
    (tmp_path / "plain").touch()
    assert (tmp_path / "link.csv").is_symlink()
    modes = {stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("facts.csv", "plain")}
    assert len(modes) == 1


def test_what_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    several = Database.from_facts([("Ann", "likes", "tea"), ("Ann", "likes", "rum")], multi=True)
    with pytest.raises(InputError, match="wide form has one value"):
        write(several, tmp_path / "facts.csv", wide=True)
    with pytest.raises(InputError, match="no wide form"):
        write(people(), tmp_path / "facts.nt", wide=True)
    with pytest.raises(InputError, match="NUL"):
        write(Database.from_facts([("a\0", "b", "c")]), tmp_path / "facts.tsv")
    with pytest.raises(InputError, match=r"missing.facts\.csv: cannot be written: No such file"):
        write(people(), tmp_path / "missing" / "facts.csv")
    (tmp_path / "folder.csv").mkdir()
    with pytest.raises(InputError, match="is a directory"):
        write(people(), tmp_path / "folder.csv")
    assert [entry.name for entry in tmp_path.iterdir()] == ["folder.csv"]


# ---------------------------------------------------------------- bad files


def test_an_unknown_suffix_lists_the_known_ones(tmp_path: Path) -> None:
    for name in ("facts.xlsx", "facts", "facts.parquet.gz"):
        with pytest.raises(InputError, match=r"facts.*unknown file format.*\.csv .*\.nt\.gz .*\.parquet"):
            write(people(), tmp_path / name)
        (tmp_path / name).write_text("key,query,value\na,b,c\n")
        with pytest.raises(InputError, match="unknown file format"):
            read(tmp_path / name)


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_missing_empty_and_unreadable_files(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"facts{suffix}"
    with pytest.raises(InputError, match=rf"facts{suffix}: no such file"):
        read(path)
    path.write_bytes(gzip.compress(b"") if suffix.endswith(".gz") else b"")
    with pytest.raises(InputError, match=rf"facts{suffix}: the file is empty"):
        read(path)
    path.unlink()
    path.mkdir()
    with pytest.raises(InputError, match=rf"facts{suffix}: is a directory"):
        read(path)
    path.rmdir()
    os.mkfifo(path)
    with pytest.raises(InputError, match=rf"facts{suffix}: is not a regular file"):
        read(path)


def test_a_file_without_permission(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "facts.csv"
    write(people(), path)

    def denied(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", denied)
    with pytest.raises(InputError, match=r"facts\.csv: cannot be read: Permission denied"):
        read(path)


@pytest.mark.parametrize("suffix", LINE_SUFFIXES)
def test_binary_files(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"facts{suffix}"
    write(people(), path)
    text = path.read_bytes()
    path.write_bytes(text + b"\0")
    with pytest.raises(InputError, match=rf"facts{suffix}, line {text.count(10) + 1}: a NUL byte"):
        read(path)
    path.write_bytes(text.replace(b"Lima", b"Li\0a"))
    with pytest.raises(InputError, match=rf"facts{suffix}, line {text.count(10)}: a NUL byte"):
        read(path)
    path.write_bytes(text.replace(b"Oslo", b"Osl\xf8"))
    with pytest.raises(InputError, match=rf"facts{suffix}, line {2 if suffix in ('.csv', '.tsv') else 1}: not UTF-8"):
        read(path)


@pytest.mark.parametrize("suffix", [suffix + ".gz" for suffix in LINE_SUFFIXES])
def test_damaged_gzip(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"facts{suffix}"
    write(people(), path)
    whole = path.read_bytes()
    path.write_bytes(whole[:-12])
    with pytest.raises(InputError, match=rf"facts{suffix}: the gzip file is truncated"):
        read(path)
    path.write_bytes(gzip.decompress(whole))
    with pytest.raises(InputError, match=rf"facts{suffix}: not a gzip file"):
        read(path)
    path.write_bytes(whole[:-8] + b"\0" * 8)
    with pytest.raises(InputError, match=rf"facts{suffix}: not a gzip file, or a corrupt one \(CRC check failed"):
        read(path)
    path.write_bytes(whole[:10] + b"\xff" * 10)
    with pytest.raises(InputError, match=rf"facts{suffix}: not a gzip file, or a corrupt one \(.*invalid block type"):
        read(path)


def test_truncated_and_foreign_parquet(tmp_path: Path) -> None:
    path = tmp_path / "facts.parquet"
    write(people(), path)
    whole = path.read_bytes()
    for data in (whole[:-20], whole[: len(whole) // 2], b"key,query,value\na,b,c\n", whole[:40] + b"#" + whole[41:]):
        path.write_bytes(data)
        with pytest.raises(InputError, match=r"facts\.parquet: not a readable Parquet file"):
            read(path)


@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".jsonl", ".nt"])
def test_conflicts_name_their_lines(tmp_path: Path, suffix: str) -> None:
    first = [(f"k{i}", "q", "old") for i in range(7)]
    later = [(f"k{i}", "q", "new") for i in range(7)]
    database = Database.from_facts(first + later, multi=True)
    path = tmp_path / f"facts{suffix}"
    write(database, path)
    header = suffix in (".csv", ".tsv")
    with pytest.raises(ConflictError) as caught:
        read(path)
    message = str(caught.value)
    assert message.startswith(f"{path}: 7 (key, query) pairs have more than one value")
    for line, fact in enumerate(["(k0, q, old)", "(k0, q, new)", "(k1, q, old)"], start=1 + header):
        assert f"line {line}: {fact}" in message
    assert message.count("  line ") == 10
    assert "--multi" in message


def test_conflicts_in_parquet_name_their_rows(tmp_path: Path) -> None:
    database = Database.from_facts([("a", "q", "1"), ("b", "q", "1"), ("b", "q", "2")], multi=True)
    write(database, tmp_path / "facts.pq")
    with pytest.raises(ConflictError, match=r"row 2: \(b, q, 1\)\n  row 3: \(b, q, 2\)"):
        read(tmp_path / "facts.pq")


def test_options_that_do_not_go_together(tmp_path: Path) -> None:
    write(people(), tmp_path / "facts.csv")
    write(people(), tmp_path / "facts.nt")
    with pytest.raises(InputError, match="not both"):
        read(tmp_path / "facts.csv", long=("key", "query", "value"), wide=True)
    with pytest.raises(InputError, match="three columns"):
        read(tmp_path / "facts.csv", long=("key", "query"))
    with pytest.raises(InputError, match="needs a header"):
        read(tmp_path / "facts.csv", wide=True, header=False)
    with pytest.raises(InputError, match="only CSV and TSV"):
        read(tmp_path / "facts.nt", header=False)
    with pytest.raises(InputError, match="no wide form"):
        read(tmp_path / "facts.nt", wide=True)


# ---------------------------------------------------------------- fuzz


def read_or_complain(path: Path) -> None:
    for options in ({}, {"wide": True}, {"suffix": ".csv", "header": False}, {"long": (3, 2, 1), "multi": True}):
        try:
            read(path, **options)  # type: ignore[arg-type]
        except FactrankError:
            continue


@pytest.mark.filterwarnings("ignore::factrank.errors.InputWarning")
@pytest.mark.parametrize("suffix", VARIED_SUFFIXES)
@given(data=st.binary(max_size=200) | st.text('ab,\t"\n\r {}:<>.\\u_#é01', max_size=60).map(str.encode))
@thorough
def test_arbitrary_bytes_give_a_database_or_a_named_error(tmp_path: Path, suffix: str, data: bytes) -> None:
    path = tmp_path / f"facts{suffix}"
    path.write_bytes(gzip.compress(data) if suffix.endswith(".gz") and len(data) % 2 else data)
    read_or_complain(path)


@pytest.mark.filterwarnings("ignore::factrank.errors.InputWarning")
@pytest.mark.parametrize("suffix", VARIED_SUFFIXES)
@given(data=st.data())
@thorough
def test_damaged_files_give_a_database_or_a_named_error(tmp_path: Path, suffix: str, data: st.DataObject) -> None:
    path = tmp_path / f"facts{suffix}"
    write(people(), path)
    content = bytearray(path.read_bytes())
    places = st.integers(0, len(content) - 1)
    for place, byte in data.draw(st.lists(st.tuples(places, st.integers(0, 255)), min_size=1, max_size=4)):
        content[place] = byte
    del content[data.draw(places | st.just(len(content))) :]
    path.write_bytes(content)
    read_or_complain(path)


def test_names_that_no_file_can_have(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be read"):
        read(tmp_path / ("a" * 300 + ".csv"))
    with pytest.raises(InputError, match="cannot be read"):
        read("nul\0.csv")


def test_only_regular_files_are_replaced(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe.csv"
    os.mkfifo(pipe)
    with pytest.raises(InputError, match="not a regular file"):
        write(people(), pipe)
    assert pipe.is_fifo()


def test_tabs_in_a_csv_header_are_hinted_at(tmp_path: Path) -> None:
    (tmp_path / "tabs.csv").write_text("key\tquery\tvalue\na\tb\tc\n")
    with pytest.raises(InputError, match=r"--delimiter \"tab\""):
        read(tmp_path / "tabs.csv")


def test_a_format_of_ones_own_is_known_by_its_suffix(tmp_path: Path) -> None:
    bars = Delimited(Dialect("|"))
    with registered_format(".psv", bars):
        write(people(), tmp_path / "people.psv")
        assert "|" in (tmp_path / "people.psv").read_text()
        assert read(tmp_path / "people.psv") == people()
        with pytest.raises(InputError, match=r"already a file format '.csv': choose another name"):
            register_format(".csv", bars)
    with pytest.raises(InputError, match=r"unknown file format; the known suffixes are \.csv"):
        read(tmp_path / "people.psv")


@pytest.mark.parametrize(
    ("suffix", "kind", "message"),
    [
        ("psv", Delimited(Dialect("|")), "a suffix is a dot and lower-case letters or digits, such as .psv; got 'psv'"),
        (".PSV", Delimited(Dialect("|")), "a suffix is a dot and lower-case letters"),
        (".psv", Delimited, "expected a format with place, .* and write; got the class Delimited"),
        (".psv", "bars", "expected a format with place, .* and write; got str"),
    ],
)
def test_what_is_no_format_is_refused(suffix: str, kind: object, message: str) -> None:
    with pytest.raises(InputError, match=message):
        FORMATS.register(suffix, kind)
