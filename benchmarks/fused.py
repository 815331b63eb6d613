"""The fused engine beside lanes and plain PyTorch, in one run, on whatever device there is.

    python benchmarks/fused.py

Setting W is that of benchmarks/lanes.py. "Training alone" has its models prepared before and not handed out after; the
whole call goes from trials to results.
"""

from __future__ import annotations

import time

import jax

from factrank.experiments.specs.data import generated
from factrank.experiments.specs.training_spec import Training
from factrank.experiments.specs.trial import Trial
from factrank.experiments.training import train_many
from factrank.families.attention.facts_task import FactsTask
from factrank.families.attention.fused.fused_gpu import Wave, shared_room
from factrank.families.attention.fused.fused_plan import Tiles, plan_for
from factrank.families.attention.fused.fused_run import Fibers, Run, prepare
from factrank.families.attention.fused.fused_threads import Threads, thread_count
from lanes import SHAPE, W, lanes, plain_pytorch

ON_GPU = jax.local_devices()[0].platform != "cpu"


def trials_of_w(n: int, epochs: int) -> list[Trial]:
    training = Training(epochs=epochs, engine="fused")
    databases = [generated("uniform", **W, seed=seed) for seed in range(min(n, 64))]
    return [Trial(databases[seed % len(databases)], SHAPE, training, seed=seed) for seed in range(n)]


def runs_of(trials: list[Trial]) -> list[Run]:
    databases = {trial.data: trial.data.build() for trial in trials}
    fibers = {spec: Fibers.of(database) for spec, database in databases.items()}
    return [
        prepare(place, trial, FactsTask(trial, databases[trial.data]), fibers[trial.data])
        for place, trial in enumerate(trials)
    ]


def on_gpu_alone(runs: list[Run]) -> float:
    """Seconds that the device computes, in one wave."""
    plans = [plan_for(run.sizes, len(run.fibers.keys), len(run.taus), shared_room()) for run in runs]
    tiles = {id(run.fibers): Tiles.of(run.fibers, plans[0].tile, 200, 10) for run in runs}
    wave = Wave(plans[0].kind, runs, plans, [tiles[id(run.fibers)] for run in runs])
    seconds = 0.0
    while wave.training:
        wave.launch()
        seconds += wave.kernel_seconds()
        wave.collect()
    return seconds


def on_threads_alone(runs: list[Run]) -> float:
    """Seconds from the first epoch to the last, compiled before."""
    start = time.perf_counter()
    for _ in Threads(iter(runs), min(thread_count(), len(runs))):
        pass
    return time.perf_counter() - start


def fused(n: int, epochs: int) -> tuple[float, float]:
    """Milliseconds per model-epoch: of training alone, and of the whole call, warm."""
    trials = trials_of_w(n, epochs)
    train_many(trials[:1])
    alone = min((on_gpu_alone if ON_GPU else on_threads_alone)(runs_of(trials)) for _ in range(3))
    whole = []
    for _ in range(3):
        start = time.perf_counter()
        train_many(trials)
        whole.append(time.perf_counter() - start)
    return alone / epochs / n * 1e3, min(whole) / epochs / n * 1e3


def compare() -> None:
    device = jax.local_devices()[0].device_kind
    print(f"setting W on {device}; milliseconds per model-epoch, ratio to plain PyTorch in the same run", flush=True)
    baseline = plain_pytorch(generated("uniform", **W, seed=0).build(), 1000)

    def line(name: str, alone: float, whole: float) -> None:
        ratios = f"{baseline / alone:8,.0f}x   whole call {whole:.7f} {baseline / whole:8,.0f}x"
        print(f"  {name:<34} {alone:.7f} {ratios}", flush=True)

    line("plain PyTorch, one model", baseline, baseline)
    for n in (1, 1024, 16384) if ON_GPU else (1, 64):
        epochs = 2000 if ON_GPU else max(300, 20_000 // n)
        line(f"lanes, {n:,} at once", *lanes(n, epochs, "float32"))
        line(f"fused, {n:,} models", *fused(n, 2000))
        if not ON_GPU:
            time.sleep(1)  # let the processor rest alike before each


if __name__ == "__main__":
    compare()
