"""Executors: what runs bundles of trials. This one uses the machine it is on; `ray_executor` a cluster.

A bundle that fails is halved until the trial is found that it fails for; that one becomes a failed row, the others go
on.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol, runtime_checkable

from factrank.errors import InputError
from factrank.experiments.bundles import Bundle
from factrank.experiments.execution.outcomes import Failure, Outcome, describe
from factrank.experiments.run_checkpoints import CheckpointError
from factrank.experiments.specs import Data, Given, Trial
from factrank.experiments.training import TrialResult, train_bundles
from factrank.nn import SUFFIX

Databases = Mapping[str, Data]
"""The databases that trials name, by their fingerprints."""


@runtime_checkable
class Recorder(Protocol):
    """What becomes of the outcomes of trials."""

    def take(self, outcome: Outcome, *, at_once: bool = False) -> None:
        """Keep an outcome; `at_once` asks that it is on the disk when this returns."""

    def tick(self, epochs: int = 0) -> None:
        """Called a few times a second, with the epochs behind the models in flight."""


@runtime_checkable
class Executor(Protocol):
    """Runs the trials of a study. Each wanted trial of the bundles gets one outcome."""

    @property
    def keep_weights(self) -> bool:
        """Whether results carry their trained models."""

    def run(
        self, bundles: Sequence[Bundle], wanted: AbstractSet[str], databases: Databases, recorder: Recorder
    ) -> None:
        """Run the bundles; a `KeyboardInterrupt` passes through after what had ended was recorded.

        Only the outcomes of `wanted` trials (hashes) are recorded; others run because lanes run together.
        """


@dataclass(frozen=True)
class LocalExecutor:
    """Runs bundles one after the other on all cores, or the accelerators, of this machine.

    `checkpoints` is a folder for the states of long runs, from which they go on.
    """

    keep_weights: bool = False
    checkpoints: Path | None = None

    def run(
        self,
        bundles: Sequence[Bundle],
        wanted: AbstractSet[str],
        databases: Databases,  # noqa: ARG002 - prepared trials have their data
        recorder: Recorder,
    ) -> None:
        """Run the bundles."""
        for bundle in bundles:
            run_bundle(bundle, wanted, recorder, keep_weights=self.keep_weights, checkpoints=self.checkpoints)


def run_bundle(
    bundle: Bundle,
    wanted: AbstractSet[str],
    recorder: Recorder,
    *,
    keep_weights: bool = False,
    checkpoints: Path | None = None,
) -> None:
    """Run one bundle in this process."""
    call = _Call(bundle, wanted, recorder, keep_weights, checkpoints)
    try:
        call.run()
    except _Undelivered as reason:
        raise reason.error from None
    except Exception as error:  # whatever is wrong with one trial must not end the others
        left = bundle.among({trial.hash for trial in bundle.trials} - call.ended)
        mistake = isinstance(error, InputError)
        if len(left.members) > 1 and not (mistake and bundle.engine is None):
            for half in left.halves():
                run_bundle(half, wanted, recorder, keep_weights=keep_weights, checkpoints=checkpoints)
        elif left.members and isinstance(error, CheckpointError):
            warnings.warn(f"begun again, without checkpoints: {describe(error)}", stacklevel=2)
            run_bundle(left, wanted, recorder, keep_weights=keep_weights)
        else:  # lanes of one recipe share what a mistake can be in
            for trial in left.trials:
                if trial.hash in wanted:
                    recorder.take(Failure(trial, describe(error)))


class _Undelivered(Exception):  # noqa: N818 - never seen outside
    """The recorder could not take an outcome: no fault of the trial."""

    def __init__(self, error: Exception) -> None:
        super().__init__()
        self.error = error


class _Call:
    """One call of the engines: hands their results on, and their progress."""

    def __init__(
        self,
        bundle: Bundle,
        wanted: AbstractSet[str],
        recorder: Recorder,
        keep_weights: bool,
        checkpoints: Path | None,
    ) -> None:
        self._bundle, self._wanted, self._recorder = bundle, wanted, recorder
        self._keep_weights, self._checkpoints = keep_weights, checkpoints
        self._epochs = 0
        self.ended: set[str] = set()

    def run(self) -> None:
        train_bundles([self._bundle], on_result=self._take, meter=self, checkpoints=self._checkpoints)

    def update(self, models_done: int, n_models: int, model_epochs: int, n_model_epochs: int) -> None:  # noqa: ARG002
        """The hook for progress."""
        try:
            self._recorder.tick(max(0, model_epochs - self._epochs))
        except Exception as error:
            raise _Undelivered(error) from error

    def _take(self, result: TrialResult) -> None:
        self.ended.add(result.trial.hash)
        self._epochs += result.trial.training.epochs
        if result.trial.hash not in self._wanted:
            return
        name, is_last = f"{result.trial.hash}{SUFFIX}", len(self.ended) == len(self._bundle.members)
        try:  # what has a checkpoint took long, and loses it when this returns; a bundle of lanes after its last
            at_once = self._checkpoints is not None and (is_last or (self._checkpoints / name).exists())
            kept = result if self._keep_weights else replace(result, weights=None)
            self._recorder.take(kept, at_once=at_once)
        except Exception as error:
            raise _Undelivered(error) from error


def fingerprints(trials: Sequence[Trial]) -> list[str]:
    """The databases that these trials name, each once."""
    return list(dict.fromkeys(one.database.fingerprint for one in trials if isinstance(one.database, Given)))
