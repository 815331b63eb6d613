r"""Examples: a query vector and a context of vectors, with a label to memorise.

Example i is a query $e_i \in R^d$, a context $E_i \in R^{n \times d}$ of n tokens and a label $y_i$, a class or a real
number (Mahdavi, Liao and Thrampoulidis 2024, arXiv 2306.02010). Several examples may share a context; `context_of` maps
examples to contexts.

`RandomExamples` are generated on demand: the contexts of N = 130,000 examples with n = 32 and d = 64 would take 1 GB.
`VectorExamples` are given as arrays, such as token vectors of real data.
"""

from __future__ import annotations

import hashlib
from dataclasses import astuple, dataclass
from functools import cached_property
from math import log2, nan
from typing import Any

import numpy as np
from jaxtyping import Float, Float64, Int, Int64, Shaped

from factrank.errors import InputError

LARGEST = 2**31 - 1
"""Largest number of examples, whose indices are 32-bit integers."""
LARGEST_SEED = 2**32 - 1


@dataclass(frozen=True)
class RandomExamples:
    """Uniform random examples, both a specification in a trial and the examples themselves.

    Vectors and labels depend only on the seed and the index of the example or context, so the first N examples are the
    same for any `n_examples` of at least N.

    Arguments:
        n_examples: Number of examples, N.
        context_size: Number of tokens in a context, n.
        d_input: Dimension of the vectors, whose entries are uniform in [0, 1).
        n_classes: Number of classes, all equally likely. If None, labels are uniform in [0, 1).
        n_contexts: Number of contexts, g: example i has context i mod g. If None, every example has its own.
        seed: Seed of the vectors and labels.

    >>> examples = RandomExamples(n_examples=1000, context_size=32, n_classes=100, n_contexts=1)
    >>> examples.number_of_contexts, round(examples.bits)
    (1, 6644)
    """

    n_examples: int
    context_size: int
    d_input: int = 64
    n_classes: int | None = None
    n_contexts: int | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("n_examples", "context_size", "d_input"):
            _require_integer(name, getattr(self, name), 1, LARGEST)
        _require_integer("seed", self.seed, 0, LARGEST_SEED)
        if self.n_classes is not None:
            _require_integer("n_classes", self.n_classes, 2, LARGEST)
        if self.n_contexts is not None:
            _require_integer("n_contexts", self.n_contexts, 1, LARGEST)
            if self.n_contexts > self.n_examples:
                raise InputError(f"n_contexts must be at most n_examples = {self.n_examples}; got {self.n_contexts}")

    def build(self) -> RandomExamples:
        """Return the examples unchanged; they are generated on demand."""
        return self

    @property
    def number_of_contexts(self) -> int:
        """Number of different contexts."""
        return self.n_examples if self.n_contexts is None else self.n_contexts

    @property
    def context_counts(self) -> Int64[np.ndarray, " contexts"]:
        """Number of examples with each context; these differ by at most 1."""
        each, more = divmod(self.n_examples, self.number_of_contexts)
        return each + (np.arange(self.number_of_contexts) < more).astype(np.int64)

    @property
    def n_outputs(self) -> int:
        """Number of outputs of a model: one logit per class, or 1 for a real label."""
        return self.n_classes or 1

    @property
    def bits(self) -> float:
        """Information in the labels, N log2(classes); NaN for real labels."""
        return nan if self.n_classes is None else self.n_examples * log2(self.n_classes)

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of the specification."""
        return hashlib.sha256(f"factrank random examples 1 {astuple(self)}".encode("ascii")).hexdigest()


@dataclass(frozen=True, eq=False, repr=False)
class VectorExamples:
    """Examples given as read-only arrays; create them with `of`.

    >>> numbers = np.random.default_rng(0)
    >>> VectorExamples.of(numbers.random((6, 4)), numbers.random((3, 4)), np.array([0, 1, 2, 0, 1, 2]))
    VectorExamples(6 examples: 1 context of 3 vectors in 4 dimensions -> 3 classes)
    """

    queries: Float[np.ndarray, "examples d_input"]
    contexts: Float[np.ndarray, "contexts context_size d_input"]
    context_of: Int64[np.ndarray, " examples"]
    labels: Shaped[np.ndarray, " examples"]
    n_classes: int | None

    @classmethod
    def of(
        cls,
        queries: Any,
        contexts: Any,
        labels: Any,
        *,
        context_of: Any = None,
        n_classes: int | None = None,
    ) -> VectorExamples:
        """Validate arrays and make examples of them.

        float16 vectors become float32, integers and longer floats become float64; float32 and float64 are kept. Real
        labels become float64.

        Arguments:
            queries: The query vectors, [N, d].
            contexts: The contexts, [g, n, d], or one context [n, d] shared by all examples.
            labels: The N labels; integers are classes from 0, floats are numbers to reproduce.
            context_of: Index of the context of each example. Optional with one context, or with one per example.
            n_classes: Number of classes; by default the largest label plus 1.

        Raises:
            InputError: an array has the wrong shape or type, or contains infinite, NaN or out-of-range numbers.
        """
        vectors = _vectors("queries", queries, 2)
        several = _array("contexts", contexts)
        many = _vectors("contexts", several[None] if several.ndim == 2 else several, 3)
        if many.shape[2] != vectors.shape[1]:
            raise InputError(f"queries have {vectors.shape[1]} dimensions but contexts have {many.shape[2]}")
        real = np.result_type(vectors, many)
        numbers = _context_numbers(context_of, len(vectors), len(many))
        codes, classes = _labels(labels, len(vectors), n_classes)
        return cls(_frozen(vectors.astype(real)), _frozen(many.astype(real)), numbers, codes, classes)

    @property
    def n_examples(self) -> int:
        """Number of examples, N."""
        return len(self.queries)

    @property
    def context_size(self) -> int:
        """Number of tokens in a context."""
        return int(self.contexts.shape[1])

    @property
    def d_input(self) -> int:
        """Dimension of the vectors."""
        return int(self.queries.shape[1])

    @property
    def number_of_contexts(self) -> int:
        """Number of contexts, including any that no example uses."""
        return len(self.contexts)

    @property
    def context_counts(self) -> Int64[np.ndarray, " contexts"]:
        """Number of examples with each context."""
        return np.bincount(self.context_of, minlength=self.number_of_contexts).astype(np.int64)

    @property
    def n_outputs(self) -> int:
        """Number of outputs of a model: one logit per class, or 1 for a real label."""
        return self.n_classes or 1

    @property
    def bits(self) -> float:
        """Information in the labels, N log2(classes); NaN for real labels."""
        return nan if self.n_classes is None else self.n_examples * log2(self.n_classes)

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of the arrays."""
        digest = hashlib.sha256(f"factrank vector examples 1 {self.n_classes}".encode("ascii"))
        for array in (self.queries, self.contexts, self.context_of, self.labels):
            little = array.astype(array.dtype.newbyteorder("<"))
            digest.update(f"{little.dtype.str} {little.shape}".encode("ascii"))
            digest.update(little.tobytes())
        return digest.hexdigest()

    def __eq__(self, other: object) -> bool:
        return self.fingerprint == other.fingerprint if isinstance(other, VectorExamples) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.fingerprint)

    def __repr__(self) -> str:
        contexts = "1 context" if self.number_of_contexts == 1 else f"{self.number_of_contexts} contexts"
        label = "a real label" if self.n_classes is None else f"{self.n_classes} classes"
        sizes = f"{contexts} of {self.context_size} vectors in {self.d_input} dimensions"
        return f"VectorExamples({self.n_examples} examples: {sizes} -> {label})"


