"""CP fits from random starts."""

import time
from itertools import cycle

import numpy as np

from factrank.tensors.cp.cp_fit import RIDGES, CPFit, Fibers, Problem, Tensor, improve, random_start


def fit_cp(
    target: Tensor,
    rank: int,
    rng: np.random.Generator,
    *,
    seconds: float,
    mask: Fibers | None = None,
    ridge: float = 1e-3,
) -> CPFit:
    """One random start."""
    return improve(Problem(target, mask), random_start(target, rank, rng), seconds=seconds, ridge=ridge)


def fit_many(
    target: Tensor,
    rank: int,
    rng: np.random.Generator,
    *,
    seconds: float,
    starts: int,
    mask: Fibers | None = None,
) -> list[CPFit]:
    """As many starts as fit into the time, at most `starts`: converged ones first, then by residual."""
    end, found = time.monotonic() + seconds, list[CPFit]()
    for ridge in cycle(RIDGES):
        if len(found) == starts or (found and time.monotonic() > end):
            break
        left = max(end - time.monotonic(), 0.0)
        found.append(fit_cp(target, rank, rng, seconds=left, mask=mask, ridge=ridge))
    return sorted(found, key=lambda fit: (fit.status != "converged", fit.residual))
