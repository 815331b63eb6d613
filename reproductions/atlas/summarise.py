"""Summarise the files of the atlas: `python reproductions/atlas/summarise.py FOLDER`.

Writes cells.parquet (layers counted by part, kind of table, heads, widths and load) and needed-*.csv (the parameters
that each search allows; equal ends if it has an answer) next to this script, and prints the tables of the lab report.
"""

# ruff: noqa: E501 - rows of Markdown tables
from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.parquet as pq

from factrank.planning.atlas.atlas_design import PARTS_OF_ATLAS
from factrank.planning.atlas.atlas_files import read_rows
from factrank.planning.atlas.atlas_rows import LOOKS, TABLE_KINDS, row_parameters, take_rows
from factrank.planning.law.law import columns_of_rows
from factrank.planning.law.needed import searched

HERE = Path(__file__).parent


def held(rows, loss):
    """Return the stored bits per parameter, from the loss."""
    bits = columns_of_rows(rows)["bits"]
    return (bits - rows["n_facts"] * loss / np.log(2)) / row_parameters(rows)


def cells(rows):
    """Return counts and means by cell: load in quarters of an octave, widths in octaves."""
    load = columns_of_rows(rows)["bits"] / row_parameters(rows)
    groups = {
        "part": rows["part"],
        "kind": rows["kind"],
        "n_heads": 2 ** np.floor(np.log2(rows["n_heads"])).astype(int),
        "d_model": 2 ** np.floor(np.log2(rows["d_model"])).astype(int),
        "d_qk": 2 ** np.floor(np.log2(rows["d_qk"])).astype(int),
        "d_vo": 2 ** np.floor(np.log2(rows["d_vo"])).astype(int),
        "load": np.floor(4 * np.log2(load)).astype(int),
        "epochs": rows["epochs"],
        "learning_rate": rows["learning_rate"],
        "update": rows["update"],
    }
    table = pa.table(groups | {
        "recall": rows["right"] / rows["n_facts"],
        "recall_tau": rows["right_tau"] / rows["n_facts"],
        "all_facts": (rows["right"] == rows["n_facts"]).astype(float),
        "held": held(rows, rows["loss"]),
    })  # fmt: skip
    measured = [(name, "mean") for name in ("recall", "recall_tau", "all_facts", "held")]
    found = table.group_by(list(groups)).aggregate([*measured, ("recall", "stddev"), ("recall", "count")])
    names = dict(enumerate(PARTS_OF_ATLAS)), dict(enumerate(TABLE_KINDS))
    for column, name_of in zip(("part", "kind"), names, strict=True):
        words = pa.array([name_of[one] for one in found[column].to_pylist()]).dictionary_encode()
        found = found.set_column(found.schema.get_field_index(column), column, words)
    load = pa.array(2.0 ** (np.asarray(found["load"]) / 4), pa.float32())
    found = found.set_column(found.schema.get_field_index("load"), "load", load)
    small = [pa.field(one.name, pa.float32()) if pa.types.is_float64(one.type) else one for one in found.schema]
    return found.cast(pa.schema(small))


def part(rows, name):
    """Return the rows of one part."""
    return take_rows(rows, np.flatnonzero(rows["part"] == PARTS_OF_ATLAS.index(name)))


