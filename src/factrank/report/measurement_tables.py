"""Measurements as tables for the terminal."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from factrank.databases import COLUMNS, SAMPLES
from factrank.foreign_text import shown_name
from factrank.tensors import Measurement
from factrank.tensors.bounds import RankBounds


def measurement_table(name: str, measurement: Measurement) -> RenderableType:
    """One look at a database: its counts, its information, its three sizes and why."""
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False)
    for column, justify in (("size", "left"), ("at least", "right"), ("at most", "right"), ("because", "left")):
        table.add_column(column, justify=justify, header_style="bold", no_wrap=column != "because")  # type: ignore[arg-type]
    count = f"{measurement.triples:,}"
    dropped = f"{measurement.duplicates:,} exact duplicates dropped" if measurement.duplicates else ""
    table.add_row("facts", count, count, dropped)
    for rank, bounds in measurement.brackets.items():
        ends = f"{bounds.lower.value:,}", f"{bounds.upper.value:,}"
        table.add_row(rank.replace("_", " "), *ends, _why(bounds), style="green" if bounds.exact else "")
    return Group(Text(shown_name(name, longest=None), style="bold"), _sizes(measurement), Text(), table)


def _sizes(measurement: Measurement) -> Text:
    text = Text(
        f"{measurement.triples:,} facts: {measurement.keys:,} keys x {measurement.queries:,} queries "
        f"-> {measurement.values:,} values\n{_kind(measurement)}\n"
        f"{measurement.bits:,.1f} bits ({measurement.bits_by_query:,.1f} with each query's own range of values)"
    )
    for line in _other_ways(measurement):
        text.append(f"\n{line}")
    return text


def _kind(measurement: Measurement) -> str:
    kind = "functional" if measurement.functional else "multi-valued"
    return f"{kind}, {'full' if measurement.full else 'not full'}"


def _other_ways(measurement: Measurement) -> list[str]:
    """Which two columns determine the third, apart from (key, query) and value."""
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
    """The methods that were not run, and why."""
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False)
    for column in ("for", "not run", "because"):
        table.add_column(column, header_style="bold")
    for name, bounds in measurement.brackets.items():
        for skipped in bounds.skipped:
            table.add_row(name.replace("_", " "), skipped.method, skipped.reason)
    return table


def samples_table() -> RenderableType:
    """The bundled databases."""
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False)
    for column in ("name", "facts", "what", "source"):
        table.add_column(column, header_style="bold", justify="right" if column == "facts" else "left")
    for sample in SAMPLES.values():
        table.add_row(f"sample:{sample.name}", f"{sample.n_facts:,}", sample.title, sample.source)
    return table
