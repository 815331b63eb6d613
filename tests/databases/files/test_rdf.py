"""N-Triples, N-Quads and Turtle: any text survives in any position, errors name the line, blank nodes keep labels."""

from __future__ import annotations

import gzip
import re
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from pyoxigraph import RdfFormat, parse, serialize

from factrank.databases.database import Database
from factrank.databases.files import rdf_statements
from factrank.databases.files.formats import read, write
from factrank.databases.files.rdf import POSITIONS, Position
from factrank.databases.files.rdf_terms import name_of, spelled
from factrank.errors import ConflictError, InputError

XSD = "http://www.w3.org/2001/XMLSchema#"

awkward = st.text('_:ab.<>"\\^@-u0\n\r\t %#/é\0\x7f')
likely = st.builds(
    "{}{}{}".format,
    st.sampled_from(["", "_:", "http://", "urn:factrank:", '"', '"5"^^<', '"a"@', "a:", "%41", f'"5"^^<{XSD}string>']),
    awkward | st.text(st.characters(exclude_categories=["Cs"])),
    st.sampled_from(["", ">", '"', '"@en', f'"^^<{XSD}int>', "."]),
)


@given(names=st.tuples(likely, likely, likely), space=st.sampled_from(["", " ", "\t"]))
@example(names=("_:a:b", "a.b:c", "_:a:b"), space=" ")
@example(names=("_:b.", "_:b", "_:b."), space=" ")
@example(names=("", "", ""), space=" ")
@example(names=("a:b\\c", "http://a/%zz", "http://["), space=" ")
@example(names=("x:\ue000", "urn:factrank:%41", f'"5"^^<{XSD}string>'), space=" ")
@example(names=("http://a/../b", "http://a/./c", '"x"@EN'), space=" ")
@example(names=("a", "b", '"\\u0041"@en'), space=" ")
@example(names=("a", "b", '"\\uD800"@en'), space=" ")
@example(names=("a", "b", f'"5"^^<{XSD}integer>'), space=" ")
@example(names=("a", "b", '"a"@en . #'), space=" ")
@example(names=("a", "b", '"a"@en .\n<a:b> <a:b> "b"@en'), space=" ")
@settings(deadline=None, max_examples=400)
def test_any_text_survives_in_any_position_of_either_syntax(names: tuple[str, str, str], space: str) -> None:
    tokens = [spelled(name, position) for name, position in zip(names, POSITIONS, strict=True)]
    assert not re.search("[\0\r\n]", "".join(tokens))
    line = f"{space}{' '.join(tokens)}\t.# comment .\r\n"
    for syntax in (RdfFormat.N_TRIPLES, RdfFormat.N_QUADS, RdfFormat.TURTLE):
        [triple] = parse(line.encode(), syntax)
        assert tuple(map(name_of, (triple.subject, triple.predicate, triple.object))) == names


@pytest.mark.parametrize(
    ("text", "subject", "predicate", "object_"),
    [
        ("Lima", "<urn:factrank:Lima>", "<urn:factrank:Lima>", '"Lima"'),
        ("http://a.b/é", "<http://a.b/é>", "<http://a.b/é>", "<http://a.b/é>"),
        ("_:b1", "_:b1", "<urn:factrank:_%3Ab1>", "_:b1"),
        ('"Lima"@es', "<urn:factrank:%22Lima%22%40es>", "<urn:factrank:%22Lima%22%40es>", '"Lima"@es'),
        ('"Lima"@ES', "<urn:factrank:%22Lima%22%40ES>", "<urn:factrank:%22Lima%22%40ES>", r'"\"Lima\"@ES"'),
        ("a b\n", "<urn:factrank:a%20b%0A>", "<urn:factrank:a%20b%0A>", '"a b\\n"'),
        ("\x01", "<urn:factrank:%01>", "<urn:factrank:%01>", '"\\u0001"'),
    ],
)
def test_spelling(text: str, subject: str, predicate: str, object_: str) -> None:
    expected: dict[Position, str] = {"subject": subject, "predicate": predicate, "object": object_}
    assert {position: spelled(text, position) for position in POSITIONS} == expected


