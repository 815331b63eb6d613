"""The bundles of a study: its trials prepared once and cut, and those that cannot run at all."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet

import jax

from factrank.errors import FactrankError
from factrank.experiments.bundles import Bundle, cut
from factrank.experiments.execution.outcomes import Failure, describe
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
            except (FactrankError, MemoryError, OverflowError) as error:
                failures.append(Failure(trial, describe(error)))

    prepare_all(trial for trial in trials if trial.hash in wanted)
    if any(member.engine is None for member in prepared.values()):
        prepare_all(trial for trial in trials if trial.hash not in wanted)
    members = [prepared[trial.hash] for trial in trials if trial.hash in prepared]
    members = [member for member in members if member.engine is None or member.trial.hash in wanted]
    bundles = [bundle for bundle in cut(members) if any(trial.hash in wanted for trial in bundle.trials)]
    return bundles, [failure for failure in failures if failure.trial.hash in wanted]
