"""Studies: the catalogue of experiments, one package per paper, each published statement next to our result.

A study is data: a list of trials with charts, summaries and claims. To add one, define a `Study` in a module of its
paper and list it in the paper's `STUDIES`. Nothing here trains or draws; `experiments` and `report` do.
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

from factrank.errors import InputError
from factrank.experiments.study import Study
from factrank.studies import language, mahdavi, nichani, wong

PAPERS: dict[str, tuple[Study, ...]] = {
    "wong2025": wong.STUDIES,
    "nichani2025": nichani.STUDIES,
    "mahdavi2024": mahdavi.STUDIES,
    "language": language.STUDIES,
}
"""The studies of each paper, in the order of its lab report."""

CATALOGUE: dict[str, Study] = {study.name: study for studies in PAPERS.values() for study in studies}

WAITING: dict[str, Study] = {study.name: study for study in language.WAITING}
"""Studies whose full size has not been run: they can be run by name, but are in no lab report."""


def study(name: str) -> Study:
    """Returns the study of the catalogue, or the waiting study, with this name.

    >>> study("vo-against-qk").source.figure
    'Figure 4'
    """
    known = CATALOGUE | WAITING
    if name in known:
        return known[name]
    raise InputError(f"there is no study {name!r}; {_hint(name, known)}")


def studies_named(name: str) -> tuple[Study, ...]:
    """Returns the studies of a paper, in order, or the one study with this name.

    >>> [study.name for study in studies_named("vo-against-qk")]
    ['vo-against-qk']
    """
    if name in PAPERS:
        return PAPERS[name]
    known = CATALOGUE | WAITING
    if name in known:
        return (known[name],)
    raise InputError(f"there is no study or paper {name!r}; {_hint(name, [*known, *PAPERS])}")


def _hint(name: str, known: Iterable[str]) -> str:
    near = get_close_matches(name.lower(), known, n=3, cutoff=0.5)
    return f"did you mean {' or '.join(near)}?" if near else f"there are {', '.join(known)}"
