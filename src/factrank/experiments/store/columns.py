"""Columns: a trial and what came of it as one flat row, under the same names everywhere.

    hash, status, error, engine, device, width, seconds, epochs     what happened
    factrank, jax, numba, python                                    the versions that ran it
    trial                                                           its canonical JSON; `hash` is the SHA-256 of it
    database.*, model.*, training.*, measures.*, curve_epochs, seed the trial, defaults included
    loss, recall, recall_0.95, margin, ..., epochs_to.recall        the numbers, by their own names

Curves and readings are tables of their own: hash, epoch or precision, temperature and tau, and the numbers.

Arguments of a generator stand beside its name (`database.n_keys`), as the sizes of random examples do
(`database.n_examples`), options of an optimiser under its own (`training.optimiser.b1`). Lists are JSON text. A number
that does not exist is null; one that is NaN stays NaN.
"""

from __future__ import annotations

import inspect
import json
import platform
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields, is_dataclass
from functools import cache, lru_cache
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from factrank.databases.generators import GENERATORS
from factrank.errors import InputError
from factrank.experiments.specs import KINDS, Generated, Options, Trial, canonical_json, to_plain
from factrank.experiments.training import TrialResult
from factrank.version import __version__

Row = dict[str, object]

ENDED = ("finished", "stopped", "diverged")
"""The statuses of trials that were trained to their end and are never run again."""
STATUSES = (*ENDED, "failed")

RUN_COLUMNS: dict[str, type] = {
    "hash": str,
    "status": str,
    "error": str,
    "engine": str,
    "device": str,
    "width": int,
    "seconds": float,
    "epochs": int,
    "factrank": str,
    "jax": str,
    "numba": str,
    "python": str,
    "trial": str,
}
"""The columns that every table has, and what they hold."""

WEIGHTS_KEPT = "weights_kept"
"""A column of the trials whose weights were stored, in stores that have some."""

PUBLISHED_ONLY = "published_only"
"""A column of trials that were restored from published tables, which leave out curves that nothing is drawn from."""

TRIAL_GROUPS = ("database.", "model.", "training.", "measures.", "curve_epochs", "seed")
METRICS, EPOCHS_TO = "metrics.", "epochs_to."
READING = ("precision", "temperature", "tau")
"""What tells the readings of one trial apart."""
LONGEST_ERROR = 10_000
LARGEST_INTEGER = 2**63 - 1


def row_of(result: TrialResult) -> Row:
    """The row of a trial that has ended."""
    if result.status not in ENDED:
        raise InputError(f"trial {result.trial.hash[:12]} was {result.status}: it has no row yet")
    return {
        **trial_columns(result.trial),
        "status": result.status,
        "error": None,
        "engine": plain_text(result.engine),
        "device": plain_text(result.device),
        "width": int(result.width),
        "seconds": float(result.seconds),
        "epochs": int(result.epochs),
        **versions(),
        **{_metric_column(name): float(number) for name, number in result.metrics.items()},
        **{EPOCHS_TO + plain_text(name): epoch and int(epoch) for name, epoch in result.epochs_to.items()},
    }


def failed_row(trial: Trial, error: str) -> Row:
    """The row of a trial that could not be trained, with the text of its error."""
    text = plain_text(error)
    shortened = text if len(text) <= LONGEST_ERROR else f"{text[:LONGEST_ERROR]} ... ({len(text)} letters)"
    unknown = dict.fromkeys(("engine", "device", "width", "seconds", "epochs"))
    return {**trial_columns(trial), "status": "failed", "error": shortened, **unknown, **versions()}


def curve_rows(result: TrialResult) -> list[Row]:
    """One row per recorded epoch: hash, epoch, and the numbers of the curve by their names."""
    epochs = result.curves.get("epoch", [])
    names = [name for name in result.curves if name != "epoch"]
    return [
        {
            "hash": result.trial.hash,
            "epoch": int(epoch),
            **{_metric_column(name): float(result.curves[name][at]) for name in names},
        }
        for at, epoch in enumerate(epochs)
    ]


def reading_rows(result: TrialResult) -> list[Row]:
    """One row per reading: hash, what was read (precision, temperature, tau), and the numbers by their names."""
    return [
        {
            "hash": result.trial.hash,
            **{name: _reading_cell(reading[name]) for name in READING},
            **{_metric_column(name): _reading_cell(cell) for name, cell in reading.items() if name not in READING},
        }
        for reading in result.readings
    ]