Examples = RandomExamples | VectorExamples


def _require_integer(name: str, value: object, least: int, most: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise InputError(f"{name} must be an integer from {least} to {most}; got {value!r}")


def _vectors(name: str, given: Any, n_axes: int) -> Float[np.ndarray, "..."]:
    """Return finite vectors as float32 or float64."""
    array = _array(name, given)
    axes = {2: "[examples, dimensions]", 3: "[contexts, tokens, dimensions]"}[n_axes]
    if array.ndim != n_axes or not array.size:
        raise InputError(f"{name} must be a non-empty array {axes}; got shape {list(array.shape)}")
    if array.dtype.kind not in "fiu":
        raise InputError(f"{name} must be real numbers; got {array.dtype}")
    as_real = array.astype(np.float32) if array.dtype in (np.float16, np.float32) else _double(array)
    if not np.isfinite(as_real).all():
        raise InputError(f"{name} must be finite; entry {_first(~np.isfinite(as_real))} is not")
    return as_real


def _double(array: Shaped[np.ndarray, "*axes"]) -> Float64[np.ndarray, "*axes"]:
    """Convert to float64; numbers that are too large become infinite."""
    with np.errstate(over="ignore"):
        return array.astype(np.float64)


def _context_numbers(given: Any, n_examples: int, n_contexts: int) -> Int64[np.ndarray, " examples"]:
    if given is None and n_contexts not in (1, n_examples):
        raise InputError(f"context_of is required: {n_examples} examples share {n_contexts} contexts")
    if given is None:
        return _frozen(np.arange(n_examples, dtype=np.int64) % n_contexts)
    numbers = _whole("context_of", given, n_examples)
    wrong = (numbers < 0) | (numbers >= n_contexts)
    if wrong.any():
        at = _first(wrong)
        raise InputError(f"context_of must be integers from 0 to {n_contexts - 1}; entry {at} is {numbers[at]}")
    return _frozen(numbers.astype(np.int64))


def _labels(given: Any, n_examples: int, n_classes: int | None) -> tuple[Shaped[np.ndarray, " examples"], int | None]:
    """Return the labels, and the number of classes if they are integers."""
    array = _array("labels", given)
    if array.dtype.kind == "f":
        if n_classes is not None:
            raise InputError("n_classes requires integer labels; these are real numbers")
        if array.shape != (n_examples,):
            raise InputError(f"labels must be {n_examples} numbers, one per example; got shape {list(array.shape)}")
        real = _double(array)
        if not np.isfinite(real).all():
            raise InputError(f"labels must be finite; entry {_first(~np.isfinite(real))} is not")
        return _frozen(real), None
    codes = _whole("labels", array, n_examples)
    classes = max(2, int(codes.max()) + 1) if n_classes is None else n_classes
    _require_integer("n_classes", classes, 2, LARGEST)
    wrong = (codes < 0) | (codes >= classes)
    if wrong.any():
        at = _first(wrong)
        raise InputError(f"labels must be classes from 0 to {classes - 1}; entry {at} is {codes[at]}")
    return _frozen(codes.astype(np.int64)), classes


def _whole(name: str, given: Any, n_examples: int) -> Int[np.ndarray, " examples"]:
    array = _array(name, given)
    if array.dtype.kind not in "iu" or array.shape != (n_examples,):
        wanted = f"{n_examples} integers, one per example"
        raise InputError(f"{name} must be {wanted}; got {array.dtype} of shape {list(array.shape)}")
    return array


def _array(name: str, given: Any) -> Shaped[np.ndarray, "..."]:
    try:
        return np.asarray(given)
    except ValueError as error:  # rows of different lengths
        raise InputError(f"{name} must be an array: {error}") from None


def _first(wrong: Shaped[np.ndarray, "..."]) -> int | tuple[int, ...]:
    """Return the index of the first True."""
    place = tuple(map(int, np.argwhere(wrong)[0]))
    return place[0] if len(place) == 1 else place


def _frozen(array: Shaped[np.ndarray, "*axes"]) -> Shaped[np.ndarray, "*axes"]:
    """Return a read-only copy."""
    copy = np.array(array)
    copy.setflags(write=False)
    return copy
