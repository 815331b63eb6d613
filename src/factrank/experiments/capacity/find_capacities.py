"""Find capacities directly: run capacity searches to completion, with or without a store."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from tempfile import TemporaryDirectory

from factrank.errors import InputError, Interrupted
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
    """Find the largest size that meets a criterion, as an interval whose two ends were both run.

    Arguments:
        family: Returns the trials of a size, for example one per learning rate. A size meets the criterion if any of
            them does at the end of training.
        criterion: Required value of a metric; by default, a recall of 1.
        guess: Size to start from.
        sizes: Smallest and largest size to try.
        probes: Number of sizes to try at a time.
        resolution: Stop when upper / lower is at most this ratio.
        store: Store for the results. Trials that it already contains are not run again.

    Raises:
        Interrupted: On Ctrl-C. With a store, the same call resumes; `finished` has the interval so far.

    Returns:
        The interval; its `status` is "finished" if both ends were found.

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
    """Run several searches together, for example one per seed, and return their intervals.

    `databases` are the data that trials refer to by fingerprint. On Ctrl-C it raises `Interrupted`, whose `finished`
    are the intervals so far; with a store, the same call resumes.
    """
    wanted = list(searches)
    if not wanted:
        raise InputError("no searches to run")
    study = Study(NAME, "Capacity", None, "", "", no_trials, databases=tuple(databases), searches=lambda _: wanted)
    with ExitStack() as stack:
        kept = store or Store(stack.enter_context(TemporaryDirectory(prefix="factrank-")))
        summary = run_study(study, "full", kept, meter=meter)
        rows = measured_rows(kept.trials())
    found = [search.interval(rows) for search in wanted]
    if summary.interrupted:
        again = "store=Store(FOLDER) keeps them, so that the same call resumes"
        if store is not None:
            again = f"the same call resumes from {store.folder}"
        raise Interrupted(f"{summary.n_before + summary.n_ended:,} trials have ended; {again}", found)
    return found
