"""Measured columns: metrics of every family, and metrics that families declare.

Each column is declared once, with its measure. Tables, labels and checks of stored files look it up here.
"""

from __future__ import annotations

from functools import lru_cache

from factrank.experiments.family import Family
from factrank.experiments.registry import families
from factrank.experiments.specs import ResultColumn

OF_EVERY_FAMILY = (
    ResultColumn(
        "loss", "loss", "", "cross-entropy of the right answers in nats, or mean squared error of real labels"
    ),
    ResultColumn("recall*", "recall", "", "fraction of facts, or examples, that are answered rightly"),
    ResultColumn("recall_*", "recall at confidence *", "", "the same, with a probability of at least this threshold"),
    ResultColumn("margin", "least margin", "logits", "right logit less the largest other one, the least over facts"),
    ResultColumn("median_margin", "median margin", "logits", "the same, the median over facts"),
    ResultColumn("facts", "facts", "", "number of facts"),
    ResultColumn("bits", "bits", "bits", "information in the facts: n log2 of the number of values"),
    ResultColumn("bits_per_parameter", "bits per parameter", "bits", "bits of the facts held, over the parameters"),
    ResultColumn("parameters", "parameters", "", "number of weights, as the family counts them"),
    ResultColumn("epochs_to.*", "", "epochs", "first check at which this recall was 1"),
    ResultColumn("epochs_to.recall_*", "epochs to full recall at confidence *", "epochs", "the same at this threshold"),
)
"""Metrics of all trials."""


def columns_of(family: Family) -> tuple[ResultColumn, ...]:
    """Return the columns of a family: columns of all its trials, then columns of its measures."""
    return (*family.columns, *(column for measure in family.measures.values() for column in measure.columns))


def measure_of(column: str) -> ResultColumn | None:
    """Return the declaration of a column, by its full name or its longest declared prefix; None if there is none."""
    named, begun = _declared(tuple(families().values()))
    if column in named:
        return named[column]
    return next((measure for start, measure in begun.items() if column.startswith(start)), None)


def is_measured(column: str) -> bool:
    """Return whether a column is a metric and therefore numeric, even if a file from elsewhere disagrees."""
    return measure_of(column) is not None


@lru_cache(maxsize=16)
def _declared(among: tuple[Family, ...]) -> tuple[dict[str, ResultColumn], dict[str, ResultColumn]]:
    """Index the columns of these families by name, and by prefix. The first declaration takes precedence."""
    every = [*OF_EVERY_FAMILY, *(column for family in among for column in columns_of(family))][::-1]
    named = {measure.name.removesuffix("*"): measure for measure in every if not measure.name.endswith("_*")}
    begun = sorted((measure for measure in every if measure.name.endswith("*")), key=lambda one: -len(one.name))
    return named, {measure.name[:-1]: measure for measure in begun}
