"""Trained models of every family: the numbers of their rows, their curves, their readings and their weights.

Trials are given as plain data. Those of `TRAINED` show the options of each family; those of the studies are the last of
each quick list, and the first if that costs little, with few epochs. The fused engine is compared bit for bit. Lanes
train in float64, and their numbers may differ by what another order of the same sums makes of them.
"""

from __future__ import annotations

from functools import cache, partial
from typing import Any

import numpy as np

import factrank
from golden import doors
from golden.cases import Case, Cases, Plain, databases, digest_of, plain, weights_of
from golden.trained import TRAINED

EPOCHS = 20
"""Of the trials of studies."""

EPOCHS_OF_LARGE_STEPS = 2
"""Of those with learning rates so large that rounding grows tenfold in every step."""

TOLERANCES = {"float64": 1e-12, "float32": 1e-5, "bfloat16": 1e-5}
"""Of lanes; the fused engine gives equal bits."""

FUSED = ("wong2025",)
"""Papers whose trials need no compiler."""

OF_THE_RUN = frozenset({"hash", "trial", "seconds", "device", "factrank", "jax", "numba", "python"})
"""Columns that differ from run to run, or repeat what the trial says."""

QUICK = ("attention fused", "memory linear", "one-hot", "memoriser classes")


def cases() -> Cases:
    """One case per trial."""
    found = {}
    for name, trial in TRAINED.items():
        found[name] = Case(partial(_trained, trial), name in QUICK, _tolerance(trial))
    for paper, studies in doors.PAPERS.items():
        for study in studies:
            if paper in FUSED:
                found[f"{study.name} first"] = Case(partial(_of_study, study, 0), tolerance=TOLERANCES["float64"])
            found[f"{study.name} last"] = Case(partial(_of_study, study, -1), tolerance=TOLERANCES["float64"])
    return found


def _tolerance(trial: dict[str, Any]) -> float:
    training = trial["training"]
    if trial["model"]["kind"] == "attention" and training.get("engine") != "lanes" and "precision" not in training:
        return 0.0  # fused
    return TOLERANCES[training.get("precision", "float32")]


def _of_study(study: Any, place: int) -> Plain:
    listed = [trial for part in study.rounds("quick", {}) for trial in part]
    return _trained(shortened(listed[place].to_dict()), study.databases)


def shortened(trial: dict[str, Any]) -> dict[str, Any]:
    """The trial with a few epochs; in float64 unless the fused engine may train it."""
    training = dict(trial.get("training", {}))
    most = EPOCHS if training.get("learning_rate", 0.0) <= 1 else EPOCHS_OF_LARGE_STEPS
    training["epochs"] = min(most, training.get("epochs", most))
    training["check_every"] = min(10, training.get("check_every", 10))
    if trial["model"]["kind"] != "attention" or training.get("engine") == "lanes":
        training["precision"] = "float64"
    measures = [_shortened_measure(measure, training["epochs"]) for measure in trial.get("measures", ())]
    return {**trial, "training": training, "measures": measures}


def _shortened_measure(measure: dict[str, Any], epochs: int) -> dict[str, Any]:
    if measure["kind"] != "curve":
        return measure
    return {**measure, "epochs": sorted({min(epoch, epochs) for epoch in measure["epochs"]})}


def _trained(trial: dict[str, Any], more: tuple[Any, ...] = ()) -> Plain:
    wanted = factrank.Trial.from_dict(with_fingerprint(trial))
    result = factrank.train_many([wanted], databases=[*more, *given_data().values()])[0]
    return {
        "trial": wanted.to_dict(),
        "row": plain({name: cell for name, cell in doors.row_of(result).items() if name not in OF_THE_RUN}),
        "curves": [plain(_without_hash(row)) for row in doors.curve_rows(result)],
        "readings": [plain(_without_hash(row)) for row in doors.reading_rows(result)],
        "parts": weights_of(result.weights),
        **({"weights": digest_of(result.weights)} if result.engine == "fused" else {}),
    }


def _without_hash(row: dict[str, Any]) -> dict[str, Any]:
    return {name: cell for name, cell in row.items() if name != "hash"}


def with_fingerprint(trial: dict[str, Any]) -> dict[str, Any]:
    given = given_data().get(trial["data"].get("fingerprint", ""))
    return trial if given is None else {**trial, "data": {"kind": "given", "fingerprint": given.fingerprint}}


@cache
def given_data() -> dict[str, Any]:
    """What trials name instead of a fingerprint."""
    rng = np.random.default_rng(0)
    vectors = factrank.VectorExamples.of(rng.random((9, 6)), rng.random((4, 6)), rng.random(9))
    classes = factrank.VectorExamples.of(rng.random((8, 5)), rng.random((8, 3, 5)), np.arange(8) % 3)
    return {**databases(), "vectors": vectors, "classes": classes}
