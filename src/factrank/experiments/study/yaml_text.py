"""YAML as plain data: null, numbers, text, lists and dictionaries with text as keys; nothing is ever executed.

Beside what the safe loader of PyYAML does: a key that stands twice is an error, 1e-3 is a number, and what aliases
(`*name`) unfold to is bounded.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import yaml  # type: ignore[import-untyped]

from factrank.errors import InputError
from factrank.host import require_file

MOST_BYTES, MOST_NODES = 2**18, 100_000
"""The size of a file, and of what it says with all aliases written out."""


class _Loader(yaml.SafeLoader):  # type: ignore[misc]
    """The safe loader; keys are text, each once."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        """A dictionary."""
        seen: set[str] = set()
        for key, _ in node.value:
            text = key.value if isinstance(key, yaml.ScalarNode) else None
            if text is None or key.tag not in ("tag:yaml.org,2002:str", "tag:yaml.org,2002:merge"):
                raise yaml.MarkedYAMLError(problem="a key must be text", problem_mark=key.start_mark)
            if text in seen:
                raise yaml.MarkedYAMLError(problem=f"the key {text!r} stands twice", problem_mark=key.start_mark)
            seen.add(text)
        constructed: dict[Any, Any] = super().construct_mapping(node, deep)
        return constructed


_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float", re.compile(r"[-+]?[0-9]+(\.[0-9]*)?[eE][-+]?[0-9]+$"), list("-+0123456789")
)


def read_yaml(path: Path) -> object:
    """The content of a YAML file; whatever is wrong with it raises an `InputError` that names the line."""
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
    try:
        loader = _Loader(text)
        node = loader.get_single_node()
        if node is None:
            raise InputError(f"{path}: the file is empty")
        _count(node, {}, path)
        plain = loader.construct_document(node)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = f"{path}, line {mark.line + 1}" if mark is not None else str(path)
        raise InputError(f"{place}: {error.problem or error.context or 'not YAML'}") from None
    except (yaml.YAMLError, ValueError, OverflowError, AttributeError, TypeError, KeyError) as error:
        raise InputError(f"{path}: not the YAML of a study: {error}") from None
    except RecursionError:
        raise InputError(f"{path}: nested too deeply") from None
    _require_plain(plain, path, "")
    return plain


def _count(node: yaml.Node, counted: dict[int, int], path: Path) -> int:
    """The nodes under this one, aliases written out; 0 marks those that are being counted."""
    if id(node) in counted:
        if counted[id(node)] == 0:
            raise InputError(f"{path}, line {node.start_mark.line + 1}: an alias that contains itself")
        return counted[id(node)]
    counted[id(node)], total = 0, 1
    if isinstance(node, yaml.SequenceNode):
        total += sum(_count(item, counted, path) for item in node.value)
    elif isinstance(node, yaml.MappingNode):
        total += sum(_count(item, counted, path) for pair in node.value for item in pair)
    if total > MOST_NODES:
        raise InputError(f"{path}, line {node.start_mark.line + 1}: more than {MOST_NODES:,} entries")
    counted[id(node)] = total
    return total


def _require_plain(value: object, path: Path, where: str) -> None:
    if isinstance(value, dict):
        for key, item in value.items():
            _require_plain(item, path, f"{where}.{key}" if where else str(key))
    elif isinstance(value, list):
        for at, item in enumerate(value):
            _require_plain(item, path, f"{where}[{at}]")
    elif value is not None and not isinstance(value, bool | int | float | str):
        expected = "expected numbers, text, lists or dictionaries"
        raise InputError(f"{path}: {where or 'the file'}: {expected}; got {type(value).__name__} {str(value)[:60]!r}")
