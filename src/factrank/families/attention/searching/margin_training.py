r"""Train layers for their margins, several seeds side by side.

For the logits z of a fiber with the values S, the loss is

$$\log\Bigl(1 + \sum_{s \in S} e^{-z_s} \sum_{v \notin S} e^{z_v}\Bigr),$$

a smooth upper bound of the violated margin, $\max_v z_v - \min_s z_s$. Cross-entropy would also ask that the values of
S have equal logits, which costs parameters and proves nothing. The fibers with the smallest margins dominate.

A run trains in rounds of Adam, each with a learning rate that falls along half a cosine wave. After every round the
weights are rounded to the precision, and the seed with the largest margin is returned as soon as it is large enough
relative to its logits that a certificate is likely.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Bool, Float, Int

from factrank.databases import Database
from factrank.families.attention.attention_layer import AttentionLayer, draw_layer
from factrank.families.attention.layer_shape import LayerShape

GRID_FRACTION = 0.5
"""If at least this fraction of pairs has a fact, the logits of all pairs are computed."""

ENOUGH = 1e-2
"""A least margin, relative to the median size of the logits, from which a certificate is likely."""

CHUNKS = ((2**17, 250), (2**62, 100))
"""Steps between two looks at the clock and at the margins, for up to this many logits."""

HOPELESS = ((1000, 0.2), (2000, 0.03))
"""A size is given up if after this many steps more than this fraction of the fibers is wrong."""


FAR = 1e9
"""Stands for infinity where gradients must stay numbers."""


class Targets(NamedTuple):
    """Fibers to recall: their pairs, or None for all pairs of the grid, the values of each, and whether it counts."""

    keys: Int[Array, " fibers"] | None
    queries: Int[Array, " fibers"] | None
    belongs: Bool[Array, "fibers values"]
    counts: Bool[Array, " fibers"]


@dataclass(frozen=True)
class Rounds:
    """How a size is tried: by rounds of Adam of `steps` each, from the learning rates `rates`, from several seeds."""

    steps: int = 2000
    rates: tuple[float, ...] = (0.02, 0.01)
    seeds: int = 4
    seed: int = 0


class TrainedMargins(NamedTuple):
    """The best layer of a run, its smallest margin, and how many fibers it gets wrong."""

    layer: AttentionLayer
    margin: float
    wrong: int
    steps: int


def train_margins(
    database: Database,
    shape: LayerShape,
    rounds: Rounds,
    *,
    until: float = float("inf"),
    on_step: Callable[[int, int], None] | None = None,
) -> TrainedMargins:
    """Train layers of a shape on a table, and return the best of them.

    Arguments:
        database: the facts; several values of a (key, query) are a set.
        shape: the size of the layers.
        rounds: how long to train.
        until: time by `time.monotonic` at which to stop.
        on_step: called with the steps so far and the number of wrong fibers of the best seed.
    """
    targets = targets_of(database)
    drawn = [
        draw_layer(shape, *database.shape, rng=np.random.default_rng([rounds.seed, number]))
        for number in range(rounds.seeds)
    ]
    layers = jax.tree.map(lambda *parts: jnp.stack([jnp.asarray(part) for part in parts]), *drawn)
    done, best = 0, _best(layers, targets, 0)
    chunk = next(steps for most, steps in CHUNKS if targets.belongs.size <= most)
    for rate in rounds.rates:
        schedule = optax.cosine_decay_schedule(rate, rounds.steps)
        optimiser = optax.adam(schedule)
        state = jax.vmap(optimiser.init)(eqx.filter(layers, eqx.is_inexact_array))
        for _ in range(0, rounds.steps, chunk):
            layers, state = _steps(layers, state, targets, optimiser, chunk)
            done += chunk
            best = max(best, _best(layers, targets, done), key=lambda found: (-found.wrong, found.margin))
            if on_step is not None:
                on_step(done, best.wrong)
            if _is_enough(best, targets) or _is_hopeless(best, targets, done) or time.monotonic() > until:
                return best._replace(steps=done)
    return best._replace(steps=done)


def targets_of(database: Database) -> Targets:
    """Return the fibers of a table."""
    n_pairs = database.n_keys * database.n_queries
    pairs = database.triples[:, 0].astype(np.int64) * database.n_queries + database.triples[:, 1]
    if database.n_fibers >= GRID_FRACTION * n_pairs:
        belongs = np.zeros((n_pairs, database.n_values), dtype=bool)
        belongs[pairs, database.triples[:, 2]] = True
        return Targets(None, None, jnp.asarray(belongs), jnp.asarray(_competed(belongs)))
    distinct, fiber = np.unique(pairs, return_inverse=True)
    belongs = np.zeros((len(distinct), database.n_values), dtype=bool)
    belongs[fiber, database.triples[:, 2]] = True
    keys, queries = (jnp.asarray(codes.astype(np.int32)) for codes in np.divmod(distinct, database.n_queries))
    return Targets(keys, queries, jnp.asarray(belongs), jnp.asarray(_competed(belongs)))


def _competed(belongs: Bool[np.ndarray, "fibers values"]) -> Bool[np.ndarray, " fibers"]:
    """Return which fibers have a fact and a value to compete with."""
    return np.asarray(belongs.any(axis=1) & ~belongs.all(axis=1))


def _logits(layer: AttentionLayer, targets: Targets) -> Float[Array, "fibers values"]:
    if targets.keys is None or targets.queries is None:
        return layer.tensor().reshape(-1, layer.n_values)
    return layer.logits(targets.keys, targets.queries)


def violation(logits: Float[Array, "fibers values"], targets: Targets) -> Float[Array, " fibers"]:
    """Return the loss of each fiber; 0 for fibers without a fact or without a value to compete with."""
    inside = jax.nn.logsumexp(jnp.where(targets.belongs, -logits, -FAR), axis=1)
    outside = jax.nn.logsumexp(jnp.where(targets.belongs, -FAR, logits), axis=1)
    return jnp.where(targets.counts, jax.nn.softplus(inside + outside), 0)


def _loss(layer: AttentionLayer, targets: Targets) -> Float[Array, ""]:
    return violation(_logits(layer, targets), targets).sum() / targets.counts.sum()


@partial(jax.jit, static_argnums=(3, 4))
def _steps(
    layers: AttentionLayer, state: Any, targets: Targets, optimiser: optax.GradientTransformation, chunk: int
) -> tuple[AttentionLayer, Any]:
    def one(layer: AttentionLayer, state: Any) -> tuple[AttentionLayer, Any]:
        def step(carried: tuple[AttentionLayer, Any], _: None) -> tuple[tuple[AttentionLayer, Any], None]:
            layer, state = carried
            updates, state = optimiser.update(jax.grad(_loss)(layer, targets), state)
            return (optax.apply_updates(layer, updates), state), None

        return jax.lax.scan(step, (layer, state), None, length=chunk)[0]

    return jax.vmap(one)(layers, state)


@jax.jit
def _margins(layers: AttentionLayer, targets: Targets) -> tuple[Float[Array, "seeds fibers"], Float[Array, " seeds"]]:
    def one(layer: AttentionLayer) -> tuple[Float[Array, " fibers"], Float[Array, ""]]:
        logits = _logits(layer, targets)
        own = jnp.where(targets.belongs, logits, jnp.inf).min(axis=1)
        other = jnp.where(targets.belongs, -jnp.inf, logits).max(axis=1)
        return jnp.where(targets.counts, own - other, jnp.inf), jnp.median(jnp.abs(logits))

    return jax.vmap(one)(layers)


def _best(layers: AttentionLayer, targets: Targets, steps: int) -> TrainedMargins:
    margins, _ = (np.asarray(part, dtype=np.float64) for part in _margins(layers, targets))
    margins = np.where(np.isnan(margins), -np.inf, margins)
    wrong = (margins <= 0).sum(axis=1)
    at = min(range(len(wrong)), key=lambda seed: (wrong[seed], -margins[seed].min()))
    layer = jax.tree.map(lambda part: np.asarray(part[at]), layers)
    return TrainedMargins(layer, float(margins[at].min()), int(wrong[at]), steps)


def _is_hopeless(best: TrainedMargins, targets: Targets, steps: int) -> bool:
    n_fibers = int(targets.counts.sum())
    return any(steps >= after and best.wrong > share * n_fibers for after, share in HOPELESS)


def _is_enough(best: TrainedMargins, targets: Targets) -> bool:
    if best.wrong or not best.margin > 0:
        return False
    single = jax.tree.map(lambda part: jnp.asarray(part)[None], best.layer)
    return bool(best.margin >= ENOUGH * float(np.asarray(_margins(single, targets)[1])[0]))
