r"""Ranks of the multi-head memoriser: how many arbitrary labels its values can fit with random, fixed attention.

With random query and key weights, the answer for example i is linear in the values. Its features are the vectors read
by the H heads, $z_i = [\sum_j \alpha^h_{ij} x_{ij}]_{h \le H} \in R^{Hd}$, and one linear solve can fit arbitrary real
labels if and only if the N rows are independent. Let $N_1 \ge N_2 \ge \dots \ge N_g$ be the numbers of examples with
each of the g contexts of n tokens. Let tokens span D dimensions, and let c = 1 if a constant is linearly independent of
their differences, else 0. Then, in general position and for every $d_{qk} \ge 1$,

$$\mathrm{rank}\, Z = \min_{0 \le m \le g} \Bigl[ H s_m + \min(m,\, D + c - s_m) + \sum_{i > m} N_i \Bigr],
  \qquad s_m = \min(D,\, m (n - 1)).$$

*Proof idea.* The rows of context i are in $V_i = S_i \otimes R^H + \bar x_i \otimes 1_H$, with $S_i$ the span of its
token differences, because the weights of every head sum to 1. Any m contexts span the dimension in front of the sum,
and rows in general position in given subspaces have the rank of Rado's theorem. The rows are in general position
because the softmax weights of distinct keys are linearly independent functions of the query; this requires distinct
keys but no large d_qk.

*D and c.* Without an embedding, D = d_model and c = 0. A linear embedding of rank $e = \min(d_{in}, d)$ gives D = e,
and positions add up to n - 1 dimensions outside it: $D = \min(d,\, e + n - 1)$. c = 1 if the readout has a bias, or if
D < d_model, because then the bias of the embedding is outside the span.

*Special cases.* Examples spread evenly over contexts: $\min(N,\, H s_g + \min(g,\, D + c - s_g))$. One shared context
and $n \le D + c$: $\min(N,\, H(n-1) + 1)$. One context per example and n > 1: $\min(N,\, H D + c)$. n = 1:
$\min(N,\, g,\, D + c)$ with g contexts in use, so heads do not help.

*The published bound* $H (r - 1) + 1$, $r = \min(n, d_{qk})$ (Mahdavi, Liao and Thrampoulidis 2024, arXiv 2306.02010),
equals this rank for one shared context with $d_{qk} \ge n$ and $n \le D + c$. The rank does not require $d_{qk} \ge n$,
apart from conditioning, and separate contexts increase it to H D + c.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
from jaxtyping import Int

from factrank.errors import InputError
from factrank.families.memoriser.examples import Examples

GENERIC = "queries, contexts, W_Q and W_K are in general position: distinct keys in every head, d_qk >= 1"
SCALAR = "one real label per example; m of them need d_vo >= min(d_model, m)"
CONDITIONING = "the rank is that of exact arithmetic; with d_qk < 4 or small scores floating point may see less"


@runtime_checkable
class HeadSizes(Protocol):
    """Sizes of a memoriser that determine the rank, such as `MemoriserShape`."""

    @property
    def n_heads(self) -> int:
        """Number of heads, H."""

    @property
    def d_model(self) -> int:
        """Dimension of embedded tokens."""

    @property
    def d_qk(self) -> int:
        """Dimension of queries and keys, d_h in the paper."""

    @property
    def embedded(self) -> bool:
        """Whether tokens pass through a linear embedding with a bias."""

    @property
    def positions(self) -> bool:
        """Whether sinusoidal positions are added."""


@dataclass(frozen=True)
class MemoriserRank:
    """How many arbitrary labels the values of a memoriser can fit.

    Arguments:
        rank: Rank of the N rows of features; all N labels can be fitted if it is N.
        most: The rank for many more examples with the same contexts, or with one context each if these have one each.
        published: The paper's bound H (min(n, d_qk) - 1) + 1.
        formula: The formula of the rank; g is the number of contexts in use.
        relation: How `published` relates to `most`.
        conditions: Conditions under which the rank is correct.
    """

    rank: int
    most: int
    published: int
    formula: str
    relation: str
    conditions: tuple[str, ...]


def memoriser_rank(examples: Examples, heads: HeadSizes, *, readout_bias: bool = True) -> MemoriserRank:
    """Return the predicted rank for these examples; memorisers have a readout bias.

    >>> from factrank import RandomExamples
    >>> from factrank import MemoriserShape
    >>> shape = MemoriserShape(n_heads=4, d_model=16, d_qk=8)
    >>> [memoriser_rank(RandomExamples(100, 8, 16, n_contexts=g), shape).rank for g in (1, 2, None)]
    [29, 58, 65]
    """
    counts, n = examples.context_counts, examples.context_size
    sizes = counts[counts > 0]
    dimension = token_dimension(heads, examples.d_input, n)
    constant = readout_bias or dimension < heads.d_model
    own = int(sizes.max()) == 1 and len(sizes) > 1
    rank = rank_of_sizes(sizes.tolist(), n, heads.n_heads, dimension, constant=constant)
    enough = heads.n_heads * dimension + 1
    most_contexts = max(enough, len(sizes)) if own else len(sizes)
    most, of_one = (
        even_rank(enough * contexts, contexts, n, heads.n_heads, dimension, constant=constant)
        for contexts in (most_contexts, 1)
    )
    published = published_bound(heads.n_heads, n, heads.d_qk)
    return MemoriserRank(
        rank=rank,
        most=most,
        published=published,
        formula=_formula(sizes, n, constant),
        relation=_relation(published, most, of_one, min(n, heads.d_qk), shared=len(sizes) == 1),
        conditions=(GENERIC, _tokens(heads, dimension, n), SCALAR, CONDITIONING),
    )


def memoriser_capacity(
    heads: HeadSizes, *, context_size: int, d_input: int, n_contexts: int | None = None, readout_bias: bool = True
) -> int:
    """Return the largest number of examples, spread evenly over the contexts, whose labels can all be fitted.

    If `n_contexts` is None, every example has its own context.

    >>> from factrank import MemoriserShape
    >>> shape = MemoriserShape(n_heads=4, d_model=16, d_qk=8)
    >>> [memoriser_capacity(shape, context_size=8, d_input=16, n_contexts=g) for g in (1, 2, None)]
    [29, 58, 65]
    """
    dimension = token_dimension(heads, d_input, context_size)
    constant = readout_bias or dimension < heads.d_model

    def fits(n_examples: int) -> bool:
        contexts = n_examples if n_contexts is None else n_contexts
        each, more = divmod(n_examples, contexts)
        sizes = [each + (number < more) for number in range(contexts)]
        return rank_of_sizes(sizes, context_size, heads.n_heads, dimension, constant=constant) == n_examples

    n_examples = heads.n_heads * dimension + 1
    while not fits(n_examples):
        n_examples -= 1
    return n_examples


def rank_of_sizes(
    sizes: Sequence[int], context_size: int, n_heads: int, dimension: int, *, constant: bool = False
) -> int:
    """Return the rank for given numbers of examples per context, by Rado's theorem as above.

    >>> rank_of_sizes([19, 1], 3, 4, 8), even_rank(20, 2, 3, 4, 8)
    (10, 18)
    """
    _require(sizes, context_size, n_heads, dimension)
    largest_first = np.sort(np.asarray(sizes, np.int64))[::-1]
    rest = largest_first.sum() - np.concatenate([[0], np.cumsum(largest_first)])
    return int((_spanned(np.arange(len(rest)), context_size, n_heads, dimension + constant, dimension) + rest).min())


def even_rank(
    n_examples: int, n_contexts: int, context_size: int, n_heads: int, dimension: int, *, constant: bool = False
) -> int:
    """Return the rank for N examples spread evenly over g contexts.

    It is min(N, H s + min(g, D + c - s)) with s = min(D, g (n - 1)).

    >>> [even_rank(1000, g, 8, 4, 16) for g in (1, 2, 1000)]
    [29, 58, 64]
    """
    _require([n_examples, n_contexts], context_size, n_heads, dimension)
    spanned = _spanned(np.array([n_contexts]), context_size, n_heads, dimension + constant, dimension)
    return min(n_examples, int(spanned[0]))


def attention_rank(n_examples: int, context_size: int, n_heads: int) -> int:
    """Return the rank of the attention maps, an N x Hn matrix, for any contexts: min(N, H (n - 1) + 1).

    >>> attention_rank(100, 8, 4), attention_rank(20, 8, 4)
    (29, 20)
    """
    _require([n_examples], context_size, n_heads, 1)
    return min(n_examples, n_heads * (context_size - 1) + 1)


def published_bound(n_heads: int, context_size: int, d_qk: int) -> int:
    """Return the paper's lower bound on the number of memorised examples, H (r - 1) + 1 with r = min(n, d_qk).

    >>> published_bound(20, 32, 64), published_bound(20, 32, 8)
    (621, 141)
    """
    return n_heads * (min(context_size, d_qk) - 1) + 1


def token_dimension(heads: HeadSizes, d_input: int, context_size: int) -> int:
    """Return D, the dimension of the span of all token differences."""
    if not heads.embedded:
        if d_input != heads.d_model:
            raise InputError(
                f"without an embedding, vectors must have d_model = {heads.d_model} dimensions; got {d_input}"
            )
        return heads.d_model
    outside = context_size - 1 if heads.positions else 0
    return min(heads.d_model, d_input + outside)


def _spanned(
    m: Int[np.ndarray, " counts"], context_size: int, n_heads: int, with_constant: int, dimension: int
) -> Int[np.ndarray, " counts"]:
    """Return the dimension of the span of the features of m contexts."""
    differences = np.minimum(dimension, m * (context_size - 1))
    return np.asarray(n_heads * differences + np.minimum(m, with_constant - differences))


def _require(sizes: Sequence[int], context_size: int, n_heads: int, dimension: int) -> None:
    if not len(sizes) or min(sizes) < 0 or min(context_size, n_heads, dimension) < 1:
        raise InputError(
            "the rank requires non-negative numbers of examples, and at least one context, token, head and dimension; "
            f"got {len(sizes)} contexts, {context_size} tokens, {n_heads} heads, {dimension} dimensions"
        )


def _formula(sizes: Int[np.ndarray, " contexts"], n: int, constant: bool) -> str:
    bias = " + 1" if constant else ""
    if n == 1:
        return f"min(N, g, D{bias})"
    if len(sizes) == 1:
        return "min(N, H min(n - 1, D) + 1)" if constant else "min(N, H min(n - 1, D) + [n <= D])"
    if sizes.min() == sizes.max() == 1:
        return f"min(N, H s + min(N, D{bias} - s)), s = min(D, N (n - 1))"
    if sizes.max() == sizes.min():
        return f"min(N, H s + min(g, D{bias} - s)), s = min(D, g (n - 1))"
    return f"min over m <= g of H s_m + min(m, D{bias} - s_m) + N_(m+1) + ... + N_g, s_m = min(D, m (n - 1))"


def _tokens(heads: HeadSizes, dimension: int, n: int) -> str:
    if not heads.embedded:
        return f"tokens are read as they are and span D = d_model = {dimension} dimensions"
    if dimension < heads.d_model:
        return (
            f"embedded tokens span D = {dimension} of {heads.d_model} dimensions, and the bias of the embedding lies "
            "outside of them"
        )
    return f"the embedding and {n} tokens fill D = d_model = {dimension} dimensions"


def _relation(published: int, most: int, of_one: int, r: int, *, shared: bool) -> str:
    """Describe how the bounds compare; `of_one`, the rank of one context, is between them unless below the paper's."""
    bound = f"H (r - 1) + 1 = {published} with r = min(n, d_qk) = {r}"
    if published == most:
        return f"the published {bound} is the rank" + (" of one shared context" if shared else "")
    if most < published:
        reason = "n tokens span at most D dimensions; the paper takes them to be independent"
        return f"{most} is less than the published {bound}: {reason}"
    reasons = []
    if of_one > published:
        reasons.append("the rank does not need d_qk >= n, conditioning aside")
    if most > of_one:
        reasons.append("several contexts span more than one")
    return f"{most} is more than the published {bound}: {' and '.join(reasons)}"
