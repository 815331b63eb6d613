"""Run the later parts of these studies in several processes side by side, which keeps one GPU full.

    factrank study restore nichani2025 reproductions/nichani2025 --store results
    python reproductions/nichani2025/side_by_side.py results --processes 14 --seconds 560

Start NVIDIA's multi-process service (`nvidia-cuda-mps-control -d`) first. Every job is a part of a study, run by
`run_study` into a store of its own under results/parts; jobs come in the order of `jobs`. When the time is over, and
from time to time before, what has ended is copied to the store. The same command continues with what is missing, and
`factrank study run nichani2025 --full --store results` does the same in one process.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from factrank import Store, Study, Trial, no_trials, run_study
from factrank.experiments.study import Size, TrialSearch
from factrank.studies.nichani import attention_against_mlp_criteria as grid
from factrank.studies.nichani import factual_recall_capacity_criteria as capacities
from factrank.studies.nichani import factual_recall_capacity_variants as variants
from factrank.studies.nichani.memories.linear_memory import LARGEST, LINEAR_MEMORY
from factrank.studies.nichani.memories.linear_memory_training import LINEAR_MEMORY_TRAINING
from factrank.studies.nichani.memories.mlp_memory_few_outputs import MLP_MEMORY_FEW_OUTPUTS
from factrank.studies.nichani.settings import FEW_SEEDS, SEEDS

FOLDERS = ("curves", "readings", "trials")
"""Of a store; the trials come last: then all of it counts."""
COPY_SECONDS = 60
Job = tuple[str, Study]


def searching(study: Study, name: str, prefix: str, suffixes: Sequence[str] = ("",)) -> Job:
    """The searches of a study whose names begin with this prefix and end with one of these suffixes."""

    def searches(size: Size) -> list[TrialSearch]:
        every = study.searches_of(size)
        return [one for one in every if one.name.startswith(prefix) and one.name.endswith(tuple(suffixes))]

    return name, replace(study, trials=no_trials, searches=searches)


def left(size: Size, d_models: Sequence[int], seeds: Sequence[int]) -> Iterator[Job]:
    """Figure 4 (left): a transformer each, largest first."""
    for shape in sorted(capacities.shapes(size), key=lambda one: -one.counted_parameters):
        if shape.d_model in d_models and seeds:
            made = [one for seed in seeds for one in capacities.pair_of_searches(size, shape, seed)]
            name = f"left-{shape.d_model}-{shape.d_vo}-{shape.mlp_width}-seeds-{seeds[0]}-{seeds[-1]}"
            yield name, replace(capacities.RECALL_CAPACITY_CRITERIA, searches=lambda _, made=made: made)


def right(size: Size, heads: Sequence[int]) -> Iterator[Job]:
    """Figure 4 (right): some widths of a number of heads each."""
    for n_heads in heads:
        for start in range(0, len(grid.WIDTHS[size]), 5):
            widths = grid.WIDTHS[size][start : start + 5]

            def trials(size: Size, n_heads: int = n_heads, widths: Sequence[int] = widths) -> list[Trial]:
                every = grid.trials(size)
                return [one for one in every if one.model.n_heads == n_heads and one.model.mlp_width in widths]

            yield f"right-{n_heads}-{widths[0]}", replace(grid.ATTENTION_AGAINST_MLP_CRITERIA, trials=trials)


def jobs(size: Size) -> list[Job]:
    """All jobs in their order: what is complete with few seeds first."""
    few, more, last = FEW_SEEDS, SEEDS[size][3:10], SEEDS[size][10:]
    others = [n_heads for n_heads in grid.HEADS[size] if n_heads not in grid.JUDGED]
    settings = sorted({one.name.rsplit(", seed", 1)[0] for one in LINEAR_MEMORY_TRAINING.searches_of(size)})
    large, small = left(size, (64, 32), few), left(size, (16, 8), few)
    judged = list(right(size, [n_heads for n_heads in grid.HEADS[size] if n_heads in grid.JUDGED]))
    shapes = ((16, 128), (32, 64), (32, 128), (64, 64))
    return [
        *large,
        *judged[:4],
        *small,
        *judged[4:],
        *right(size, others),
        *(
            searching(variants.RECALL_CAPACITY_VARIANTS, f"heads-{d_model}", f"{variants.MORE}, d {d_model},")
            for d_model in variants.WIDTHS[size]
        ),
        *(searching(MLP_MEMORY_FEW_OUTPUTS, f"outputs-{d}-{m}", f"d {d}, m {m},") for d, m in shapes),
        *left(size, (16, 8), more),
        *(searching(LINEAR_MEMORY_TRAINING, f"training-{at}", f"{one}, seed") for at, one in enumerate(settings)),
        *(
            searching(LINEAR_MEMORY, f"largest-{start}", f"d {LARGEST},", [f" {start + at}" for at in range(3)])
            for start in SEEDS[size][::3]
        ),
        *left(size, (32, 64), more),
        *left(size, (16, 8), last),
        *left(size, (32, 64), last),
    ]


def work(folder: Path, size: Size, only: Sequence[str]) -> None:
    """Take one job after the other that no other process has taken."""
    for name, study in jobs(size):
        if not name.startswith(tuple(only)):
            continue
        try:
            (folder / "parts" / name).mkdir()
        except FileExistsError:
            continue
        started = time.perf_counter()
        store = folder / "parts" / name / "store"
        copied(folder / "before", store)
        done = run_study(study, size, Store(store))
        print(f"{name}: {done.n_ended} trials, {time.perf_counter() - started:.0f} s", flush=True)


def copied(source: Path, target: Path) -> None:
    """Copy the parts of one store to another that lacks them."""
    for name in FOLDERS:
        (target / name).mkdir(parents=True, exist_ok=True)
        for path in sorted((source / name).glob("*.parquet")):
            if not (target / name / path.name).exists():
                shutil.copyfile(path, target / name / f".{path.name}.tmp")
                os.replace(target / name / f".{path.name}.tmp", target / name / path.name)


def main() -> None:
    """Start the processes and collect what they store."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("store", type=Path)
    parser.add_argument("--processes", type=int, default=14)
    parser.add_argument("--seconds", type=float, default=560)
    parser.add_argument("--size", choices=("quick", "full"), default="full")
    parser.add_argument("--only", nargs="*", default=[""], help="jobs whose names begin with one of these")
    parser.add_argument("--list", action="store_true", help="print the jobs and stop")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.list:
        print("\n".join(name for name, _ in jobs(given.size)))
        return
    if given.worker:
        work(given.store, given.size, given.only)
        return
    for name in ("parts", "before"):
        shutil.rmtree(given.store / name, ignore_errors=True)
        (given.store / name).mkdir(parents=True)
    copied(given.store, given.store / "before")  # jobs do not wait for what others collect
    started, collected = time.monotonic(), time.monotonic()
    command = [sys.executable, __file__, str(given.store), "--size", given.size, "--worker", "--only", *given.only]
    workers = [subprocess.Popen(command) for _ in range(given.processes)]
    while any(one.poll() is None for one in workers) and time.monotonic() - started < given.seconds:
        time.sleep(1)
        if time.monotonic() - collected > COPY_SECONDS:
            collect(given.store)
            collected = time.monotonic()
    for one in workers:
        one.kill()
    collect(given.store)
    print(f"{Store(given.store).trials().num_rows} trials in {given.store}, {time.monotonic() - started:.0f} s")


def collect(folder: Path) -> None:
    """Copy what the jobs have stored to the store."""
    for part in sorted((folder / "parts").iterdir()):
        copied(part / "store", folder)


if __name__ == "__main__":
    main()
