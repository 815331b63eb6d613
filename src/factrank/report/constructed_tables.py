"""Descriptions of constructed models and certificates."""

from __future__ import annotations

from collections.abc import Callable
from math import ceil, floor, isnan

from factrank.certificates import Certificate, Confidence
from factrank.experiments.models import BITS_OF_LANGUAGE_MODELS, Constructed, width_in_bits
from factrank.families.attention.forms import refused_forms
from factrank.foreign_text import shown_name
from factrank.nn import Precision
from factrank.report.display import Description, PlainTable, Words, described, plain_table
from factrank.report.layer_words import layer_lines
from factrank.report.plain_output import number

MOST_RUNNERS_UP = 6
STORAGE = ("parameters", "bits", "bits_per_parameter")
"""Details of a certificate that have rows of their own or are not shown."""
MEANINGS = {
    "length": "longest sequence, in tokens, covered by the proof",
    "contexts": "noise contexts tried",
    "leak": "largest fraction of a head's attention that noise can take",
    "tolerance": "largest error allowed on real labels",
    "proved_error": "largest error of a label, in any evaluation order",
}
"""Meanings of the other details."""


def constructed_table(source: str, found: Constructed) -> Description:
    """Describe a constructed model: its certificate, its bits per parameter, and the runners-up."""
    head = layer_lines(source, found.data, found.spec, found.parameters)
    chosen = Words(f"construction: {found.form}, in {found.precision} ({found.reason})")
    parts: list[Words | PlainTable | Description] = [head, chosen, Words(), _numbers(found), Words()]
    if found.runners_up:
        parts += [*_runners_up(found), Words()]
    advice = [Words(line) for line in found.details.get("advice", ())]
    return described(*parts, *advice, verdict(found.certificate))


def verdict(certificate: Certificate) -> Words:
    """Return one line on whether every fact is proved to be recalled."""
    if certificate.certified:
        proof = "a running error bound" if certificate.arithmetic == "running error bound" else certificate.arithmetic
        return Words(f"certified: every fact is recalled{claim_in_words(certificate)}, by {proof}", "good")
    return Words(f"not certified: {certificate.reason}", "bad")


def claim_in_words(certificate: Certificate) -> str:
    """Return what a certificate proves in addition to recall; empty if nothing."""
    if certificate.confidence is None:
        return ""
    claim = certificate.confidence.claim
    words = f" with probability >= {claim.tau!r}"
    if claim.abstain == "unknown":
        return f"{words}, and every other pair answered by {shown_name(claim.unknown or '')} with it"
    return words if claim.abstain is None else f"{words}, and no other pair has an answer with it"


def worst_fact(certificate: Certificate) -> str:
    """Return the fact with the least margin, by its names or as the number of an example."""
    worst = certificate.worst
    if worst is None:
        return ""
    return f"example {worst:,}" if isinstance(worst, int) else f"({', '.join(map(shown_name, worst))})"


def _numbers(found: Constructed) -> PlainTable:
    certificate, table = found.certificate, plain_table(("", "word"), ("", "number"), ("", "text"))
    itself = "layer" if "silent_fibers" in certificate.details else "model"
    table.add_row("recalled", f"{certificate.recalled:,}", f"of {certificate.facts:,} facts, by the {itself} itself")
    table.add_row("least margin", number(certificate.margin), worst_fact(certificate))
    table.add_row("proved margin", number(certificate.proved_margin), "in any evaluation order")
    table.add_row("facts per parameter", f"{found.facts_per_parameter:.3f}", "")
    if not isnan(found.bits_per_parameter):
        facts, text = BITS_OF_LANGUAGE_MODELS
        models = f"language models hold about {facts:g} of facts, {text:g} of random text"
        table.add_row("bits per parameter", f"{found.bits_per_parameter:.3f}", models)
        width = width_in_bits(found.precision)
        table.add_row("bits per stored bit", f"{found.bits_per_stored_bit:.4f}", f"a parameter has {width}")
    add_details(table, certificate)
    if "plain" in found.details:
        plain = found.details["plain"]
        price = found.parameters - plain["parameters"]
        table.add_row("price", f"{price:+,}", f"parameters against {plain['construction']}, which does not abstain")
    return table


def add_details(table: PlainTable, certificate: Certificate, *, hallucinations: bool = False) -> None:
    """Add a certificate's answers to pairs without a fact, and the details of its family by name."""
    about = dict(certificate.details)
    n_silent, answered, sure = (about.pop(name, None) for name in ("silent_fibers", "answered", "hallucinations"))
    if n_silent:
        silent = f"of {n_silent:,} (key, query) pairs without a fact have"
        table.add_row("answered", "?" if answered is None else f"{answered:,}", f"{silent} one best value")
        if hallucinations:
            sure_ones = "?" if sure is None else f"{sure:,}"
            table.add_row("hallucinations", sure_ones, f"{silent} a value with probability >= 0.95")
    if certificate.confidence is not None:
        _add_confidence(table, certificate.confidence)
    for name, value in about.items():
        if value is not None and name not in STORAGE:
            shown = f"{value:,}" if isinstance(value, int) else number(value)
            table.add_row(name.replace("_", " "), shown, MEANINGS.get(name, ""))


def _add_confidence(table: PlainTable, found: Confidence) -> None:
    table.add_row("proved probability", _rounded(found.proved_probability, floor), "of every fact, at least")
    if found.proved_silent_probability is not None:
        what = "of any answer to a pair without a fact, at most"
        shown = _rounded(found.proved_silent_probability, ceil)
        if found.claim.unknown is not None:
            shown = _rounded(found.proved_silent_probability, floor)
            what = f"of {shown_name(found.claim.unknown)} on every pair without a fact, at least"
        table.add_row("proved abstention", shown, what)


def _rounded(probability: float, direction: Callable[[float], int]) -> str:
    """Return four digits, rounded in the direction in which the bound still holds."""
    return f"{direction(probability * 1e4) / 1e4:.4f}"


def _runners_up(found: Constructed) -> list[Words | PlainTable]:
    """The forms that fit, with their sizes, and the names of the forms that do not."""
    table = plain_table(
        ("instead", "word"), ("parameters", "number"), ("heads", "number"), ("d_model", "number"), ("", "text")
    )
    fitting = [(candidate, candidate.shape) for candidate in found.runners_up if candidate.shape is not None]
    for candidate, shape in fitting[:MOST_RUNNERS_UP]:
        precise = "" if candidate.precision == found.precision else f" {candidate.precision}"
        sizes = (f"{size:,}" for size in (candidate.parameters, shape.n_heads, shape.d_model))
        table.add_row(f"{candidate.construction}{precise}", *sizes, candidate.reason)
    lines: list[Words | PlainTable] = [table] if fitting else []
    if len(fitting) > MOST_RUNNERS_UP:
        lines.append(Words(f"... and {len(fitting) - MOST_RUNNERS_UP} more", option=", which --json shows"))
    by_precisions: dict[tuple[Precision, ...], list[str]] = {}
    for name, precisions in refused_forms(found).items():
        by_precisions.setdefault(precisions, []).append(name)
    refused = [f"in {' and '.join(where)}: {', '.join(names)}" for where, names in by_precisions.items()]
    if refused:
        lines.append(Words(f"not for this table {'; '.join(refused)}", option=" (--json says why)"))
    return lines
