"""Pages of the reference that are written from the code: the help of every command, and the docstrings by group."""

from __future__ import annotations

import importlib.machinery
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import typer

TOOLS = Path(__file__).resolve().parent
CHAPTERS = {
    "api-tables": ("Tables, ranks, plans", "Tables of facts;Generated tables;Measure a table;Plan a layer"),
    "api-models": (
        "Constructing and proving",
        (
            "Construct a model that stores it;Prove recall;Query and understand a model;See it in a browser;"
            "Save and load;Models of other libraries;Models"
        ),
    ),
    "api-training": (
        "Trials and training",
        "Describe trials;Measure trained models;Train;Notebooks and pictures;Find capacities",
    ),
    "api-studies": ("Studies and claims", "Studies;Judge claims"),
    "api-more": ("Extending, and more", ""),
}
"""Groups of tools/api on each page of the reference; groups that are not named are on the last page."""
COMMANDS = """# Commands

The help of every command, as `factrank COMMAND -h` prints it. Exit codes: 0 success; 1 success, but the answer is no
(not certified, not reproduced); 2 bad input; 130 interrupted. With `--json` a command prints one JSON object.
"""
NAMES = """# {title}

From the docstrings. Each name is an attribute of `factrank`; [all names](../api.md) are on one page."""


def pages() -> dict[str, str]:
    """Return the pages by their place on the site."""
    found = {"reference/commands.md": commands_page()}
    groups = _groups()
    for name, (title, named) in CHAPTERS.items():
        placed = {group for _, listed in CHAPTERS.values() for group in listed.split(";")}
        chosen = named.split(";") if named else [group for group in groups if group not in placed]
        found[f"reference/{name}.md"] = names_page(title, {group: groups[group].split() for group in chosen})
    return found


def commands_page() -> str:
    """Return the page of all commands: the help of each, as the program prints it."""
    from factrank.cli import app  # noqa: PLC0415 - after the path is set

    parts = [COMMANDS]
    for path, text in _helps(typer.main.get_command(app), "factrank", None):
        mark = "##" if len(path.split()) < 3 else "###"
        parts.append(f"{mark} {path}\n\n```text\n{text}\n```\n")
    return "\n".join(parts)


def _helps(command: Any, name: str, above: Any) -> Iterator[tuple[str, str]]:
    """Yield the words and the help of a command and of all commands below it."""
    context = command.context_class(
        command, info_name=name, parent=above, max_content_width=90, terminal_width=90, **command.context_settings
    )
    yield context.command_path, command.get_help(context)
    for inner, one in getattr(command, "commands", {}).items():
        if not one.hidden:
            yield from _helps(one, inner, context)


def names_page(title: str, groups: dict[str, list[str]]) -> str:
    """Return a page on which mkdocstrings shows the docstrings of groups of names."""
    parts = [NAMES.format(title=title)]
    for group, names in groups.items():
        parts += [f"## {group}", *(f"::: factrank.{name}" for name in names)]
    return "\n\n".join(parts) + "\n"


def _groups() -> dict[str, str]:
    """Return the groups of public names, from tools/api."""
    loader = importlib.machinery.SourceFileLoader("api", str(TOOLS / "api"))
    api = ModuleType("api")
    api.__file__ = str(TOOLS / "api")
    sys.dont_write_bytecode, before = True, sys.dont_write_bytecode
    try:
        loader.exec_module(api)
    finally:
        sys.dont_write_bytecode = before
    return dict(api.GROUPS)
