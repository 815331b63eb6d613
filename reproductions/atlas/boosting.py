"""Gradient boosting on the rows that the law is fitted to: `python reproductions/atlas/boosting.py FOLDER`.

It reads the columns of the law, d_model, d_qk and the number of facts. Needs scikit-learn.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
from sklearn.ensemble import HistGradientBoostingRegressor

from factrank.planning.atlas import read_rows
from factrank.planning.law.law import columns_of_rows
from factrank.planning.law.making import fitted_rows, part, recall_of


def read(rows):
    """What the trees see of rows."""
    columns = columns_of_rows(rows)
    logs = [np.log(column) for name, column in columns.items() if name != "kind"]
    more = [np.log(np.asarray(rows[name], dtype=float)) for name in ("d_model", "d_qk", "n_facts")]
    return np.stack([*logs, *more, columns["kind"]], axis=1)


def main():
    """Fit on the rows of the law, test on the fresh ones."""
    rows = read_rows(sorted(Path(sys.argv[1]).rglob("*.parquet")))
    chosen, fresh = fitted_rows(rows), part(rows, "fresh")
    boosted = HistGradientBoostingRegressor(max_iter=300).fit(read(chosen), recall_of(chosen))
    error = np.abs(np.clip(boosted.predict(read(fresh)), 0, 1) - recall_of(fresh)).mean()
    print(f"gradient boosting: mean error {error:.4f} on the fresh layers")


if __name__ == "__main__":
    main()
