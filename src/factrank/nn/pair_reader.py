"""PairReader: a model that reads (key, query) pairs through one forward pass, whichever pairs are wanted."""

from __future__ import annotations

from abc import abstractmethod

import equinox as eqx
from jaxtyping import Array, Float, Int

from factrank.nn.pair_attention import FACTS, GRID, ONE, Pairing
from factrank.nn.sizes import require_codes
from factrank.nn.weights import on_device

Codes = int | slice | Int[Array, "..."]
"""Which keys or queries are read: one, all, or a list."""


class PairReader(eqx.Module):
    """Logits of one pair, of a list of pairs and of every pair, from the one forward pass `_read`."""

    n_keys: int = eqx.field(static=True, kw_only=True)

    @property
    @abstractmethod
    def n_queries(self) -> int:
        """Number of query tokens."""

    @abstractmethod
    def _read(self, pairing: Pairing, keys: Codes, queries: Codes) -> Float[Array, "*pair values"]:
        """The logits of the pairs that the pairing makes of these keys and queries."""

    def __call__(self, key: int | Int[Array, ""], query: int | Int[Array, ""]) -> Float[Array, " values"]:
        """The logits of one (key, query)."""
        require_codes(key=(key, self.n_keys), query=(query, self.n_queries))
        return on_device(self)._read(ONE, key, query)

    def logits(self, keys: Int[Array, " n"], queries: Int[Array, " n"]) -> Float[Array, "n values"]:
        """The logits of a list of (key, query) pairs."""
        return on_device(self)._read(FACTS, keys, queries)

    def tensor(self) -> Float[Array, "keys queries values"]:
        """The model's tensor L: the logits of every (key, query)."""
        return on_device(self)._read(GRID, slice(None), slice(None))
