"""Compares our numerical CP with TensorLy on the same tensors and ranks.

    python benchmarks/cp.py

For each tensor: what TensorLy's `parafac` reaches and in how many seconds, then what our alternating least squares and
our Levenberg-Marquardt reach, what they say at the end, and the ratio of the times. Five seeds, one BLAS thread.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
from tensorly.decomposition import parafac
from threadpoolctl import threadpool_limits

from factrank.databases.generators.random_tables import uniform
from factrank.tensors.core.zero_one import ZeroOneTensor
from factrank.tensors.cp.als import improve_by_sweeps
from factrank.tensors.cp.cp_fit import CPFit, Problem, improve, random_start

REPEATS = 5
SECONDS = 60.0


def fit_cp(target: np.ndarray, rank: int, rng: np.random.Generator, seconds: float) -> CPFit:
    """Levenberg-Marquardt from one random start."""
    return improve(Problem(target), random_start(target, rank, rng), seconds=seconds, ridge=1e-3)


def als_cp(target: np.ndarray, rank: int, rng: np.random.Generator, seconds: float) -> CPFit:
    """Alternating least squares from one random start."""
    first, second, third = (rng.normal(size=(size, rank)) for size in target.shape)
    return improve_by_sweeps(target, (first, second, third), seconds=seconds)


def planted(shape: tuple[int, int, int], rank: int) -> np.ndarray:
    rng = np.random.default_rng(12345)
    return np.einsum("ir,jr,kr->ijk", *(rng.normal(size=(size, rank)) for size in shape))


def random_table(*shape: int) -> np.ndarray:
    return ZeroOneTensor.of(uniform(*shape, seed=0)).dense().astype(np.float64)


def timed(run: Callable[[int], object]) -> tuple[float, list[object]]:
    """Median seconds over a few seeds, and what each gave."""
    seconds, results = [], []
    for seed in range(REPEATS):
        start = time.perf_counter()
        results.append(run(seed))
        seconds.append(time.perf_counter() - start)
    return float(np.median(seconds)), results


def tensorly_residual(tensor: np.ndarray, rank: int, seed: int) -> float:
    _, errors = parafac(tensor, rank, init="random", n_iter_max=1000, tol=1e-8, random_state=seed, return_errors=True)
    return float(errors[-1])


def line(name: str, seconds: float, residuals: list[float], says: str, baseline: float) -> None:
    best, worst = min(residuals), max(residuals)
    print(f"  {name:<22} {seconds:8.3f} s  residual {best:.1e} to {worst:.1e}  {says:<28} x{baseline / seconds:.2f}")


def compare(name: str, tensor: np.ndarray, rank: int) -> None:
    print(f"{name}, R = {rank}")
    baseline, residuals = timed(lambda seed: tensorly_residual(tensor, rank, seed))
    line("TensorLy parafac", baseline, [float(r) for r in residuals], "a residual, no status", baseline)
    for ours, run in (
        ("ours, ALS", lambda seed: als_cp(tensor, rank, np.random.default_rng(seed), seconds=SECONDS)),
        ("ours, LM", lambda seed: fit_cp(tensor, rank, np.random.default_rng(seed), seconds=SECONDS)),
    ):
        seconds, results = timed(run)
        fits = [fit for fit in results if isinstance(fit, CPFit)]
        says = ", ".join(sorted({fit.status for fit in fits}))
        line(ours, seconds, [fit.residual for fit in fits], says, baseline)


def main() -> None:
    with threadpool_limits(1, user_api="blas"):
        compare("planted 20 x 10 x 20", planted((20, 10, 20), 12), 12)
        compare("planted 50 x 20 x 50", planted((50, 20, 50), 20), 20)
        compare("random table 20 x 10 x 20", random_table(20, 10, 20), 20)


if __name__ == "__main__":
    main()
