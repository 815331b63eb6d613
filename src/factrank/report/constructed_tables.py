"""Constructed layers as tables for the terminal."""

from __future__ import annotations

from math import isnan

from rich.console import Group, RenderableType
from rich.text import Text

from factrank.certificates import Certificate
from factrank.experiments.models import BITS_OF_LANGUAGE_MODELS, Constructed, width_in_bits
from factrank.families.attention.forms import Candidate
from factrank.foreign_text import shown_name
from factrank.report.layer_words import layer_lines
from factrank.report.plain_output import number
from factrank.report.terminal_tables import PlainTable, plain_table

MOST_RUNNERS_UP = 6
STORAGE = ("parameters", "bits", "bits_per_parameter")
"""Details that are shown as numbers of the model, or not at all."""
MEANINGS = {
    "length": "tokens of the longest sequences that it is proved for",
    "contexts": "noise contexts that were tried",
    "leak": "the largest fraction that noise can take of what a head reads",
    "tolerance": "how far from a real label an answer may be",
    "proved_error": "the largest error of a label in any evaluation",
}
"""What the other details are."""


def constructed_table(source: str, found: Constructed) -> RenderableType:
    """What was constructed, what is proved of it, how well it packs the facts, and what else there was."""
    head = layer_lines(source, found.data, found.spec, found.parameters)
    chosen = Text(f"construction: {found.form}, in {found.precision} ({found.reason})")
    parts: list[RenderableType] = [head, chosen, Text(), _numbers(found), Text()]
    if found.runners_up:
        parts += [_runners_up(found), Text()]
    advice = [Text(line) for line in found.details.get("advice", ())]
    return Group(*parts, *advice, verdict(found.certificate))


def verdict(certificate: Certificate) -> Text:
    """Whether every fact is recalled, in one line."""
    if certificate.certified:
        proof = "a running error bound" if certificate.arithmetic == "running error bound" else certificate.arithmetic
        return Text(f"certified: every fact is recalled, by {proof}", style="green")
    return Text(f"not certified: {certificate.reason}", style="red")


def worst_fact(certificate: Certificate) -> str:
    """The fact with the least margin: its names, or the number of an example."""
    worst = certificate.worst
    if worst is None:
        return ""
    return f"example {worst:,}" if isinstance(worst, int) else f"({', '.join(map(shown_name, worst))})"


def _numbers(found: Constructed) -> PlainTable:
    certificate, table = found.certificate, plain_table(("", "word"), ("", "number"), ("", "text"))
    itself = "layer" if "silent_fibers" in certificate.details else "model"
    table.add_row("recalled", f"{certificate.recalled:,}", f"of {certificate.facts:,} facts, by the {itself} itself")
    table.add_row("least margin", number(certificate.margin), worst_fact(certificate))
    table.add_row("proved margin", number(certificate.proved_margin), "in every order of evaluation")
    table.add_row("facts per parameter", f"{found.facts_per_parameter:.3f}", "")
    if not isnan(found.bits_per_parameter):
        _add_bits(table, found)
    add_details(table, certificate)
    return table


def _add_bits(table: PlainTable, found: Constructed) -> None:
    facts, text = BITS_OF_LANGUAGE_MODELS
    models = f"language models hold about {facts:g} of facts, {text:g} of random text"
    table.add_row("bits per parameter", f"{found.bits_per_parameter:.3f}", models)
    width = width_in_bits(found.precision)
    table.add_row("bits per stored bit", f"{found.bits_per_stored_bit:.4f}", f"a parameter has {width}")


def add_details(table: PlainTable, certificate: Certificate, *, artifacts: bool = False) -> None:
    """The details of a certificate: where a layer answers without a fact, or those of the family, each by its name."""
    about = dict(certificate.details)
    n_silent, answered, sure = (about.pop(name, 0) for name in ("silent_fibers", "answered", "artifacts"))
    if n_silent:
        silent = f"of {n_silent:,} (key, query) pairs without a fact have"
        table.add_row("answered", "?" if answered is None else f"{answered:,}", f"{silent} one best value")
        if artifacts:
            sure_ones = "?" if sure is None else f"{sure:,}"
            table.add_row("artifacts", sure_ones, f"{silent} a value with probability >= 0.95")
    for name, value in about.items():
        if value is not None and name not in STORAGE:
            shown = f"{value:,}" if isinstance(value, int) else number(value)
            table.add_row(name.replace("_", " "), shown, MEANINGS.get(name, ""))


def _runners_up(found: Constructed) -> RenderableType:
    """Those that fit, with their sizes, and the names of the others."""
    table = plain_table(
        ("instead", "word"), ("parameters", "number"), ("heads", "number"), ("d_model", "number"), ("", "text")
    )
    fitting = [candidate for candidate in found.runners_up if candidate.shape is not None]
    for candidate in fitting[:MOST_RUNNERS_UP]:
        precise = "" if candidate.precision == found.precision else f" {candidate.precision}"
        table.add_row(f"{candidate.construction}{precise}", *_sizes(candidate), candidate.reason)
    lines: list[RenderableType] = [table] if fitting else []
    if len(fitting) > MOST_RUNNERS_UP:
        lines.append(Text(f"... and {len(fitting) - MOST_RUNNERS_UP} more, which --json shows"))
    refused = dict.fromkeys(candidate.construction for candidate in found.runners_up if candidate.shape is None)
    if refused:
        lines.append(Text(f"not for this table: {', '.join(refused)} (--json says why)"))
    return Group(*lines)


def _sizes(candidate: Candidate) -> tuple[str, str, str]:
    shape = candidate.shape
    if shape is None or candidate.parameters is None:
        return "-", "-", "-"
    return f"{candidate.parameters:,}", f"{shape.n_heads:,}", f"{shape.d_model:,}"
