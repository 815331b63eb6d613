"""What columns are called where people read them."""

from __future__ import annotations

import re

from factrank.experiments.measured import measure_of
from factrank.experiments.statistics import columns_in
from factrank.foreign_text import shown_name

LABELS = {
    "database.generator": "kind of table",
    "database.n_keys": "keys",
    "database.n_queries": "queries",
    "database.n_values": "values",
    "database.n_facts": "facts",
    "database.seed": "seed of the table",
    "database.fingerprint": "table",
    "database.n_examples": "examples",
    "database.context_size": "tokens of a context",
    "database.n_contexts": "contexts",
    "database.n_classes": "classes",
    "database.d_input": "dimensions of the vectors",
    "model.kind": "model",
    "model.d_qk": "query-key width d_qk",
    "model.d_vo": "value-output width d_vo",
    "model.d_model": "model width d_model",
    "model.n_heads": "heads",
    "model.scaled_by": "scores divided by the root of",
    "training.optimiser": "optimiser",
    "training.learning_rate": "learning rate",
    "training.epochs": "most epochs",
    "training.batch_size": "batch size",
    "training.stop": "stops at",
    "training.check_every": "epochs between checks",
    "training.frozen": "parts not trained",
    "training.engine": "engine asked for",
    "training.schedule": "learning rate over time",
    "training.warm_up": "share of warm-up",
    "measures.taus": "confidence thresholds τ",
    "measures.artifacts": "artifacts counted",
    "measures.epochs_to": "epochs to full recall recorded",
    "curve_epochs": "epochs recorded",
    "seed": "seed",
    "epoch": "epoch",
    "epochs": "epochs",
    "seconds": "seconds",
    "tau": "confidence threshold τ",
    "temperature": "temperature",
    "precision": "precision",
}

SEARCH_LABELS = {
    "lower": "largest size that holds",
    "log_lower": "log of the largest size that holds",
    "log_facts": "log of the facts held",
    "upper_facts": "facts of the next size tried",
    "probes": "sizes run",
}
"""The columns of searches that are called otherwise than those of trials."""


def label(column: str, data: str = "trials") -> str:
    """A column, or arithmetic on columns, in words; `data` names the table that it belongs to.

    >>> label("model.d_vo"), label("recall_0.95"), label("model.d_model + model.d_vo")
    ('value-output width d_vo', 'recall at confidence 0.95', 'd_model + d_vo')
    >>> label("upper"), label("upper", "searches")
    ('least upper bound of the rank', 'next size tried, which does not hold')
    """
    if data == "searches" and column in SEARCH_LABELS:
        return SEARCH_LABELS[column]
    if column in LABELS:
        return LABELS[column]
    measure = measure_of(column)
    if measure is not None and measure.label and column == measure.name.removesuffix("*"):
        return measure.label
    confident = re.fullmatch(r"(recall|artifacts|epochs_to\.recall)_(0\.\d+)", column)
    if confident:
        what = {"recall": "recall", "artifacts": "artifacts"}.get(confident[1], "epochs to full recall")
        return f"{what} at confidence {confident[2]}"
    if re.search(r" [-+*/] ", column):
        for name in sorted(set(columns_in(column)), key=len, reverse=True):
            column = column.replace(name, _last(name))
        return shown_name(column, None)
    return shown_name(_last(column))


def short_label(column: str) -> str:
    """The same in a word or two, where room is scarce.

    >>> short_label("model.d_vo"), short_label("database.n_queries"), short_label("recall_0.95")
    ('d_vo', 'queries', 'recall at confidence 0.95')
    """
    text = label(column)
    return _last(column) if re.fullmatch(r".* d_\w+", text) and " " not in column else text


def _last(column: str) -> str:
    """The last part of a dotted name, with spaces, except in symbols like d_vo."""
    name = column.rsplit(".", 1)[-1] if re.fullmatch(r"[A-Za-z_][\w.]*", column) else column
    return name if re.fullmatch(r"[dn]_\w{1,6}", name) else name.replace("_", " ")
