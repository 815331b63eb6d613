"""Studies that users write: in YAML, which is data and executes nothing, or in Python, which runs only when asked to.

A YAML study has settings that all trials share, a `grid` of values for dotted names (every combination), a `list` of
explicit changes, seeds, and changes for the `quick` size:

    trials = entries of `list` x points of `grid` x seeds

Facts come from a generator, a file or a sample; families may describe data of their own (`examples: random`). The text
"$seed" in the arguments of a generator or of such data stands for the seed of the trial.
"""

from __future__ import annotations

import inspect
import runpy
import traceback
from collections.abc import Callable, Iterator, Mapping
from copy import deepcopy
from itertools import product
from math import prod
from pathlib import Path
from types import UnionType
from typing import Any, TypeVar, cast

from pydantic import BaseModel, ConfigDict, Field, StrictInt, ValidationError, field_validator

from factrank.databases import Database, sample
from factrank.databases.files import read
from factrank.databases.generators import GENERATORS
from factrank.errors import FactrankError, InputError
from factrank.experiments.registry import families
from factrank.experiments.specs import SCHEMA, Trial, from_plain, to_plain
from factrank.experiments.statistics import Claim, Fit, Summary
from factrank.experiments.study.study import Chart, Source, Study
from factrank.experiments.study.yaml_text import read_yaml

MOST_TRIALS = 200_000
SECTIONS = ("database", "model", "training", "measures")
SEED = "$seed"
UNKNOWN_KEY = ("extra_forbidden", "unexpected_keyword_argument")
TYPE_NAMES = ("int", "float", "str", "bool", "Quantity", "Source", "none")
FILE_OPTIONS: Mapping[str, tuple[str, Callable[[object], bool]]] = {
    "long": ("a list of three columns", lambda given: _is_list(given, str | int)),
    "missing": ("a list of texts", lambda given: _is_list(given, str)),
    **dict.fromkeys(("delimiter", "encoding", "suffix"), ("text", lambda given: isinstance(given, str))),
    **dict.fromkeys(("wide", "multi", "header", "quotes"), ("true or false", lambda given: isinstance(given, bool))),
}
"""What may be said about a file of facts: what it is called in messages, and the test for it."""

PlainSettings = dict[str, Any]
Text = TypeVar("Text", bound="BaseModel")


class StudyText(BaseModel):
    """What a YAML study may say; the parts of trials are checked where trials are made."""

    model_config = ConfigDict(extra="forbid")

    name: str
    title: str = ""
    question: str = ""
    method: str = ""
    source: Source | None = None
    database: PlainSettings
    model: PlainSettings
    training: PlainSettings = {}
    measures: PlainSettings = {}
    seeds: StrictInt | list[StrictInt] = 1
    curve_epochs: list[StrictInt] = []
    grid: dict[str, list[Any]] = {}
    entries: list[PlainSettings] = Field(default=[{}], alias="list")
    quick: PlainSettings = {}
    charts: tuple[Chart, ...] = ()
    summaries: tuple[Summary, ...] = ()
    fits: tuple[Fit, ...] = ()
    claims: tuple[Claim, ...] = ()

    @field_validator("charts", "summaries", "claims", mode="before")
    @classmethod
    def _as_pairs(cls, parts: Any) -> Any:
        return _pairs(parts)


class QuickText(BaseModel):
    """What `quick` may say beside dotted names."""

    model_config = ConfigDict(extra="allow")

    seeds: StrictInt | list[StrictInt] | None = None
    curve_epochs: list[StrictInt] | None = None
    grid: dict[str, list[Any]] = {}
    entries: list[PlainSettings] | None = Field(default=None, alias="list")


def load_study(path: str | Path) -> Study:
    """The study of a YAML file; whatever is wrong with it raises an `InputError` that names the file and the key."""
    path = Path(path)
    plain = read_yaml(path)
    try:
        text = _checked(StudyText, plain, "")
        facts = _Facts(path.parent)
        lists = {
            "full": list(_trials(text, facts)),
            "quick": list(_trials(_quick(text), facts)),
        }
        return Study(
            name=text.name,
            title=text.title or text.name,
            source=text.source,
            question=text.question,
            method=text.method,
            trials=lambda size: list(lists[size]),
            charts=text.charts,
            claims=text.claims,
            databases=tuple(facts.read.values()),
            summaries=text.summaries,
            fits=text.fits,
        )
    except InputError as error:
        raise InputError(f"{path}: {error}") from None
    except (RecursionError, OverflowError, MemoryError) as error:
        raise InputError(f"{path}: too much is asked for ({type(error).__name__})") from None


