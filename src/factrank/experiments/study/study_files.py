"""Study files: YAML, which is never executed, or Python, which is executed only on request.

A YAML study has settings that apply to all trials, a `grid` of values for dotted names (all combinations), a `list` of
explicit changes, seeds, and changes for the `quick` size:

    trials = entries of `list` x points of `grid` x seeds

Facts are read from a generator, a file or a sample; families may define other data (`examples: random`). Options of the
presentation of facts are given alongside (`contexts: 8`). "$seed" in the arguments of a generator or of such data is
replaced by the seed of the trial. Measures are given with their options:
`measures: {ranks: true, curve: {epochs: [0, 100]}}`.
"""

from __future__ import annotations

import inspect
import runpy
import traceback
from collections.abc import Callable, Iterator, Mapping
from copy import deepcopy
from dataclasses import fields
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
from factrank.experiments.specs import DRAWN, EVERY_MEASURE, SCHEMA, Trial, from_plain, kind_of, to_plain
from factrank.experiments.statistics import Claim, Fit, Summary
from factrank.experiments.study.study import Chart, Source, Study
from factrank.experiments.study.yaml_text import read_yaml

MOST_TRIALS = 200_000
SECTIONS = ("data", "model", "training", "measures")
SEED = "$seed"
UNKNOWN_KEY = ("extra_forbidden", "unexpected_keyword_argument")
TYPE_NAMES = ("int", "float", "str", "bool", "Quantity", "Source", "none")
FILE_OPTIONS: Mapping[str, tuple[str, Callable[[object], bool]]] = {
    "long": ("a list of three columns", lambda given: _is_list(given, str | int)),
    "missing": ("a list of texts", lambda given: _is_list(given, str)),
    **dict.fromkeys(("delimiter", "encoding", "suffix"), ("text", lambda given: isinstance(given, str))),
    **dict.fromkeys(("wide", "multi", "header", "quotes"), ("true or false", lambda given: isinstance(given, bool))),
}
"""Options of a file of facts: description in error messages, and validation."""

PlainSettings = dict[str, Any]
Text = TypeVar("Text", bound="BaseModel")


class StudyText(BaseModel):
    """Keys of a YAML study. The parts of trials are validated when trials are created."""

    model_config = ConfigDict(extra="forbid")

    name: str
    title: str = ""
    question: str = ""
    method: str = ""
    source: Source | None = None
    data: PlainSettings
    model: PlainSettings
    training: PlainSettings = {}
    measures: PlainSettings = {}
    start: str = DRAWN
    seeds: StrictInt | list[StrictInt] = 1
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
    """Keys of `quick`, in addition to dotted names."""

    model_config = ConfigDict(extra="allow")

    seeds: StrictInt | list[StrictInt] | None = None
    grid: dict[str, list[Any]] = {}
    entries: list[PlainSettings] | None = Field(default=None, alias="list")


def load_study(path: str | Path) -> Study:
    """Load a study from a YAML file.

    Raises:
        InputError: If the study is invalid; the message names the file and the key.

    >>> import pathlib, tempfile
    >>> text = "{name: t, data: {generator: unit, n: 3}, model: {d_model: 3, n_heads: 1, d_qk: 1, d_vo: 2}, seeds: 4}"
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "tiny.yaml")
    ...     characters = path.write_text(text)
    ...     study = load_study(path)
    >>> len(study.trials_of("full"))
    4
    """
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
        raise InputError(f"{path}: the study is too large ({type(error).__name__})") from None


def load_python_study(path: str | Path) -> Study:
    """Return the `STUDY` that a Python file defines. This executes the file.

    Raises:
        InputError: If the file fails or does not define a study.
    """
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
        raise InputError(f"{path}: a Python study must define STUDY, a factrank.Study; got {type(study).__name__}")
    return study


# -------------------------------------------------------------------- from text to trials


def _trials(text: StudyText, facts: _Facts) -> Iterator[Trial]:
    """Yield the trials: entries of the list x points of the grid x seeds."""
    seeds = list(range(text.seeds)) if isinstance(text.seeds, int) and text.seeds <= MOST_TRIALS else text.seeds
    n_seeds = len(seeds) if isinstance(seeds, list) else seeds
    n_trials = len(text.entries) * prod(map(len, text.grid.values())) * n_seeds
    if n_trials > MOST_TRIALS:
        raise InputError(f"{n_trials:,} trials; a study has at most {MOST_TRIALS:,}")
    if n_trials <= 0:
        raise InputError("no trials: seeds, list and every entry of grid need at least one value")
    twice = sorted({name for entry in text.entries for name in entry} & set(text.grid))
    if twice:
        raise InputError(f"{twice[0]} occurs both in list and in grid; remove one of them")
    common = _settings(text)
    for entry in text.entries:
        for point in product(*text.grid.values()):
            changes = {**entry, **dict(zip(text.grid, point, strict=True))}
            settings = common
            for name, value in changes.items():
                settings = _changed(settings, name, value)
            for seed in cast("list[int]", seeds):
                try:
                    yield _trial(settings, seed, facts)
                except InputError as error:
                    shown = ", ".join(f"{name} = {value!r}" for name, value in changes.items())
                    place = f" (in the trial with {shown}, seed {seed})" if changes else ""
                    raise InputError(f"{str(error).removeprefix('Trial.')}{place}") from None


