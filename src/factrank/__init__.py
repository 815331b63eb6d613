"""factrank: how many facts can an attention layer hold?

Give it a table of facts: it says how big the table really is, by certified bounds on the rank of its tensor, writes it
into an attention layer in closed form or trains layers on it, and says what they recall.

>>> import factrank
>>> facts = factrank.Database.from_facts([("Paris", "country", "France"), ("Lyon", "country", "France")])
>>> factrank.measure(facts).rank.upper.value
1
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from factrank.lazy_face import lazy_face
from factrank.version import __version__ as __version__

if TYPE_CHECKING:
    from factrank.certificates.certificate import Certificate as Certificate
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
    from factrank.experiments.models.constructed import Constructed as Constructed
    from factrank.experiments.models.model_files import load as load
    from factrank.experiments.models.model_files import save as save
    from factrank.experiments.models.verification import verify as verify
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
    from factrank.families.attention.layer_files import load_layer as load_layer
    from factrank.families.attention.layer_files import save_layer as save_layer
    from factrank.families.attention.layer_files import verdict as verdict
    from factrank.families.attention.layer_shape import LayerShape as LayerShape
    from factrank.families.attention.pair_transformer import PairTransformer as PairTransformer
    from factrank.families.attention.pair_transformer import TransformerShape as TransformerShape
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
    from factrank.families.memoriser.solving.memoriser_solve import solve as solve
    from factrank.families.memory.memory_construction import construct_memory as construct_memory
    from factrank.families.memory.memory_shape import MemoryShape as MemoryShape
    from factrank.readouts.recall_report import recall as recall
    from factrank.tensors.bounds.certified_bounds import RankBounds as RankBounds
    from factrank.tensors.measurement import Measurement as Measurement
    from factrank.tensors.measurement import measure as measure
else:
    __getattr__, __dir__, __all__ = lazy_face(__name__, "__version__")
