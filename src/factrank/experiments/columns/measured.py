"""Measured columns: the numbers that every family has, and the numbers that families declare.

A column is declared once, with its measure; tables, labels and checks of stored files read it from here.
"""

from __future__ import annotations

from functools import lru_cache

from factrank.experiments.family import Family, Measure
from factrank.experiments.registry import families

OF_EVERY_FAMILY = (
    Measure("loss", "loss", "", "cross-entropy of the right answers in nats, or mean squared error of real labels"),
    Measure("recall*", "recall", "", "fraction of facts, or examples, that are answered rightly"),
    Measure("recall_*", "recall at confidence *", "", "the same, with a probability of at least this threshold"),
    Measure("margin", "least margin", "logits", "right logit less the largest other one, the least over facts"),
    Measure("median_margin", "median margin", "logits", "the same, the median over facts"),
    Measure("facts", "facts", "", "number of facts"),
    Measure("bits", "bits", "bits", "information in the facts: n log2 of the number of values"),
    Measure("bits_per_parameter", "bits per parameter", "bits", "bits of the facts held, over the parameters"),
    Measure("parameters", "parameters", "", "number of weights, as the family counts them"),
    Measure("epochs_to.*", "", "epochs", "first check at which this recall was 1"),
    Measure("epochs_to.recall_*", "epochs to full recall at confidence *", "epochs", "the same at this threshold"),
)
"""What trials have, whatever was trained."""


def measure_of(column: str) -> Measure | None:
    """The measure of a column, by its whole name before its longest beginning; None if there is none."""
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
    begun = sorted((measure for measure in every if measure.name.endswith("*")), key=lambda one: -len(one.name))
    return named, {measure.name[:-1]: measure for measure in begun}
