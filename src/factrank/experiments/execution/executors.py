"""Executors: run bundles of trials, on this machine or on a cluster (`ray_executor`).

A bundle that fails is split in halves until the failing trial is found. That trial becomes a failed row, and the others
continue.
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
from factrank.experiments.registry import registered_by_call
from factrank.experiments.run_checkpoints import CheckpointError
from factrank.experiments.specs import Data, Given, Trial
from factrank.experiments.training import TrialResult, train_bundles
from factrank.nn import SUFFIX

Databases = Mapping[str, Data]
"""Databases that trials refer to, by fingerprint."""


@runtime_checkable
class Recorder(Protocol):
    """Receives the outcomes of trials."""

    def take(self, outcome: Outcome, *, at_once: bool = False) -> None:
        """Record an outcome; with `at_once`, it is on disk when this returns."""

    def tick(self, epochs: int = 0) -> None:
        """Called a few times per second, with the epochs completed by unfinished models."""


@runtime_checkable
class Executor(Protocol):
    """Runs the trials of a study. Every wanted trial has exactly one outcome."""

    @property
    def keep_weights(self) -> bool:
        """True if results include the trained models."""

    def run(
        self, bundles: Sequence[Bundle], wanted: AbstractSet[str], databases: Databases, recorder: Recorder
    ) -> None:
        """Run the bundles. On KeyboardInterrupt, record the trials that have ended and re-raise.

        Only the outcomes of `wanted` trials (hashes) are recorded; others run because lanes run together.
        """


@dataclass(frozen=True)
class LocalExecutor:
    """Runs bundles one after the other, on all cores or accelerators of this machine.

    `checkpoints` is a folder for the states of long runs, from which they resume.
    """

    keep_weights: bool = False
    checkpoints: Path | None = None

    def run(
        self,
        bundles: Sequence[Bundle],
        wanted: AbstractSet[str],
        databases: Databases,  # noqa: ARG002 - prepared trials include their data
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
    except Exception as error:  # one bad trial must not end the others
        left = bundle.among({trial.hash for trial in bundle.trials} - call.ended)
        mistake = isinstance(error, InputError)
        if len(left.members) > 1 and not (mistake and bundle.engine is None):
            for half in left.halves():
                run_bundle(half, wanted, recorder, keep_weights=keep_weights, checkpoints=checkpoints)
        elif left.members and isinstance(error, CheckpointError):
            warnings.warn(f"restarted without checkpoints: {describe(error)}", stacklevel=2)
            run_bundle(left, wanted, recorder, keep_weights=keep_weights)
        else:  # a mistake affects all lanes of a recipe
            for trial in left.trials:
                if trial.hash in wanted:
                    recorder.take(Failure(trial, describe(error)))


class _Undelivered(Exception):  # noqa: N818 - private
    """The recorder failed; the trial is not at fault."""

    def __init__(self, error: Exception) -> None:
        super().__init__()
        self.error = error


class _Call:
    """One call of an engine; forwards results and progress to the recorder."""

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
        try:  # store before the checkpoint is deleted, which happens when this returns; for lanes, after the last trial
            at_once = self._checkpoints is not None and (is_last or (self._checkpoints / name).exists())
            kept = result if self._keep_weights else replace(result, weights=None)
            self._recorder.take(kept, at_once=at_once)
        except Exception as error:
            raise _Undelivered(error) from error


def fingerprints(trials: Sequence[Trial]) -> list[str]:
    """Return the distinct fingerprints of databases that these trials refer to."""
    return list(dict.fromkeys(one.source.fingerprint for one in trials if isinstance(one.source, Given)))


def require_known_elsewhere(bundles: Sequence[Bundle], where: str) -> None:
    """Raise if other processes cannot find a family: they only know built-in families and entry points."""
    for name in sorted({member.family.name for bundle in bundles for member in bundle.members} & registered_by_call()):
        raise InputError(
            f"{where} do not know the family {name!r}, which was added by register_family; "
            "declare it as an entry point of its package, in the group factrank.families"
        )
