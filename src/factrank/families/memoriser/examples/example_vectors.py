r"""The vectors and labels of random examples, from a seed and their numbers: made where they are needed, never stored.

All of it is arithmetic of whole numbers modulo $2^{32}$, the same on every device and in every precision. With `mix` a
permutation of the words that spreads every bit over all (C. Wellons' lowbias32) and $G = \lfloor 2^{32} / \varphi
\rfloor$, what is drawn (k = 0 queries, 1 contexts, 2 labels) for number i has two words

$$u = \mathrm{mix}(i + \mathrm{mix}(\mathrm{seed} + G (2k + 1))), \qquad
  v = \mathrm{mix}(i \oplus \mathrm{mix}(\mathrm{seed} + G (2k + 2))) \,|\, 1,$$

and entry j of its vector is $\mathrm{mix}(u + (j + 1) v)$, as in SplitMix, its upper 24 bits taken as a number in
[0, 1). An entry costs ten operations; a cipher in its place would take a third of the time of a training step. Entries
of a context are numbered token by token, so that a shorter context begins a longer one.

Seeds are added to what tells the kinds apart, so that what is drawn of kind k with the seed $s + 2 G \bmod 2^{32}$ is
what is drawn of kind k + 1 with the seed s: the queries of the seed 1,013,904,242 are the contexts of the seed 0. Seeds
that are counted from 0 do not meet in this way.
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
"""What is drawn."""
GOLDEN = 0x9E3779B9
BLOCK = 4096
"""Examples that are made at once for the host."""

Seed = int | np.uint32 | Shaped[Array, ""]
Words = tuple[UInt32[AnyArray, " n"], UInt32[AnyArray, " n"]]


def query_vectors(seed: Seed, numbers: Int[AnyArray, " n"], d_input: int) -> Float32[AnyArray, "n d_input"]:
    """The queries of the examples with these numbers, in JAX or in NumPy as the numbers are."""
    return _entries(_words(seed, QUERIES, numbers), (d_input,))


def context_vectors(
    seed: Seed, numbers: Int[AnyArray, " n"], size: tuple[int, int]
) -> Float32[AnyArray, "n context_size d_input"]:
    """The contexts with these numbers, each of `size` = (tokens, dimensions)."""
    return _entries(_words(seed, CONTEXTS, numbers), size)


def example_labels(seed: Seed, numbers: Int[AnyArray, " n"], n_classes: int | None) -> Shaped[AnyArray, " n"]:
    """The labels of the examples: classes from 0, or, without classes, numbers in [0, 1).

    A class is a word modulo their number: as likely as any other up to 2^-32.
    """
    words = _words(seed, LABELS, numbers)
    return _entries(words, ()) if n_classes is None else (words[0] % np.uint32(n_classes)).astype(np.int32)


def stored(examples: RandomExamples | VectorExamples) -> VectorExamples:
    """The examples as arrays on the host; those that are arrays already are not touched.

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
    """The labels alone, on the host."""
    if isinstance(examples, VectorExamples):
        return examples.labels
    return _all(lambda numbers: example_labels(examples.seed, numbers, examples.n_classes), examples.n_examples)


def _all(make: Callable[[Any], Any], total: int) -> Shaped[np.ndarray, "..."]:
    """What belongs to the numbers from 0, made block by block in NumPy: nothing is compiled."""
    starts = range(0, total, BLOCK)
    return np.concatenate([make(np.arange(start, min(start + BLOCK, total))) for start in starts])


def _words(seed: Seed, kind: int, numbers: Int[AnyArray, " n"]) -> Words:
    """The start and the odd step of every number."""
    words, own = numbers.astype(np.uint32), _module_of(numbers).asarray(seed, np.uint32).reshape(1)
    first, second = (_mix(own + np.uint32(GOLDEN * (2 * kind + place) % 2**32)) for place in (1, 2))
    return _mix(words + first), _mix(words ^ second) | np.uint32(1)


def _mix(words: UInt32[AnyArray, "*size"]) -> UInt32[AnyArray, "*size"]:
    mixed: UInt32[AnyArray, "*size"] = (words ^ (words >> 16)) * np.uint32(0x7FEB352D)
    mixed = (mixed ^ (mixed >> 15)) * np.uint32(0x846CA68B)
    return mixed ^ (mixed >> 16)


def _entries(words: Words, size: tuple[int, ...]) -> Float32[AnyArray, "..."]:
    """The vectors of starts and steps: numbers in [0, 1) with 24 bits, which float32 holds exactly."""
    start, step = (word.reshape(-1, *[1] * len(size)) for word in words)
    places = _module_of(start).arange(1, prod(size) + 1, dtype=np.uint32).reshape(size)
    return (_mix(start + places * step) >> 8).astype(np.float32) * np.float32(2.0**-24)


def _module_of(array: Shaped[AnyArray, "..."]) -> Any:
    return jnp if isinstance(array, jax.Array) else np
