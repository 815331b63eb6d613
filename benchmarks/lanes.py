"""Lanes beside plain PyTorch, in one run, on whatever device there is.

    python benchmarks/lanes.py            # setting W
    python benchmarks/lanes.py --split    # 1,000 large trials in bounded memory

Setting W: 20 keys, 10 queries, 20 values, 200 facts, d_model 10, one head, d_qk = d_vo = 5, full-batch Adam. Plain
PyTorch is the loop a researcher writes: a module, cross-entropy, Adam, one model at a time. A model-epoch costs the
slope between a short and a long run, so that starting and compiling are left out; the whole call, warm, is printed
beside it.
"""

from __future__ import annotations

import argparse
import resource
import time

import jax
import torch

from factrank.databases import Database
from factrank.models import LayerShape, init_layer, torch_module
from factrank.training import Training, Trial, generated, train_many

SHAPE = LayerShape(d_model=10, n_heads=1, d_qk=5, d_vo=5)
W = {"n_keys": 20, "n_queries": 10, "n_values": 20}
LARGE = {"n_keys": 200, "n_queries": 100, "n_values": 200}


def plain_pytorch(database: Database, epochs: int) -> float:
    """Milliseconds per epoch of one model."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    module = torch_module(init_layer(SHAPE, *database.shape, key=0)).to(device)
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


def lanes(n: int, epochs: int, precision: str) -> tuple[float, float]:
    """Milliseconds per model-epoch: the slope between two lengths, and the whole warm call of the longer one."""

    def run(length: int) -> float:
        start = time.perf_counter()
        training = Training(epochs=length, engine="lanes", precision=precision)
        train_many([Trial(generated("uniform", **W, seed=seed), SHAPE, training, seed) for seed in range(n)])
        return time.perf_counter() - start

    short = epochs // 5
    run(1)
    pairs = [(run(short), run(epochs)) for _ in range(3)]
    slope = min(long for _, long in pairs) - min(few for few, _ in pairs)
    return slope / (epochs - short) / n * 1e3, min(long for _, long in pairs) / epochs / n * 1e3


def compare() -> None:
    device = jax.local_devices()[0]
    on_gpu = device.platform != "cpu"
    print(f"setting W on {device.device_kind}; milliseconds per model-epoch, ratio to plain PyTorch in the same run")
    baseline = plain_pytorch(generated("uniform", **W, seed=0).build(), 1000)
    print(f"  plain PyTorch, one model            {baseline:.6f}        1x")
    for precision in ("float32", "tf32") if on_gpu else ("float32",):
        for n in (1, 1024, 16384) if on_gpu else (1, 64, 256):
            slope, whole = lanes(n, 2000 if on_gpu else max(300, 20_000 // n), precision)
            print(
                f"  {n:>6} lanes, {precision:<8}              {slope:.6f} {baseline / slope:8,.0f}x"
                f"   whole call {whole:.6f} {baseline / whole:8,.0f}x",
                flush=True,
            )


def split(n_trials: int = 1000, epochs: int = 2) -> None:
    """1,000 trials with 20,000 facts each: bundles as wide as the memory budget allows."""
    training = Training(epochs=epochs)
    facts = generated("uniform", **LARGE, seed=0)
    trials = [Trial(facts, SHAPE, training, seed) for seed in range(n_trials)]
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
