"""Columns: a trial and its result as one flat row.

    hash, status, error, engine, device, width, seconds, epochs     the run
    factrank, jax, numba, python                                    versions
    trial                                                           canonical JSON; `hash` is its SHA-256
    data.*, model.*, training.*, measures, start, seed              the trial, including defaults
    loss, recall, recall_0.95, margin, ..., epochs_to.recall        metrics

Curves and readings are separate tables: hash, epoch or precision, temperature and tau, and metrics.

Arguments of a generator are columns next to its name (`data.n_keys`), as are the sizes of random examples
(`data.n_examples`). Options of an optimiser follow its name (`training.optimiser.b1`). Lists are JSON strings. A metric
that does not exist is null; NaN stays NaN.
"""

from __future__ import annotations

import json
import platform
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields, is_dataclass
from functools import cache, lru_cache
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from factrank.databases.generators import GENERATORS, arguments_of
from factrank.errors import InputError
from factrank.experiments.registry import family_of
from factrank.experiments.specs import (
    KINDS,
    DataSpec,
    Generated,
    Options,
    Presentation,
    Trial,
    canonical_json,
    to_plain,
)
from factrank.experiments.training import TrialResult
from factrank.version import __version__

Row = dict[str, object]

ENDED = ("finished", "stopped", "diverged")
"""Statuses of trials that were trained to the end and are never run again."""
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
"""Columns of every table, and their types."""

WEIGHTS_KEPT = "weights_kept"
"""Column that marks trials whose weights were stored."""

PUBLISHED_ONLY = "published_only"
"""Column that marks trials restored from published tables, which omit curves that are not drawn."""

TRIAL_GROUPS = ("data.", "model.", "training.", "measures", "start", "seed")
METRICS, EPOCHS_TO = "metrics.", "epochs_to."
READING = ("precision", "temperature", "tau")
"""Columns that identify the readings of a trial."""
LONGEST_ERROR = 10_000
LARGEST_INTEGER = 2**63 - 1


def row_of(result: TrialResult) -> Row:
    """Return the row of a trial that has ended.

    Raises:
        InputError: If the trial was interrupted.
    """
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
    """Return the row of a trial that could not be trained, with its error message."""
    text = plain_text(error)
    shortened = text if len(text) <= LONGEST_ERROR else f"{text[:LONGEST_ERROR]} ... ({len(text)} letters)"
    unknown = dict.fromkeys(("engine", "device", "width", "seconds", "epochs"))
    return {**trial_columns(trial), "status": "failed", "error": shortened, **unknown, **versions()}


def curve_rows(result: TrialResult) -> list[Row]:
    """Return one row per recorded epoch: hash, epoch, and metrics."""
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
    """Return one row per reading: hash, readout (precision, temperature, tau), and metrics."""
    return [
        {
            "hash": result.trial.hash,
            **{name: _reading_cell(reading[name]) for name in READING},
            **{_metric_column(name): _reading_cell(cell) for name, cell in reading.items() if name not in READING},
        }
        for reading in result.readings
    ]


def trial_columns(trial: Trial) -> Row:
    """Return the part of a row that is known before the trial runs.

    >>> from factrank import LayerShape
    >>> from factrank import generated
    >>> trial = Trial(generated("unit", n=4), LayerShape(d_model=2, n_heads=1, d_qk=1, d_vo=2), seed=3)
    >>> row = trial_columns(trial)
    >>> [row[name] for name in ("data.generator", "data.n", "model.d_vo", "training.optimiser", "seed")]
    ['unit', 4, 2, 'adam', 3]
    """
    return {
        "hash": trial.hash,
        "trial": canonical_json(trial.to_dict()),
        **_flattened("data", _presented(trial)),
        **_flattened("model", trial.model),
        **_flattened("training", trial.training),
        "measures": canonical_json(to_plain(trial.measures)),
        "start": trial.start,
        "seed": trial.seed,
    }


def _presented(trial: Trial) -> DataSpec:
    """Add the presentation to the data, including defaults."""
    presentation = family_of(trial.model).presentation
    return trial.data if presentation is None else presentation.of(trial.data)


def trial_of(text: str) -> Trial:
    """Return the trial of a row, given its column `trial`.

    Raises:
        InputError: If it is not the JSON of a trial.
    """
    try:
        plain = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(f"the column trial must contain the JSON of a trial: {error}") from None
    return Trial.from_dict(plain)


def in_order(names: Iterable[str]) -> list[str]:
    """Sort column names into the order of result tables: run, trial, metrics."""
    places = {name: place for place, name in enumerate(RUN_COLUMNS)}

    def place(name: str) -> tuple[int, str]:
        if name in places:
            return places[name], ""
        group = next((at for at, prefix in enumerate(TRIAL_GROUPS) if name.startswith(prefix)), len(TRIAL_GROUPS))
        return len(places) + group, name

    return sorted(names, key=place)


@cache
def versions() -> Mapping[str, str | None]:
    """Return the package versions that affect the last bits of a result."""
    return {
        "factrank": __version__,
        "jax": _version("jax"),
        "numba": _version("numba"),
        "python": platform.python_version(),
    }


def plain_text(text: str) -> str:
    """Escape lone surrogates, as in invalid file names, so the string can be stored as UTF-8."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


# ---------------------------------------------------------------- flattening


@lru_cache(maxsize=2**14)  # most trials of a study have parts in common
def _flattened(prefix: str, spec: Any) -> Mapping[str, object]:
    """Convert a specification to columns, with its `kind` if the field accepts several classes."""
    columns: Row = {} if not isinstance(spec, Presentation) else dict(_flattened(prefix, spec.facts))
    kind = next((name for name, registered in KINDS.items() if registered is type(spec)), None)
    if kind is not None and prefix != "data":  # redundant: there is a generator, a fingerprint or sizes
        columns[f"{prefix}.kind"] = kind
    names = [field.name for field in fields(spec) if not (isinstance(spec, Presentation) and field.name == "facts")]
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
    """Convert a value of a specification to a cell; lists become JSON."""
    if isinstance(value, str):
        return plain_text(value)
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) > LARGEST_INTEGER:
        return str(value)
    if value is None or isinstance(value, bool | int | float):
        return value
    return canonical_json(to_plain(value))


def _real(_: str, value: object) -> object:
    """Convert integers to float, because options of optimisers are real numbers."""
    is_integer = isinstance(value, int) and not isinstance(value, bool) and abs(value) <= 2**53
    return float(value) if is_integer else value  # type: ignore[arg-type]


def _argument_types(spec: Generated) -> Callable[[str, object], object]:
    """Convert generator arguments to their annotated types, so a column has one type in all parts."""
    real = _real_arguments(spec.generator)
    return lambda name, value: _real(name, value) if name in real else value


def _real_arguments(generator: str) -> frozenset[str]:
    parameters = arguments_of(generator) if generator in GENERATORS else {}
    return frozenset(name for name, parameter in parameters.items() if parameter.annotation is float)


def _reading_cell(value: Any) -> object:
    """Leave strings unchanged, and convert everything else to float."""
    return plain_text(value) if isinstance(value, str) else float(value)


def _metric_column(name: str) -> str:
    """Prefix the name of a metric with `metrics.` if it is already taken."""
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
