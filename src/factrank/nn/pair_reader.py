"""`PairReader`: base class of models that compute logits for (key, query) pairs."""

from __future__ import annotations

from abc import abstractmethod

import equinox as eqx
from jaxtyping import Array, Float, Int

from factrank.nn.pair_attention import FACTS, GRID, ONE, Pairing
from factrank.nn.shown_model import ShownModel
from factrank.nn.sizes import require_codes
from factrank.nn.weights import on_device

Codes = int | slice | Int[Array, "..."]
"""Selected keys or queries: one, all, or a list."""


class PairReader(ShownModel, eqx.Module):
    """A model whose single forward pass `_read` evaluates one pair, a list of pairs or every pair."""

    n_keys: int = eqx.field(static=True, kw_only=True)

    @property
    @abstractmethod
    def n_queries(self) -> int:
        """Number of query tokens."""

    @abstractmethod
    def _read(self, pairing: Pairing, keys: Codes, queries: Codes) -> Float[Array, "*pair values"]:
        """Return the logits of the pairs that `pairing` forms from the keys and queries."""

    def __call__(self, key: int | Int[Array, ""], query: int | Int[Array, ""]) -> Float[Array, " values"]:
        """Return the logits of one (key, query)."""
        require_codes(key=(key, self.n_keys), query=(query, self.n_queries))
        return on_device(self)._read(ONE, key, query)

    def logits(self, keys: Int[Array, " n"], queries: Int[Array, " n"]) -> Float[Array, "n values"]:
        """Return the logits of a list of (key, query) pairs."""
        return on_device(self)._read(FACTS, keys, queries)

    def tensor(self) -> Float[Array, "keys queries values"]:
        """Return the logit tensor L of every (key, query)."""
        return on_device(self)._read(GRID, slice(None), slice(None))
