"""The trials of every study, in order: the listed ones, then the first round of its searches, as canonical JSON.

The hash of a trial is the SHA-256 of its JSON, so that the JSON alone is kept; that it is so is checked here. Beside
them: how the quick size is cut into bundles, and the estimated work of each bundle.
"""

from __future__ import annotations

import hashlib
from functools import partial
from typing import Any

from golden import doors
from golden.cases import Case, Cases, Plain

SIZES = ("quick", "full")
QUICK = ("rank-validity", "architectures", "recall-capacity", "hallucination", "linear-memory", "knee", "closed-form")


def cases() -> Cases:
    """One case per study and size, and one per quick study for its bundles."""
    studies = {study.name: study for studies in doors.PAPERS.values() for study in studies}
    found = {"catalogue": Case(_catalogue, quick=True)}
    for name, study in studies.items():
        for size in SIZES:
            quick = size == "quick" and name in QUICK
            found[f"{name} {size}"] = Case(partial(_trials, study, size), quick=quick)
        found[f"{name} bundles"] = Case(partial(_bundles, study))
    return found


def _catalogue() -> Plain:
    return {paper: [study.name for study in studies] for paper, studies in doors.PAPERS.items()}


def _trials(study: Any, size: str) -> Plain:
    return [[_checked_json(trial) for trial in part] for part in study.rounds(size, {})]


def _checked_json(trial: Any) -> str:
    text = doors.canonical_json(trial.to_dict())
    if hashlib.sha256(text.encode()).hexdigest() != trial.hash:
        raise AssertionError(f"the hash {trial.hash} is not that of {text}")
    if type(trial).from_dict(trial.to_dict()) != trial:
        raise AssertionError(f"the trial does not come back from {text}")
    return text


def _bundles(study: Any) -> Plain:
    return [_bundles_of_round(part, study.databases) for part in study.rounds("quick", {})]


def _bundles_of_round(trials: list[Any], databases: tuple[Any, ...]) -> Plain:
    place = {trial.hash: at for at, trial in enumerate(trials)}
    bundles, failures = doors.cut(trials, set(place), databases)
    return {
        "bundles": [
            {
                "engine": bundle.engine_name,
                "trials": [place[trial.hash] for trial in bundle.trials],
                "products": bundle.products,
                "bytes": sum(member.weight_bytes for member in bundle.members),
            }
            for bundle in bundles
        ],
        "failures": [[place[trial.hash], error] for trial, error in failures],
    }
