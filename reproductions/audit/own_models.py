"""Audit language models of our own, whose facts are known, and write `own_models.csv` next to this file.

    python reproductions/audit/own_models.py [--keys N] [--epochs N] [--output FOLDER]

Three small decoders learn a random table (each key has a value for each of 4 queries) as sentences "key query value .".
Each is audited with the table, and what the audit says of its facts is compared with the truth:

    recall              of the model itself, in sentences as it was trained
    two tokens          of the model itself, given the key and the query alone
    attention alone     the same without MLPs and without the other layers: what the path of a layer means
    path                what the audit reports for the layer; equal to "attention alone" fact by fact, or the run fails
    best head, direct   recall by the best head alone and by the direct path, which does not read the key
    other table         recall by the path of a table with the same keys and queries and other values
    entries             fraction of the strongest entries of its heads (audit --facts) whose key has that value
    chance              that fraction for random values
    QK, OV              median effective ranks of the heads on the table, and of the heads as such

The second model is a Llama and goes through its exported folder; the others have d_qk below d_vo and go through memory.
"""

from __future__ import annotations

import argparse
import csv
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from factrank import train_many
from factrank.auditing import ModelAudit, audit, facts_in_weights, open_language_model, opened_model
from factrank.auditing.token_names import TokenTable, token_numbers
from factrank.checkpoints.heads import AttentionModel
from factrank.databases import Database
from factrank.experiments.specs import Training, Trial, generated
from factrank.families.language import LanguageModel, LanguageShape, Sentences, export_language_model
from factrank.nn import on_device

HERE = Path(__file__).parent
N_QUERIES, N_VALUES, CONTEXT, N_ENTRIES = 4, 16, 32, 5
SHAPES = {
    "attention alone": LanguageShape(32, 4, 8, 16, context=CONTEXT),
    "Llama, with an MLP": LanguageShape(32, 4, 8, 8, mlp_width=64, context=CONTEXT),
    "two layers of attention": LanguageShape(32, 4, 8, 16, n_layers=2, context=CONTEXT),
}


def main() -> None:
    """Train, audit, compare and write."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--keys", type=int, default=128)
    options.add_argument("--epochs", type=int, default=2500)
    options.add_argument("--output", type=Path, default=HERE)
    given = options.parse_args()
    spec = generated("uniform", n_keys=given.keys, n_queries=N_QUERIES, n_values=N_VALUES, seed=0)
    data = Sentences(spec, templates=1, shuffled=True)
    rows = [row for name, shape in SHAPES.items() for row in audited(name, shape, data, given.epochs)]
    with (given.output / "own_models.csv").open("w", newline="", encoding="utf-8") as file:
        table = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        table.writeheader()
        table.writerows(rows)


def audited(name: str, shape: LanguageShape, data: Sentences, epochs: int) -> Iterator[dict[str, Any]]:
    """Train one model, and return a row per layer."""
    started, database = time.perf_counter(), data.build()
    training = Training(epochs=epochs, batch_size=64, learning_rate=0.01)
    (result,) = train_many([Trial(data, shape, training, (), seed=0)])
    print(f"{name}: trained in {time.perf_counter() - started:.0f} s", file=sys.stderr)
    if shape.mlp_width:
        with tempfile.TemporaryDirectory() as folder:
            opened = opened_model(export_language_model(folder, result, data))
            yield from compared(name, opened, result.weights, result.metrics["recall"], database)
    else:
        opened = open_language_model(result, data)
        yield from compared(name, opened, result.weights, result.metrics["recall"], database)


def compared(
    name: str, opened: AttentionModel, model: LanguageModel, recall: float, database: Database
) -> Iterator[dict[str, Any]]:
    """Return what the audit reports next to the truth, one row per layer."""
    whole = audit(opened)
    assert isinstance(whole, ModelAudit)
    found = facts_in_weights(opened, table=database)
    other = facts_in_weights(opened, table=shuffled(database))
    names = [*database.keys, *database.queries, *database.values]
    entries = facts_in_weights(opened, tokens=names).heads
    truth = {(database.keys[k], database.values[v]) for k, _, v in database.triples.tolist()}
    for recalled, control, layer in zip(found.recalls, other.recalls, whole.layers, strict=True):
        own = right_alone(opened, model, database, recalled.layer)
        if not np.array_equal(own, recalled.right[:, -2]):
            sys.exit(f"{name}: the path of layer {recalled.layer} differs from the model's own forward pass")
        hits = [
            (entry.key, entry.value) in truth
            for head in entries
            if head.layer == recalled.layer
            for entry in head.entries
            if entry.key in database.keys
        ]
        yield {
            "model": name,
            "layer": recalled.layer,
            "facts": database.n_facts,
            "recall": short(recall),
            "two_tokens": short(float(right_alone(opened, model, database, None).mean())),
            "attention_alone": short(float(own.mean())),
            "path": short(recalled.whole),
            "best_head": short(max(recalled.heads)),
            "direct": short(recalled.direct),
            "other_table": short(control.whole),
            "entries_of_keys": len(hits),
            "entries_right": short(float(np.mean(hits))) if hits else "",
            "chance": short(len(truth) / (database.n_keys * database.n_values)),
            "qk_on_table": short(median(each.qk.effective_rank for each in recalled.circuits)),
            "ov_on_table": short(median(each.ov.effective_rank for each in recalled.circuits)),
            "qk": short(layer.qk_effective),
            "ov": short(layer.ov_effective),
            "rank_at_most": recalled.rank_at_most,
            "facts_at_most": recalled.most_facts,
        }


def shuffled(database: Database) -> Database:
    """Return the same pairs with the values of other facts."""
    triples, rng = database.triples.copy(), np.random.default_rng(1)
    triples[:, 2] = rng.permutation(triples[:, 2])
    return Database(triples, *database.vocabularies)


def right_alone(
    opened: AttentionModel, model: LanguageModel, database: Database, layer: int | None
) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Return which facts the model answers, given the key and the query alone.

    Arguments:
        opened: The audited model, for its tokens.
        model: The model.
        database: The facts.
        layer: The only layer whose attention is left, without MLPs; None for the whole model.
    """
    keys, queries, values = (np.array(axis) for axis in TokenTable(database).numbers(token_numbers(opened)))
    shape = model.shape
    parts = [(part, n) for n in range(shape.n_layers) for part in ("attention", "mlp")]
    removed = [] if layer is None else [part for part in parts if part != ("attention", layer)]
    tokens = np.stack([keys[database.triples[:, 0]], queries[database.triples[:, 1]]], axis=1)
    with jax.default_matmul_precision("highest"):
        held = on_device(model)
        states = held.states(jnp.asarray(tokens), removed)[:, -1]
        logits = np.asarray(states @ held.outputs.T)[:, values]
    return np.asarray(logits.argmax(axis=1) == database.triples[:, 2])


def short(value: float) -> float:
    """Round to four digits."""
    return float(f"{value:.4g}")


if __name__ == "__main__":
    main()
