"""Specifications: trials as frozen dataclasses, their canonical JSON and their hash.

Contains: the dataclasses of a trial, and their conversion to and from plain dictionaries. Add here: a field that every
engine supports, with a default, so stored hashes do not change.
"""

from typing import TYPE_CHECKING

from factrank.lazy_face import lazy_face

if TYPE_CHECKING:
    from factrank.experiments.specs.data import Generated as Generated
    from factrank.experiments.specs.data import Given as Given
    from factrank.experiments.specs.data import generated as generated
    from factrank.experiments.specs.field_checks import are_different as are_different
    from factrank.experiments.specs.field_checks import as_floats as as_floats
    from factrank.experiments.specs.field_checks import require_flags as require_flags
    from factrank.experiments.specs.field_checks import require_numbers as require_numbers
    from factrank.experiments.specs.measures import EVERY_MEASURE as EVERY_MEASURE
    from factrank.experiments.specs.measures import SHARED_MEASURES as SHARED_MEASURES
    from factrank.experiments.specs.measures import Best as Best
    from factrank.experiments.specs.measures import Curve as Curve
    from factrank.experiments.specs.measures import EpochsTo as EpochsTo
    from factrank.experiments.specs.measures import FrequencyGroups as FrequencyGroups
    from factrank.experiments.specs.measures import Measure as Measure
    from factrank.experiments.specs.measures import TauRecall as TauRecall
    from factrank.experiments.specs.measures import require_thresholds as require_thresholds
    from factrank.experiments.specs.result_columns import ResultColumn as ResultColumn
    from factrank.experiments.specs.roles import Data as Data
    from factrank.experiments.specs.roles import DataSpec as DataSpec
    from factrank.experiments.specs.roles import ModelSpec as ModelSpec
    from factrank.experiments.specs.roles import Presentation as Presentation
    from factrank.experiments.specs.roles import source_of as source_of
    from factrank.experiments.specs.specification import KINDS as KINDS
    from factrank.experiments.specs.specification import Options as Options
    from factrank.experiments.specs.specification import canonical_json as canonical_json
    from factrank.experiments.specs.specification import from_plain as from_plain
    from factrank.experiments.specs.specification import has_role as has_role
    from factrank.experiments.specs.specification import hash_of as hash_of
    from factrank.experiments.specs.specification import kind_of as kind_of
    from factrank.experiments.specs.specification import register_kind as register_kind
    from factrank.experiments.specs.specification import to_plain as to_plain
    from factrank.experiments.specs.specification import unregister_kind as unregister_kind
    from factrank.experiments.specs.training_spec import Optimiser as Optimiser
    from factrank.experiments.specs.training_spec import Training as Training
    from factrank.experiments.specs.training_spec import TrainingPrecision as TrainingPrecision
    from factrank.experiments.specs.trial import CONVERTER as CONVERTER
    from factrank.experiments.specs.trial import DRAWN as DRAWN
    from factrank.experiments.specs.trial import SCHEMA as SCHEMA
    from factrank.experiments.specs.trial import Trial as Trial
else:
    __getattr__, __dir__, __all__ = lazy_face(__name__)
