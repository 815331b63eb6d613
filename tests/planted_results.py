"""Tables of results whose truth is known."""

import numpy as np
import pyarrow as pa


def planted(n_seeds, recall, d_vo=(1, 2, 3, 4), d_qk=(1, 2), database_seeds=True):
    """A full grid; `recall(d_vo, d_qk, seed)` says what each trial found."""
    rows = [(a, b, seed) for a in d_vo for b in d_qk for seed in range(n_seeds)]
    columns = {"model.d_vo": [a for a, _, _ in rows], "model.d_qk": [b for _, b, _ in rows]}
    columns |= {"seed": [seed for *_, seed in rows], "recall": [float(recall(*row)) for row in rows]}
    columns["status"] = ["finished"] * len(rows)
    return pa.table(columns | ({"data.seed": columns["seed"]} if database_seeds else {}))


def noise(*key, scale):
    return scale * np.random.default_rng([int(part) for part in key]).normal()


def linear(scale, shared=0.0):
    def recall(d_vo, d_qk, seed):
        return 0.05 * d_vo + 0.01 * d_qk + noise(seed, scale=shared) + noise(d_vo, d_qk, seed, scale=scale)

    return recall
