r"""Batches of examples: passes without repetition, in an order that is computed rather than stored.

With N examples, step position t is position $r = t \bmod N$ of pass $p = \lfloor t / N \rfloor$ and has example

$$i = (a_p\, r + b_p) \bmod N, \qquad \gcd(a_p, N) = 1,$$

so every pass visits every example once. The $a_p$ and $b_p$ are drawn for 1,024 passes and then repeat. Batches
continue across the end of a pass, whereas the last batch of the authors' passes is shorter; a batch of more than N
examples contains some of them twice. For independently drawn examples such an order is as good as any other. If the
numbering of given examples is meaningful, neighbours by number keep their distance within a pass.

Sizes are part of the data, so lanes with different numbers of examples share a compiled program.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, NotRequired, TypedDict

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Shaped, UInt, UInt32

from factrank.experiments import Epoch
from factrank.experiments.lanes import rung_above
from factrank.families.memoriser.examples.example_vectors import context_vectors, example_labels, query_vectors
from factrank.families.memoriser.examples.examples import Examples, RandomExamples

ORDERS = 1024
"""Number of different orders of the examples."""
HALF = 10
MOST_EXAMPLES = 2 ** (2 * HALF)
"""Limit of the exact products a r, which are computed in 32 bits from halves of 10 bits."""
MOST_VISITS = 2**31
"""Limit of step positions, which are 32-bit integers."""


@dataclass(frozen=True)
class ExampleLayout:
    """Static sizes shared by all trials of a bundle; `given` is (examples, contexts) of given examples, or None."""

    context_size: int
    d_input: int
    n_classes: int | None
    shared: bool
    given: tuple[int, int] | None

    @classmethod
    def of(cls, examples: Examples, *, padded: bool = False) -> ExampleLayout:
        """Return the layout of the examples; if `padded`, random contexts are padded to the next power of two."""
        drawn = isinstance(examples, RandomExamples)
        return cls(
            context_size=rung_above(examples.context_size) if padded and drawn else examples.context_size,
            d_input=examples.d_input,
            n_classes=examples.n_classes,
            shared=examples.number_of_contexts == 1,
            given=None if drawn else (examples.n_examples, examples.number_of_contexts),
        )


class ExampleData(TypedDict):
    """Arrays that differ between the trials of a bundle; vectors are present only for given examples.

    `n_tokens` is present when contexts are padded, and counts their real tokens.
    """

    n_examples: Int[Array, ""]
    n_contexts: Int[Array, ""]
    seed: UInt[Array, ""]
    multipliers: UInt32[Array, " orders"]
    offsets: UInt32[Array, " orders"]
    label_variance: Float[Array, ""]
    score_scale: Float[Array, ""]
    n_tokens: NotRequired[Int[Array, ""]]
    queries: NotRequired[Float[Array, "examples d_input"]]
    contexts: NotRequired[Float[Array, "contexts context_size d_input"]]
    context_of: NotRequired[Int[Array, " examples"]]
    labels: NotRequired[Shaped[Array, " examples"]]


class ExampleBatch(NamedTuple):
    """A batch of examples; a context shared by all of them is present once."""

    queries: Float[Array, "batch d_input"]
    contexts: Float[Array, "*own context_size d_input"]
    labels: Shaped[Array, " batch"]


def draw_orders(
    n_examples: int, rng: np.random.Generator
) -> tuple[UInt32[np.ndarray, " orders"], UInt32[np.ndarray, " orders"]]:
    """Draw multipliers coprime to the number of examples, and offsets."""
    found: list[int] = []
    while len(found) < ORDERS:
        drawn = rng.integers(1, n_examples + 1, ORDERS)
        found += drawn[np.gcd(drawn, n_examples) == 1].tolist()
    return np.array(found[:ORDERS], np.uint32), rng.integers(0, n_examples, ORDERS).astype(np.uint32)


def examples_of_step(data: ExampleData, epoch: Epoch, batch_size: int) -> Int[Array, " batch"]:
    """Return the indices of the examples of a step."""
    n_examples = data["n_examples"].astype(jnp.uint32)
    places = jnp.asarray(epoch, jnp.uint32) * np.uint32(batch_size) + jnp.arange(batch_size, dtype=jnp.uint32)
    order, place = places // n_examples % ORDERS, places % n_examples
    multiplier, offset = data["multipliers"][order], data["offsets"][order]
    upper = multiplier * (place >> HALF) % n_examples  # both products are below 2^30
    product = (upper << HALF) + multiplier * (place & np.uint32(2**HALF - 1))
    return ((product + offset) % n_examples).astype(jnp.int32)


def examples_at(layout: ExampleLayout, data: ExampleData, numbers: Int[Array, " batch"]) -> ExampleBatch:
    """Return the examples with the given indices, generated or looked up."""
    if layout.given is not None:
        contexts = data["contexts"][0] if layout.shared else data["contexts"][data["context_of"][numbers]]
        return ExampleBatch(data["queries"][numbers], contexts, data["labels"][numbers])
    seed, size = data["seed"], (layout.context_size, layout.d_input)
    queries, labels = query_vectors(seed, numbers, layout.d_input), example_labels(seed, numbers, layout.n_classes)
    if layout.shared:
        return ExampleBatch(queries, context_vectors(seed, jnp.zeros(1, jnp.int32), size)[0], labels)
    return ExampleBatch(queries, context_vectors(seed, numbers % data["n_contexts"], size), labels)
