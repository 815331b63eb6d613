"""Descriptions of measurements, and tables of samples."""

from __future__ import annotations

from rich.console import RenderableType
from rich.table import Table

from factrank.databases import COLUMNS, SAMPLES
from factrank.foreign_text import shown_name
from factrank.report.display import Description, Words, described, plain_table
from factrank.tensors import Measurement
from factrank.tensors.bounds import RankBounds


def measurement_table(name: str, measurement: Measurement) -> Description:
    """Describe a measurement: counts, information in bits, and the bounds of the three ranks with their methods."""
    table = plain_table(("size", "word"), ("at least", "number"), ("at most", "number"), ("because", "text"))
    count = f"{measurement.triples:,}"
    dropped = f"{measurement.duplicates:,} exact duplicates dropped" if measurement.duplicates else ""
    table.add_row("facts", count, count, dropped)
    for rank, bounds in measurement.brackets.items():
        ends = f"{bounds.lower.value:,}", f"{bounds.upper.value:,}"
        table.add_row(rank.replace("_", " "), *ends, _why(bounds), tone="good" if bounds.exact else "plain")
    return described(Words(shown_name(name, longest=None), "title"), *_sizes(measurement), Words(), table)


def _sizes(measurement: Measurement) -> list[Words]:
    return [
        Words(
            f"{measurement.triples:,} facts: {measurement.keys:,} keys x {measurement.queries:,} queries "
            f"-> {measurement.values:,} values"
        ),
        Words(_kind(measurement)),
        Words(f"{measurement.bits:,.1f} bits ({measurement.bits_by_query:,.1f} with each query's own range of values)"),
        *map(Words, _other_ways(measurement)),
    ]


def _kind(measurement: Measurement) -> str:
    kind = "functional" if measurement.functional else "multi-valued"
    return f"{kind}, {'full' if measurement.full else 'not full'}"


def _other_ways(measurement: Measurement) -> list[str]:
    """Return the other pairs of columns that determine the third."""
    lines = []
    for column in measurement.determined:
        if column != "value":
            first, second = (name for name in COLUMNS if name != column)
            lines.append(
                f"({first}, {second}) determine the {column}: functional when read as {first}, {second} -> {column}"
            )
    return lines


def _why(bounds: RankBounds) -> str:
    why = f">= {bounds.lower.method}\n<= {bounds.upper.method}"
    if bounds.estimate:
        why += f"\n~ {bounds.estimate.value:,}, not proved: {bounds.estimate.method}"
    return why


def skipped_table(measurement: Measurement) -> RenderableType:
    """Render the methods that were not run, and why."""
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False)
    for column in ("for", "not run", "because"):
        table.add_column(column, header_style="bold")
    for name, bounds in measurement.brackets.items():
        for skipped in bounds.skipped:
            table.add_row(name.replace("_", " "), skipped.method, skipped.reason)
    return table


def samples_table() -> RenderableType:
    """Render the list of bundled databases."""
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False)
    for column in ("name", "facts", "what", "source"):
        table.add_column(column, header_style="bold", justify="right" if column == "facts" else "left")
    for sample in SAMPLES.values():
        table.add_row(f"sample:{sample.name}", f"{sample.n_facts:,}", sample.title, sample.source)
    return table