def _settings(text: StudyText) -> PlainSettings:
    """Select the settings that may differ between trials."""
    return {name: getattr(text, name) for name in (*SECTIONS, "start")}


def _trial(settings: PlainSettings, seed: int, facts: _Facts) -> Trial:
    model = {"kind": "attention", **settings["model"]}
    plain = {
        "version": SCHEMA,
        **settings,
        "model": model,
        "data": _data(settings["data"], model["kind"], seed, facts),
        "training": _british(settings["training"]),
        "measures": list(_measures(settings["measures"])),
        "seed": seed,
    }
    trial = Trial.from_dict(plain)
    trial.hash  # noqa: B018 - raises if a value is not a number, string or list
    return trial


def _data(settings: PlainSettings, model: object, seed: int, facts: _Facts) -> PlainSettings:
    """Convert the data to plain form, with options of presentation if the family of the model has any."""
    presentation = next((one.presentation for one in families().values() if model in one.models), None)
    if presentation is None:
        return facts.spec(settings, seed)
    names = {field.name for field in fields(presentation)} - {"facts"}
    shown = {name: value for name, value in settings.items() if name in names}
    spec = facts.spec({name: value for name, value in settings.items() if name not in names}, seed)
    return {"kind": kind_of(presentation), "facts": spec, **shown} if shown else spec


def _british(training: PlainSettings) -> PlainSettings:
    """Rename `optimizer` to `optimiser`, and accept a name for an optimiser without options."""
    if "optimizer" in training and "optimiser" in training:
        raise InputError("training: optimizer is an alias of optimiser; pass only one of them")
    named = {"optimiser" if name == "optimizer" else name: value for name, value in training.items()}
    if isinstance(named.get("optimiser"), str):
        named["optimiser"] = {"name": named["optimiser"]}
    return named


def _measures(settings: PlainSettings) -> Iterator[object]:
    """Yield the measures: `ranks: true` or `curve: {epochs: [0, 100]}`; false omits one."""
    of_families = (family.measures for family in families().values())
    known = dict(item for measures in (EVERY_MEASURE, *of_families) for item in measures.items())
    for kind, options in settings.items():
        if kind not in known:
            raise InputError(f"measures: unknown {kind!r}; expected {', '.join(sorted(known))}")
        if not isinstance(options, bool | dict):
            raise InputError(f"measures.{kind}: expected true, false or a dictionary of options; got {options!r}")
        if options is not False:
            yield to_plain(from_plain(known[kind], {} if options is True else options, f"measures.{kind}"))


def _changed(settings: PlainSettings, name: str, value: object) -> PlainSettings:
    """Copy the settings with another value at a dotted name."""
    first, _, rest = name.partition(".")
    if name == "start":
        return {**settings, name: value}
    if first not in SECTIONS or not rest:
        names = ", ".join(f"{section}.NAME" for section in SECTIONS)
        raise InputError(f"trials cannot differ in {name!r}; expected {names} or start")
    changed = deepcopy(settings[first])
    inner, *path = reversed(rest.split("."))
    at = changed
    for step in reversed(path):
        if at.get(step) is True:  # a measure without options
            at[step] = {}
        at = at.setdefault(step, {})
        if not isinstance(at, dict):
            raise InputError(f"{name!r}: {step} is not a dictionary")
    at[inner] = value
    return {**settings, first: changed}


def _quick(text: StudyText) -> StudyText:
    """Apply the changes of the quick size."""
    quick = _checked(QuickText, text.quick, "quick")
    settings = _settings(text)
    for name, value in (quick.model_extra or {}).items():
        if name in text.grid or any(name in entry for entry in text.entries):
            raise InputError(f"quick: {name} differs between trials; change it under grid or list of quick")
        try:
            settings = _changed(settings, name, value)
        except InputError as error:
            raise InputError(f"quick: {error}; also seeds, grid or list") from None
    return text.model_copy(
        update={
            **settings,
            "seeds": quick.seeds if quick.seeds is not None else text.seeds,
            "grid": {**text.grid, **quick.grid},
            "entries": quick.entries if quick.entries is not None else text.entries,
        }
    )