@pytest.mark.parametrize(
    ("token", "name"),
    [
        (r'"\t\b\n\r\f\"\'\\"', "\t\b\n\r\f\"'\\"),
        (r'"\u00e9\U0001F600"', "é\U0001f600"),
        (r"<http://a/\u00E9>", "http://a/é"),
        (r'"a\u0062\t"@en-gb', r'"ab\t"@en-gb'),
        ('"a"@EN-gb', '"a"@en-gb'),  # RDF compares languages in lower case
        ('"a"@en--ltr', '"a"@en--ltr'),
        (rf'"\u0035"^^<{XSD}\u0069nt>', f'"5"^^<{XSD}int>'),
        (f'"5"^^<{XSD}string>', "5"),
        ("<urn:factrank:%C3%A9%20x>", "é x"),
    ],
)
def test_names_of_terms(token: str, name: str) -> None:
    [triple] = parse(f"<a:b> <a:b> {token} .", RdfFormat.N_TRIPLES)
    assert name_of(triple.object) == name


def saved(folder: Path, *lines: str, suffix: str = ".nt") -> Path:
    path = folder / f"facts{suffix}"
    path.write_text("\n".join(lines), encoding="utf-8", newline="")
    return path


@pytest.mark.parametrize("suffix", [".nt", ".nq", ".ttl"])
def test_a_file_of_every_kind_of_line(tmp_path: Path, suffix: str) -> None:
    path = saved(
        tmp_path,
        "\ufeff# a comment",
        "",
        '<http://a/s><http://a/p>"v".',
        "  _:x.y\t<http://a/p>  _:z . # more",
        f'<http://a/s> <http://a/q> "5"^^<{XSD}int> .',
        '<http://a/s> <http://a/r> "# no comment . \\" <x>"@en .\r',
        suffix=suffix,
    )
    assert sorted(read(path)) == [
        ("_:x.y", "http://a/p", "_:z"),
        ("http://a/s", "http://a/p", "v"),
        ("http://a/s", "http://a/q", f'"5"^^<{XSD}int>'),
        ("http://a/s", "http://a/r", '"# no comment . \\" <x>"@en'),
    ]


TURTLE = """@prefix e: <http://e/> .
@base <http://b/> .
e:Ann a <Person> ;
    e:name 'Ann', \"\"\"two
lines\"\"\"@en ;
    e:age 41 ; e:knows [ e:name "Bob" ] , [] .
_:x e:likes ( true "tea" ) .
"""
RDF = "http://www.w3.org/1999/02/22-rdf-syntax-ns#"


def test_a_turtle_file(tmp_path: Path) -> None:
    database = read(saved(tmp_path, TURTLE, suffix=".ttl"), multi=True)
    assert set(database) == {
        ("http://e/Ann", f"{RDF}type", "http://b/Person"),
        ("http://e/Ann", "http://e/name", "Ann"),
        ("http://e/Ann", "http://e/name", r'"two\nlines"@en'),
        ("http://e/Ann", "http://e/age", f'"41"^^<{XSD}integer>'),
        ("_:anonymous1", "http://e/name", "Bob"),
        ("http://e/Ann", "http://e/knows", "_:anonymous1"),
        ("http://e/Ann", "http://e/knows", "_:anonymous2"),
        ("_:x", "http://e/likes", "_:anonymous3"),
        ("_:anonymous3", f"{RDF}first", f'"true"^^<{XSD}boolean>'),
        ("_:anonymous3", f"{RDF}rest", "_:anonymous4"),
        ("_:anonymous4", f"{RDF}first", "tea"),
        ("_:anonymous4", f"{RDF}rest", f"{RDF}nil"),
    }
    assert read(tmp_path / "facts.ttl", multi=True) == database
    for name in ("copy.ttl.gz", "copy.nt"):
        write(database, tmp_path / name)
        assert read(tmp_path / name, multi=True) == database
    assert gzip.decompress((tmp_path / "copy.ttl.gz").read_bytes()) == (tmp_path / "copy.nt").read_bytes()


labels = st.sampled_from(["_:a", "_:b", "_:e123", "x", "http://e/y"])


