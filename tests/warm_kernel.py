"""Imported by the process that others are forked from, so that these begin with the compiled functions in place.

It trains a model by hand, in the main thread: JAX itself must not have begun to compute where processes are forked.
"""

from factrank.databases.generators.random_tables import uniform
from factrank.experiments.execution import runner as _runner  # noqa: F401 - for those that are forked
from factrank.experiments.specs.data import generated
from factrank.experiments.specs.training_spec import Training
from factrank.experiments.specs.trial import Trial
from factrank.families.attention.facts_task import FactsTask
from factrank.families.attention.fused import fused_threads
from factrank.families.attention.fused.fused_run import Fibers, prepare
from factrank.families.attention.layer_shape import LayerShape

database = uniform(8, 4, 6, seed=0)
trial = Trial(
    generated("uniform", n_keys=8, n_queries=4, n_values=6, seed=0), LayerShape(6, 1, 2, 2), Training(epochs=2)
)
run = prepare(0, trial, FactsTask(trial, database), Fibers.of(database))
run.state = fused_threads.later_state(fused_threads.kernel(), run, 2)
fused_threads.evaluate(fused_threads.kernel(), run)
fused_threads.Threads.marks()