def load_python_study(path: str | Path) -> Study:
    """The `STUDY` that a Python file defines. This runs the file."""
    path = Path(path)
    if not path.is_file():
        raise InputError(f"{path}: no such file")
    try:
        defined = runpy.run_path(str(path), run_name="factrank_study")
    except (Exception, SystemExit) as error:
        frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(path)]
        line = frames[-1].lineno if frames else getattr(error, "lineno", None)
        place = f"{path}, line {line}" if line else str(path)
        raise InputError(f"{place}: {type(error).__name__}: {error}") from error
    study = defined.get("STUDY")
    if not isinstance(study, Study):
        raise InputError(f"{path}: a Python study defines STUDY, a factrank.Study; got {type(study).__name__}")
    return study


# -------------------------------------------------------------------- from text to trials


def _trials(text: StudyText, facts: _Facts) -> Iterator[Trial]:
    """The trials: entries of the list x points of the grid x seeds."""
    seeds = list(range(text.seeds)) if isinstance(text.seeds, int) and text.seeds <= MOST_TRIALS else text.seeds
    n_seeds = len(seeds) if isinstance(seeds, list) else seeds
    n_trials = len(text.entries) * prod(map(len, text.grid.values())) * n_seeds
    if n_trials > MOST_TRIALS:
        raise InputError(f"{n_trials:,} trials; a study has at most {MOST_TRIALS:,}")
    if n_trials <= 0:
        raise InputError("there is no trial: seeds, list and every entry of grid need at least one value")
    twice = sorted({name for entry in text.entries for name in entry} & set(text.grid))
    if twice:
        raise InputError(f"{twice[0]} stands in list and in grid: which of them is meant?")
    common = {section: getattr(text, section) for section in SECTIONS}
    for entry in text.entries:
        for point in product(*text.grid.values()):
            changes = {**entry, **dict(zip(text.grid, point, strict=True))}
            settings = {**common, "curve_epochs": text.curve_epochs}
            for name, value in changes.items():
                settings = _changed(settings, name, value)
            for seed in cast("list[int]", seeds):
                try:
                    yield _trial(settings, seed, facts)
                except InputError as error:
                    shown = ", ".join(f"{name} = {value!r}" for name, value in changes.items())
                    place = f" (in the trial with {shown}, seed {seed})" if changes else ""
                    raise InputError(f"{str(error).removeprefix('Trial.')}{place}") from None


def _trial(settings: PlainSettings, seed: int, facts: _Facts) -> Trial:
    model = {"kind": "attention", **settings["model"]}
    plain = {
        "version": SCHEMA,
        **settings,
        "model": model,
        "database": facts.spec(settings["database"], seed),
        "seed": seed,
    }
    trial = Trial.from_dict(plain)
    trial.hash  # noqa: B018 - raises where a value is no number, text or list
    return trial


def _changed(settings: PlainSettings, name: str, value: object) -> PlainSettings:
    """The settings with another value at a dotted name."""
    first, _, rest = name.partition(".")
    if first == "curve_epochs" and not rest:
        return {**settings, first: value}
    if first not in SECTIONS or not rest:
        names = ", ".join(f"{section}.NAME" for section in SECTIONS)
        raise InputError(f"{name!r} is nothing that trials may differ in; expected {names} or curve_epochs")
    changed = deepcopy(settings[first])
    inner, *path = reversed(rest.split("."))
    at = changed
    for step in reversed(path):
        at = at.setdefault(step, {})
        if not isinstance(at, dict):
            raise InputError(f"{name!r}: {step} is no dictionary")
    at[inner] = value
    return {**settings, first: changed}


def _quick(text: StudyText) -> StudyText:
    """The text with the changes of its quick size."""
    quick = _checked(QuickText, text.quick, "quick")
    settings: PlainSettings = {section: getattr(text, section) for section in SECTIONS}
    for name, value in (quick.model_extra or {}).items():
        if name in text.grid or any(name in entry for entry in text.entries):
            raise InputError(f"quick: {name} differs between trials; change it under grid or list of quick")
        try:
            settings = _changed(settings, name, value)
        except InputError as error:
            raise InputError(f"quick: {error}; also seeds, grid or list") from None
    curve_epochs = settings.pop("curve_epochs", text.curve_epochs)
    return text.model_copy(
        update={
            **settings,
            "curve_epochs": quick.curve_epochs if quick.curve_epochs is not None else curve_epochs,
            "seeds": quick.seeds if quick.seeds is not None else text.seeds,
            "grid": {**text.grid, **quick.grid},
            "entries": quick.entries if quick.entries is not None else text.entries,
        }
    )


