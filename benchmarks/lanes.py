"""Lanes beside plain PyTorch, in one run, on whatever device there is.

    python benchmarks/lanes.py            # setting W
    python benchmarks/lanes.py --split    # 1,000 large trials in bounded memory

Setting W: 20 keys, 10 queries, 20 values, 200 facts, d_model 10, one head, d_qk = d_vo = 5, full-batch Adam. Plain
PyTorch is the loop a researcher writes: a module, cross-entropy, Adam, one model at a time. Beside training alone
stands the whole call, with the making of databases and weights and the collecting of results, compiled before.
"""

from __future__ import annotations

import argparse
import resource
import time

import jax
import torch

from factrank.bridges.torch_modules import to_torch
from factrank.databases.database import Database
from factrank.experiments.specs.data import generated
from factrank.experiments.specs.training_spec import Training
from factrank.experiments.specs.trial import Trial
from factrank.experiments.training import train_many
from factrank.families.attention.attention_layer import init_layer
from factrank.families.attention.layer_shape import LayerShape

SHAPE = LayerShape(d_model=10, n_heads=1, d_qk=5, d_vo=5)
W = {"n_keys": 20, "n_queries": 10, "n_values": 20}
LARGE = {"n_keys": 200, "n_queries": 100, "n_values": 200}


def plain_pytorch(database: Database, epochs: int) -> float:
    """Milliseconds per epoch of one model."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    module = to_torch(init_layer(SHAPE, *database.shape, key=0)).to(device)
    optimiser = torch.optim.Adam(module.parameters(), lr=0.01)
    keys, queries, values = torch.tensor(database.triples.T.copy(), dtype=torch.long, device=device)

    def run(n: int) -> float:
        start = time.perf_counter()
        for _ in range(n):
            optimiser.zero_grad()
            loss = torch.nn.functional.cross_entropy(module(keys, queries), values)
            loss.backward()
            optimiser.step()
        loss.item()  # waits for the device
        return time.perf_counter() - start

    run(20)
    return min(run(epochs) for _ in range(3)) / epochs * 1e3


class Stopwatch:
    """A meter that notes when how many model-epochs were done, while no model was finished yet."""

    def __init__(self) -> None:
        self.points: list[tuple[float, int]] = []

    def update(self, models_done: int, n_models: int, model_epochs: int, n_model_epochs: int) -> None:  # noqa: ARG002
        """Note the time."""
        if not models_done and model_epochs:
            self.points.append((time.perf_counter(), model_epochs))

    def milliseconds(self) -> float:
        """Per model-epoch, from the end of the first chunk on, which may have compiled."""
        (start, before), (end, after) = self.points[0], self.points[-1]
        return (end - start) / (after - before) * 1e3


def lanes(n: int, epochs: int, precision: str) -> tuple[float, float]:
    """Milliseconds per model-epoch: of training alone, and of the whole call, warm."""
    training = Training(epochs=epochs, engine="lanes", precision=precision)
    trials = [Trial(generated("uniform", **W, seed=seed), SHAPE, training, seed=seed) for seed in range(n)]
    alone, whole = [], []
    for _ in range(3):
        watch, start = Stopwatch(), time.perf_counter()
        train_many(trials, meter=watch)
        whole.append(time.perf_counter() - start)
        alone.append(watch.milliseconds())
    return min(alone), min(whole) / epochs / n * 1e3


def compare() -> None:
    device = jax.local_devices()[0]
    on_gpu = device.platform != "cpu"
    print(f"setting W on {device.device_kind}; milliseconds per model-epoch, ratio to plain PyTorch in the same run")
    baseline = plain_pytorch(generated("uniform", **W, seed=0).build(), 1000)
    print(f"  plain PyTorch, one model            {baseline:.6f}        1x")
    settings = [(1, "float32"), (1024, "float32"), (16384, "float32"), (16384, "tf32")]
    for n, precision in settings if on_gpu else [(1, "float32"), (64, "float32"), (256, "float32")]:
        alone, whole = lanes(n, 2000 if on_gpu else max(300, 20_000 // n), precision)
        print(
            f"  {n:>6} lanes, {precision:<8}              {alone:.6f} {baseline / alone:8,.0f}x"
            f"   whole call {whole:.6f} {baseline / whole:8,.0f}x",
            flush=True,
        )


def split(n_trials: int = 1000, epochs: int = 2) -> None:
    """1,000 trials with 20,000 facts each: bundles as wide as the memory budget allows."""
    training = Training(epochs=epochs, engine="lanes")
    facts = generated("uniform", **LARGE, seed=0)
    trials = [Trial(facts, SHAPE, training, seed=seed) for seed in range(n_trials)]
    start = time.perf_counter()
    results = train_many(trials)
    seconds = time.perf_counter() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    bundles = sorted({result.width for result in results}, reverse=True)
    finished = sum(result.status == "finished" for result in results)
    print(f"{finished} of {n_trials} trials of {len(facts.build()):,} facts, {epochs} epochs, bundles of {bundles}")
    print(f"peak memory {peak:.2f} GiB, {seconds:.0f} s")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--split", action="store_true")
    split() if parser.parse_args().split else compare()
