"""Columns that are not measured: settings of trials, how they ran, keys of long tables, and columns of searches.

A setting that is not listed is labelled with its name. For measured columns see `measured`.
"""

from __future__ import annotations

from factrank.experiments.specs import ResultColumn

SETTINGS = (
    ResultColumn("data.generator", "kind of table", "", "generator of the table"),
    ResultColumn("data.n_keys", "keys"),
    ResultColumn("data.n_queries", "queries"),
    ResultColumn("data.n_values", "values"),
    ResultColumn("data.n_facts", "facts"),
    ResultColumn("data.seed", "seed of the table", "", "seed that the table was drawn with"),
    ResultColumn("data.fingerprint", "table", "", "fingerprint of a table that was given"),
    ResultColumn("data.n_examples", "examples"),
    ResultColumn("data.n_people", "people"),
    ResultColumn("data.recall_fraction", "fraction of in-context recall", "", "fraction of the sequences of a batch"),
    ResultColumn("data.text_fraction", "fraction of text", "", "fraction of the sequences of a batch"),
    ResultColumn("data.context_size", "tokens of a context"),
    ResultColumn("data.n_contexts", "contexts"),
    ResultColumn("data.n_classes", "classes"),
    ResultColumn("data.d_input", "dimensions of the vectors"),
    ResultColumn("model.kind", "model", "", "kind of model"),
    ResultColumn("model.d_qk", "query-key width d_qk"),
    ResultColumn("model.d_vo", "value-output width d_vo"),
    ResultColumn("model.d_model", "model width d_model"),
    ResultColumn("model.n_heads", "heads", "", "number of heads"),
    ResultColumn("model.scaled_by", "scores divided by the root of"),
    ResultColumn("training.optimiser", "optimiser"),
    ResultColumn("training.learning_rate", "learning rate"),
    ResultColumn("training.epochs", "most epochs", "epochs", "epochs after which training ends"),
    ResultColumn("training.batch_size", "batch size", "", "facts, sequences or examples of a step"),
    ResultColumn("training.stop", "stops at", "", "what ends training early"),
    ResultColumn("training.check_every", "epochs between checks", "epochs"),
    ResultColumn("training.frozen", "parts not trained"),
    ResultColumn("training.engine", "engine asked for"),
    ResultColumn("training.schedule", "learning rate over time"),
    ResultColumn("training.warm_up", "fraction of warm-up", "", "fraction of the epochs in which the rate rises"),
    ResultColumn("measures", "measured in addition"),
    ResultColumn("start", "start", "", "weights before training: drawn, or a closed form"),
    ResultColumn("seed", "seed", "", "seed of training"),
)
"""Columns of trial settings."""

RUN = (
    ResultColumn("epochs", "epochs", "epochs", "epochs trained"),
    ResultColumn("seconds", "seconds", "s", "time that the trial took, or its part of the time of its bundle"),
)
"""Columns that describe a run."""

LONG = (
    ResultColumn("epoch", "epoch", "epochs", "of a curve: epochs trained so far"),
    ResultColumn("precision", "precision", "", "of a reading: format that the model was computed in"),
    ResultColumn("temperature", "temperature", "", "of a reading: what logits were divided by"),
    ResultColumn("tau", "confidence threshold τ", "", "of a reading: threshold of softmax>=tau"),
)
"""Columns that identify the rows of curves and readings."""

SEARCHES = (
    ResultColumn(
        "lower", "largest size that holds", "", "largest size that was run and met the criterion below `upper`"
    ),
    ResultColumn("upper", "next size tried, which does not hold", "", "least size above it that was run; it did not"),
    ResultColumn("facts", "facts held", "", "facts of `lower`"),
    ResultColumn("log_lower", "log of the largest size that holds", "", "natural logarithm of `lower`"),
    ResultColumn("log_facts", "log of the facts held", "", "natural logarithm of `facts`"),
    ResultColumn("upper_facts", "facts of the next size tried", "", "facts of `upper`"),
    ResultColumn("probes", "sizes run", "", "number of sizes that were run"),
    ResultColumn("monotone", "", "", "whether every size below one that met the criterion met it too"),
)
"""Columns of searches that trials do not have, or that have another label there."""
