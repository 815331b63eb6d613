r"""Separation loss: a smooth penalty that is small if every value of a fiber is above every other value.

For logits $T[k, q, v] = \sum_r a_r[k]\, b_r[q]\, c_r[v]$ and a fiber (k, q) with the set of values S, the loss is

$$\log\Bigl(1 + \sum_{s \in S} \sum_{v \notin S} e^{T[k, q, v] - T[k, q, s]}\Bigr)
= \log\bigl(1 + e^h\bigr), \qquad h = \log \sum_{v \notin S} e^{T[k, q, v]} + \log \sum_{s \in S} e^{-T[k, q, s]}.$$

A fiber with h < 0 is correct: each term of the double sum is below 1. For a single value it is the cross-entropy.

*Bent* logits $T[k, q, v] = \beta_v + \sum_r c_r[v] \tanh(a_r[k]\, b_r[q] / 2)$ have the same loss. They are what heads
with the scores $a_r[k]\, b_r[q]$ write, since the logistic function of z minus that of -z is $\tanh(z / 2)$.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.sparse as sp
from jaxtyping import Bool, Float, Int

from factrank.tensors.core import FiberSets, ZeroOneTensor

Parameters = Float[np.ndarray, " parameters"]
Factors = tuple[Float[np.ndarray, "_ terms"], Float[np.ndarray, "_ terms"], Float[np.ndarray, "_ terms"]]

LARGEST_EXPONENT = 300.0
"""Exponents are cut off here; the gradient of such a hopeless fiber is still that of its worst pairs."""


@dataclass(frozen=True, eq=False)
class SeparationLoss:
    """The loss of all parameters (three factors with `n_terms` columns, row by row) on the fibers that have rivals.

    If the logits are bent, the biases of the values are the last parameters.
    """

    keys: Int[np.ndarray, " fibers"]
    queries: Int[np.ndarray, " fibers"]
    members: Bool[np.ndarray, "fibers values"]
    sum_by_key: sp.csr_array
    sum_by_query: sp.csr_array
    n_terms: int
    bent: bool = False

    @classmethod
    def of(cls, tensor: ZeroOneTensor, n_terms: int, *, bent: bool = False) -> SeparationLoss:
        """Prepares the loss of logits with this many terms."""
        fibers = FiberSets.of(tensor)
        members = fibers.members(0, len(fibers))
        kept = ~members.all(axis=1)
        keys, queries = fibers.keys[kept], fibers.queries[kept]
        by_key, by_query = (
            sp.csr_array((np.ones(len(place)), (place, np.arange(len(place)))), shape=(size, len(place)))
            for place, size in zip((keys, queries), tensor.shape[:2], strict=True)
        )
        return cls(keys, queries, members[kept], by_key, by_query, n_terms, bent)

    @cached_property
    def signs(self) -> Float[np.ndarray, "fibers values"]:
        """-1 for the values of a fiber, 1 for their rivals."""
        return np.where(self.members, -1.0, 1.0)

    @cached_property
    def cover(self) -> Float[np.ndarray, "fibers values"]:
        """Minus infinity for the values of a fiber, 0 for their rivals."""
        return np.where(self.members, -np.inf, 0.0)

    @cached_property
    def own_weights(self) -> Float[np.ndarray, "fibers values"]:
        """1 for the values of a fiber, 0 for their rivals."""
        return self.members.astype(np.float64)

    @cached_property
    def rival_weights(self) -> Float[np.ndarray, "fibers values"]:
        """0 for the values of a fiber, 1 for their rivals."""
        return 1.0 - self.own_weights

    def __len__(self) -> int:
        return len(self.keys)

    @property
    def n_parameters(self) -> int:
        """The number of entries of all three factors and of the biases."""
        return self._n_entries + int(self.bent) * int(self.members.shape[1])

    @property
    def _n_entries(self) -> int:
        rows = self.sum_by_key.shape[0] + self.sum_by_query.shape[0] + self.members.shape[1]
        return int(rows) * self.n_terms

    def factors(self, parameters: Parameters) -> Factors:
        """Returns the three factors as views."""
        first = self.sum_by_key.shape[0] * self.n_terms
        second = first + self.sum_by_query.shape[0] * self.n_terms
        parts = np.split(parameters[: self._n_entries], [first, second])
        keys, queries, values = (part.reshape(-1, self.n_terms) for part in parts)
        return keys, queries, values

    def biases(self, parameters: Parameters) -> Float[np.ndarray, " values"]:
        """Returns the biases of the values, zeros if the logits are not bent."""
        return parameters[self._n_entries :] if self.bent else np.zeros(self.members.shape[1])

    def wrong(self, parameters: Parameters, depth: float = 0.0) -> Bool[np.ndarray, " fibers"]:
        """Returns the fibers in which some value does not exceed all rivals by more than `depth`."""
        keys, queries, values = self.factors(parameters)
        terms = keys[self.keys] * queries[self.queries]
        logits = (np.tanh(terms / 2) if self.bent else terms) @ values.T + self.biases(parameters)
        lowest, highest = np.where(self.members, logits, np.inf), np.where(self.members, -np.inf, logits)
        return np.asarray(~(lowest.min(axis=1) > highest.max(axis=1) + depth))

    def evaluate(
        self, parameters: Parameters, decay: float, weights: Float[np.ndarray, " fibers"]
    ) -> tuple[float, Parameters, float]:
        """Returns the weighted loss plus decay / 2 |parameters|^2, its gradient, and the largest h of all fibers."""
        keys, queries, values = self.factors(parameters)
        at_key, at_query = keys[self.keys], queries[self.queries]
        both = at_key * at_query
        if self.bent:
            both = np.tanh(both / 2, out=both)
        logits = both @ values.T
        if self.bent:
            logits += self.biases(parameters)
        logits -= (logits + self.cover).max(axis=1, keepdims=True)
        logits *= self.signs
        odds = np.exp(np.minimum(logits, LARGEST_EXPONENT, out=logits), out=logits)
        own = np.einsum("fv,fv->f", odds, self.own_weights)
        others = np.einsum("fv,fv->f", odds, self.rival_weights)
        height = np.log(np.maximum(own, 1e-300)) + np.log(others)
        losses = np.logaddexp(0.0, height)
        slope = weights * np.exp(height - losses)
        odds *= np.where(self.members, (-slope / np.maximum(own, 1e-300))[:, None], (slope / others)[:, None])
        back = odds @ values
        if self.bent:
            back *= (1 - both**2) / 2
        gradient = [self.sum_by_key @ (back * at_query), self.sum_by_query @ (back * at_key), odds.T @ both]
        if self.bent:
            gradient.append(odds.sum(axis=0))
        loss = float(weights @ losses + decay / 2 * (parameters @ parameters))
        joined = np.concatenate([part.ravel() for part in gradient]) + decay * parameters
        return loss, joined, float(height.max(initial=-np.inf))
