"""The studies that a command names, with other seeds and settings if it gives some."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from factrank.errors import InputError

if TYPE_CHECKING:
    from factrank.experiments.study import Size, Study

YAML_SUFFIXES = (".yaml", ".yml")
STORE = Path("factrank-store")
WORDS: dict[str, object] = {"true": True, "false": False}


@dataclass(frozen=True)
class Asked:
    """Studies as a command names them.

    Arguments:
        name: A study or a paper of the catalogue, or a YAML file; None if `python` is given.
        python: A Python file with a STUDY.
        seeds: The number of seeds, if it is given.
        settings: Texts such as "model.d_vo=1,2,4".
    """

    name: str | None
    python: Path | None = None
    seeds: int | None = None
    settings: tuple[str, ...] = ()

    @property
    def title(self) -> str:
        """Name of the paper, or of the file without its suffix."""
        return Path(self.name if self.name is not None else str(self.python)).stem

    def studies(self) -> tuple[Study, ...]:
        """Return the study, or all studies of the paper, with the changes."""
        found = _named(self.name, self.python)
        if self.seeds is None and not self.settings:
            return found
        from factrank.experiments.study import changed_study  # noqa: PLC0415

        return tuple(changed_study(study, self.seeds, settings_in(self.settings)) for study in found)

    def command(self, study: str | None, store: Path, size: Size) -> str:
        """Return the command that runs these studies, or one study of a paper."""
        which = ["--python", str(self.python)] if self.python is not None else [str(study or self.name)]
        options = [*(["--full"] if size == "full" else [])]
        options += ["--seeds", str(self.seeds)] if self.seeds is not None else []
        options += [word for one in self.settings for word in ("--set", one)]
        options += ["--store", str(store)] if store != STORE else []
        return shlex.join(["factrank", "study", "run", *which, *options])

    def commands(self, studies: Sequence[Study], store: Path, size: Size) -> Callable[[Study], str]:
        """Return a function that returns the command for each of these studies."""
        return lambda study: self.command(study.name if len(studies) > 1 else None, store, size)


def settings_in(texts: Sequence[str]) -> dict[str, list[object]]:
    """Return the values of each setting.

    >>> settings_in(["model.d_vo=1,2", "training.learning_rate=1e-3", "training.stop=never"])
    {'model.d_vo': [1, 2], 'training.learning_rate': [0.001], 'training.stop': ['never']}

    Raises:
        InputError: If a text is not NAME=VALUES, or a name occurs twice.
    """
    found: dict[str, list[object]] = {}
    for text in texts:
        name, equals, values = text.partition("=")
        listed = [_value(value.strip()) for value in values.split(",") if value.strip()]
        if not equals or not name.strip() or not listed:
            raise InputError(f"--set {text}: expected NAME=VALUES, such as model.d_vo=1,2,4")
        if name.strip() in found:
            raise InputError(f"--set {text}: {name.strip()} is given twice; separate its values by commas")
        found[name.strip()] = listed
    return found


def _value(text: str) -> object:
    """Return a number, a truth value or a text."""
    if text in WORDS:
        return WORDS[text]
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def _named(name: str | None, python: Path | None) -> tuple[Study, ...]:
    """Return the study, or all studies of the paper, with this name."""
    if (name is None) == (python is None):
        raise InputError("give the name of a study or a paper (factrank study list), a YAML file, or --python FILE")
    if python is not None:
        from factrank.experiments.study import load_python_study  # noqa: PLC0415

        return (load_python_study(python),)
    assert name is not None  # noqa: S101 - for mypy; checked above
    if name.lower().endswith(YAML_SUFFIXES):
        from factrank.experiments.study import load_study  # noqa: PLC0415

        return (load_study(name),)
    if name.lower().endswith(".py"):
        raise InputError(f"{name}: a Python study is run by --python {name}, because that executes it")
    from factrank.studies import studies_named  # noqa: PLC0415

    return studies_named(name)
