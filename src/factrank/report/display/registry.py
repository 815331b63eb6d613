"""What notebooks show of an object, and its pictures: a table of functions by class, which are loaded on use.

Keys are the full names of classes; a subclass without a line of its own takes that of its base. A description is a
function of the object; a picture is a function of the object and its options. The first picture of a class is its
default.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from inspect import signature
from typing import Any, TypeVar

from factrank.errors import InputError
from factrank.foreign_text import quoted
from factrank.report.display.description import Description, Words, described
from factrank.report.display.html_fragments import description_html

HERE, PICTURES_ROOM = "factrank.report.display", "factrank.report.pictures"
AUDITS_ROOM = "factrank.report.audits"

DESCRIPTIONS: dict[str, str] = {
    "factrank.databases.database.Database": f"{HERE}.tables_described.describe_database",
    "factrank.tensors.measurement.Measurement": f"{HERE}.tables_described.describe_measurement",
    "factrank.tensors.bounds.certified_bounds.Bound": f"{HERE}.tables_described.describe_bound",
    "factrank.tensors.bounds.certified_bounds.RankBounds": f"{HERE}.tables_described.describe_rank_bounds",
    "factrank.tensors.bounds.certified_bounds.ShownWitness": f"{HERE}.tables_described.describe_lower_witness",
    "factrank.tensors.core.decomposition.Decomposition": f"{HERE}.tables_described.describe_decomposition",
    "factrank.tensors.cp.interval_proof.IntervalProof": f"{HERE}.tables_described.describe_interval_proof",
    "factrank.tensors.cp.projected_proof.ProjectedProof": f"{HERE}.tables_described.describe_interval_proof",
    "factrank.nn.shown_model.ShownModel": f"{HERE}.models_described.describe_model",
    "factrank.experiments.models.model_files.SavedModel": f"{HERE}.models_described.describe_saved",
    "factrank.families.attention.layer_files.SavedLayer": f"{HERE}.models_described.describe_saved",
    "factrank.experiments.models.constructed.Constructed": f"{HERE}.models_described.describe_constructed",
    "factrank.experiments.training.TrialResult": f"{HERE}.models_described.describe_trained",
    "factrank.families.attention.editing.changes.Edited": f"{HERE}.models_described.describe_edited",
    "factrank.certificates.certificate.Certificate": f"{HERE}.models_described.describe_certificate",
    "factrank.bridges.examination.Examination": f"{HERE}.results_described.describe_examination",
    "factrank.readouts.ranking_report.RankingReport": f"{HERE}.results_described.describe_ranking",
    "factrank.readouts.recall_report.RecallReport": f"{HERE}.results_described.describe_recall",
    "factrank.families.attention.circuits.answers.Answer": f"{HERE}.results_described.describe_answer",
    "factrank.families.attention.circuits.diagnosis.Diagnosis": f"{HERE}.results_described.describe_diagnosis",
    "factrank.families.attention.circuits.attribution.Attribution": f"{HERE}.results_described.describe_attribution",
    "factrank.planning.plans.Plan": f"{HERE}.results_described.describe_plan",
    "factrank.auditing.model_audit.ModelAudit": f"{AUDITS_ROOM}.audit_tables.describe_audit",
    "factrank.auditing.token_facts.FactsInWeights": f"{AUDITS_ROOM}.audit_tables.describe_facts",
    "factrank.auditing.forward_check.ForwardCheck": f"{AUDITS_ROOM}.audit_tables.describe_check",
    "factrank.auditing.model_audit.LoraAudit": f"{AUDITS_ROOM}.audit_tables.describe_audit",
    "factrank.experiments.study.study_results.StudyResults": f"{HERE}.results_described.describe_study",
    "factrank.experiments.execution.runner.RunSummary": f"{HERE}.results_described.describe_run",
    "factrank.experiments.capacity.capacity_interval.CapacityInterval": f"{HERE}.results_described.describe_capacity",
}

OF_LAYERS: dict[str, str] = {
    "logits": f"{PICTURES_ROOM}.layer_pictures.draw_logits",
    "attention": f"{PICTURES_ROOM}.layer_pictures.draw_attention",
    "circuits": f"{PICTURES_ROOM}.layer_pictures.draw_circuits",
    "direct": f"{PICTURES_ROOM}.layer_pictures.draw_direct",
    "singular values": f"{PICTURES_ROOM}.layer_pictures.draw_layer_singular_values",
    "contributions": f"{PICTURES_ROOM}.fact_pictures.draw_contributions",
    "margins": f"{PICTURES_ROOM}.fact_pictures.draw_margins",
}
PICTURES: dict[str, dict[str, str]] = {
    "factrank.databases.database.Database": {
        "table": f"{PICTURES_ROOM}.table_pictures.draw_table",
        "slices": f"{PICTURES_ROOM}.table_pictures.draw_slices",
        "singular values": f"{PICTURES_ROOM}.table_pictures.draw_singular_values",
    },
    "factrank.tensors.measurement.Measurement": {"ranks": f"{PICTURES_ROOM}.table_pictures.draw_ranks"},
    "factrank.tensors.bounds.certified_bounds.RankBounds": {"tried": f"{PICTURES_ROOM}.table_pictures.draw_tried"},
    "factrank.nn.shown_model.ShownModel": OF_LAYERS,
    "factrank.experiments.models.model_files.SavedModel": OF_LAYERS,
    "factrank.families.attention.layer_files.SavedLayer": OF_LAYERS,
    "factrank.experiments.models.constructed.Constructed": OF_LAYERS,
    "factrank.experiments.training.TrialResult": {
        "curves": f"{PICTURES_ROOM}.result_pictures.draw_curves",
        **OF_LAYERS,
    },
    "factrank.bridges.examination.Examination": {
        name: f"{PICTURES_ROOM}.examination_pictures.draw_examined_{name}"
        for name in ("contributions", "margins", "queries", "attention", "logits")
    },
    "factrank.readouts.recall_report.RecallReport": {"queries": f"{PICTURES_ROOM}.result_pictures.draw_queries"},
    "factrank.families.attention.circuits.answers.Answer": {
        "values": f"{PICTURES_ROOM}.result_pictures.draw_values",
        "paths": f"{PICTURES_ROOM}.result_pictures.draw_paths",
    },
    "factrank.families.attention.circuits.attribution.Attribution": {
        "contributions": f"{PICTURES_ROOM}.fact_pictures.draw_attribution",
        "margins": f"{PICTURES_ROOM}.fact_pictures.draw_attributed_margins",
    },
    "factrank.auditing.model_audit.ModelAudit": {
        "effective ranks": f"{PICTURES_ROOM}.audit_pictures.draw_effective_ranks",
        "singular values": f"{PICTURES_ROOM}.audit_pictures.draw_circuit_values",
        "distances": f"{PICTURES_ROOM}.audit_pictures.draw_distances",
    },
    "factrank.auditing.model_audit.LoraAudit": {
        "effective ranks": f"{PICTURES_ROOM}.audit_pictures.draw_update_ranks",
    },
    "factrank.planning.plans.Plan": {"front": f"{PICTURES_ROOM}.result_pictures.draw_plan"},
    "factrank.experiments.study.study_results.StudyResults": {
        "charts": f"{PICTURES_ROOM}.result_pictures.draw_study",
    },
}

Entry = TypeVar("Entry")


def description_of(thing: object) -> Description:
    """Return what there is to see of an object; of an object without a line in the table, its `repr`."""
    place = _entry(DESCRIPTIONS, thing)
    if place is None:
        return described(Words(repr(thing)))
    found: Description = load(place)(thing)
    return found


def html_of(thing: object) -> str:
    """Return the HTML that notebooks show of an object."""
    return description_html(description_of(thing))


def picture_of(thing: object, what: str | None = None, options: Mapping[str, Any] | None = None) -> Any:
    """Draw a picture of an object as an altair chart.

    Raises:
        InputError: The object has no picture of this name, or the picture no such option; the message lists them.
    """
    pictures = _entry(PICTURES, thing) or {}
    name = next(iter(pictures), None) if what is None else what
    if name not in pictures:
        asked = "" if what is None else f" {quoted(what)}"
        has = f"choose one of {', '.join(map(repr, pictures))}" if pictures else "it has none"
        raise InputError(f"{type(thing).__name__} has no picture{asked}: {has}")
    draw, given = load(pictures[name]), dict(options or {})
    known = list(signature(draw).parameters)[1:]
    unknown = [option for option in given if option not in known]
    if unknown:
        has = f"its options are {', '.join(known)}" if known else "it has none"
        raise InputError(f"the picture {name!r} has no option {quoted(unknown[0])}: {has}")
    return draw(thing, **given)


def load(place: str) -> Callable[..., Any]:
    """Return the function of this full name."""
    module, _, name = place.rpartition(".")
    function: Callable[..., Any] = getattr(import_module(module), name)
    return function


def _entry(table: Mapping[str, Entry], thing: object) -> Entry | None:
    names = (f"{kind.__module__}.{kind.__qualname__}" for kind in type(thing).__mro__)
    return next((table[name] for name in names if name in table), None)
