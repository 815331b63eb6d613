"""Training: the specification of a run, and engines that train thousands of small models at once.

What lives here: `Trial`, the tasks that turn it into something to train, two engines (fused: attention layers by one
hand-written loop; lanes: anything JAX can trace), checks and stopping, checkpoints, progress. What may enter: another
task, another engine or backend of one. It touches JAX, equinox, optax and, when the fused engine trains, numba, and of
factrank the databases, models and readouts; nothing that a bare GPU machine lacks.
"""

from factrank.training.progress import Meter as Meter
from factrank.training.progress import TerminalMeter as TerminalMeter
from factrank.training.specification import Options as Options
from factrank.training.train import TrialResult as TrialResult
from factrank.training.train import best_of as best_of
from factrank.training.train import train as train
from factrank.training.train import train_many as train_many
from factrank.training.trial import Generated as Generated
from factrank.training.trial import Given as Given
from factrank.training.trial import Measures as Measures
from factrank.training.trial import Optimiser as Optimiser
from factrank.training.trial import Readings as Readings
from factrank.training.trial import Training as Training
from factrank.training.trial import Trial as Trial
from factrank.training.trial import generated as generated
