"""Sample databases of real facts, bundled with the package.

Each is a CSV file in `data/`; `data/SOURCES.md` lists the source and licence of every column and the cells that were
left empty rather than guessed.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib import resources
from types import MappingProxyType

from factrank.databases.database import COLUMNS, Database, Fact
from factrank.errors import InputError


@dataclass(frozen=True)
class SampleTable:
    """Name, description, source and size of a bundled database."""

    name: str
    title: str
    source: str
    n_facts: int


SAMPLES: Mapping[str, SampleTable] = MappingProxyType(
    {
        sample.name: sample
        for sample in (
            SampleTable(
                name="astrid",
                title="Where three people were born and live, and what their countries pay with",
                source="the example of Wong 2025, arXiv 2502.05076; its tensor has rank 5",
                n_facts=8,
            ),
            SampleTable(
                name="elements",
                title="The 118 chemical elements: symbol, place in the periodic table, category, standard state",
                source="mendeleev 1.3.0 (MIT) and PubChem (public domain), where they agree; IUPAC 2021 group 3",
                n_facts=764,
            ),
            SampleTable(
                name="countries",
                title="The 193 member states of the United Nations: capital, continent, currency, language, codes",
                source="GeoNames (CC BY 4.0), checked against countries-list, Unicode CLDR and libphonenumber",
                n_facts=1451,
            ),
        )
    }
)


def sample(name: str) -> Database:
    """Return a bundled database by name: "astrid", "elements" or "countries".

    >>> sample("countries").fiber("Peru", "capital")
    ('Lima',)
    >>> sample("elements").fiber("Mercury", "standard_state")
    ('liquid',)
    """
    if name not in SAMPLES:
        raise InputError(f"no sample {name!r}; the samples are {', '.join(SAMPLES)}")
    table = resources.files(__package__).joinpath("data", f"{name}.csv").read_text(encoding="utf-8")
    return Database.from_facts(_facts(csv.reader(table.splitlines())))


def _facts(rows: Iterator[list[str]]) -> Iterator[Fact]:
    """Yield the facts of a table: long if its header is key, query, value, otherwise wide."""
    header = tuple(next(rows))
    if header == COLUMNS:
        yield from ((key, query, value) for key, query, value in rows)
        return
    for key, *cells in rows:
        yield from ((key, query, cell) for query, cell in zip(header[1:], cells, strict=True) if cell)
