r"""Exact features of the multi-head memoriser modulo a prime: the witness of the ranks of `memoriser_rank`.

Vectors and weights are random integers, so that scores are integers l too, and the exponential $e^{l}$ becomes $b^{l}$
for a base b modulo p. A minor of the features that is not 0 modulo p is a rational function of b that is not 0, hence
not 0 at all but finitely many real bases $b = e^{1/T}$, that is, temperatures: the rank modulo p is a certified lower
bound of the rank in general position. The upper bound is the proof in `memoriser_rank`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Int

from factrank.families.memoriser.ranks.label_ranks import HeadSizes
from factrank.tensors.matrix import PRIME, rank_mod_prime

WEIGHTS, VECTORS = 2**10, 2**20
"""Entries are drawn between minus these and these: few vectors and keys coincide, even in one dimension."""

BASE = 3


@dataclass(frozen=True, eq=False)
class ModularFeatures:
    """What the heads read of every example, and the attention they read it with, modulo `PRIME`."""

    attention: Int[np.ndarray, "examples heads context_size"]
    read: Int[np.ndarray, "examples heads d_model"]

    def rank(self, *, readout_bias: bool = False) -> int:
        """The rank of the N x Hd features, with a column of ones for a readout bias."""
        rows = self.read.reshape(len(self.read), -1)
        ones = np.ones((len(rows), 1), np.int64)
        return rank_mod_prime(np.concatenate([rows, ones], axis=1) if readout_bias else rows)

    def attention_rank(self) -> int:
        """The rank of the N x Hn attention maps."""
        return rank_mod_prime(self.attention.reshape(len(self.attention), -1))


def modular_features(
    sizes: Sequence[int], context_size: int, heads: HeadSizes, d_input: int, *, seed: int = 0
) -> ModularFeatures:
    """Features of random examples, so many in each context, of a memoriser with random weights.

    >>> from factrank import MemoriserShape
    >>> shape = MemoriserShape(n_heads=4, d_model=8, d_qk=1, embedded=False, positions=False)
    >>> modular_features([19, 1], 3, shape, 8).rank()  # an even formula would say 18
    10
    """
    rng = np.random.default_rng(seed)
    context_of = np.repeat(np.arange(len(sizes)), sizes)
    asking = _integers(rng, (len(context_of), d_input), VECTORS)
    contexts = _integers(rng, (len(sizes), context_size, d_input), VECTORS)
    embedding, bias = np.eye(d_input, dtype=np.int64), np.zeros(heads.d_model, np.int64)
    if heads.embedded:
        embedding, bias = _integers(rng, (d_input, heads.d_model)), _integers(rng, (heads.d_model,))
    positions = _integers(rng, (context_size + 1, heads.d_model)) * heads.positions
    queries = asking @ embedding + bias + positions[0]
    tokens = contexts @ embedding + bias + positions[1:]
    w_q, w_k = (_integers(rng, (heads.n_heads, heads.d_model, heads.d_qk)) for _ in range(2))
    # Exponents are taken modulo p - 1, so that every product of two numbers stays below 2^53.
    order = PRIME - 1
    asked = np.einsum("nd,hde->nhe", queries % order, w_q) % order
    offered = np.einsum("cjd,hde->cjhe", tokens % order, w_k)[context_of] % order
    scores = np.einsum("nhe,njhe->nhj", asked, offered) % order
    raised = _power(np.full_like(scores, BASE), scores)
    total = raised.sum(axis=2, keepdims=True) % PRIME
    if not total.all():
        raise ArithmeticError("a sum of exponentials is 0 modulo the prime; take another seed")
    attention = raised * _power(total, np.full_like(total, PRIME - 2)) % PRIME
    return ModularFeatures(attention, np.einsum("nhj,njd->nhd", attention, (tokens % PRIME)[context_of]) % PRIME)


def _integers(rng: np.random.Generator, size: tuple[int, ...], most: int = WEIGHTS) -> Int[np.ndarray, "..."]:
    return rng.integers(-most, most + 1, size)


def _power(base: Int[np.ndarray, "*size"], exponent: Int[np.ndarray, "*size"]) -> Int[np.ndarray, "*size"]:
    """Powers modulo p, by squaring."""
    result = np.ones_like(base)
    for bit in range(PRIME.bit_length()):
        result = np.where(exponent >> bit & 1, result * base % PRIME, result)
        base = base * base % PRIME
    return np.asarray(result)
