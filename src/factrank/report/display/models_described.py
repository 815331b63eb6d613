"""Descriptions of models: bare, saved, trained, constructed and edited, and of their certificates."""

from __future__ import annotations

from typing import Any

from factrank.certificates import Certificate
from factrank.experiments import TrialResult
from factrank.experiments.columns import label
from factrank.experiments.models import Constructed
from factrank.families.attention.editing import Edited
from factrank.foreign_text import shown_name
from factrank.nn import to_arrays
from factrank.readouts import percent
from factrank.report.constructed_tables import add_details, constructed_table, verdict, worst_fact
from factrank.report.display.description import Description, Words, described, plain_table
from factrank.report.edited_tables import edited_table
from factrank.report.layer_words import data_in_words, shape_in_words
from factrank.report.plain_output import number

MOST_PARTS = 12


def describe_model(model: Any) -> Description:
    """Describe a model of any family: its sizes and its parts."""
    title, lines = type(model).__name__, []
    if hasattr(model, "shape"):
        lines.append(Words(shape_in_words(model.shape)))
    if hasattr(model, "n_keys"):
        lines.append(Words(f"{model.n_keys:,} keys x {model.n_queries:,} queries -> {model.n_values:,} values"))
    parts = to_arrays(model)
    table = plain_table(("part", "word"), ("shape", "word"), ("type", "word"), ("numbers", "number"))
    for name, part in list(parts.items())[:MOST_PARTS]:
        table.add_row(name, " x ".join(map(str, part.shape)), part.dtype.name, f"{part.size:,}")
    total = f"{sum(part.size for part in parts.values() if part.dtype.kind not in 'iub'):,} parameters"
    more = [Words(f"... and {len(parts) - MOST_PARTS:,} more parts")] if len(parts) > MOST_PARTS else []
    return described(Words(f"{title}: {total}", "title"), *lines, table, *more)


def describe_saved(saved: Any) -> Description:
    """Describe a model with its data and notes."""
    notes = ", ".join(map(shown_name, saved.notes)) or "none"
    return described(
        describe_model(saved.model), Words(data_in_words(saved.data), lead="data"), Words(notes, lead="notes")
    )


def describe_constructed(found: Constructed) -> Description:
    """Describe a constructed model: its certificate, its bits per parameter, and the alternatives."""
    return constructed_table("Constructed model", found)


def describe_edited(edited: Edited) -> Description:
    """Describe the changes of an edited layer and its certificate."""
    return edited_table("Edited layer", edited)


def describe_trained(result: TrialResult) -> Description:
    """Describe a trained model: status, recall and other metrics."""
    title = f"Trained model: {result.status} after {result.epochs:,} epochs"
    where = ", ".join(filter(None, [f"seed {result.trial.seed}", result.engine, result.device]))
    table = plain_table(("", "word"), ("", "number"))
    for name, value in result.metrics.items():
        shown = f"{value:,.0f}" if float(value).is_integer() else number(value)
        table.add_row(label(name).replace("_", " "), percent(value) if name.startswith("recall") else shown)
    size = Words(shape_in_words(result.trial.model))
    return described(Words(title, "title"), size, Words(where), *([table] if result.metrics else []))


def describe_certificate(found: Certificate) -> Description:
    """Describe a certificate: the verdict first, then the numbers behind it."""
    table = plain_table(("", "word"), ("", "number"), ("", "text"))
    table.add_row("recalled", f"{found.recalled:,}", f"of {found.facts:,} facts, in {found.precision}")
    table.add_row("least margin", number(found.margin), worst_fact(found))
    table.add_row("proved margin", number(found.proved_margin), f"in any evaluation order: {found.arithmetic}")
    add_details(table, found, hallucinations=True)
    prints = f"weights {found.weights[:12]}, facts {found.database[:12]} (SHA-256)"
    return described(Words("Certificate", "title"), verdict(found), table, Words(prints))
