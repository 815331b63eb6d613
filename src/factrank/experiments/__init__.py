"""Experiments: trials of any family of models, trained, stored, judged.

What lives here: specifications (`specs`), the protocols that a family implements (`families`), engines and tasks, lanes
(`lanes`), results on disk (`store`), who runs what where (`execution`), studies (`study`), claims and their statistics
(`statistics`), capacity searches (`capacity`). What may enter: what serves every family; it knows none by name.
"""

from typing import TYPE_CHECKING

from factrank.lazy_face import lazy_face

if TYPE_CHECKING:
    from factrank.experiments.checks import Checks as Checks
    from factrank.experiments.checks import Finished as Finished
    from factrank.experiments.checks import Record as Record
    from factrank.experiments.compilation_cache import use_compilation_cache as use_compilation_cache
    from factrank.experiments.constructed import BITS_OF_LANGUAGE_MODELS as BITS_OF_LANGUAGE_MODELS
    from factrank.experiments.constructed import CONSTRUCTION_NOTE as CONSTRUCTION_NOTE
    from factrank.experiments.constructed import Constructed as Constructed
    from factrank.experiments.constructed import notes_of as notes_of
    from factrank.experiments.constructed import width_in_bits as width_in_bits
    from factrank.experiments.family import Engine as Engine
    from factrank.experiments.family import Family as Family
    from factrank.experiments.family import Form as Form
    from factrank.experiments.family import Measure as Measure
    from factrank.experiments.family import SizedForm as SizedForm
    from factrank.experiments.family import Work as Work
    from factrank.experiments.frozen_parts import split as split
    from factrank.experiments.measured import measure_of as measure_of
    from factrank.experiments.model_files import SavedModel as SavedModel
    from factrank.experiments.model_files import family_of_file as family_of_file
    from factrank.experiments.model_files import load as load
    from factrank.experiments.model_files import save as save
    from factrank.experiments.progress import TerminalMeter as TerminalMeter
    from factrank.experiments.registry import families as families
    from factrank.experiments.registry import family_of as family_of
    from factrank.experiments.run_checkpoints import CheckpointError as CheckpointError
    from factrank.experiments.run_checkpoints import Checkpoints as Checkpoints
    from factrank.experiments.run_checkpoints import Marks as Marks
    from factrank.experiments.run_checkpoints import read_checkpoint as read_checkpoint
    from factrank.experiments.task import Epoch as Epoch
    from factrank.experiments.task import Metrics as Metrics
    from factrank.experiments.task import Reading as Reading
    from factrank.experiments.task import Task as Task
    from factrank.experiments.task import tau_recall as tau_recall
    from factrank.experiments.training import TrialResult as TrialResult
    from factrank.experiments.training import best_of as best_of
    from factrank.experiments.training import train as train
    from factrank.experiments.training import train_many as train_many
    from factrank.experiments.verification import verify as verify
else:
    __getattr__, __dir__, __all__ = lazy_face(__name__, __file__)
