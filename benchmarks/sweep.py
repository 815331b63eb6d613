"""The mixed sweep: thousands of models of thousands of shapes in one call (for a GPU).

    python benchmarks/sweep.py

(20, 10, 20), (40, 5, 20), (10, 20, 20) and (50, 20, 50) keys, queries and values, all pairs with a fact; d_model 4, 6,
8, 10, 12; 1 and 2 heads; every d_qk and d_vo up to d_model; 6 seeds: 17,280 models of 2,880 shapes, 2,000 epochs. Once
in a cold process, its start, imports and the compilation of kernels included, and once warm: kernels compiled before,
the device initialised by a small call.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time

SIZES = [(50, 20, 50), (20, 10, 20), (40, 5, 20), (10, 20, 20)]


def sweep_trials() -> list:
    from factrank.experiments.specs.data import generated
    from factrank.experiments.specs.training_spec import Training
    from factrank.experiments.specs.trial import Trial
    from factrank.families.attention.layer_shape import LayerShape

    training, trials = Training(epochs=2000), []
    for n_keys, n_queries, n_values in SIZES:
        for seed in range(6):
            facts = generated("uniform", n_keys=n_keys, n_queries=n_queries, n_values=n_values, seed=seed)
            shapes = [(d, h) for d in (4, 6, 8, 10, 12) for h in (1, 2)]
            widths = [(d, h, qk, vo) for d, h in shapes for qk in range(1, d + 1) for vo in range(1, d + 1)]
            trials += [Trial(facts, LayerShape(*sizes), training, seed=seed) for sizes in widths]
    return trials


def sweep(name: str) -> None:
    from factrank.experiments.training import train_many

    trials = sweep_trials()
    if name == "warm":
        train_many(trials[:: len(trials) // 40])
    start = time.perf_counter()
    results = train_many(trials)
    seconds = time.perf_counter() - start
    engines = sorted({(result.engine, result.device) for result in results})
    recall = sum(result.recall for result in results) / len(results)
    n_epochs = sum(result.epochs for result in results)
    print(f"  {name}: {len(results):,} models, {n_epochs:,} model-epochs in {seconds:.2f} s", flush=True)
    print(f"    by {engines}, mean recall {recall:.4f}", flush=True)


def main() -> None:
    print("the mixed sweep; seconds of wall time", flush=True)
    with tempfile.TemporaryDirectory() as nothing_compiled:
        start = time.perf_counter()
        folders = dict.fromkeys(("CUPY_CACHE_DIR", "FACTRANK_CACHE", "NUMBA_CACHE_DIR"), nothing_compiled)
        subprocess.run([sys.executable, __file__, "cold"], check=True, env=os.environ | folders)
        print(f"    the cold process as a whole: {time.perf_counter() - start:.2f} s", flush=True)
    subprocess.run([sys.executable, __file__, "warm"], check=True)


if __name__ == "__main__":
    sweep(sys.argv[1]) if len(sys.argv) > 1 else main()