class _Facts:
    """Where the facts of trials come from: a generator, a file beside the study, a bundled sample, random examples."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.read: dict[str, Database] = {}

    def spec(self, database: PlainSettings, seed: int) -> PlainSettings:
        """The plain form of the specification of a database."""
        described = _described_by_families()
        known = ("generator", "file", "sample", *described)
        kinds = [kind for kind in known if kind in database]
        if len(kinds) != 1:
            choices = f"{', '.join(known[:-1])} or {known[-1]}"
            raise InputError(f"database: expected one of {choices}; got {', '.join(database) or 'nothing'}")
        if kinds[0] not in ("file", "sample"):
            arguments = {name: seed if value == SEED else value for name, value in database.items() if name != kinds[0]}
            if kinds[0] in described:
                return _data_of_family(kinds[0], described[kinds[0]], database[kinds[0]], arguments)
            _require_generator(database["generator"], arguments)
            return {"kind": "generated", "generator": database["generator"], "arguments": arguments}
        key = repr(sorted(database.items(), key=lambda item: item[0]))
        if key not in self.read:
            self.read[key] = self._read(kinds[0], database)
        return {"kind": "given", "fingerprint": self.read[key].fingerprint}

    def _read(self, kind: str, database: PlainSettings) -> Database:
        name, options = database[kind], {option: value for option, value in database.items() if option != kind}
        unknown = sorted(set(options) - set(FILE_OPTIONS if kind == "file" else ()))
        if unknown or not isinstance(name, str):
            takes = ", ".join(("file", *FILE_OPTIONS)) if kind == "file" else "sample"
            problem = f"unknown {unknown[0]!r}" if unknown else f"{kind} must be text, got {name!r}"
            raise InputError(f"database: {problem}; it takes {takes}")
        for option, value in options.items():
            expected, accepts = FILE_OPTIONS[option]
            if not accepts(value):
                raise InputError(f"database.{option}: expected {expected}; got {value!r}")
        try:
            return read(self._folder / name, **options) if kind == "file" else sample(name)
        except (FactrankError, ValueError) as error:
            raise InputError(f"database.{kind}: {error}") from None


def _is_list(given: object, kind: type | UnionType) -> bool:
    return isinstance(given, list) and all(isinstance(one, kind) for one in given)


def _described_by_families() -> dict[str, Mapping[str, type]]:
    """Further words for a database, besides generator, file and sample, and the classes that each may name."""
    return {word: named for family in families().values() for word, named in family.data_in_files.items()}


def _data_of_family(word: str, named: Mapping[str, type], name: object, arguments: PlainSettings) -> PlainSettings:
    """The plain form of data that a family describes in a class of its own."""
    if not isinstance(name, str) or name not in named:
        raise InputError(f"database.{word}: expected {' or '.join(named)}; got {name!r}")
    return cast("PlainSettings", to_plain(from_plain(named[name], arguments, "database")))


def _require_generator(name: object, arguments: Mapping[str, object]) -> None:
    if not isinstance(name, str) or name not in GENERATORS:
        raise InputError(f"database.generator: there is no {name!r}; there are {', '.join(GENERATORS)}")
    takes = inspect.signature(GENERATORS[name]).parameters
    unknown = [f"unknown {argument!r}" for argument in arguments if argument not in takes]
    needed = [argument for argument, parameter in takes.items() if parameter.default is parameter.empty]
    missing = [f"missing {argument!r}" for argument in needed if argument not in arguments]
    if unknown or missing:
        raise InputError(f"database: {name}: {', '.join(unknown + missing)}; it takes {', '.join(takes)}")


# -------------------------------------------------------------------- what pydantic checks


def _checked(kind: type[Text], plain: object, where: str) -> Text:
    """Plain data as a model; the first mistake is named by its path, with what was expected."""
    try:
        return kind.model_validate(plain)
    except ValidationError as error:
        found = error.errors(include_url=False, include_input=False, include_context=False)
        unknown = [one for one in found if one["type"] in UNKNOWN_KEY]
        first = unknown[0] if unknown else found[0]
        places = [where, *(str(step) for step in first["loc"] if not _is_choice(step))]
        path = ".".join(filter(None, places)) or "the file"
        if unknown:
            known = [field.alias or name for name, field in kind.model_fields.items()]
            expected = f"; expected {', '.join(known)}" if len(first["loc"]) == 1 else ""
            raise InputError(f"{path}: unknown key{expected}") from None
        choices = [
            one for one in found if one["loc"][:-1] == first["loc"][:-1] and any(map(_is_choice, one["loc"][-1:]))
        ]
        raise InputError(f"{path}: {'; or '.join(one['msg'] for one in choices or [first])}") from None


def _is_choice(step: object) -> bool:
    """Whether a step of pydantic's path names one of several types that a value may have, and no key."""
    return isinstance(step, str) and (step in TYPE_NAMES or "[" in step)


def _pairs(plain: Any) -> Any:
    """Selections and labelled quantities written as dictionaries become the pairs that charts and claims hold."""
    if isinstance(plain, list):
        return list(map(_pairs, plain))
    if isinstance(plain, dict):
        inner = {name: value if name == "where" else _pairs(value) for name, value in plain.items()}
        return {
            name: list(value.items()) if name in ("where", "quantities") and isinstance(value, dict) else value
            for name, value in inner.items()
        }
    return plain
