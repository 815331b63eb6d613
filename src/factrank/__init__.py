"""factrank: how many facts can an attention layer store?

Given a table of facts, factrank certifies bounds on the rank of its tensor, writes the facts into an attention layer in
closed form or trains layers on them, and measures what a layer recalls.

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
    from factrank.app.page.explorer_page import ExplorerPage as ExplorerPage
    from factrank.app.page.explorer_page import explore as explore
    from factrank.auditing.model_audit import LoraAudit as LoraAudit
    from factrank.auditing.model_audit import ModelAudit as ModelAudit
    from factrank.auditing.model_audit import audit as audit
    from factrank.bridges.examination import Examination as Examination
    from factrank.bridges.examination import examine as examine
    from factrank.bridges.pytorch import from_torch as from_torch
    from factrank.bridges.tensor_roles import Wiring as Wiring
    from factrank.bridges.torch_modules import to_torch as to_torch
    from factrank.bridges.transformer_lens import from_transformer_lens as from_transformer_lens
    from factrank.certificates.certificate import Certificate as Certificate
    from factrank.checkpoints.token_representations import query_position as query_position
    from factrank.checkpoints.token_representations import representations as representations
    from factrank.databases.database import Database as Database
    from factrank.databases.files.formats import read as read
    from factrank.databases.files.formats import register_format as register_format
    from factrank.databases.files.formats import write as write
    from factrank.databases.files.split_files import read_splits as read_splits
    from factrank.databases.files.split_files import write_splits as write_splits
    from factrank.databases.generators.registry import generate as generate
    from factrank.databases.generators.registry import generator as generator
    from factrank.databases.sample_tables import sample as sample
    from factrank.databases.splits import Splits as Splits
    from factrank.databases.splits import split_facts as split_facts
    from factrank.databases.tables import from_table as from_table
    from factrank.databases.tables import to_table as to_table
    from factrank.errors import FactrankError as FactrankError
    from factrank.errors import Interrupted as Interrupted
    from factrank.experiments.capacity.capacity_interval import Criterion as Criterion
    from factrank.experiments.capacity.capacity_search import CapacitySearch as CapacitySearch
    from factrank.experiments.capacity.find_capacities import capacity as capacity
    from factrank.experiments.execution.runner import run_study as run_study
    from factrank.experiments.family import Family as Family
    from factrank.experiments.models.constructed import Constructed as Constructed
    from factrank.experiments.models.model_files import load as load
    from factrank.experiments.models.model_files import save as save
    from factrank.experiments.models.verification import verify as verify
    from factrank.experiments.registry import register_family as register_family
    from factrank.experiments.specs.data import Given as Given
    from factrank.experiments.specs.data import generated as generated
    from factrank.experiments.specs.measures import Best as Best
    from factrank.experiments.specs.measures import Curve as Curve
    from factrank.experiments.specs.measures import EpochsTo as EpochsTo
    from factrank.experiments.specs.measures import FrequencyGroups as FrequencyGroups
    from factrank.experiments.specs.measures import Measure as Measure
    from factrank.experiments.specs.measures import TauRecall as TauRecall
    from factrank.experiments.specs.training_spec import Optimiser as Optimiser
    from factrank.experiments.specs.training_spec import Training as Training
    from factrank.experiments.specs.trial import Trial as Trial
    from factrank.experiments.statistics.claims import Claim as Claim
    from factrank.experiments.statistics.claims import Quantity as Quantity
    from factrank.experiments.statistics.fits import Fit as Fit
    from factrank.experiments.statistics.fits import fit_result as fit_result
    from factrank.experiments.statistics.reference_lines import ReferenceLine as ReferenceLine
    from factrank.experiments.statistics.summaries import Summary as Summary
    from factrank.experiments.statistics.summaries import summary_table as summary_table
    from factrank.experiments.statistics.verdicts import evaluate as evaluate
    from factrank.experiments.store.store import Store as Store
    from factrank.experiments.study.study import Chart as Chart
    from factrank.experiments.study.study import Study as Study
    from factrank.experiments.study.study import no_trials as no_trials
    from factrank.experiments.study.study_results import results_of as results_of
    from factrank.experiments.training import best_of as best_of
    from factrank.experiments.training import train as train
    from factrank.experiments.training import train_many as train_many
    from factrank.families.attention.attention_layer import AttentionLayer as AttentionLayer
    from factrank.families.attention.attention_layer import init_layer as init_layer
    from factrank.families.attention.attention_layer import layer_from_arrays as layer_from_arrays
    from factrank.families.attention.circuits.answers import answer as answer
    from factrank.families.attention.circuits.attribution import attribute as attribute
    from factrank.families.attention.circuits.attribution import attribute_facts as attribute_facts
    from factrank.families.attention.circuits.diagnosis import diagnose as diagnose
    from factrank.families.attention.editing.fact_edits import edit as edit
    from factrank.families.attention.forms.registry import register_form as register_form
    from factrank.families.attention.layer_bounds import flattening_ranks_of as flattening_ranks_of
    from factrank.families.attention.layer_bounds import layer_rank_bounds as layer_rank_bounds
    from factrank.families.attention.layer_files import load_layer as load_layer
    from factrank.families.attention.layer_files import save_layer as save_layer
    from factrank.families.attention.layer_files import verdict as verdict
    from factrank.families.attention.layer_measures import Additive as Additive
    from factrank.families.attention.layer_measures import Hallucinations as Hallucinations
    from factrank.families.attention.layer_measures import PlantedCP as PlantedCP
    from factrank.families.attention.layer_measures import Ranks as Ranks
    from factrank.families.attention.layer_measures import Readings as Readings
    from factrank.families.attention.layer_shape import LayerShape as LayerShape
    from factrank.families.attention.pair_transformer import PairTransformer as PairTransformer
    from factrank.families.attention.pair_transformer import TransformerShape as TransformerShape
    from factrank.families.attention.searching.smallest_certified import construct as construct
    from factrank.families.factual_recall.certified_sizes import smallest_factual_recall as smallest_factual_recall
    from factrank.families.factual_recall.fact_sequences import FactSequences as FactSequences
    from factrank.families.factual_recall.fact_sequences import PartsAlone as PartsAlone
    from factrank.families.factual_recall.fact_sequences import RelationAlone as RelationAlone
    from factrank.families.factual_recall.fact_sequences import TestRecall as TestRecall
    from factrank.families.factual_recall.factual_recall_form import (
        construct_factual_recall as construct_factual_recall,
    )
    from factrank.families.factual_recall.factual_recall_shape import (
        FactualRecallOneHotShape as FactualRecallOneHotShape,
    )
    from factrank.families.factual_recall.factual_recall_shape import FactualRecallShape as FactualRecallShape
    from factrank.families.language.language_data import InContextRecall as InContextRecall
    from factrank.families.language.language_data import PartsRemoved as PartsRemoved
    from factrank.families.language.language_data import Sentences as Sentences
    from factrank.families.language.language_data import TextFile as TextFile
    from factrank.families.language.language_shape import LanguageShape as LanguageShape
    from factrank.families.language.llama_folder import export_language_model as export_language_model
    from factrank.families.memoriser.examples.example_vectors import stored as stored
    from factrank.families.memoriser.examples.examples import RandomExamples as RandomExamples
    from factrank.families.memoriser.examples.examples import VectorExamples as VectorExamples
    from factrank.families.memoriser.memoriser_shape import MemoriserShape as MemoriserShape
    from factrank.families.memoriser.memoriser_specs import Assumptions as Assumptions
    from factrank.families.memoriser.memoriser_specs import Saturation as Saturation
    from factrank.families.memoriser.memoriser_specs import Tolerance as Tolerance
    from factrank.families.memoriser.ranks.assumptions import check_assumptions as check_assumptions
    from factrank.families.memoriser.ranks.assumptions import queries_of as queries_of
    from factrank.families.memoriser.ranks.kruskal import kruskal_rank as kruskal_rank
    from factrank.families.memoriser.solving.memoriser_solve import solve as solve
    from factrank.families.memory.memory_construction import construct_memory as construct_memory
    from factrank.families.memory.memory_shape import MemoryShape as MemoryShape
    from factrank.families.memory.weighted_facts import WeightedFacts as WeightedFacts
    from factrank.notebook_progress import show_progress as show_progress
    from factrank.planning.plans import Plan as Plan
    from factrank.planning.plans import plan as plan
    from factrank.planning.smallest_layers import smallest as smallest
    from factrank.readouts.ranking_report import ranking as ranking
    from factrank.readouts.recall_report import recall as recall
    from factrank.report.charts import save_chart as save_chart
    from factrank.report.study.study_report import write_report as write_report
    from factrank.studies import study as study
    from factrank.tensors.bounds.certified_bounds import Bound as Bound
    from factrank.tensors.bounds.certified_bounds import RankBounds as RankBounds
    from factrank.tensors.bounds.method import BoundMethod as BoundMethod
    from factrank.tensors.bounds.method import Stage as Stage
    from factrank.tensors.bounds.needs import functional as functional
    from factrank.tensors.bounds.registry import register_bound as register_bound
    from factrank.tensors.bounds.registry import registered_bound as registered_bound
    from factrank.tensors.codes.distortion import argmax_code as argmax_code
    from factrank.tensors.measurement import Measurement as Measurement
    from factrank.tensors.measurement import measure as measure
else:
    __getattr__, __dir__, __all__ = lazy_face(__name__, "__version__")
