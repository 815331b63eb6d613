"""Which options of a trial a task knows; the others are mistakes, not to be passed over in silence."""

from __future__ import annotations

from dataclasses import fields
from functools import cache

from factrank.errors import InputError
from factrank.experiments.registry import EVERY_ENGINE, family_of
from factrank.experiments.specs.measures import Measures
from factrank.experiments.specs.training_spec import Training
from factrank.experiments.specs.trial import Trial

OPTIONAL: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("training", ("batch_size", "frozen", "score_scale", "key_exponent", "query_exponent", "copy_share")),
    ("measures", ("artifacts", "ranks", "additive", "readings", "planted_cp")),
    ("measures", ("contexts", "parts", "hallucination", "frequency_groups", "test_sequences", "best")),
    ("measures", ("saturation", "tolerance", "assumptions")),
)
"""The fields that do not mean something for every model."""
DEFAULTS = {
    (part, one.name): one.default
    for part, kind in (("training", Training), ("measures", Measures))
    for one in fields(kind)
}


def require_options(trial: Trial, known: frozenset[str], what: str) -> None:
    """Raise an `InputError` for the first option that is set and not among the `known` ones.

    Options are named by their fields. `what` is the model in words.
    """
    asked = [
        f"{part}.{name}" for part, name, default in _others(known) if getattr(getattr(trial, part), name) != default
    ]
    if trial.training.stop == "recall_sequences" and "contexts" not in known:  # sequences are what contexts are of
        asked.append("training.stop 'recall_sequences'")
    wanted = trial.training.engine
    if wanted not in EVERY_ENGINE and wanted not in (engine.name for engine in family_of(trial.model).engines):
        asked.append(f"training.engine {wanted!r}")
    if asked:
        raise InputError(f"{what} has no {asked[0]}; it knows {', '.join(sorted(known))}")


@cache
def _others(known: frozenset[str]) -> list[tuple[str, str, object]]:
    """The part, the name and the default of every option that is not known."""
    return [(part, name, DEFAULTS[part, name]) for part, names in OPTIONAL for name in names if name not in known]