@given(facts=st.sets(st.tuples(labels, st.sampled_from(["p", "http://e/q"]), labels | likely), min_size=1, max_size=8))
@settings(deadline=None, max_examples=60)
def test_what_another_program_writes_as_turtle_reads_as_the_same_facts(facts, tmp_path_factory) -> None:
    folder = tmp_path_factory.mktemp("turtle")
    database = Database.from_facts(facts, multi=True)
    write(database, folder / "facts.nt")
    triples = [quad.triple for quad in parse(path=folder / "facts.nt", format=RdfFormat.N_TRIPLES)]
    serialize(triples, str(folder / "facts.ttl"), RdfFormat.TURTLE, prefixes={"": "urn:factrank:", "e": "http://e/"})
    assert read(folder / "facts.ttl", multi=True) == database == read(folder / "facts.nt", multi=True)


def test_labels_of_the_file_and_given_ones_are_never_mixed_up(tmp_path: Path) -> None:
    labelled = saved(tmp_path, "_:anonymous1 <a:p> <a:o> .", suffix=".ttl")
    assert set(read(labelled)) == {("_:anonymous1", "a:p", "a:o")}
    for lines in (["_:anonymous1 <a:p> <a:o> .", "[] <a:p> <a:o> ."], ["[] <a:p> <a:o> .", "_:anonymous7 <a:p> 1 ."]):
        with pytest.raises(InputError, match=r"line 2: the label _:anonymous\d is reserved for blank nodes without"):
            read(saved(tmp_path, *lines, suffix=".ttl"))


def test_the_axes_can_be_permuted(tmp_path: Path) -> None:
    path = saved(tmp_path, '<http://a/s> <http://a/p> "v" .')
    assert set(read(path, long=("object", "predicate", "subject"))) == {("v", "http://a/p", "http://a/s")}


@pytest.mark.parametrize("suffix", [".nt", ".nq", ".ttl"])
def test_empty_and_control_texts_survive_a_file(tmp_path: Path, suffix: str) -> None:
    database = Database.from_facts([("", " ", ""), ("a\0", "b\n", "\x85\u2028\r")])
    write(database, tmp_path / f"facts{suffix}")
    assert read(tmp_path / f"facts{suffix}") == database


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("a b c .", "The subject of a triple must be an IRI or a blank node, at column 1, found 'a b c .'"),
        ('"a" <b> <c> .', "The subject"),
        ("<a> <b:> <c:> .", "No scheme found in an absolute IRI, at column 1, found '<a> <b:> <c:> .'"),
        ("<a:> _:b <c:> .", "The predicate of a triple must be an IRI, at column 6, found '_:b <c:> .'"),
        ("<a:> <b:> .", "The object of a triple must be an IRI, a blank node or a literal, at column 11, found '.'"),
        ("<a:> <b: c> <d:> .", "Invalid IRI code point ' ', at column 6"),
        ('<a:> <b:> "c"', "Triples must be followed by a dot, at column 14"),
        ('<a:> <b:> "c .\n<d:> <e:> f" .', "Line jumps are not allowed in string literals"),
        ('<a:> <b:> "\\q" .', "Unexpected escape character '\\q', at column 12"),
        ("<a:> <b:> <c:> <g:> .", "at column 16, found '<g:> .'"),
        ("<a:> <b:> <c:> . <d:>", "at column 18, found '<d:>'"),
        ('<a:> <b:> "\\uD800" .', "'\\uD800' is encoding D800 that is not a valid unicode character"),
        ("<a:\\u0020> <b:> <c:> .", "Invalid IRI code point ' '"),
        ("<a:\x1b> <b:> <c:> .", "Invalid IRI code point '\\x1b'"),
    ],
)
def test_errors_name_the_line_and_the_column(tmp_path: Path, line: str, message: str) -> None:
    path = saved(tmp_path, "<s:> <p:> <o:> .", "# comment", line)
    with pytest.raises(InputError, match=re.escape(f"{path}, line 3: not N-Triples: ") + ".*" + re.escape(message)):
        read(path)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("<urn:factrank:%FF> <b:> <c:> .", "<urn:factrank:%FF> is not percent-encoded UTF-8"),
        ("<a:> <b:> <<( <a:> <b:> <c:> )>> .", "expected an IRI, a blank node or a literal; found a triple as a term"),
        ('<a:> <b:> "\0" .', "a NUL byte; this is a binary file"),
    ],
)
def test_what_is_rdf_and_no_fact(tmp_path: Path, line: str, message: str) -> None:
    for suffix in (".nt", ".nq", ".ttl"):
        path = saved(tmp_path, "<s:> <p:> <o:> .", "# comment", line, suffix=suffix)
        with pytest.raises(InputError, match=re.escape(f"{path}, line 3: {message}")):
            read(path)


