"""The command line: what every command prints, and its exit code, in scenes of commands that share a folder."""

from __future__ import annotations

import io
import os
import re
import sys
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from functools import cache, partial
from pathlib import Path
from unittest.mock import patch

import numpy as np
import typer.main

from factrank import cli
from factrank.version import __version__
from golden.cases import Case, Cases, Plain
from golden.scenes import ARRAYS, COMMANDS, FILES, SCENES, SLOW_TO_COMPILE

ROOT = Path(__file__).resolve().parents[2]
VARIES = {
    re.compile(r"(?<=at most about )[^\n]*"): "<time>",
    re.compile(r"\b\d[\d,.]* (?:s|min|h)\b(?: \d+ (?:s|min)\b)?"): "<time>",
    re.compile(r'"seconds": [-+.e\d]+'): '"seconds": "<time>"',
}
"""What differs from run to run, and what it is replaced by."""

RELEASE = re.compile(rf'(?<=["\s]){re.escape(__version__)}(?=["\s]|$)')
"""The version of this release, in output and in tables."""

SECONDS = re.compile(r'(?<="x86_64",1,)[-+.e\d]+')
"""The time of a trial in a table, after its device."""

STORES = ("store/", "other/", "factrank-store/")
TABLES = (".csv", ".tsv", ".jsonl", ".nt", ".md")
EXPORTED = "trials.csv"
"""A table with times in it."""

PRINTED = 1e-3
"""Of the digits that are printed of a trained layer, the last may differ."""


def cases() -> Cases:
    """The help of every command, and the scenes."""
    found = {"help": Case(_help, quick=True)}
    for name, commands in SCENES.items():
        tolerance = PRINTED if name in SLOW_TO_COMPILE else 0.0
        found[name] = Case(partial(_played, commands), name in ("databases", "mistakes"), tolerance)
    return found


def _help() -> Plain:
    return _played([f"{command} --help".strip() for command in COMMANDS])


def _played(commands: list[str]) -> Plain:
    """What each command prints, run one after the other in a folder of the files that they read."""
    with tempfile.TemporaryDirectory(prefix="factrank-golden-") as folder, _inside(Path(folder)):
        found = {f"{at}. {command}": _called(command, folder) for at, command in enumerate(commands, start=1)}
        return found | {"files": _files(Path(folder))}


@contextmanager
def _inside(folder: Path) -> Iterator[None]:
    before = Path.cwd()
    for name, text in FILES.items():
        (folder / name).write_text(text, encoding="utf-8")
    for name, array in ARRAYS().items():
        np.save(folder / name, array)
    os.chdir(folder)
    try:
        with patch.dict(os.environ, {"COLUMNS": "100", "TERM": "dumb", "NO_COLOR": "1", "TERMINAL_WIDTH": "100"}):
            yield
    finally:
        os.chdir(before)


def _files(folder: Path) -> Plain:
    """What lies in the folder in the end: the names of all but a store's files, and the text of tables."""
    names = sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())
    kept = [name for name in names if not name.startswith(STORES)]
    tables = [name for name in kept if name.endswith(TABLES) and name not in {*FILES, EXPORTED}]
    return {"names": kept, **{name: _table((folder / name).read_text(encoding="utf-8")) for name in tables}}


def _table(text: str) -> list[str]:
    return _unreleased(SECONDS.sub("<time>", text))


def _unreleased(text: str) -> list[str]:
    return RELEASE.sub("<version>", text).splitlines()


@cache
def _commands() -> typer.main.TyperGroup:
    """The command line, built once: that takes most of the time of a small command."""
    return typer.main.get_command(cli.app)  # type: ignore[return-value]


def _called(command: str, folder: str) -> Plain:
    out, err = _stream(), _stream()
    words = [word.replace("~", " ").replace("ROOT", str(ROOT)) for word in command.split()]
    code: object = 0
    with (
        warnings.catch_warnings(),
        redirect_stdout(out),
        redirect_stderr(err),
        patch.object(sys, "argv", ["factrank", *words]),
        patch.object(sys.modules["__main__"], "__package__", None),  # else usage says python -m of who runs this
        patch.object(sys, "stdin", io.TextIOWrapper(io.BytesIO(FILES["facts.csv"].encode()))),
        patch.object(cli, "app", _commands()),
    ):
        try:
            cli.run()
        except SystemExit as end:
            code = end.code or 0
    return {"code": code, "out": _lines(out, folder), "err": _lines(err, folder)}


def _stream() -> io.TextIOWrapper:
    return io.TextIOWrapper(io.BytesIO(), encoding="utf-8")


def _lines(stream: io.TextIOWrapper, folder: str) -> list[str]:
    stream.flush()
    text = stream.buffer.getvalue().decode()  # type: ignore[attr-defined]
    text = text.replace(folder, "<folder>").replace(str(ROOT), "<root>")
    for pattern, instead in VARIES.items():
        text = pattern.sub(instead, text)
    return [line.rstrip() for line in _unreleased(text)]
