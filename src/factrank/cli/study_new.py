"""`factrank study new`: a commented study to start from."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer

from factrank.cli.support.study_templates import TEMPLATES
from factrank.cli.support.terminal import Json, say, say_json
from factrank.errors import InputError


def new(
    path: Annotated[Path, typer.Argument(metavar="NAME", help="Name of the study, with .py for a study in Python.")],
    json: Json = False,
) -> None:
    """Write a commented study to start from.

    The file, NAME.yaml or NAME.py, runs as it is. An existing file is never overwritten.

    Example: factrank study new width
    """
    from factrank.experiments.study import require_name  # noqa: PLC0415 - JAX takes a second to load

    file = path if path.suffix in TEMPLATES else path.with_name(f"{path.name}.yaml")
    require_name("the name of a study", file.stem)
    if not file.parent.is_dir():
        raise InputError(f"{file}: there is no folder {file.parent}")
    shown = shlex.quote(file.as_posix())
    text = TEMPLATES[file.suffix].format(name=file.stem, file=shown)
    try:
        with file.open("x", encoding="utf-8", newline="\n") as stream:
            stream.write(text)
    except FileExistsError:
        raise InputError(f"{file}: the file exists already; choose another name") from None
    command = f"factrank study run {'--python ' if file.suffix == '.py' else ''}{shown}"
    if json:
        say_json({"output": str(file), "command": command})
    else:
        say(f"{file}: change it, then run it: {command}")
