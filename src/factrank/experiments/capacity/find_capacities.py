"""Find capacities directly: run searches to their end, all together, in a store or without one."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from tempfile import TemporaryDirectory

from factrank.errors import InputError
from factrank.experiments.capacity.capacity_interval import CapacityInterval, Criterion
from factrank.experiments.capacity.capacity_search import EVERY_FACT, CapacitySearch, TrialsOfSize
from factrank.experiments.execution import run_study
from factrank.experiments.progress import Meter
from factrank.experiments.specs import Data
from factrank.experiments.store import Store
from factrank.experiments.study import Study, measured_rows, no_trials

NAME = "capacity"


def capacity(
    family: TrialsOfSize,
    criterion: Criterion = EVERY_FACT,
    *,
    guess: int,
    sizes: tuple[int, int] = (1, 2**20),
    probes: int = 4,
    resolution: int | float = 1.05,
    store: Store | None = None,
) -> CapacityInterval:
    """The largest size of a family of trials that meets a criterion, as an interval whose ends were both run.

    `family` gives the trials of a size, one per learning rate; a size is met when any of them meets the criterion at
    its end. `sizes` are the least and the greatest that may be tried, `probes` how many are tried at once. With a
    store, what was run before is not run again.

    >>> from factrank import LayerShape
    >>> from factrank import Training, Trial, generated
    >>> def family(n_keys):
    ...     facts = generated("uniform", n_keys=n_keys, n_queries=2, n_values=4, seed=0)
    ...     return [Trial(facts, LayerShape(d_model=3, n_heads=1, d_qk=1, d_vo=1), Training(epochs=300))]
    >>> found = capacity(family, guess=4, sizes=(1, 64), resolution=1.5)
    >>> found.status, found.probe(found.lower).met, found.probe(found.upper).met
    ('finished', True, False)
    """
    least, most = sizes
    search = CapacitySearch(NAME, family, guess, criterion, least, most, probes, resolution)
    return run_searches([search], store=store)[0]


def run_searches(
    searches: Sequence[CapacitySearch],
    *,
    store: Store | None = None,
    databases: Sequence[Data] = (),
    meter: Meter | None = None,
) -> list[CapacityInterval]:
    """Run searches, such as one for each seed, round by round all together; gives their intervals.

    `databases` are those that trials name by fingerprint. Ctrl-C passes through: with a store, the same call resumes.
    """
    wanted = list(searches)
    if not wanted:
        raise InputError("there is no search to run")
    study = Study(NAME, "Capacity", None, "", "", no_trials, databases=tuple(databases), searches=lambda _: wanted)
    with ExitStack() as stack:
        kept = store or Store(stack.enter_context(TemporaryDirectory(prefix="factrank-")))
        if run_study(study, "full", kept, meter=meter).interrupted:
            raise KeyboardInterrupt
        rows = measured_rows(kept.trials())
    return [search.interval(rows) for search in wanted]