def test_a_table_is_the_union_of_all_graphs(tmp_path: Path) -> None:
    path = saved(
        tmp_path,
        "<a:> <b:> <c:> <g:1> .",
        "<a:> <b:> <c:> .",
        "<a:> <b:> <d:> _:g .",
        "_:x <b:> <d:> <g:1> . # x",
        suffix=".nq",
    )
    database = read(path, multi=True)
    assert set(database) == {("a:", "b:", "c:"), ("a:", "b:", "d:"), ("_:x", "b:", "d:")}
    assert database.duplicates == 1
    with pytest.raises(ConflictError, match=r"line 1: \(a:, b:, c:\)\n  line 3: \(a:, b:, d:\)"):
        read(path)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('<a:> <b:> <c:> "g" .', "not N-Quads: "),
        ("<a:> <b:> <c:> <g> .", "not N-Quads: No scheme found in an absolute IRI"),
        ("<a:> <b:> <c:> <g:> <h:> .", "not N-Quads: "),
        ("<a:> <b:> <c:> <urn:factrank:%FF> .", "<urn:factrank:%FF> is not percent-encoded UTF-8"),
    ],
)
def test_what_is_no_graph(tmp_path: Path, line: str, message: str) -> None:
    path = saved(tmp_path, "<s:> <p:> <o:> <g:> .", line, suffix=".nq")
    with pytest.raises(InputError, match=re.escape(f"{path}, line 2: {message}")):
        read(path)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "e:a e:b e:c .",
            "line 1: not Turtle: The prefix e: has not been declared, at column 1",
        ),
        ("@prefix e: <http://e/> .\ne:a e:b [ e:c 1 .", "line 2: not Turtle: "),
        ("@prefix e: <http://e/> .\n\ne:a e:b 'c .\n", "line 3: not Turtle: "),
        ("<a:> <b:> <c> .", "line 1: not Turtle: No scheme found in an absolute IRI"),
    ],
)
def test_errors_in_turtle(tmp_path: Path, text: str, message: str) -> None:
    path = saved(tmp_path, text, suffix=".ttl")
    with pytest.raises(InputError, match=re.escape(f"{path}, {message}")):
        read(path)


def test_conflicts_name_the_lines_on_which_triples_end(tmp_path: Path) -> None:
    path = saved(tmp_path, '<a:> <b:> """1', '1""" ,', "  2 ;", " <c:> 3 .", "<a:> <b:>", "4 .", suffix=".ttl")
    with pytest.raises(ConflictError) as error:
        read(path)
    assert re.findall(r"line (\d): \(a:, b:, (.*)\)", str(error.value)) == [
        ("2", r"1\n1"),
        ("3", f'"2"^^<{XSD}integer>'[:37] + "..."),
        ("6", f'"4"^^<{XSD}integer>'[:37] + "..."),
    ]


def test_a_text_of_many_lines_is_handed_out_in_growing_pieces(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(rdf_statements, "LONGEST_WAIT", 100)
    calls = []
    plain = rdf_statements._Lines._next_lines
    monkeypatch.setattr(rdf_statements._Lines, "_next_lines", lambda lines: calls.append(0) or plain(lines))
    text = "\n" * 10_000
    assert set(read(saved(tmp_path, f'<a:> <b:> """{text}""" .', suffix=".ttl"))) == {("a:", "b:", text)}
    assert len(calls) < 200


def test_a_term_that_is_too_long(tmp_path: Path) -> None:
    path = saved(tmp_path, '<a:> <b:> """' + ("x" * (1 << 20) + "\n") * 17 + '""" .', suffix=".ttl")
    with pytest.raises(InputError, match=r"facts\.ttl, line \d+: more than 16 MiB in one term"):
        read(path)


@pytest.mark.parametrize("suffix", [".nt", ".nq", ".ttl"])
def test_no_facts(tmp_path: Path, suffix: str) -> None:
    with pytest.raises(InputError, match=rf"facts\{suffix}: no facts"):
        read(saved(tmp_path, "# nothing", suffix=suffix))
