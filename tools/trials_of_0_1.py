"""The canonical JSON of a trial of factrank 0.1 as that of the same trial today: a pure function of plain data.

What moved:

    database                                        data
    training.key_exponent, query_exponent           data, as weighted_facts or fact_sequences
    training.copy_share, measures.contexts          data.copy_fraction, data.contexts, as fact_sequences
    model.start                                     start; "random" is called "drawn"
    measures, one dictionary with all options       measures, a list of small ones
    curve_epochs                                    the measure curve
    measures.artifacts, measures.hallucination      the measures hallucinations and relation_alone

Nothing is lost or made up, so different trials stay different.
"""

from __future__ import annotations

from typing import Any

Plain = dict[str, Any]

FLAGS = {
    "additive": "additive",
    "artifacts": "hallucinations",
    "best": "best",
    "epochs_to": "epochs_to",
    "hallucination": "relation_alone",
    "parts": "parts_alone",
    "ranks": "ranks",
}
"""Measures without options: their old field, their kind today."""

WITH_AN_OPTION = {
    "assumptions": ("assumptions", "subsets"),
    "frequency_groups": ("frequency_groups", "groups"),
    "planted_cp": ("planted_cp", "residual"),
    "saturation": ("saturation", "threshold"),
    "taus": ("tau_recall", "taus"),
    "test_sequences": ("test_recall", "sequences"),
    "tolerance": ("tolerance", "error"),
}
"""Measures with one option: their old field, their kind today and the name of the option."""

PRESENTATIONS = {"memory": "weighted_facts", "sequence": "fact_sequences", "one_hot": "fact_sequences"}
"""The kind of data in which a kind of model has options of presentation."""

STARTED = ("memory", "memoriser")
"""The kinds of models that had a field `start`."""


def trial_today(old: Plain) -> Plain:
    """Returns the plain form of a trial of version 1 as version 2.

    Raises:
        ValueError: if it is no trial of version 1, or has a field that was not known then.
    """
    if old.get("version") != 1:
        raise ValueError(f"expected a trial of version 1; got version {old.get('version')!r}")
    old = {name: value for name, value in old.items() if name != "version"}
    facts, model, training = old.pop("database"), dict(old.pop("model")), dict(old.pop("training", {}))
    asked, curve = dict(old.pop("measures", {})), old.pop("curve_epochs", [])
    start = model.pop("start", "random") if model["kind"] in STARTED else "random"
    seed = old.pop("seed", 0)
    if old:
        raise ValueError(f"a trial of version 1 has no {', '.join(old)}")
    shown = {name: training.pop(name) for name in ("key_exponent", "query_exponent") if name in training}
    if "copy_share" in training:
        shown["copy_fraction"] = training.pop("copy_share")
    if "contexts" in asked:
        shown["contexts"] = asked.pop("contexts")
    today: Plain = {"version": 2, "data": _presented(facts, model["kind"], shown), "model": model}
    measures = _measures(asked, curve)
    optional = {"training": training, "measures": measures, "start": start if start != "random" else "", "seed": seed}
    return today | {name: value for name, value in optional.items() if value}


def _presented(facts: Plain, model: str, shown: Plain) -> Plain:
    if not shown:
        return facts
    if model not in PRESENTATIONS:
        raise ValueError(f"a model of the kind {model!r} has no {', '.join(shown)}")
    return {"kind": PRESENTATIONS[model], "facts": facts, **shown}


def _measures(asked: Plain, curve: list[int]) -> list[Plain]:
    """The measures in the order of their kinds."""
    found = [{"kind": "curve", "epochs": curve}] if curve else []
    for name, value in asked.items():
        if name in FLAGS and value is True:
            found.append({"kind": FLAGS[name]})
        elif name in WITH_AN_OPTION:
            kind, option = WITH_AN_OPTION[name]
            found.append({"kind": kind, option: value})
        elif name == "readings":
            found.append({**value, "kind": "readings"})
        else:
            raise ValueError(f"the measures of a trial of version 1 have no {name!r} with the value {value!r}")
    return sorted(found, key=lambda measure: str(measure["kind"]))