def report(rows):
    """Print the tables of the lab report."""
    main = part(rows, "main")
    uniform = take_rows(main, main["kind"] == 0)
    load = columns_of_rows(uniform)["bits"] / row_parameters(uniform)
    full, kept = uniform["right"] == uniform["n_facts"], held(uniform, uniform["loss"])
    print(
        "| bits per parameter of the table | layers | hold every fact | median recall | held, median | held, 90th percentile |\n|---|---|---|---|---|---|"
    )
    for low, high in ((0.1, 0.2), (0.2, 0.4), (0.4, 0.7), (0.7, 1), (1, 1.4), (1.4, 2), (2, 2.8), (2.8, 5)):
        at = (load >= low) & (load < high)
        recall = np.median(uniform["right"][at] / uniform["n_facts"][at])
        print(
            f"| {low:g} to {high:g} | {at.sum():,} | {full[at].mean():.4f} | {recall:.3f} | {np.median(kept[at]):.2f} | {np.quantile(kept[at], 0.9):.2f} |"
        )
    wide = (uniform["n_facts"] > 150) & (uniform["d_model"] >= 6)
    near = wide & (load > 1.3) & (load < 2.6)
    print(
        "\n(near capacity: 1.3 to 2.6 bits per parameter, more than 150 facts, d_model at least 6)"
        "\n| heads | held near capacity, median | same, if the heads write 1.3 to 4 times d_model | recall below 0.5 bits per parameter, all | same, more than 100 facts |\n|---|---|---|---|---|"
    )
    for low, high in ((1, 2), (2, 3), (3, 4), (4, 6), (6, 8), (8, 12), (12, 17)):
        own = (uniform["n_heads"] >= low) & (uniform["n_heads"] < high)
        ratio = uniform["n_heads"] * uniform["d_vo"] / uniform["d_model"]
        best, little = own & near & (ratio >= 1.3) & (ratio <= 4), own & (load < 0.5)
        recall = uniform["right"] / uniform["n_facts"]
        loads = f"{recall[little].mean():.3f} | {recall[little & (uniform['n_facts'] > 100)].mean():.3f}"
        some = f"{np.median(kept[best]):.2f}" if best.sum() > 30 else "-"
        name = str(low) if high == low + 1 else f"{low} to {high - 1}"
        print(f"| {name} | {np.median(kept[own & near]):.2f} | {some} | {loads} |")
    print("\n| d_qk, at least 4 heads | held near capacity, median | layers |\n|---|---|---|")
    for low, high in ((1, 2), (2, 3), (3, 4), (4, 6), (6, 8), (8, 12)):
        own = near & (uniform["n_heads"] >= 4) & (uniform["d_qk"] >= low) & (uniform["d_qk"] < high)
        print(f"| {low if high == low + 1 else f'{low} to {high - 1}'} | {np.median(kept[own]):.2f} | {own.sum()} |")
    longer = part(rows, "longer")
    load = columns_of_rows(longer)["bits"] / row_parameters(longer)
    over = take_rows(longer, (load > 1.5) & (longer["kind"] == 0))
    print(f"\n| epochs | held, median of {len(over['kind']):,} overloaded layers | mean recall |\n|---|---|---|")
    for look in (*LOOKS, 20_000):
        loss, right = (over["loss"], over["right"]) if look == 20_000 else (over[f"loss_{look}"], over[f"right_{look}"])
        print(f"| {look:,} | {np.median(held(over, loss)):.2f} | {np.mean(right / over['n_facts']):.3f} |")
    rates = part(rows, "rates")
    print("\n| learning rate | held near capacity, median | mean recall | layers |\n|---|---|---|---|")
    for rate in (0.001, 0.003, 0.01, 0.03, 0.1):
        some = main if rate == 0.01 else take_rows(rates, rates["learning_rate"] == rate)
        some = take_rows(some, some["kind"] == 0)
        load = columns_of_rows(some)["bits"] / row_parameters(some)
        at = (load > 1.3) & (load < 2.6)
        print(
            f"| {rate} | {np.median(held(some, some['loss'])[at]):.2f} | {np.mean((some['right'] / some['n_facts'])[at]):.3f} | {at.sum():,} |"
        )
    updates = part(rows, "updates")
    bits, trained = columns_of_rows(updates)["bits"], 2 * updates["n_heads"] * updates["d_model"] * updates["d_vo"]
    kept = (bits - updates["n_facts"] * updates["loss"] / np.log(2)) / trained
    print(
        "\n| bits per trained parameter of an update | layers | hold every fact | median recall | held, median |\n|---|---|---|---|---|"
    )
    for low, high in ((0.1, 0.2), (0.2, 0.4), (0.4, 0.7), (0.7, 1), (1, 1.5), (1.5, 2.5), (2.5, 5)):
        at = (bits / trained >= low) & (bits / trained < high)
        recall = updates["right"][at] / updates["n_facts"][at]
        print(
            f"| {low:g} to {high:g} | {at.sum():,} | {np.mean(recall == 1):.3f} | {np.median(recall):.3f} | {np.median(kept[at]):.2f} |"
        )


def main():
    """Read the files, write the summaries and print the tables."""
    rows = read_rows(sorted(Path(sys.argv[1]).rglob("*.parquet")))
    print(
        f"{len(rows['kind']):,} layers: "
        + ", ".join(f"{name} {np.sum(rows['part'] == place):,}" for place, name in enumerate(PARTS_OF_ATLAS))
    )
    pq.write_table(cells(rows), HERE / "cells.parquet", compression="zstd", compression_level=19)
    for name in ("planned", "planned larger"):
        found = searched(part(rows, name))
        parts = []
        for fraction, one in found.items():
            layers = one.layers
            names = ("bits", "n_heads", "n_keys", "n_queries", "n_values")
            kinds = [TABLE_KINDS[kind] for kind in layers["kind"].tolist()]
            parts.append(
                pa.table(
                    {
                        "recall": np.full(len(kinds), fraction),
                        "kind": kinds,
                        **{one: np.round(layers[one], 1) for one in names},
                        "at_least": one.least,
                        "at_most": one.most,
                    }
                )
            )
        pc.write_csv(pa.concat_tables(parts), HERE / f"needed-{name.replace(' ', '-')}.csv")
    report(rows)


if __name__ == "__main__":
    main()
