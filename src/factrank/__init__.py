"""factrank: how many facts can an attention layer hold?

Give it a table of facts: it says how big the table really is, by certified bounds on the rank of its tensor, writes it
into an attention layer in closed form or trains layers on it, and says what they recall.

>>> import factrank
>>> facts = factrank.Database.from_facts([("Paris", "country", "France"), ("Lyon", "country", "France")])
>>> factrank.measure(facts).rank.upper.value
1
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from factrank.version import __version__

if TYPE_CHECKING:
    from factrank.databases.database import Database as Database
    from factrank.databases.files.formats import read as read
    from factrank.databases.files.formats import write as write
    from factrank.databases.generators.registry import generate as generate
    from factrank.databases.sample_tables import sample as sample
    from factrank.databases.tables import from_table as from_table
    from factrank.databases.tables import to_table as to_table
    from factrank.errors import FactrankError as FactrankError
    from factrank.experiments.capacity.capacity_interval import Criterion as Criterion
    from factrank.experiments.capacity.capacity_search import CapacitySearch as CapacitySearch
    from factrank.experiments.capacity.find_capacities import capacity as capacity
    from factrank.experiments.execution.runner import run_study as run_study
    from factrank.experiments.specs.data import Given as Given
    from factrank.experiments.specs.data import generated as generated
    from factrank.experiments.specs.measures import Measures as Measures
    from factrank.experiments.specs.training_spec import Training as Training
    from factrank.experiments.specs.trial import Trial as Trial
    from factrank.experiments.statistics.claims import Claim as Claim
    from factrank.experiments.statistics.claims import Quantity as Quantity
    from factrank.experiments.store.store import Store as Store
    from factrank.experiments.study.study import Chart as Chart
    from factrank.experiments.study.study import Study as Study
    from factrank.experiments.study.study import no_trials as no_trials
    from factrank.experiments.training import best_of as best_of
    from factrank.experiments.training import train as train
    from factrank.experiments.training import train_many as train_many
    from factrank.families.attention.attention_layer import AttentionLayer as AttentionLayer
    from factrank.families.attention.attention_layer import init_layer as init_layer
    from factrank.families.attention.attention_layer import layer_from_arrays as layer_from_arrays
    from factrank.families.attention.circuits.answers import answer as answer
    from factrank.families.attention.circuits.attribution import attribute as attribute
    from factrank.families.attention.circuits.diagnosis import diagnose as diagnose
    from factrank.families.attention.editing.fact_edits import edit as edit
    from factrank.families.attention.forms.choose import construct as construct
    from factrank.families.attention.forms.constructed import Constructed as Constructed
    from factrank.families.attention.layer_files import load_layer as load_layer
    from factrank.families.attention.layer_files import save_layer as save_layer
    from factrank.families.attention.layer_files import verdict as verdict
    from factrank.families.attention.layer_shape import LayerShape as LayerShape
    from factrank.families.attention.pair_transformer import PairTransformer as PairTransformer
    from factrank.families.attention.pair_transformer import TransformerShape as TransformerShape
    from factrank.families.attention.proof.certificate import Certificate as Certificate
    from factrank.families.attention.proof.verification import verify as verify
    from factrank.families.factual_recall.certified_sizes import smallest_factual_recall as smallest_factual_recall
    from factrank.families.factual_recall.factual_recall_form import (
        construct_factual_recall as construct_factual_recall,
    )
    from factrank.families.factual_recall.factual_recall_shape import (
        FactualRecallOneHotShape as FactualRecallOneHotShape,
    )
    from factrank.families.factual_recall.factual_recall_shape import FactualRecallShape as FactualRecallShape
    from factrank.families.memoriser.examples.examples import RandomExamples as RandomExamples
    from factrank.families.memoriser.examples.examples import VectorExamples as VectorExamples
    from factrank.families.memoriser.memoriser_shape import MemoriserShape as MemoriserShape
    from factrank.families.memoriser.solving.memoriser_certificate import verify_memoriser as verify_memoriser
    from factrank.families.memoriser.solving.memoriser_solve import solve as solve
    from factrank.families.memory.memory_construction import construct_memory as construct_memory
    from factrank.families.memory.memory_proof import verify_memory as verify_memory
    from factrank.families.memory.memory_shape import MemoryShape as MemoryShape
    from factrank.readouts.recall_report import recall as recall
    from factrank.tensors.bounds.certified_bounds import RankBounds as RankBounds
    from factrank.tensors.measurement import Measurement as Measurement
    from factrank.tensors.measurement import measure as measure

_HOME = {
    "answer": "factrank.families.attention.circuits.answers",
    "AttentionLayer": "factrank.families.attention.attention_layer",
    "attribute": "factrank.families.attention.circuits.attribution",
    "best_of": "factrank.experiments.training",
    "capacity": "factrank.experiments.capacity.find_capacities",
    "CapacitySearch": "factrank.experiments.capacity.capacity_search",
    "Certificate": "factrank.families.attention.proof.certificate",
    "Chart": "factrank.experiments.study.study",
    "Claim": "factrank.experiments.statistics.claims",
    "construct": "factrank.families.attention.forms.choose",
    "construct_memory": "factrank.families.memory.memory_construction",
    "construct_factual_recall": "factrank.families.factual_recall.factual_recall_form",
    "Constructed": "factrank.families.attention.forms.constructed",
    "Criterion": "factrank.experiments.capacity.capacity_interval",
    "Database": "factrank.databases.database",
    "diagnose": "factrank.families.attention.circuits.diagnosis",
    "edit": "factrank.families.attention.editing.fact_edits",
    "FactrankError": "factrank.errors",
    "from_table": "factrank.databases.tables",
    "generate": "factrank.databases.generators.registry",
    "generated": "factrank.experiments.specs.data",
    "Given": "factrank.experiments.specs.data",
    "init_layer": "factrank.families.attention.attention_layer",
    "layer_from_arrays": "factrank.families.attention.attention_layer",
    "LayerShape": "factrank.families.attention.layer_shape",
    "load_layer": "factrank.families.attention.layer_files",
    "measure": "factrank.tensors.measurement",
    "Measurement": "factrank.tensors.measurement",
    "Measures": "factrank.experiments.specs.measures",
    "MemoriserShape": "factrank.families.memoriser.memoriser_shape",
    "MemoryShape": "factrank.families.memory.memory_shape",
    "no_trials": "factrank.experiments.study.study",
    "FactualRecallOneHotShape": "factrank.families.factual_recall.factual_recall_shape",
    "Quantity": "factrank.experiments.statistics.claims",
    "RandomExamples": "factrank.families.memoriser.examples.examples",
    "RankBounds": "factrank.tensors.bounds.certified_bounds",
    "read": "factrank.databases.files.formats",
    "recall": "factrank.readouts.recall_report",
    "PairTransformer": "factrank.families.attention.pair_transformer",
    "run_study": "factrank.experiments.execution.runner",
    "sample": "factrank.databases.sample_tables",
    "save_layer": "factrank.families.attention.layer_files",
    "FactualRecallShape": "factrank.families.factual_recall.factual_recall_shape",
    "smallest_factual_recall": "factrank.families.factual_recall.certified_sizes",
    "solve": "factrank.families.memoriser.solving.memoriser_solve",
    "Store": "factrank.experiments.store.store",
    "Study": "factrank.experiments.study.study",
    "to_table": "factrank.databases.tables",
    "train": "factrank.experiments.training",
    "train_many": "factrank.experiments.training",
    "Training": "factrank.experiments.specs.training_spec",
    "TransformerShape": "factrank.families.attention.pair_transformer",
    "Trial": "factrank.experiments.specs.trial",
    "VectorExamples": "factrank.families.memoriser.examples.examples",
    "verdict": "factrank.families.attention.layer_files",
    "verify": "factrank.families.attention.proof.verification",
    "verify_memoriser": "factrank.families.memoriser.solving.memoriser_certificate",
    "verify_memory": "factrank.families.memory.memory_proof",
    "write": "factrank.databases.files.formats",
}
"""Where each public name lives. It is loaded when first used, so that `import factrank` stays fast."""

__all__ = [  # noqa: PLE0604 - all strings
    *_HOME,
    "__version__",
]


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module 'factrank' has no attribute {name!r}")
    return getattr(import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
