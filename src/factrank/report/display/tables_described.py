"""Descriptions of databases, their measurements, and bounds with their witnesses."""

from __future__ import annotations

from factrank.databases import Database, to_table
from factrank.foreign_text import shown_name
from factrank.report.display.description import Description, PlainTable, Words, described, plain_table
from factrank.report.layer_words import data_in_words
from factrank.report.measurement_tables import measurement_table
from factrank.tensors import Measurement
from factrank.tensors.bounds import Bound, RankBounds
from factrank.tensors.core import Decomposition

SHOWN_FACTS, SHOWN_BOUNDS, SHOWN_TERMS = 8, 12, 5
KINDS = {True: "functional (one value per key and query)", False: "multi-valued"}


def describe_database(database: Database) -> Description:
    """Describe a database: its sizes, its kind and its first facts."""
    table = plain_table(("key", "name"), ("query", "name"), ("value", "name"))
    first = Database(database.triples[:SHOWN_FACTS], *database.vocabularies)
    for row in to_table(first).to_pylist():
        table.add_row(*map(shown_name, row.values()))
    more = database.n_facts - SHOWN_FACTS
    return described(
        Words(data_in_words(database), "title"),
        Words(f"{KINDS[database.functional]}, {'full' if database.full else 'not full'}; {database.bits:,.1f} bits"),
        *([table] if database.n_facts else [Words("no facts")]),
        *([Words(f"... and {more:,} more facts")] if more > 0 else []),
    )


def describe_measurement(measurement: Measurement) -> Description:
    """Describe a measurement: counts, bits, and the brackets of the three ranks with their methods."""
    note = "interrupted: more bounds may be found by measuring again" if measurement.interrupted else ""
    return described(measurement_table("Measurement", measurement), *([Words(note, "unsure")] if note else []))


def describe_bound(bound: Bound) -> Description:
    """Describe a bound: its value, its method and what proves it."""
    title = Words(f"Bound: {bound.value:,}", "title")
    if not bound.certified:
        return described(title, Words(f"not certified: {bound.method}", "unsure"))
    proof = _proof(bound)
    return described(title, Words(f"certified by {bound.method}", "good"), Words(proof))


def _proof(bound: Bound) -> str:
    if bound.witness is None:
        return "proved by the argument of its method"
    return "witness() builds the rank-one terms" if callable(bound.witness) else f"witness: {bound.witness!r}"


def describe_rank_bounds(bounds: RankBounds) -> Description:
    """Describe a bracket and the bounds that were tried."""
    certain = Words("exact: the bounds meet", "good") if bounds.exact else Words("open: the bounds do not meet")
    table = plain_table(("bound", "number"), ("by", "text"), ("seconds", "number"))
    table.add_row(f">= {bounds.lower.value:,}", bounds.lower.method, f"{bounds.lower.seconds:.2f}")
    table.add_row(f"<= {bounds.upper.value:,}", bounds.upper.method, f"{bounds.upper.seconds:.2f}")
    notes = []
    if bounds.estimate is not None:
        notes.append(Words(f"{bounds.estimate.value:,}, not proved: {bounds.estimate.method}", "unsure", "estimate"))
    counts = f"{len(bounds.tried):,} bounds computed, {len(bounds.skipped):,} methods not run"
    return described(Words(f"Bounds: {bounds.bracket}", "title"), certain, table, *notes, Words(counts))


def describe_lower_witness(witness: object) -> Description:
    """Describe a proof of a lower bound that can be repeated from the tensor."""
    return described(Words(repr(witness), "title"), Words("recompute(tensor) repeats the proof from the tensor alone"))


def describe_decomposition(terms: Decomposition) -> Description:
    """Describe rank-one terms: how many there are, and the number of names in the first of them."""
    table = plain_table(("term", "number"), ("keys", "number"), ("queries", "number"), ("values", "number"))
    _count_names(terms, table)
    more = terms.n_terms - SHOWN_TERMS
    return described(
        Words(f"{terms.n_terms:,} rank-one terms", "title"),
        Words("number of names in each factor of a term; equals(tensor) multiplies them out"),
        table,
        *([Words(f"... and {more:,} more terms")] if more > 0 else []),
    )


def _count_names(terms: Decomposition, table: PlainTable) -> None:
    for term in range(min(terms.n_terms, SHOWN_TERMS)):
        table.add_row(f"{term}", *(f"{int((factor.term == term).sum()):,}" for factor in terms.factors))


def describe_interval_proof(proof: object) -> Description:
    """Describe a proof by interval arithmetic."""
    return described(Words(repr(proof), "title"), Words("verify(tensor) repeats the proof by interval arithmetic"))
