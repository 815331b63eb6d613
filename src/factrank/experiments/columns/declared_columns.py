"""Columns that are not measured: settings of trials, how they ran, what tells long rows apart, those of searches.

A setting that is not here is called by its name. Measured columns: `measured`.
"""

from __future__ import annotations

from factrank.experiments.family import Measure

SETTINGS = (
    Measure("database.generator", "kind of table", "", "generator of the table"),
    Measure("database.n_keys", "keys"),
    Measure("database.n_queries", "queries"),
    Measure("database.n_values", "values"),
    Measure("database.n_facts", "facts"),
    Measure("database.seed", "seed of the table", "", "seed that the table was drawn with"),
    Measure("database.fingerprint", "table", "", "fingerprint of a table that was given"),
    Measure("database.n_examples", "examples"),
    Measure("database.context_size", "tokens of a context"),
    Measure("database.n_contexts", "contexts"),
    Measure("database.n_classes", "classes"),
    Measure("database.d_input", "dimensions of the vectors"),
    Measure("model.kind", "model", "", "kind of model"),
    Measure("model.d_qk", "query-key width d_qk"),
    Measure("model.d_vo", "value-output width d_vo"),
    Measure("model.d_model", "model width d_model"),
    Measure("model.n_heads", "heads", "", "number of heads"),
    Measure("model.scaled_by", "scores divided by the root of"),
    Measure("training.optimiser", "optimiser"),
    Measure("training.learning_rate", "learning rate"),
    Measure("training.epochs", "most epochs", "epochs", "epochs after which training ends"),
    Measure("training.batch_size", "batch size", "", "facts, sequences or examples of a step"),
    Measure("training.stop", "stops at", "", "what ends training early"),
    Measure("training.check_every", "epochs between checks", "epochs"),
    Measure("training.frozen", "parts not trained"),
    Measure("training.engine", "engine asked for"),
    Measure("training.schedule", "learning rate over time"),
    Measure("training.warm_up", "share of warm-up", "", "fraction of the epochs in which the rate rises"),
    Measure("measures.taus", "confidence thresholds τ"),
    Measure("measures.artifacts", "artifacts counted"),
    Measure("measures.epochs_to", "epochs to full recall recorded"),
    Measure("curve_epochs", "epochs recorded"),
    Measure("seed", "seed", "", "seed of training"),
)
"""Columns of what trials are given."""

RUN = (
    Measure("epochs", "epochs", "epochs", "epochs trained"),
    Measure("seconds", "seconds", "s", "time that the trial took, or its part of the time of its bundle"),
)
"""Columns of how trials ran."""

LONG = (
    Measure("epoch", "epoch", "epochs", "of a curve: epochs trained so far"),
    Measure("precision", "precision", "", "of a reading: format that the model was computed in"),
    Measure("temperature", "temperature", "", "of a reading: what logits were divided by"),
    Measure("tau", "confidence threshold τ", "", "of a reading: threshold of softmax>=tau"),
)
"""Columns that tell the rows of curves and readings apart."""

SEARCHES = (
    Measure("lower", "largest size that holds", "", "largest size that was run and met the criterion below `upper`"),
    Measure("upper", "next size tried, which does not hold", "", "least size above it that was run; it did not"),
    Measure("facts", "facts held", "", "facts of `lower`"),
    Measure("log_lower", "log of the largest size that holds", "", "natural logarithm of `lower`"),
    Measure("log_facts", "log of the facts held", "", "natural logarithm of `facts`"),
    Measure("upper_facts", "facts of the next size tried", "", "facts of `upper`"),
    Measure("probes", "sizes run", "", "number of sizes that were run"),
)
"""Columns of searches that trials lack, or that are called otherwise there."""
