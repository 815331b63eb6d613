"""Read YAML 1.2 as plain data: null, numbers, strings, lists, and dictionaries with string keys. Nothing is executed.

Everything else is an error with line and column: other tags, other keys, duplicate keys, a recursive alias (`*name`),
or more than `MOST_NODES` entries after expanding aliases.
"""

from __future__ import annotations

import warnings
from pathlib import Path

from ruamel.yaml import YAML
from ruamel.yaml.constructor import SafeConstructor
from ruamel.yaml.error import MarkedYAMLError, YAMLError, YAMLWarning
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from factrank.errors import InputError
from factrank.host import require_file

MOST_BYTES, MOST_NODES = 2**18, 100_000
"""Maximum size of a file in bytes, and maximum number of entries after expanding aliases."""

TAGS = "tag:yaml.org,2002:"
PLAIN = frozenset(TAGS + kind for kind in ("null", "bool", "int", "float", "str", "seq", "map", "merge"))


class _PlainConstructor(SafeConstructor):
    """Constructs plain data after checking all nodes; the safe constructor rejects duplicate keys."""

    def construct_document(self, node: Node) -> object:
        """Return the data of a document."""
        _count(node, {})
        return super().construct_document(node)


def read_yaml(path: Path) -> object:
    """Return the contents of a YAML file.

    Raises:
        InputError: If the file is invalid; the message names the line.
    """
    require_file(path)
    try:
        size = path.stat().st_size
        if size > MOST_BYTES:
            raise InputError(f"{path}: {size:,} bytes; a study has at most {MOST_BYTES:,}")
        text = path.read_bytes().decode()
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: not UTF-8 text ({error})") from None
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror or error}") from None
    loader = YAML(typ="safe", pure=True)
    loader.Constructor = _PlainConstructor
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", YAMLWarning)
            plain: object = loader.load(text)
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = f"{path}, line {mark.line + 1}, column {mark.column + 1}" if mark is not None else str(path)
        raise InputError(f"{place}: {error.problem or error.context or 'not YAML'}") from None
    except (YAMLError, ValueError, OverflowError, AttributeError, TypeError, KeyError) as error:
        raise InputError(f"{path}: not the YAML of a study: {error}") from None
    except RecursionError:
        raise InputError(f"{path}: nested too deeply") from None
    if plain is None:
        raise InputError(f"{path}: the file is empty")
    return plain


def _count(node: Node, counted: dict[int, int]) -> int:
    """Count the nodes under this one, with aliases expanded; 0 marks nodes that are being counted."""
    if id(node) in counted:
        if counted[id(node)] == 0:
            raise _refused(node, "an alias that contains itself")
        return counted[id(node)]
    if node.tag not in PLAIN:
        kind = str(node.tag).removeprefix(TAGS)
        raise _refused(node, f"expected numbers, text, lists or dictionaries; got {kind} {str(node.value)[:60]!r}")
    counted[id(node)], total = 0, 1
    if isinstance(node, SequenceNode):
        total += sum(_count(item, counted) for item in node.value)
    elif isinstance(node, MappingNode):
        for key, value in node.value:
            if not isinstance(key, ScalarNode) or key.tag not in (f"{TAGS}str", f"{TAGS}merge"):
                raise _refused(key, "a key must be text")
            total += 1 + _count(value, counted)
    if total > MOST_NODES:
        raise _refused(node, f"more than {MOST_NODES:,} entries")
    counted[id(node)] = total
    return total


def _refused(node: Node, problem: str) -> MarkedYAMLError:
    return MarkedYAMLError(problem=problem, problem_mark=node.start_mark)
