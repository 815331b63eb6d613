r"""Terms: names as the IRIs, blank nodes and literals of RDF 1.1 N-Triples, and back.

The text of a term is its IRI, its blank node `_:label`, or its literal's lexical form. A literal with a language or a
datatype keeps its whole token, canonically escaped, so that `"5"` and `"5"^^<http://www.w3.org/2001/XMLSchema#integer>`
stay apart. `spell_term` goes the other way: any text becomes a term that reads back as the same text. What RDF allows
only as an IRI is percent-encoded below `urn:factrank:`.
"""

from __future__ import annotations

import re
from typing import Literal
from urllib.parse import quote, unquote_to_bytes

from factrank.errors import InputError

Position = Literal["subject", "predicate", "object"]

NAMESPACE = "urn:factrank:"
XSD_STRING = "http://www.w3.org/2001/XMLSchema#string"

_LETTER = (
    "A-Za-z\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u02ff\u0370-\u037d\u037f-\u1fff\u200c-\u200d\u2070-\u218f\u2c00-\u2fef"
    "\u3001-\ud7ff\uf900-\ufdcf\ufdf0-\ufffd\U00010000-\U000effff_:"
)
_LETTER_OR_MARK = _LETTER + "0-9\u00b7\u0300-\u036f\u203f-\u2040-"
_ESCAPED_CODE = r"\\u[0-9A-Fa-f]{4}|\\U[0-9A-Fa-f]{8}"
_IRI_TEXT = r"[^\x00-\x20<>\"{}|^`\\]*"
IRI = rf"<{_IRI_TEXT}(?:(?:{_ESCAPED_CODE}){_IRI_TEXT})*>"
BLANK_NODE = rf"_:[{_LETTER}0-9](?:[{_LETTER_OR_MARK}.]*[{_LETTER_OR_MARK}])?"
_QUOTED = rf"\"[^\"\\\n\r]*(?:(?:\\[tbnrf\"'\\]|{_ESCAPED_CODE})[^\"\\\n\r]*)*\""
_LANGUAGE = r"@[A-Za-z]+(?:-[A-Za-z0-9]+)*"
LITERAL = rf"{_QUOTED}(?:\^\^{IRI}|{_LANGUAGE})?"

_TAGGED = re.compile(rf"({_QUOTED})(?:\^\^({IRI})|({_LANGUAGE}))")
_BLANK_NODE = re.compile(BLANK_NODE)
_ABSOLUTE_IRI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:[^\x00-\x20<>\"{}|^`\\\x7f-\x9f]*")
_FORBIDDEN_IN_IRI = re.compile(r"[\x00-\x20<>\"{}|^`\\]")
_ESCAPE = re.compile(r"\\(?:u(.{4})|U(.{8})|(.))")
_TO_ESCAPE = re.compile(r"[\x00-\x1f\"\\\x7f]")
_LETTER_ESCAPES = {"t": "\t", "b": "\b", "n": "\n", "r": "\r", "f": "\f", '"': '"', "'": "'", "\\": "\\"}
_ESCAPED_LETTERS = {char: f"\\{letter}" for letter, char in _LETTER_ESCAPES.items() if char != "'"}


def term_text(token: str) -> str:
    r"""The text of a term that follows the grammar; an `InputError` when it escapes what is not a character.

    >>> term_text('<http://example.org/Lima>'), term_text(r'"two\nlines"'), term_text('"Lima"@es')
    ('http://example.org/Lima', 'two\nlines', '"Lima"@es')
    """
    if token[0] == "<":
        return _iri_text(token)
    if token[0] == "_":
        return token
    tagged = _TAGGED.fullmatch(token)
    if tagged is None:
        return _unescaped(token[1:-1])
    quoted, datatype, language = tagged.groups()
    lexical = _unescaped(quoted[1:-1])
    if language:
        return _literal(lexical) + language
    iri = _plain_iri(datatype)
    return lexical if iri == XSD_STRING else f"{_literal(lexical)}^^<{iri}>"


def spell_term(text: str, position: Position) -> str:
    """The term with this text, for a place in a triple.

    >>> spell_term("Lima", "object"), spell_term("born in", "predicate")
    ('"Lima"', '<urn:factrank:born%20in>')
    """
    if position != "predicate" and _BLANK_NODE.fullmatch(text):
        return text
    if _ABSOLUTE_IRI.fullmatch(text) and not text.startswith(NAMESPACE):
        return f"<{text}>"
    if position != "object":
        return f"<{NAMESPACE}{quote(text, safe='')}>"
    return text if _is_canonical_tagged_literal(text) else _literal(text)


def _is_canonical_tagged_literal(text: str) -> bool:
    if not _TAGGED.fullmatch(text):
        return False
    try:
        return term_text(text) == text
    except InputError:
        return False


def _iri_text(token: str) -> str:
    iri = _plain_iri(token)
    if not iri.startswith(NAMESPACE):
        return iri
    try:
        return unquote_to_bytes(iri.removeprefix(NAMESPACE)).decode()
    except UnicodeDecodeError:
        raise InputError(f"{token} is not percent-encoded UTF-8") from None


def _plain_iri(token: str) -> str:
    iri = token[1:-1]
    if "\\" not in iri:
        return iri
    iri = _unescaped(iri)
    if _FORBIDDEN_IN_IRI.search(iri):
        raise InputError(f"{token} escapes a character that no IRI may have")
    return iri


def _literal(text: str) -> str:
    return '"' + _TO_ESCAPE.sub(_escaped, text) + '"'


def _escaped(match: re.Match[str]) -> str:
    return _ESCAPED_LETTERS.get(match[0], f"\\u{ord(match[0]):04X}")


def _unescaped(text: str) -> str:
    return _ESCAPE.sub(_character, text) if "\\" in text else text


def _character(match: re.Match[str]) -> str:
    short, long, letter = match.groups()
    if letter:
        return _LETTER_ESCAPES[letter]
    code = int(short or long, 16)
    if code > 0x10FFFF or 0xD800 <= code <= 0xDFFF:
        raise InputError(f"{match[0]} is not a character")
    return chr(code)