class _Facts:
    """Loads the facts of trials from a generator, a file next to the study, a bundled sample, or data of a family."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.read: dict[str, Database] = {}

    def spec(self, data: PlainSettings, seed: int) -> PlainSettings:
        """Return the plain form of a data specification."""
        described = _described_by_families()
        known = ("generator", "file", "sample", *described)
        kinds = [kind for kind in known if kind in data]
        if len(kinds) != 1:
            choices = f"{', '.join(known[:-1])} or {known[-1]}"
            raise InputError(f"data: expected one of {choices}; got {', '.join(data) or 'nothing'}")
        if kinds[0] not in ("file", "sample"):
            arguments = {name: seed if value == SEED else value for name, value in data.items() if name != kinds[0]}
            if kinds[0] in described:
                return _data_of_family(kinds[0], described[kinds[0]], data[kinds[0]], arguments)
            require_generator(data["generator"], arguments)
            return {"kind": "generated", "generator": data["generator"], "arguments": arguments}
        key = repr(sorted(data.items(), key=lambda item: item[0]))
        if key not in self.read:
            self.read[key] = self._read(kinds[0], data)
        return {"kind": "given", "fingerprint": self.read[key].fingerprint}

    def _read(self, kind: str, data: PlainSettings) -> Database:
        name, options = data[kind], {option: value for option, value in data.items() if option != kind}
        unknown = sorted(set(options) - set(FILE_OPTIONS if kind == "file" else ()))
        if unknown or not isinstance(name, str):
            takes = ", ".join(("file", *FILE_OPTIONS)) if kind == "file" else "sample"
            problem = f"unknown {unknown[0]!r}" if unknown else f"{kind} must be text, got {name!r}"
            raise InputError(f"data: {problem}; it takes {takes}")
        for option, value in options.items():
            expected, accepts = FILE_OPTIONS[option]
            if not accepts(value):
                raise InputError(f"data.{option}: expected {expected}; got {value!r}")
        try:
            return read(self._folder / name, **options) if kind == "file" else sample(name)
        except (FactrankError, ValueError) as error:
            raise InputError(f"data.{kind}: {error}") from None


def _is_list(given: object, kind: type | UnionType) -> bool:
    return isinstance(given, list) and all(isinstance(one, kind) for one in given)


def _described_by_families() -> dict[str, Mapping[str, type]]:
    """Collect the keys that families add to generator, file and sample, with the classes that each accepts."""
    return {word: named for family in families().values() for word, named in family.data_in_files.items()}


def _data_of_family(word: str, named: Mapping[str, type], name: object, arguments: PlainSettings) -> PlainSettings:
    """Convert data that a family defines to plain form."""
    if not isinstance(name, str) or name not in named:
        raise InputError(f"data.{word}: expected {' or '.join(named)}; got {name!r}")
    return cast("PlainSettings", to_plain(from_plain(named[name], arguments, "data")))


def require_generator(name: object, arguments: Mapping[str, object]) -> None:
    """Raise unless there is such a generator and it takes these arguments."""
    if not isinstance(name, str) or name not in GENERATORS:
        raise InputError(f"data.generator: unknown {name!r}; expected {', '.join(GENERATORS)}")
    takes = inspect.signature(GENERATORS[name]).parameters
    unknown = [f"unknown {argument!r}" for argument in arguments if argument not in takes]
    needed = [argument for argument, parameter in takes.items() if parameter.default is parameter.empty]
    missing = [f"missing {argument!r}" for argument in needed if argument not in arguments]
    if unknown or missing:
        raise InputError(f"data: {name}: {', '.join(unknown + missing)}; it takes {', '.join(takes)}")


# -------------------------------------------------------------------- what pydantic checks


def _checked(kind: type[Text], plain: object, where: str) -> Text:
    """Validate plain data; the error gives the path of the first mistake, and what was expected."""
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
    """Check whether a step of pydantic's path is one of several accepted types instead of a key."""
    return isinstance(step, str) and (step in TYPE_NAMES or "[" in step)


def _pairs(plain: Any) -> Any:
    """Convert selections and labelled quantities from dictionaries to pairs."""
    if isinstance(plain, list):
        return list(map(_pairs, plain))
    if isinstance(plain, dict):
        inner = {name: value if name == "where" else _pairs(value) for name, value in plain.items()}
        return {
            name: list(value.items()) if name in ("where", "quantities") and isinstance(value, dict) else value
            for name, value in inner.items()
        }
    return plain
