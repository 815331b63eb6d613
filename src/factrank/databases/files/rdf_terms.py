r"""Convert between names and RDF terms (IRIs, blank nodes and literals).

The name of a term is its IRI, its blank node `_:label`, or the text of its literal. A literal with a language or a
datatype keeps its whole token, canonically escaped, to distinguish `"5"` from
`"5"^^<http://www.w3.org/2001/XMLSchema#integer>`. Conversely, `spelled` turns any text into a term with that name; a
key or query that is not an IRI is percent-encoded in the namespace `urn:factrank:`.
"""

from __future__ import annotations

import re
from typing import TypeAlias
from urllib.parse import quote, unquote_to_bytes

from pyoxigraph import BlankNode, Literal, NamedNode, RdfFormat, Triple, parse

from factrank.databases.files.rdf import Position
from factrank.errors import InputError

NAMESPACE = "urn:factrank:"
XSD_STRING = "http://www.w3.org/2001/XMLSchema#string"

_TO_ESCAPE = re.compile(r"[\x00-\x1f\"\\\x7f]")
_ESCAPES = {"\t": "\\t", "\b": "\\b", "\n": "\\n", "\r": "\\r", "\f": "\\f", '"': '\\"', "\\": "\\\\"}

Term: TypeAlias = NamedNode | BlankNode | Literal | Triple


def name_of(term: Term) -> str:
    """Return the name of a term, or raise `InputError` for a nested triple.

    >>> name_of(NamedNode("http://example.org/Lima")), name_of(Literal("Lima")), name_of(Literal("Lima", language="es"))
    ('http://example.org/Lima', 'Lima', '"Lima"@es')
    """
    if isinstance(term, NamedNode):
        return _decoded(term.value)
    if isinstance(term, BlankNode):
        return f"_:{term.value}"
    if isinstance(term, Triple):
        raise InputError("expected an IRI, a blank node or a literal; found a triple as a term")
    if term.language is not None:
        direction = "" if term.direction is None else f"--{term.direction.value}"
        return f"{_literal(term.value)}@{term.language}{direction}"
    datatype = term.datatype.value
    return term.value if datatype == XSD_STRING else f"{_literal(term.value)}^^<{datatype}>"


def spelled(name: str, position: Position) -> str:
    """Return the token of the term with this name, for a position in a triple.

    >>> spelled("Lima", "object"), spelled("born in", "predicate")
    ('"Lima"', '<urn:factrank:born%20in>')
    """
    if position != "predicate" and name.startswith("_:") and _reads_back(name):
        return name
    if ":" in name and not name.startswith(NAMESPACE) and _is_iri(name):
        return f"<{name}>"
    if position != "object":
        return f"<{NAMESPACE}{quote(name, safe='')}>"
    tagged = name.startswith('"') and not name.endswith('"') and _reads_back(name)
    return name if tagged else _literal(name)


def _reads_back(name: str) -> bool:
    """Return whether the name is the token of a term with this name."""
    try:
        triples = list(parse(f"<a:b> <a:b> {name} .", RdfFormat.N_TRIPLES))
    except SyntaxError:
        return False
    return len(triples) == 1 and name_of(triples[0].object) == name


def _is_iri(name: str) -> bool:
    try:
        NamedNode(name)
    except ValueError:
        return False
    return True


def _decoded(iri: str) -> str:
    if not iri.startswith(NAMESPACE):
        return iri
    try:
        return unquote_to_bytes(iri.removeprefix(NAMESPACE)).decode()
    except UnicodeDecodeError:
        raise InputError(f"<{iri}> is not percent-encoded UTF-8") from None


def _literal(text: str) -> str:
    return '"' + _TO_ESCAPE.sub(_escaped, text) + '"'


def _escaped(match: re.Match[str]) -> str:
    return _ESCAPES.get(match[0], f"\\u{ord(match[0]):04X}")
