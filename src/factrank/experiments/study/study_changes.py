"""A study with other seeds or settings, in any form: from the catalogue, a YAML file or a Python file.

    seeds      every setting gets exactly this many seeds: the first ones of the study, then the next numbers
    settings   every trial is repeated with each value of a dotted name; values of the study are replaced

A table that was drawn with the seed of its trial is drawn anew for each seed. Equal trials count once. The method of
the study names the changes, so pages and reports show them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import replace
from functools import lru_cache
from itertools import count, islice, product
from typing import Any

from factrank.errors import InputError
from factrank.experiments.specs import Trial
from factrank.experiments.study.study import Size, Study
from factrank.experiments.study.study_files import MOST_TRIALS, require_generator

CHANGEABLE = ("data", "model", "training")
SEED = "seed"

PlainTrial = dict[str, Any]
Settings = Mapping[str, Sequence[object]]


def changed_study(study: Study, seeds: int | None = None, settings: Settings | None = None) -> Study:
    """Return the study with this number of seeds and with these values of dotted names.

    Arguments:
        study: The study.
        seeds: Number of seeds of every setting; None keeps the study's own.
        settings: Values by name, such as {"model.d_vo": [1, 2, 4]}.

    Raises:
        InputError: If a trial does not have such a setting, or the study finds its sizes by searches.

    >>> from factrank import LayerShape, generated
    >>> facts, shape = generated("unit", n=3), LayerShape(3, 1, 1, 2)
    >>> study = Study("s", "S", None, "", "", lambda size: [Trial(facts, shape, seed=seed) for seed in (0, 1)])
    >>> changed = changed_study(study, seeds=3, settings={"model.d_vo": [1, 2]})
    >>> [(trial.model.d_vo, trial.seed) for trial in changed.trials("full")]
    [(1, 0), (2, 0), (1, 1), (2, 1), (1, 2), (2, 2)]
    """
    if seeds is None and not settings:
        return study
    if seeds is not None and seeds < 1:
        raise InputError(f"a study has at least one seed; got {seeds}")
    if study.searches is not None:
        raise InputError(f"study {study.name}: it has searches, whose seeds and settings cannot be changed")
    given = dict(settings or {})

    @lru_cache(maxsize=2)
    def trials(size: Size) -> tuple[Trial, ...]:
        listed = study.trials_of(size)
        wanted = listed if seeds is None else list(_with_seeds(study.name, listed, seeds))
        return tuple({trial.hash: trial for trial in _with_settings(study.name, wanted, given)}.values())

    trials("quick")  # finds mistakes before anything is run or written
    told = [f"{seeds} seeds"] if seeds is not None else []
    told += [f"{name} = {', '.join(map(str, values))}" for name, values in given.items()]
    method = f"{study.method} Changed: {'; '.join(told)}.".strip()
    return replace(study, trials=lambda size: list(trials(size)), method=method)


# -------------------------------------------------------------------- settings


def _with_settings(study: str, trials: Sequence[Trial], settings: Settings) -> Iterator[Trial]:
    for name, values in settings.items():
        section, _, field = name.partition(".")
        if section not in CHANGEABLE or not field or not values:
            names = ", ".join(f"{one}.NAME" for one in CHANGEABLE)
            raise InputError(f"{name!r}: expected {names} with at least one value")
    if not settings:
        yield from trials
        return
    points = list(product(*settings.values()))
    if len(trials) * len(points) > MOST_TRIALS:
        raise InputError(f"{len(trials) * len(points):,} trials; a study has at most {MOST_TRIALS:,}")
    for trial in trials:
        for point in points:
            plain = deepcopy(trial.to_dict())
            for name, value in zip(settings, point, strict=True):
                _change(plain, name, value)
            try:
                yield _trial(plain)
            except InputError as error:
                shown = ", ".join(f"{name} = {value}" for name, value in zip(settings, point, strict=True))
                raise InputError(f"study {study}, with {shown}: {error}") from None


def _change(plain: PlainTrial, name: str, value: object) -> None:
    """Set a dotted name; names of data are arguments of the generator, or options of how facts are presented."""
    section, _, field = name.partition(".")
    if section != "data":
        plain.setdefault(section, {})[field] = value
        return
    drawn = _drawn(plain)
    if "facts" in plain["data"] and field in plain["data"]:
        plain["data"][field] = value
    elif drawn is None:
        raise InputError(f"{name}: the facts of this study are given, not drawn")
    else:
        drawn[field] = value


def _drawn(plain: PlainTrial) -> PlainTrial | None:
    """Return the arguments that the data of a trial are drawn with; None if they are given."""
    source: PlainTrial = plain["data"].get("facts", plain["data"])
    return None if source["kind"] == "given" else source.get("arguments", source)


def _trial(plain: PlainTrial) -> Trial:
    source = plain["data"].get("facts", plain["data"])
    if source["kind"] == "generated":
        require_generator(source["generator"], source["arguments"])
    trial = Trial.from_dict(plain)
    trial.hash  # noqa: B018 - raises if a value is not a number, string or list
    return trial


# -------------------------------------------------------------------- seeds


def _with_seeds(study: str, trials: Sequence[Trial], n_seeds: int) -> Iterator[Trial]:
    """Yield the trials of the first seeds of every setting, then of further seeds."""
    groups: dict[str, list[Trial]] = {}
    for trial in trials:
        groups.setdefault(_without_seeds(trial), []).append(trial)
    if len(groups) * n_seeds > MOST_TRIALS:
        raise InputError(f"{len(groups) * n_seeds:,} trials; a study has at most {MOST_TRIALS:,}")
    for group in groups.values():
        own = list(dict.fromkeys(trial.seed for trial in group))
        kept = own[:n_seeds]
        yield from (trial for trial in group if trial.seed in kept)
        unused = (seed for seed in count() if seed not in own)
        for seed in islice(unused, n_seeds - len(kept)):
            yield _reseeded(study, group, seed)


def _without_seeds(trial: Trial) -> str:
    """Return a text that is equal for trials that differ only in their seeds."""
    plain = deepcopy(trial.to_dict())
    plain.pop(SEED, None)
    drawn = _drawn(plain)
    if drawn is not None:
        drawn.pop(SEED, None)
    return json.dumps(plain, sort_keys=True)


def _reseeded(study: str, group: Sequence[Trial], seed: int) -> Trial:
    """Return a trial of this setting with another seed, and with a new table if every seed has its own."""
    plain: PlainTrial = deepcopy(group[-1].to_dict())
    plain[SEED] = seed
    tables = [_table_seed(trial) for trial in group]
    drawn = _drawn(plain)
    if drawn is not None and all(table == trial.seed for table, trial in zip(tables, group, strict=True)):
        if SEED in drawn or "arguments" not in plain["data"].get("facts", plain["data"]):
            drawn[SEED] = seed
    elif len(set(tables)) > 1:
        raise InputError(f"study {study}: more seeds are needed, but its tables are not drawn with the trials' seeds")
    return _trial(plain)


def _table_seed(trial: Trial) -> object:
    drawn = _drawn(deepcopy(trial.to_dict()))
    return None if drawn is None else drawn.get(SEED, 0)
