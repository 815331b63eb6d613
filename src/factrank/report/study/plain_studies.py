"""Studies as plain data for JSON: the catalogue, a study, the plan of a run, and the results."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from typing import Any, get_args

from factrank.experiments.execution import DryRun, RunSummary
from factrank.experiments.statistics import Claim, Verdict, fixed
from factrank.experiments.study import Size, Study, StudyResults
from factrank.report.study.study_terminal import first_trials, varying

CLAIM_FIELDS = ("name", "statement", "place", "extension", "published", "tolerance")


def catalogue_data(papers: Mapping[str, Iterable[Study]]) -> dict[str, Any]:
    """Return the papers and their studies, with the number of trials and searches of each size."""
    listed = {
        paper: [{"name": one.name, "title": one.title, **_sizes(one)} for one in studies]
        for paper, studies in papers.items()
    }
    return {"papers": [{"name": paper, "studies": studies} for paper, studies in listed.items()]}


def study_data(study: Study, command: str) -> dict[str, Any]:
    """Return a study: its question, its trials and the settings that vary, its claims, and the command to run it."""
    sizes = _sizes(study)
    for size in get_args(Size):
        sizes[size]["varies"] = varying(first_trials(study, size))
    texts = {name: getattr(study, name) for name in ("name", "title", "question", "method")}
    source = asdict(study.source) if study.source else None
    return {**texts, "source": source, **sizes, "claims": list(map(_claim, study.claims)), "command": command}


def results_data(found: StudyResults) -> dict[str, Any]:
    """Return the results of a study: how its trials and searches ended, the verdict on each claim, and the errors."""
    return {
        "name": found.study.name,
        "size": found.size,
        "trials": dict(found.statuses),
        "searches": dict(found.search_statuses),
        "claims": [
            {**_claim(claim), "fixed": fixed(claim, found.fixed), **run_data(verdict)}
            for claim, verdict in found.judged
        ],
        "errors": dict(Counter(found.errors).most_common()),
    }


def run_data(value: DryRun | RunSummary | Verdict) -> dict[str, Any]:
    """Return the fields of a plan, a run or a verdict; counts lose their `n_`, as in other JSON."""
    return {name.removeprefix("n_"): field for name, field in asdict(value).items()}


def _sizes(study: Study) -> dict[str, Any]:
    sizes: tuple[Size, ...] = get_args(Size)
    return {size: {"trials": len(study.trials(size)), "searches": len(study.searches_of(size))} for size in sizes}


def _claim(claim: Claim) -> dict[str, Any]:
    return {name: getattr(claim, name) for name in CLAIM_FIELDS}
