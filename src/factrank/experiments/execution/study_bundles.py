"""Bundles of a study: prepare its trials once and group them, and collect trials that cannot run."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace

import jax

from factrank.experiments.bundles import Bundle, cut
from factrank.experiments.execution.outcomes import Failure, describe
from factrank.experiments.lanes import Paddable
from factrank.experiments.prepared import DataOfTrials, Prepared, prepare
from factrank.experiments.specs import Data, Trial


def study_bundles(
    trials: Sequence[Trial], wanted: AbstractSet[str], given: Iterable[Data] = ()
) -> tuple[list[Bundle], list[Failure]]:
    """Return the bundles that contain a wanted trial (hash), and the wanted trials that cannot run.

    The widths of lanes depend on the whole list, so all trials are prepared if a wanted one runs in lanes.
    """
    data_of, device = DataOfTrials(given), jax.local_devices()[0].platform
    prepared, failures = dict[str, Prepared](), list[Failure]()

    def prepare_all(some: Iterable[Trial]) -> None:
        for trial in some:
            try:
                member = prepare(trial, data_of(trial), device)
                member.work  # noqa: B018 - raises if sizes are too large
                prepared[trial.hash] = member
            except Exception as error:  # one bad trial must not end the others
                failures.append(Failure(trial, describe(error)))

    prepare_all(trial for trial in trials if trial.hash in wanted)
    if any(member.engine is None for member in prepared.values()):
        prepare_all(trial for trial in trials if trial.hash not in wanted)
    members = [prepared[trial.hash] for trial in trials if trial.hash in prepared]
    members = [member for member in members if member.engine is None or member.trial.hash in wanted]
    bundles = [bundle for bundle in cut(members) if any(trial.hash in wanted for trial in bundle.trials)]
    return bundles, [failure for failure in failures if failure.trial.hash in wanted]


def bundles_again(
    trials: Sequence[Trial], given: Iterable[Data], *, padded: bool
) -> tuple[list[Bundle], list[Failure]]:
    """Prepare the trials of one bundle on another machine: lanes stay together, padded if they were padded before."""
    wanted = {trial.hash for trial in trials}
    bundles, failures = study_bundles(trials, wanted, given)
    lanes = [member for bundle in bundles if bundle.engine is None for member in bundle.members]
    if not lanes:
        return bundles, failures
    place = {trial.hash: at for at, trial in enumerate(trials)}
    lanes.sort(key=lambda member: place[member.trial.hash])
    members = [_padded(member) if padded else member for member in lanes]
    others = [bundle for bundle in bundles if bundle.engine is not None]
    return [*others, Bundle(tuple(members), tuple(place[one.trial.hash] for one in members))], failures


def _padded(member: Prepared) -> Prepared:
    if member.padded or not isinstance(member.task, Paddable):
        return member
    return replace(member, task=member.task.with_padding(), padded=True)
