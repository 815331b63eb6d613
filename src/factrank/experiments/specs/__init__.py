"""Specifications: a trial as frozen data, its canonical JSON and its hash.

What lives here: the dataclasses of a trial, and their way to plain dictionaries and back. What may enter: a field that
every engine understands, with a default, so that no stored hash changes.
"""

from typing import TYPE_CHECKING

from factrank.lazy_face import lazy_face

if TYPE_CHECKING:
    from factrank.experiments.specs.data import Generated as Generated
    from factrank.experiments.specs.data import Given as Given
    from factrank.experiments.specs.data import generated as generated
    from factrank.experiments.specs.known_options import require_options as require_options
    from factrank.experiments.specs.measures import Measures as Measures
    from factrank.experiments.specs.measures import Readings as Readings
    from factrank.experiments.specs.roles import Data as Data
    from factrank.experiments.specs.roles import DataSpec as DataSpec
    from factrank.experiments.specs.roles import ModelSpec as ModelSpec
    from factrank.experiments.specs.specification import KINDS as KINDS
    from factrank.experiments.specs.specification import Options as Options
    from factrank.experiments.specs.specification import canonical_json as canonical_json
    from factrank.experiments.specs.specification import from_plain as from_plain
    from factrank.experiments.specs.specification import has_role as has_role
    from factrank.experiments.specs.specification import register_kind as register_kind
    from factrank.experiments.specs.specification import to_plain as to_plain
    from factrank.experiments.specs.specification import unregister_kind as unregister_kind
    from factrank.experiments.specs.training_spec import Optimiser as Optimiser
    from factrank.experiments.specs.training_spec import Training as Training
    from factrank.experiments.specs.training_spec import TrainingPrecision as TrainingPrecision
    from factrank.experiments.specs.trial import SCHEMA as SCHEMA
    from factrank.experiments.specs.trial import Trial as Trial
else:
    __getattr__, __dir__, __all__ = lazy_face(__name__)
