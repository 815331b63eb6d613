"""One trial, seen while it trains: the fused engine on the CPU, with the layer at chosen epochs.

The kernel gives the same bits however a run is divided. So training from one snapshot to the next is the run that
`train` makes, and the snapshot at an epoch is the layer that `train` returns for that number of epochs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import isfinite

from factrank.databases import Database
from factrank.errors import InputError
from factrank.experiments.specs import Trial
from factrank.families.attention.attention_layer import AttentionLayer
from factrank.families.attention.facts_task import FactsTask
from factrank.families.attention.fused.fused_engine import platform_of
from factrank.families.attention.fused.fused_run import Fibers, prepare
from factrank.families.attention.fused.fused_threads import evaluate, kernel, later_state


@dataclass(frozen=True, eq=False)
class Snapshot:
    """A layer during training: its epoch, and its loss over all facts."""

    epoch: int
    loss: float
    layer: AttentionLayer


def snapshots(trial: Trial, database: Database, epochs: Sequence[int]) -> Iterator[Snapshot]:
    """Train one trial on the CPU and yield its layer at each of the epochs, in increasing order.

    Training advances when the next snapshot is requested. It ends early if the loss is NaN or infinite: that snapshot
    is the last one.

    Raises:
        InputError: If the fused engine does not train such a trial, the trial may stop early, or an epoch is beyond it.

    >>> from factrank import Given, LayerShape, Training, sample
    >>> facts = sample("astrid")
    >>> trial = Trial(Given(facts.fingerprint), LayerShape(4, 1, 2, 2), Training(epochs=100))
    >>> [snapshot.epoch for snapshot in snapshots(trial, facts, (0, 10, 100))]
    [0, 10, 100]
    """
    if trial.training.stop != "never" or not all(0 <= epoch <= trial.training.epochs for epoch in epochs):
        raise InputError("snapshots are for trials that never stop early, at epochs up to the last")
    trial = replace(trial, training=replace(trial.training, engine="fused"))
    platform_of(trial, database.shape, "cpu")  # raises if the engine does not apply
    run = prepare(0, trial, FactsTask(trial, database), Fibers.of(database))
    for epoch in sorted(set(epochs)):
        while run.state.epoch < epoch:
            run.state = later_state(kernel(), run, epoch - run.state.epoch)
        loss = evaluate(kernel(), run).loss
        layer = run.layout.layer(run.state.weights.copy())
        scale = trial.training.score_scale
        yield Snapshot(run.state.epoch, loss, layer if scale == 1 else layer.scaled_scores(scale))
        if not isfinite(loss):
            return