def trial_columns(trial: Trial) -> Row:
    """The part of a row that is known before the trial runs.

    >>> from factrank import LayerShape
    >>> from factrank import generated
    >>> trial = Trial(generated("unit", n=4), LayerShape(d_model=2, n_heads=1, d_qk=1, d_vo=2), seed=3)
    >>> row = trial_columns(trial)
    >>> [row[name] for name in ("database.generator", "database.n", "model.d_vo", "training.optimiser", "seed")]
    ['unit', 4, 2, 'adam', 3]
    """
    return {
        "hash": trial.hash,
        "trial": canonical_json(trial.to_dict()),
        **_flattened("database", trial.database),
        **_flattened("model", trial.model),
        **_flattened("training", trial.training),
        **_flattened("measures", trial.measures),
        "curve_epochs": json.dumps(trial.curve_epochs),
        "seed": trial.seed,
    }


def trial_of(text: str) -> Trial:
    """The trial of a row, from its column `trial`."""
    try:
        plain = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(f"the column trial must hold the JSON of a trial: {error}") from None
    return Trial.from_dict(plain)


def in_order(names: Iterable[str]) -> list[str]:
    """Columns in the order in which tables have them, whatever the order of the rows: what ran, trial, numbers."""
    places = {name: place for place, name in enumerate(RUN_COLUMNS)}

    def place(name: str) -> tuple[int, str]:
        if name in places:
            return places[name], ""
        group = next((at for at, prefix in enumerate(TRIAL_GROUPS) if name.startswith(prefix)), len(TRIAL_GROUPS))
        return len(places) + group, name

    return sorted(names, key=place)


@cache
def versions() -> Mapping[str, str | None]:
    """The versions that decide the last bits of a result."""
    return {
        "factrank": __version__,
        "jax": _version("jax"),
        "numba": _version("numba"),
        "python": platform.python_version(),
    }


def plain_text(text: str) -> str:
    """Text that can be stored as UTF-8: half surrogate pairs, as in names of odd files, are written out."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


# ---------------------------------------------------------------- flattening


@lru_cache(maxsize=2**14)  # the trials of a study share most of their parts
def _flattened(prefix: str, spec: Any) -> Mapping[str, object]:
    """The fields of a specification as columns; `kind` where the field may hold several classes."""
    columns: Row = {}
    kind = next((name for name, registered in KINDS.items() if registered is type(spec)), None)
    if kind is not None and prefix != "database":  # the generator, the fingerprint or the sizes say it already
        columns[f"{prefix}.kind"] = kind
    names = [field.name for field in fields(spec)]
    for name in names:
        value, column = getattr(spec, name), f"{prefix}.{name}"
        if isinstance(value, Options):
            convert = _argument_types(spec) if isinstance(spec, Generated) else _real
            for option, item in value:
                beside = f"{prefix}.{option}" if option.split(".")[0] not in {"kind", *names} else f"{column}.{option}"
                columns[plain_text(beside)] = _cell(convert(option, item))
        elif is_dataclass(value) and not isinstance(value, type):
            nested = dict(_flattened(column, getattr(spec, name)))
            if f"{column}.name" in nested:
                columns[column] = nested.pop(f"{column}.name")
            columns |= nested
        else:
            columns[column] = _cell(value)
    return columns


def _cell(value: object) -> object:
    """A value of a specification as a cell: numbers and text as they are, lists as JSON."""
    if isinstance(value, str):
        return plain_text(value)
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) > LARGEST_INTEGER:
        return str(value)
    if value is None or isinstance(value, bool | int | float):
        return value
    return canonical_json(to_plain(value))


def _real(_: str, value: object) -> object:
    """Options of optimisers are real numbers, also where they are written as integers."""
    is_integer = isinstance(value, int) and not isinstance(value, bool) and abs(value) <= 2**53
    return float(value) if is_integer else value  # type: ignore[arg-type]


def _argument_types(spec: Generated) -> Callable[[str, object], object]:
    """Arguments of generators are real numbers where the generator says so: a column has one type in all parts."""
    real = _real_arguments(spec.generator)
    return lambda name, value: _real(name, value) if name in real else value


@cache
def _real_arguments(generator: str) -> frozenset[str]:
    if generator not in GENERATORS:
        return frozenset()
    parameters = inspect.signature(GENERATORS[generator], eval_str=True).parameters
    return frozenset(name for name, parameter in parameters.items() if parameter.annotation is float)


def _reading_cell(value: Any) -> object:
    """Text as it is; everything else is a real number."""
    return plain_text(value) if isinstance(value, str) else float(value)


def _metric_column(name: str) -> str:
    """The name of a number; one that another column has already goes under `metrics.`."""
    name = plain_text(name)
    reserved = (*RUN_COLUMNS, "epoch", WEIGHTS_KEPT, PUBLISHED_ONLY)
    taken = name in reserved or name.startswith((*TRIAL_GROUPS, METRICS, EPOCHS_TO))
    return METRICS + name if taken else name


@cache
def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
