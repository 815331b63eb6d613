"""Train what is missing of these studies in several processes side by side, which keeps one GPU full.

    factrank study restore mahdavi2024 reproductions/mahdavi2024 --store results
    python reproductions/mahdavi2024/side_by_side.py results --processes 13 --seconds 560

Start NVIDIA's multi-process service (`nvidia-cuda-mps-control -d`) first. A job is up to eight models of about the same
length that can be filled up to one shape; jobs with cells that decide claims and long ones come first. The list of jobs
is kept in results/jobs.json. When the time is over, states in flight are left as checkpoints: the same command goes on
from them until nothing is missing, and starts no job that would hardly end (`--no-start` seconds before the end).
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from factrank import MemoriserShape, RandomExamples, Store, Trial, train_many
from factrank.experiments import TrialResult
from factrank.experiments.lanes import rung_above
from factrank.experiments.study import Size
from factrank.studies.mahdavi import STUDIES
from factrank.studies.mahdavi.settings import LARGER_PLACE, SEEDS_PER_PASS

MOST_MODELS = 8
ABOUT_AS_LONG = 0.55
"""The least share of the steps of the longest model of a job."""
JOBS, CLAIMS, CHECKPOINTS = "jobs.json", "jobs-taken", "checkpoints"


def missing(size: Size, store: Store) -> list[Trial]:
    """The trained memorisers that the store lacks, each once."""
    known, found = store.finished(), dict[str, Trial]()
    for study in STUDIES:
        for trial in study.trials_of(size):
            if trial.training.epochs and trial.hash not in known:
                found.setdefault(trial.hash, trial)
    return list(found.values())


def decides(trial: Trial) -> bool:
    """Whether it is a replicate, or of a size that the authors do not have."""
    return trial.seed >= SEEDS_PER_PASS or trial.seed == LARGER_PLACE


def jobs_of(trials: Sequence[Trial]) -> list[list[Trial]]:
    """Trials that fit together, those that decide claims and take long first."""
    groups: dict[tuple[object, ...], list[Trial]] = {}
    for trial in sorted(trials, key=lambda one: -one.training.epochs):
        model, data = trial.model, trial.data
        assert isinstance(model, MemoriserShape)
        assert isinstance(data, RandomExamples)
        sizes = model.n_heads, rung_above(model.d_qk), rung_above(data.context_size)
        kind = data.n_contexts, data.n_classes, trial.training.stop, trial.measures
        groups.setdefault((*sizes, *kind), []).append(trial)
    jobs: list[list[Trial]] = []
    for group in groups.values():
        job: list[Trial] = []
        for trial in group:
            if job and (len(job) == MOST_MODELS or trial.training.epochs < ABOUT_AS_LONG * job[0].training.epochs):
                jobs.append(job)
                job = []
            job.append(trial)
        jobs.append(job)
    return sorted(jobs, key=lambda job: (not any(map(decides, job)), -job[0].training.epochs * len(job)))


def planned(folder: Path, size: Size) -> list[list[Trial]]:
    """The jobs as they were first planned for this store, but for those that are done."""
    store, path = Store(folder), folder / JOBS
    every = {trial.hash: trial for study in STUDIES for trial in study.trials_of(size)}
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        names = [[trial.hash for trial in job] for job in jobs_of(missing(size, store))]
        path.write_text(json.dumps(names), encoding="utf-8")
    known, jobs = store.finished(), json.loads(path.read_text(encoding="utf-8"))
    return [[every[name] for name in job] for job in jobs if not set(job) <= known]


def work(folder: Path, size: Size, ends: float) -> None:
    """Take one job after the other that no other process has taken."""
    store = Store(folder)
    for job in planned(folder, size):
        if time.time() > ends:
            return
        try:
            (folder / CLAIMS / job[0].hash).touch(exist_ok=False)
        except FileExistsError:
            continue
        known = store.finished()

        def take(result: TrialResult, known: set[str] = known) -> None:
            if result.trial.hash not in known:
                store.append([replace(result, weights=None)])

        started = time.time()
        train_many(job, on_result=take, checkpoints=folder / CHECKPOINTS)
        sys.stdout.write(f"{len(job)} models, {job[0].training.epochs:,} steps: {time.time() - started:.0f} s\n")
        sys.stdout.flush()


def main() -> None:
    """Start the processes, and end them when the time is over."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("store", type=Path)
    parser.add_argument("--processes", type=int, default=13)
    parser.add_argument("--seconds", type=float, default=560)
    parser.add_argument("--no-start", type=float, default=30)
    parser.add_argument("--size", choices=("quick", "full"), default="full")
    parser.add_argument("--worker", type=float, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.worker is not None:
        try:
            work(given.store, given.size, given.worker)
        except KeyboardInterrupt:  # the states in flight have been written
            return
        return
    jobs = planned(given.store, given.size)
    taken = given.store / CLAIMS
    taken.mkdir(parents=True, exist_ok=True)
    for mark in taken.iterdir():
        mark.unlink()
    ends = time.time() + given.seconds - given.no_start
    command = [sys.executable, __file__, str(given.store), "--size", given.size, "--worker", str(ends)]
    variables = os.environ | {"XLA_PYTHON_CLIENT_PREALLOCATE": "false"}
    workers = [subprocess.Popen(command, env=variables) for _ in range(given.processes)]
    started = time.time()
    while any(one.poll() is None for one in workers) and time.time() - started < given.seconds:
        time.sleep(1)
    for one in workers:
        if one.poll() is None:
            one.send_signal(signal.SIGINT)
    for one in workers:
        one.wait()
    left = len(missing(given.size, Store(given.store)))
    sys.stdout.write(f"{len(jobs)} jobs begun with; {left} trials are missing, {time.time() - started:.0f} s\n")


if __name__ == "__main__":
    main()
