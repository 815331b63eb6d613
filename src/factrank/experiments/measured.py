"""Measured columns: the numbers of results, those of every family and those that families declare.

A column is declared once, with its measure; tables, labels and checks of stored files read it from here.
"""

from __future__ import annotations

from functools import lru_cache

from factrank.experiments.family import Family, Measure
from factrank.experiments.registry import families

OF_EVERY_FAMILY = (
    Measure("loss", "loss"),
    Measure("recall*", "recall"),
    Measure("margin", "least margin"),
    Measure("median_margin", "median margin"),
    Measure("facts", "facts"),
    Measure("bits", "bits"),
    Measure("bits_per_parameter", "bits per parameter"),
    Measure("parameters", "parameters"),
    Measure("epochs_to.*"),
)
"""What trials have, whatever was trained."""


def measure_of(column: str) -> Measure | None:
    """The measure of a column, by its whole name before its beginning; None if there is none."""
    named, begun = _declared(tuple(families().values()))
    if column in named:
        return named[column]
    return next((measure for start, measure in begun.items() if column.startswith(start)), None)


def is_measured(column: str) -> bool:
    """Whether a column holds what was measured: numbers, whatever a foreign file says."""
    return measure_of(column) is not None


@lru_cache(maxsize=16)
def _declared(among: tuple[Family, ...]) -> tuple[dict[str, Measure], dict[str, Measure]]:
    """The measures of these families by column, and by the beginning of columns; the first to declare one is right."""
    every = [*OF_EVERY_FAMILY, *(measure for family in among for measure in family.measures)][::-1]
    named = {measure.name.removesuffix("*"): measure for measure in every if not measure.name.endswith("_*")}
    return named, {measure.name[:-1]: measure for measure in every if measure.name.endswith("*")}
