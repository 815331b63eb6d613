"""N-Triples: any text in any place survives, the grammar is kept, errors name the line and column."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from factrank.databases.database import Database
from factrank.databases.files.formats import read, write
from factrank.databases.files.ntriples import _STATEMENT
from factrank.databases.files.rdf_terms import BLANK_NODE, IRI, LITERAL, Position, spell_term, term_text
from factrank.errors import InputError

XSD = "http://www.w3.org/2001/XMLSchema#"
GRAMMAR = {"subject": f"{IRI}|{BLANK_NODE}", "predicate": IRI, "object": f"{IRI}|{BLANK_NODE}|{LITERAL}"}

awkward = st.text('_:ab.<>"\\^@-u0\n\r\t %#/é\0\x7f')
likely = st.builds(
    "{}{}{}".format,
    st.sampled_from(["", "_:", "http://", "urn:factrank:", '"', '"5"^^<', '"a"@', "a:", "%41", f'"5"^^<{XSD}string>']),
    awkward | st.text(st.characters(exclude_categories=["Cs"])),
    st.sampled_from(["", ">", '"', '"@en', f'"^^<{XSD}int>', "."]),
)


@pytest.mark.parametrize("position", ["subject", "predicate", "object"])
@given(text=likely)
@example(text=f'"5"^^<{XSD}string>')
@example(text=f'"5"^^<{XSD}integer>')
@example(text='"\\u0041"@en')
@example(text='"\\uD800"@en')
@example(text="urn:factrank:%41")
@example(text="_:b.")
@example(text="")
@settings(deadline=None, max_examples=500)
def test_any_text_survives_in_any_place(position: Position, text: str) -> None:
    token = spell_term(text, position)
    assert re.fullmatch(GRAMMAR[position], token)
    assert not re.search("[\0\r\n]", token)
    assert term_text(token) == text


@given(texts=st.tuples(likely, likely, likely))
@settings(deadline=None, max_examples=300)
def test_a_line_splits_into_its_terms(texts: tuple[str, str, str]) -> None:
    positions: tuple[Position, ...] = ("subject", "predicate", "object")
    tokens = [spell_term(text, position) for text, position in zip(texts, positions, strict=True)]
    for line in (" ".join(tokens) + " .\n", "\t".join(["", *tokens]) + "\t.# comment .\r\n"):
        statement = _STATEMENT.match(line)
        assert statement is not None
        assert list(statement.groups()) == tokens


@pytest.mark.parametrize(
    ("text", "subject", "predicate", "object_"),
    [
        ("Lima", "<urn:factrank:Lima>", "<urn:factrank:Lima>", '"Lima"'),
        ("http://a.b/é", "<http://a.b/é>", "<http://a.b/é>", "<http://a.b/é>"),
        ("_:b1", "_:b1", "<urn:factrank:_%3Ab1>", "_:b1"),
        ('"Lima"@es', "<urn:factrank:%22Lima%22%40es>", "<urn:factrank:%22Lima%22%40es>", '"Lima"@es'),
        ("a b\n", "<urn:factrank:a%20b%0A>", "<urn:factrank:a%20b%0A>", '"a b\\n"'),
        ("\x01", "<urn:factrank:%01>", "<urn:factrank:%01>", '"\\u0001"'),
    ],
)
def test_spelling(text: str, subject: str, predicate: str, object_: str) -> None:
    assert spell_term(text, "subject") == subject
    assert spell_term(text, "predicate") == predicate
    assert spell_term(text, "object") == object_


@pytest.mark.parametrize(
    ("token", "text"),
    [
        (r'"\t\b\n\r\f\"\'\\"', "\t\b\n\r\f\"'\\"),
        (r'"\u00e9\U0001F600"', "é\U0001f600"),
        (r"<http://a/\u00E9>", "http://a/é"),
        (r'"a\u0062\t"@EN-gb', r'"ab\t"@EN-gb'),
        (rf'"\u0035"^^<{XSD}\u0069nt>', f'"5"^^<{XSD}int>'),
        (f'"5"^^<{XSD}string>', "5"),
        ("<urn:factrank:%C3%A9%20x>", "é x"),
    ],
)
def test_terms_as_text(token: str, text: str) -> None:
    assert term_text(token) == text


def saved(folder: Path, *lines: str) -> Path:
    path = folder / "facts.nt"
    path.write_text("\n".join(lines), encoding="utf-8")
    return path


def test_a_file_of_every_kind_of_line(tmp_path: Path) -> None:
    path = saved(
        tmp_path,
        "# a comment",
        "",
        '<http://a/s><http://a/p>"v".',
        "  _:x.y\t<http://a/p>  _:z . # more",
        f'<http://a/s> <http://a/q> "5"^^<{XSD}int> .',
        '<http://a/s> <http://a/r> "# no comment . \\" <x>"@en .\r',
    )
    assert sorted(read(path)) == [
        ("_:x.y", "http://a/p", "_:z"),
        ("http://a/s", "http://a/p", "v"),
        ("http://a/s", "http://a/q", f'"5"^^<{XSD}int>'),
        ("http://a/s", "http://a/r", '"# no comment . \\" <x>"@en'),
    ]


def test_the_axes_can_be_permuted(tmp_path: Path) -> None:
    path = saved(tmp_path, '<http://a/s> <http://a/p> "v" .')
    assert set(read(path, long=("object", "predicate", "subject"))) == {("v", "http://a/p", "http://a/s")}


def test_empty_and_control_texts_survive_a_file(tmp_path: Path) -> None:
    database = Database.from_facts([("", " ", ""), ("a\0", "b\n", "\x85\u2028\r")])
    write(database, tmp_path / "facts.nt")
    assert read(tmp_path / "facts.nt") == database


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("a b c .", "expected a subject (<iri> or _:blank) at column 1, found 'a b c .'"),
        ('"a" <b> <c> .', "expected a subject"),
        ("<a> _:b <c> .", "expected a predicate (<iri>) at column 4, found '_:b <c> .'"),
        ("<a> <b> .", 'expected an object (<iri>, _:blank or "literal") at column 8'),
        ("<a> <b> 'c' .", "expected an object"),
        ("<a> <b c> <d> .", "expected a predicate"),
        ('<a> <b> "c"', "expected a final dot at column 12"),
        ('<a> <b> "c .', "expected an object"),
        ('<a> <b> "\\q" .', "expected an object"),
        ("<a> <b> <c> <g> .", "expected a final dot at column 12, found '<g> .'"),
        ("<a> <b> <c> . <d>", "expected the end of the line at column 14"),
        ('<a> <b> "\\uD800" .', "\\uD800 is not a character"),
        ('<a> <b> "\\UFFFFFFFF" .', "\\UFFFFFFFF is not a character"),
        ("<a\\u0020> <b> <c> .", "escapes a character that no IRI may have"),
        ("<urn:factrank:%FF> <b> <c> .", "is not percent-encoded UTF-8"),
    ],
)
def test_errors_name_the_line(tmp_path: Path, line: str, message: str) -> None:
    path = saved(tmp_path, "<s> <p> <o> .", "# comment", line)
    with pytest.raises(InputError, match=re.escape(f"{path}, line 3: ") + ".*" + re.escape(message)):
        read(path)


def test_no_facts(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"facts\.nt: no facts"):
        read(saved(tmp_path, "# nothing"))
