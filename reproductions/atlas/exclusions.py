"""Train layers that are excluded although they have more parameters than the information floor asks for.

`python reproductions/atlas/exclusions.py` trains each with 20 seeds on a random table and writes exclusions.csv.
"""

from __future__ import annotations

import csv
from pathlib import Path

from factrank import LayerShape
from factrank.databases.generators import generate
from factrank.planning import TableSizes, exclusion
from factrank.planning.atlas import trained_recalls
from factrank.planning.exclusions import least_parameters

PRECISION, SEEDS = "float32", range(20)

CASES = [
    # n_keys, n_queries, n_values, n_facts, d_model, n_heads, d_qk, d_vo
    (6, 2, 4, 12, 1, 2, 1, 1),
    (10, 3, 5, 30, 1, 4, 2, 1),
    (20, 5, 9, 100, 1, 8, 2, 2),
    (40, 10, 20, 400, 1, 16, 2, 2),
    (30, 4, 3, 60, 1, 3, 1, 3),
    (50, 1, 40, 50, 1, 2, 1, 1),
    (80, 40, 4, 3200, 2, 1, 1, 1),
    (80, 40, 4, 3200, 2, 1, 2, 2),
    (200, 24, 4, 4800, 2, 1, 1, 1),
    (200, 24, 4, 4800, 2, 1, 2, 2),
    (80, 24, 10, 1920, 2, 1, 1, 1),
    (80, 24, 10, 1920, 2, 1, 2, 2),
    (60, 40, 10, 2200, 2, 1, 1, 2),
    (120, 24, 20, 2500, 2, 1, 2, 1),
    (120, 40, 10, 3300, 2, 1, 1, 1),
    (60, 40, 10, 2400, 2, 2, 2, 2),
    (120, 40, 10, 3400, 2, 2, 1, 1),
    (200, 40, 20, 3960, 2, 2, 1, 1),
    (80, 64, 4, 5120, 2, 2, 2, 2),
    (120, 64, 4, 7680, 3, 1, 1, 1),
    (120, 64, 4, 7680, 3, 1, 2, 2),
    (120, 40, 10, 4800, 3, 1, 1, 1),
    (200, 40, 10, 7300, 3, 1, 2, 2),
    (120, 40, 20, 4000, 3, 1, 1, 2),
    (200, 40, 10, 8000, 4, 1, 1, 1),
    (120, 64, 10, 7680, 4, 1, 2, 2),
    (200, 64, 10, 10500, 4, 1, 2, 2),
    (200, 64, 10, 12800, 5, 1, 1, 1),
]


def tried(case):
    """Train one layer and return its line."""
    n_keys, n_queries, n_values, n_facts, *widths = case
    sizes = {"n_keys": n_keys, "n_queries": n_queries, "n_values": n_values, "n_facts": n_facts}
    table, shape = TableSizes.given(sizes), LayerShape(*widths)
    why, parameters = exclusion(table, shape, PRECISION), shape.parameters(*table.shape)
    floor = least_parameters(table, PRECISION)
    if why is None or parameters < floor:
        raise SystemExit(f"{case}: not excluded, or below the floor of {floor}: {parameters} parameters, {why}")
    recalls = trained_recalls(generate("uniform", **sizes, seed=0), [shape], SEEDS)[0]
    kind = "width 1" if shape.d_model == 1 else "rows of keys"
    names = dict(zip(("d_model", "n_heads", "d_qk", "d_vo"), widths, strict=True))
    counts = {"parameters": parameters, "floor": floor}
    best, mean = max(recalls), sum(recalls) / len(recalls)
    return {"kind": kind, **sizes, **names, **counts, "best_recall": round(best, 4), "mean_recall": round(mean, 4)}


def main():
    """Train all of them."""
    with Path(__file__).with_name("exclusions.csv").open("w", encoding="utf-8", newline="") as file:
        writer = None
        for case in CASES:
            line = tried(case)
            writer = writer or csv.DictWriter(file, line)
            if file.tell() == 0:
                writer.writeheader()
            writer.writerow(line)
            file.flush()
            print(line, flush=True)


if __name__ == "__main__":
    main()
