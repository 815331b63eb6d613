"""What columns are called where people read them."""

from __future__ import annotations

import re

from factrank.experiments.statistics.expressions import columns_in
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
    "recall": "recall",
    "loss": "loss",
    "margin": "least margin",
    "median_margin": "median margin",
    "epoch": "epoch",
    "epochs": "epochs",
    "seconds": "seconds",
    "facts": "facts",
    "bits": "bits",
    "parameters": "parameters",
    "bits_per_parameter": "bits per parameter",
    "layer_rank": "greatest rank of the layer",
    "rank_lower": "rank of the table, at least",
    "rank_upper": "rank of the table, at most",
    "completion_lower": "completion rank, at least",
    "completion_upper": "completion rank, at most",
    "effective_lower": "effective rank, at least",
    "effective_upper": "effective rank, at most",
    "memorised": "share that recalls everything",
    "violates": "share of certified violations",
    "memorised_rank": "rank of the table where memorised",
    "memorised_examples": "examples memorised",
    "examples": "examples",
    "max_error": "largest error",
    "explained": "share of the variance explained",
    "bound": "examples by the bound of Mahdavi et al.",
    "rank": "examples that one linear solve can fit",
    "saturated": "share of saturated heads",
    "saturated_least": "examples at which the least saturated head is",
    "saturated_most": "examples at which the most saturated head is",
    "saturated_any": "examples with a saturated head",
    "query_rank": "rank of the queries",
    "kruskal_lower": "Kruskal rank of the queries, at least",
    "kruskal_upper": "Kruskal rank of the queries, at most",
    "least_context_rank": "least rank of a context",
    "full_context_share": "share of contexts of full rank",
    "assumptions_refuted": "share where an assumption is refuted",
    "assumptions_proved": "share where all assumptions are proved",
    "additive_share": "share of facts that only the sum gets right",
    "direct_alone": "recall of the direct path alone",
    "heads_alone": "recall of the best head alone",
    "cp_rank": "rank by numerical CP",
    "tau": "confidence threshold τ",
    "temperature": "temperature",
    "precision": "precision",
    "argmax": "recall by argmax",
    "ones": "confident answers",
    "flattening": "largest flattening rank",
    "upper": "least upper bound of the rank",
    "cp": "rank by numerical CP",
}

SEARCH_LABELS = {
    "lower": "largest size that holds",
    "upper": "next size tried, which does not hold",
    "log_lower": "log of the largest size that holds",
    "facts": "facts held",
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
