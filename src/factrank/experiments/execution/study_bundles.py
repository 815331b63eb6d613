"""The bundles of a study: its trials prepared once and cut, and those that cannot run at all."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace

import jax

from factrank.experiments.bundles import Bundle, cut
from factrank.experiments.execution.outcomes import Failure, describe
from factrank.experiments.lanes import Fillable
from factrank.experiments.prepared import DataOfTrials, Prepared, prepare
from factrank.experiments.specs import Data, Trial


def study_bundles(
    trials: Sequence[Trial], wanted: AbstractSet[str], given: Iterable[Data] = ()
) -> tuple[list[Bundle], list[Failure]]:
    """The bundles that hold a wanted trial (by hash), and those wanted ones that cannot run at all.

    Which lanes run side by side follows from the whole list: if a wanted trial runs in lanes, the others are prepared
    too, because they decide about the widths.
    """
    data_of, device = DataOfTrials(given), jax.local_devices()[0].platform
    prepared, failures = dict[str, Prepared](), list[Failure]()

    def prepare_all(some: Iterable[Trial]) -> None:
        for trial in some:
            try:
                member = prepare(trial, data_of(trial), device)
                member.work  # noqa: B018 - sizes beyond all bounds are found here
                prepared[trial.hash] = member
            except Exception as error:  # whatever is wrong with one trial must not end the others
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
    """The trials of one bundle, prepared where they run: lanes stay together, and padded if they were cut so."""
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
    if member.padded or not isinstance(member.task, Fillable):
        return member
    return replace(member, task=member.task.filled_up(), padded=True)
