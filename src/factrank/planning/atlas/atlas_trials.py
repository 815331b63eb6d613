"""A row of the atlas as an ordinary trial, which trains it again to the same bits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from factrank.databases import Database
from factrank.experiments import train_many
from factrank.experiments.specs import Curve, Given, TauRecall, Training, Trial, generated
from factrank.families.attention import LayerShape
from factrank.planning.atlas.atlas_rows import LOOKS, TABLE_KINDS, TAU
from factrank.planning.atlas.atlas_tables import sampled

USUAL = Training()
"""Default training of planned layers, the same as in the atlas."""

UPDATE_FROZEN = ("embedding", "unembedding", "w_k", "w_q")


FUNCTIONS = {"associations": "random", "injections": "injective"}
"""Tables with one query, and their names in the generator."""


def trial_of_row(row: Mapping[str, Any]) -> Trial:
    """Return the trial of a row; for a sample it names the table by fingerprint (`table_of_row` returns it)."""
    looks = tuple(look for look in LOOKS if look < row["epochs"])
    return Trial(
        data_of_row(row),
        LayerShape(row["d_model"], row["n_heads"], row["d_qk"], row["d_vo"]),
        Training(
            epochs=row["epochs"],
            learning_rate=row["learning_rate"],
            frozen=UPDATE_FROZEN if row["update"] else (),
            engine="fused",
        ),
        measures=(TauRecall((TAU,)), *([Curve(looks)] if looks else [])),
        seed=row["seed"],
    )


def trained_recalls(
    table: Database, shapes: Sequence[LayerShape], seeds: Sequence[int], training: Training = USUAL
) -> list[list[float]]:
    """Return the recall of each shape, trained on a table from each seed."""
    spec = Given(table.fingerprint)
    trials = [Trial(spec, shape, training, seed=seed) for shape in shapes for seed in seeds]
    recalls = [result.recall for result in train_many(trials, databases=[table])]
    return [recalls[at : at + len(seeds)] for at in range(0, len(recalls), len(seeds))]


def data_of_row(row: Mapping[str, Any]) -> Any:
    """Return the data of a row as trials describe them."""
    kind, n_keys, n_queries, n_values = TABLE_KINDS[row["kind"]], row["n_keys"], row["n_queries"], row["n_values"]
    if kind == "sample":
        return Given(table_of_row(row).fingerprint)
    if kind in FUNCTIONS:
        sizes = {"n_inputs": n_keys, "n_outputs": n_values, "kind": FUNCTIONS[kind]}
        return generated("associations", **sizes, seed=row["table_seed"])
    is_full, own_values = row["n_facts"] == n_keys * n_queries, {"values_per_query": n_values // n_queries}
    some = {} if is_full else {"n_facts": row["n_facts"]}
    rest = {
        "uniform": {"n_values": n_values, **some},
        "disjoint": {**own_values, **some},
        "structured": {**own_values, "n_classes": row["n_classes"]},
        "zipf": {"n_values": n_values, "n_facts": row["n_facts"], "exponent": float(row["exponent"])},
        "overlapping-boxes": {"rank": n_values},
        "bijections": {},
    }[kind]
    return generated(kind, n_keys=n_keys, n_queries=n_queries, **rest, seed=row["table_seed"])


def table_of_row(row: Mapping[str, Any]) -> Database:
    """Return the facts of a row."""
    if TABLE_KINDS[row["kind"]] == "sample":
        return sampled(row["n_classes"], row["n_keys"], row["table_seed"])
    table: Database = data_of_row(row).build()
    return table
