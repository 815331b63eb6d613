"""Execution: run the trials of a study on this machine or on a Ray cluster.

Contains: the runner, bundles of a study, executors, estimates of time and memory, trackers. Add here: another executor
or tracker.
"""

from typing import TYPE_CHECKING

from factrank.lazy_face import lazy_face

if TYPE_CHECKING:
    from factrank.experiments.execution.estimate import DryRun as DryRun
    from factrank.experiments.execution.estimate import plan_run as plan_run
    from factrank.experiments.execution.executors import Executor as Executor
    from factrank.experiments.execution.executors import LocalExecutor as LocalExecutor
    from factrank.experiments.execution.process_executor import ProcessExecutor as ProcessExecutor
    from factrank.experiments.execution.ray_executor import RayExecutor as RayExecutor
    from factrank.experiments.execution.runner import RunSummary as RunSummary
    from factrank.experiments.execution.runner import checkpoint_folder as checkpoint_folder
    from factrank.experiments.execution.runner import run_study as run_study
    from factrank.experiments.execution.trackers import tracker_named as tracker_named
else:
    __getattr__, __dir__, __all__ = lazy_face(__name__)
