r"""Ranks of the multi-head memoriser: how many arbitrary labels its values can fit while its attention stays as drawn.

With random query and key weights the answer to example i is linear in the values: its features are what the H heads
read, $z_i = [\sum_j \alpha^h_{ij} x_{ij}]_{h \le H} \in R^{Hd}$, and arbitrary real labels can be fitted by one linear
solve if and only if the N rows are independent. Let $N_1 \ge N_2 \ge \dots \ge N_g$ examples have the g contexts of n
tokens, and let tokens span D dimensions, with c = 1 where a constant can be told from their differences, else 0. Then,
in general position and for every $d_{qk} \ge 1$,

$$\mathrm{rank}\, Z = \min_{0 \le m \le g} \Bigl[ H s_m + \min(m,\, D + c - s_m) + \sum_{i > m} N_i \Bigr],
  \qquad s_m = \min(D,\, m (n - 1)).$$

*Why.* The rows of context i lie in $V_i = S_i \otimes R^H + \bar x_i \otimes 1_H$ with $S_i$ the span of its token
differences, because the weights of every head add up to 1. Any m contexts span the dimension before the sum, and rows
in general position of given subspaces have the rank of Rado's theorem. They are so because the softmax weights of
distinct keys are independent functions of the query, which needs distinct keys and no large d_qk.

*Which D and c.* Tokens read as they are: D = d_model, c = 0. A linear embedding of rank $e = \min(d_{in}, d)$ leaves
D = e, and positions add up to n - 1 dimensions outside of it: $D = \min(d,\, e + n - 1)$. c = 1 with a bias of the
readout, or where D < d_model, since then the bias of the embedding lies outside.

*Special cases.* N spread evenly: $\min(N,\, H s_g + \min(g,\, D + c - s_g))$. One context for all and
$n \le D + c$: $\min(N,\, H(n-1) + 1)$. One per example, n > 1: $\min(N,\, H D + c)$. n = 1:
$\min(N,\, g,\, D + c)$, g those that have examples: heads do not help.

*The published bound* $H (r - 1) + 1$, $r = \min(n, d_{qk})$ (Mahdavi, Liao and Thrampoulidis 2024, arXiv 2306.02010),
is this rank for one shared context with $d_{qk} \ge n$ and $n \le D + c$. The rank needs no $d_{qk} \ge n$,
conditioning aside, and contexts of their own lift it to H D + c.
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
    """What the rank needs to know of a memoriser; a `MemoriserShape` has it."""

    @property
    def n_heads(self) -> int:
        """H."""

    @property
    def d_model(self) -> int:
        """The dimensions of embedded tokens."""

    @property
    def d_qk(self) -> int:
        """The width of queries and keys, which the paper calls d_h."""

    @property
    def embedded(self) -> bool:
        """Whether tokens go through a linear embedding with a bias."""

    @property
    def positions(self) -> bool:
        """Whether sinusoidal positions are added."""


@dataclass(frozen=True)
class MemoriserRank:
    """How many arbitrary labels the values of a memoriser can fit.

    Arguments:
        rank: of the N rows of features; all N labels can be fitted where it is N.
        most: the rank of many more examples with the same contexts (with contexts of their own where these have).
        published: the paper's bound H (min(n, d_qk) - 1) + 1.
        formula: which one gave the rank; g are the contexts that have examples.
        relation: how `published` relates to `most`.
        conditions: under which the rank holds.
    """

    rank: int
    most: int
    published: int
    formula: str
    relation: str
    conditions: tuple[str, ...]


def memoriser_rank(examples: Examples, heads: HeadSizes, *, readout_bias: bool = True) -> MemoriserRank:
    """The rank that the theory predicts for these examples; memorisers have a readout bias.

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
    """The most examples, spread evenly over the contexts, whose labels can all be fitted; None: one context each.

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
    """The rank for so many examples in each context, tokens in so many dimensions: Rado's theorem, as above.

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
    """The rank for N examples spread evenly over g contexts: min(N, H s + min(g, D + c - s)), s = min(D, g (n - 1)).

    >>> [even_rank(1000, g, 8, 4, 16) for g in (1, 2, 1000)]
    [29, 58, 64]
    """
    _require([n_examples, n_contexts], context_size, n_heads, dimension)
    spanned = _spanned(np.array([n_contexts]), context_size, n_heads, dimension + constant, dimension)
    return min(n_examples, int(spanned[0]))


def attention_rank(n_examples: int, context_size: int, n_heads: int) -> int:
    """The rank of the attention maps themselves, an N x Hn matrix, whatever the contexts: min(N, H (n - 1) + 1).

    >>> attention_rank(100, 8, 4), attention_rank(20, 8, 4)
    (29, 20)
    """
    _require([n_examples], context_size, n_heads, 1)
    return min(n_examples, n_heads * (context_size - 1) + 1)


def published_bound(n_heads: int, context_size: int, d_qk: int) -> int:
    """The paper's lower bound of the examples that can be memorised, H (r - 1) + 1 with r = min(n, d_qk).

    >>> published_bound(20, 32, 64), published_bound(20, 32, 8)
    (621, 141)
    """
    return n_heads * (min(context_size, d_qk) - 1) + 1


def token_dimension(heads: HeadSizes, d_input: int, context_size: int) -> int:
    """D, the dimensions that the differences of all tokens span."""
    if not heads.embedded:
        if d_input != heads.d_model:
            raise InputError(f"without an embedding vectors have d_model = {heads.d_model} dimensions; got {d_input}")
        return heads.d_model
    outside = context_size - 1 if heads.positions else 0
    return min(heads.d_model, d_input + outside)


def _spanned(
    m: Int[np.ndarray, " counts"], context_size: int, n_heads: int, with_constant: int, dimension: int
) -> Int[np.ndarray, " counts"]:
    """The dimension that the features of m contexts span."""
    differences = np.minimum(dimension, m * (context_size - 1))
    return np.asarray(n_heads * differences + np.minimum(m, with_constant - differences))


def _require(sizes: Sequence[int], context_size: int, n_heads: int, dimension: int) -> None:
    if not len(sizes) or min(sizes) < 0 or min(context_size, n_heads, dimension) < 1:
        raise InputError(
            "a rank needs at least one context, no negative numbers of examples, and at least one token, head and "
            f"dimension; got {len(sizes)} contexts, {context_size} tokens, {n_heads} heads, {dimension} dimensions"
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
    """In words; `of_one` is the rank of one context, which is between both others where it is not below the paper's."""
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
