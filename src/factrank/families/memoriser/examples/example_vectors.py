r"""Vectors and labels of random examples, computed from a seed and the example's index on demand, never stored.

Everything is integer arithmetic modulo $2^{32}$, identical on every device and in every precision. Let `mix` be a
permutation of 32-bit words that diffuses every bit (C. Wellons' lowbias32) and $G = \lfloor 2^{32} / \varphi \rfloor$.
For kind k (0 queries, 1 contexts, 2 labels), index i has two words

$$u = \mathrm{mix}(i + \mathrm{mix}(\mathrm{seed} + G (2k + 1))), \qquad
  v = \mathrm{mix}(i \oplus \mathrm{mix}(\mathrm{seed} + G (2k + 2))) \,|\, 1,$$

and entry j of its vector is $\mathrm{mix}(u + (j + 1) v)$, as in SplitMix; the upper 24 bits are read as a number in
[0, 1). An entry costs ten operations; a cipher would take a third of the time of a training step. Entries of a context
are numbered token by token, so a shorter context is a prefix of a longer one.

The seed is added to a constant per kind. Therefore kind k with seed $s + 2 G \bmod 2^{32}$ draws the same numbers as
kind k + 1 with seed s: the queries of seed 1,013,904,242 are the contexts of seed 0. Small seeds never collide this
way.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float32, Int, Shaped, UInt32

from factrank.families.memoriser.examples.examples import RandomExamples, VectorExamples
from factrank.nn import AnyArray

QUERIES, CONTEXTS, LABELS = range(3)
"""Kinds of random numbers."""
GOLDEN = 0x9E3779B9
BLOCK = 4096
"""Number of examples generated together on the host."""

Seed = int | np.uint32 | Shaped[Array, ""]
Words = tuple[UInt32[AnyArray, " n"], UInt32[AnyArray, " n"]]


def query_vectors(seed: Seed, numbers: Int[AnyArray, " n"], d_input: int) -> Float32[AnyArray, "n d_input"]:
    """Return the queries of the given examples, as JAX or NumPy arrays depending on `numbers`."""
    return _entries(_words(seed, QUERIES, numbers), (d_input,))


def context_vectors(
    seed: Seed, numbers: Int[AnyArray, " n"], size: tuple[int, int]
) -> Float32[AnyArray, "n context_size d_input"]:
    """Return the contexts with the given indices, each of `size` = (tokens, dimensions)."""
    return _entries(_words(seed, CONTEXTS, numbers), size)


def example_labels(seed: Seed, numbers: Int[AnyArray, " n"], n_classes: int | None) -> Shaped[AnyArray, " n"]:
    """Return the labels of the given examples: classes from 0 or, if `n_classes` is None, numbers in [0, 1).

    A class is a word modulo `n_classes`, uniform up to 2^-32.
    """
    words = _words(seed, LABELS, numbers)
    return _entries(words, ()) if n_classes is None else (words[0] % np.uint32(n_classes)).astype(np.int32)


def stored(examples: RandomExamples | VectorExamples) -> VectorExamples:
    """Return the examples as arrays on the host.

    >>> stored(RandomExamples(n_examples=5, context_size=3, d_input=4, n_classes=2, n_contexts=2)).context_of.tolist()
    [0, 1, 0, 1, 0]
    """
    if isinstance(examples, VectorExamples):
        return examples
    seed, n_examples, n_contexts = examples.seed, examples.n_examples, examples.number_of_contexts
    size = examples.context_size, examples.d_input
    return VectorExamples.of(
        _all(lambda numbers: query_vectors(seed, numbers, examples.d_input), n_examples),
        _all(lambda numbers: context_vectors(seed, numbers, size), n_contexts),
        stored_labels(examples),
        context_of=np.arange(n_examples) % n_contexts,
        n_classes=examples.n_classes,
    )


def stored_labels(examples: RandomExamples | VectorExamples) -> Shaped[np.ndarray, " n"]:
    """Return only the labels, on the host."""
    if isinstance(examples, VectorExamples):
        return examples.labels
    return _all(lambda numbers: example_labels(examples.seed, numbers, examples.n_classes), examples.n_examples)


def _all(make: Callable[[Any], Any], total: int) -> Shaped[np.ndarray, "..."]:
    """Apply `make` to all indices below `total`, in blocks and in NumPy, so nothing has to be compiled."""
    starts = range(0, total, BLOCK)
    return np.concatenate([make(np.arange(start, min(start + BLOCK, total))) for start in starts])


def _words(seed: Seed, kind: int, numbers: Int[AnyArray, " n"]) -> Words:
    """Return the start and the odd step of every index."""
    words, own = numbers.astype(np.uint32), _module_of(numbers).asarray(seed, np.uint32).reshape(1)
    first, second = (_mix(own + np.uint32(GOLDEN * (2 * kind + place) % 2**32)) for place in (1, 2))
    return _mix(words + first), _mix(words ^ second) | np.uint32(1)


def _mix(words: UInt32[AnyArray, "*size"]) -> UInt32[AnyArray, "*size"]:
    mixed: UInt32[AnyArray, "*size"] = (words ^ (words >> 16)) * np.uint32(0x7FEB352D)
    mixed = (mixed ^ (mixed >> 15)) * np.uint32(0x846CA68B)
    return mixed ^ (mixed >> 16)


def _entries(words: Words, size: tuple[int, ...]) -> Float32[AnyArray, "..."]:
    """Return vectors of numbers in [0, 1) with 24 bits, which float32 represents exactly."""
    start, step = (word.reshape(-1, *[1] * len(size)) for word in words)
    places = _module_of(start).arange(1, prod(size) + 1, dtype=np.uint32).reshape(size)
    return (_mix(start + places * step) >> 8).astype(np.float32) * np.float32(2.0**-24)


def _module_of(array: Shaped[AnyArray, "..."]) -> Any:
    return jnp if isinstance(array, jax.Array) else np
