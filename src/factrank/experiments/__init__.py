"""Experiments: train, store and evaluate trials of any model family.

Contains: specifications (`specs`); the protocols that a family implements (`family`, `task`) and the registry that
finds it (`registry`); preparing trials (`prepared`), grouping them into bundles (`bundles`) and training them
(`training`), in lanes (`lanes`) or with an engine of their family; results on disk (`store`), running studies
(`execution`), studies (`study`), claims and their statistics (`statistics`), capacity searches (`capacity`). Add here:
code that serves every family. Only the registry refers to the built-in families, by module name.
"""

from typing import TYPE_CHECKING

from factrank.lazy_face import lazy_face

if TYPE_CHECKING:
    from factrank.experiments.checks import Checks as Checks
    from factrank.experiments.checks import Finished as Finished
    from factrank.experiments.checks import Record as Record
    from factrank.experiments.compilation_cache import use_compilation_cache as use_compilation_cache
    from factrank.experiments.family import Engine as Engine
    from factrank.experiments.family import Family as Family
    from factrank.experiments.family import Form as Form
    from factrank.experiments.family import SizedForm as SizedForm
    from factrank.experiments.family import Work as Work
    from factrank.experiments.frozen_parts import split as split
    from factrank.experiments.progress import Meter as Meter
    from factrank.experiments.progress import TerminalMeter as TerminalMeter
    from factrank.experiments.registry import EVERY_STOP as EVERY_STOP
    from factrank.experiments.registry import families as families
    from factrank.experiments.registry import family_of as family_of
    from factrank.experiments.registry import package_of_family as package_of_family
    from factrank.experiments.registry import register_family as register_family
    from factrank.experiments.registry import registered_family as registered_family
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
else:
    __getattr__, __dir__, __all__ = lazy_face(__name__)
