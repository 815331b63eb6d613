"""Filtered ranking of held-out facts: an attention layer next to plain CP and ComplEx of about as many parameters.

    python benchmarks/ranking.py [FOLDER] [--seeds 2] [--epochs 100] [--graph nations]

FOLDER is a checkout or an unpacked source distribution of PyKEEN, which contains Nations, UMLS and Kinships with their
splits; without it, the newest source distribution is fetched into a temporary folder (see graphs.py).

Every split has each fact (h, r, t) twice, as (h, r) -> t and (t, inverse of r) -> h, so that heads and tails are both
predicted. All models are trained in the same way: softmax cross-entropy over all entities, AdamW, batches of 512 facts,
the same weight decays, and the weights of the epoch with the best MRR on the validation split. A seed determines the
start and the batches. What is printed is the mean over the seeds on the test split, at the decay that was best on the
validation split; equal logits share their mean rank, and known facts of all splits are left out.

CP (canonical polyadic): logits[h, r, t] = sum_i a[h, i] b[r, i] c[t, i].
ComplEx: logits[h, r, t] = Re sum_i e[h, i] w[r, i] conj(e[t, i]).
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float, Int

from factrank import Database, LayerShape, Splits, init_layer, ranking, read_splits
from factrank.databases import Vocabulary
from factrank.readouts import RankingReport, cross_entropies
from graphs import dataset, fetched

GRAPHS = {"nations": "Nations", "umls": "UMLS", "kinships": "Kinships"}
SHAPE = LayerShape(d_model=32, n_heads=4, d_qk=8, d_vo=8)
DECAYS = (0.0, 0.3, 1.0, 3.0)
LEARNING_RATE, BATCH, CHECKS = 0.01, 512, 20


class Cp(eqx.Module):
    """A tensor of logits as a sum of rank-one terms."""

    keys: Float[Array, "keys terms"]
    queries: Float[Array, "queries terms"]
    values: Float[Array, "values terms"]

    @property
    def n_keys(self) -> int:
        return len(self.keys)

    @property
    def n_queries(self) -> int:
        return len(self.queries)

    @property
    def n_values(self) -> int:
        return len(self.values)

    def logits(self, keys: Int[Array, " n"], queries: Int[Array, " n"]) -> Float[Array, "n values"]:
        return (self.keys[keys] * self.queries[queries]) @ self.values.T


class ComplEx(eqx.Module):
    """CP over the complex numbers, in which an entity has the same vector, conjugated, as a head and as a tail."""

    entities: Float[Array, "2 entities terms"]
    queries: Float[Array, "2 queries terms"]

    @property
    def n_keys(self) -> int:
        return self.entities.shape[1]

    @property
    def n_queries(self) -> int:
        return self.queries.shape[1]

    @property
    def n_values(self) -> int:
        return self.entities.shape[1]

    def logits(self, keys: Int[Array, " n"], queries: Int[Array, " n"]) -> Float[Array, "n values"]:
        a, b = self.entities[:, keys]
        c, d = self.queries[:, queries]
        real, imaginary = self.entities
        return (a * c - b * d) @ real.T + (a * d + b * c) @ imaginary.T


def start_of(kind: str, shape: tuple[int, int, int], key: Array) -> Any:
    """Draw a model; the numbers of terms of CP and ComplEx follow from the parameters of the layer."""
    layer = init_layer(SHAPE, *shape, key=key)
    if kind == "attention layer":
        return layer
    n_keys, n_queries, _ = shape
    keys = jax.random.split(key, 3)
    if kind == "CP":
        terms = round(layer.parameters / sum(shape))
        factors = (jax.random.normal(one, (size, terms)) for one, size in zip(keys, shape, strict=True))
        return Cp(*(terms ** (-1 / 6) * factor for factor in factors))
    terms = round(layer.parameters / (2 * (n_keys + n_queries)))
    drawn = (jax.random.normal(one, (2, size, terms)) for one, size in zip(keys, (n_keys, n_queries), strict=False))
    return ComplEx(*((2 * terms) ** (-1 / 6) * factor for factor in drawn))


def with_inverses(splits: Splits) -> Splits:
    """Add to each fact (h, r, t) the fact (t, inverse of r, h); keys and values are the same entities."""
    everything = splits.everything
    names = sorted({*everything.keys, *everything.values})
    entities = Vocabulary(names)
    relations = Vocabulary([*everything.queries, *(f"inverse of {name}" for name in everything.queries)])
    as_key, as_value = (entities.codes(vocabulary) for vocabulary in (everything.keys, everything.values))
    parts = {}
    for name, part in splits.items():
        heads, queries, tails = as_key[part.triples[:, 0]], part.triples[:, 1], as_value[part.triples[:, 2]]
        both = np.column_stack([heads, queries, tails]), np.column_stack([tails, queries + part.n_queries, heads])
        parts[name] = Database(np.concatenate(both), entities, relations, entities)
    return Splits(parts)


def trained(model: Any, splits: Splits, decay: float, epochs: int, seed: int) -> tuple[Any, float]:
    """Train a model; returns the weights with the best MRR on the validation split, and that MRR."""
    optimiser = optax.adamw(LEARNING_RATE, weight_decay=decay)
    weights, rest = eqx.partition(model, eqx.is_inexact_array)
    state = optimiser.init(weights)
    facts = jnp.asarray(splits["train"].triples)
    n_batches = max(len(facts) // BATCH, 1)

    @jax.jit
    def epoch(weights: Any, state: Any, key: Array) -> tuple[Any, Any]:
        rows = jax.random.permutation(key, len(facts))[: n_batches * BATCH].reshape(n_batches, -1)

        def step(carried: tuple[Any, Any], rows: Int[Array, " batch"]) -> tuple[tuple[Any, Any], None]:
            weights, state = carried
            keys, queries, values = facts[rows].T

            def loss(weights: Any) -> Array:
                logits = eqx.combine(weights, rest).logits(keys, queries)
                return cross_entropies(logits, values).mean()

            updates, state = optimiser.update(jax.grad(loss)(weights), state, weights)
            return (optax.apply_updates(weights, updates), state), None

        return jax.lax.scan(step, (weights, state), rows)[0]

    best, best_mrr = model, -1.0
    keys = jax.random.split(jax.random.key(seed), epochs)
    for number in range(epochs):
        weights, state = epoch(weights, state, keys[number])
        if (number + 1) % max(epochs // CHECKS, 1) == 0:
            found = eqx.combine(weights, rest)
            mrr = ranking(found, splits["valid"], splits.everything).mrr
            best, best_mrr = (found, mrr) if mrr > best_mrr else (best, best_mrr)
    return best, best_mrr


def parameters(model: Any) -> int:
    return sum(leaf.size for leaf in jax.tree.leaves(eqx.filter(model, eqx.is_inexact_array)))


def measured(kind: str, splits: Splits, seeds: int, epochs: int) -> tuple[int, float, list[RankingReport]]:
    """Return the number of parameters, the weight decay that was best on the validation split, and the tests there."""
    n_parameters, tests, valid = 0, {}, {}
    for decay in DECAYS:
        runs = []
        for seed in range(seeds):
            model = start_of(kind, splits.everything.shape, jax.random.key(seed))
            n_parameters = parameters(model)
            runs.append(trained(model, splits, decay, epochs, seed))
        valid[decay] = float(np.mean([mrr for _, mrr in runs]))
        tests[decay] = [ranking(model, splits["test"], splits.everything) for model, _ in runs]
    best = max(valid, key=lambda decay: valid[decay])
    return n_parameters, best, tests[best]


def show(title: str, splits: Splits, seeds: int, epochs: int) -> None:
    sizes = ", ".join(f"{len(part):,} {name}" for name, part in splits.items())
    print(
        f"{title}: {splits.everything.n_keys} entities, {splits.everything.n_queries} relations with inverses; {sizes}"
    )
    mrr_of_layer = 0.0
    for kind in ("attention layer", "CP", "ComplEx"):
        started = time.perf_counter()
        n_parameters, decay, reports = measured(kind, splits, seeds, epochs)
        mrr = float(np.mean([found.mrr for found in reports]))
        mrr_of_layer = mrr_of_layer or mrr
        hits = {k: float(np.mean([found.hits[k] for found in reports])) for k in reports[0].hits}
        spread = float(np.std([found.mrr for found in reports]))
        print(
            f"  {kind:16}{n_parameters:8,} parameters  decay {decay:<4} MRR {mrr:.3f} +- {spread:.3f}  "
            + "  ".join(f"Hits@{k} {share:.3f}" for k, share in hits.items())
            + f"  MRR / layer's {mrr / mrr_of_layer:.2f}  {time.perf_counter() - started:.0f} s",
            flush=True,
        )
    print(f"  {'random order':16}MRR {reports[0].metrics.chance:.3f}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", type=Path)
    parser.add_argument("--seeds", type=int, default=2, help="models of each kind (default: 2)")
    parser.add_argument("--epochs", type=int, default=100, help="epochs of training (default: 100)")
    parser.add_argument("--graph", action="append", choices=GRAPHS, help="only this graph")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = given.folder or fetched(Path(temporary))
        for name in given.graph or GRAPHS:
            splits = read_splits(dataset(folder, name), header=False, multi=True)
            show(GRAPHS[name], with_inverses(splits), given.seeds, given.epochs)


if __name__ == "__main__":
    main()
