"""The interface of closed forms: from a database to a layer that recalls it.

Without building the layer, a form reports whether it can store a database in a given precision, and the size of the
layer. It proves nothing about the weights: the certificate is computed from the weights and the facts alone.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from math import inf
from typing import Any, Protocol, cast, runtime_checkable

import numpy as np
from jaxtyping import Shaped

from factrank.databases import Database
from factrank.errors import InputError
from factrank.families.attention.attention_layer import AttentionLayer
from factrank.families.attention.layer_shape import LayerShape
from factrank.nn import Precision, dtype_of


@dataclass(frozen=True)
class FormSearch:
    """Limits of the search for a smaller layer, if theory leaves a choice.

    Arguments:
        seconds: time budget for labels, code order and grouping; the layer is correct even with 0 seconds.
        seed: seed of the random choices.
    """

    seconds: float = 5.0
    seed: int = 0

    def __post_init__(self) -> None:
        if not 0 <= self.seconds < inf:
            raise InputError(f"the search time must be a finite number of seconds, at least 0; got {self.seconds}")
        if isinstance(self.seed, bool) or not isinstance(self.seed, int) or self.seed < 0:
            raise InputError(f"the search seed must be an integer, at least 0; got {self.seed!r}")


@dataclass(frozen=True, eq=False)
class Built:
    """A layer and its origin.

    Arguments:
        layer: NumPy arrays on the host, in the requested precision.
        construction: the name of the form.
        editing: JSON data that editing needs in addition to the weights; empty if editing means rebuilding.
    """

    layer: AttentionLayer
    construction: str
    editing: Mapping[str, Any] = field(default_factory=dict)


@runtime_checkable
class Construction(Protocol):
    """The protocol of a closed form."""

    name: str
    """Name of the form, as users type it."""

    estimated: bool
    """Whether `shape` is an upper estimate because the size is known only after building."""

    def refusal(self, database: Database, precision: Precision) -> str | None:
        """Return why the form cannot store this database in this precision; None if it can."""

    def shape(self, database: Database, precision: Precision) -> LayerShape:
        """Return the size of the layer without building it."""

    def build(self, database: Database, precision: Precision, search: FormSearch) -> Built:
        """Build the layer; an `InputError` gives the reason if the form is refused.

        Raises:
            SearchError: the form has to search, and found nothing in the time; other forms are tried then.
        """


class ClosedForm(ABC):
    """Base class of the forms in this package: checks the table, then the limits of the form."""

    name: str
    estimated = False
    functional = True
    """Whether the form requires at most one value per (key, query)."""

    def refusal(self, database: Database, precision: Precision) -> str | None:
        """Return why the form cannot store this database in this precision; None if it can."""
        return table_refusal(database, functional=self.functional) or self._limit(database, precision)

    def build(self, database: Database, precision: Precision, search: FormSearch) -> Built:
        """Build the layer; an `InputError` gives the reason if the form is refused."""
        reason = self.refusal(database, precision)
        if reason is not None:
            raise InputError(f"{self.name}: {reason}")
        return self._build(database, precision, search)

    @abstractmethod
    def shape(self, database: Database, precision: Precision) -> LayerShape:
        """Return the size of the layer without building it."""

    def _limit(self, database: Database, precision: Precision) -> str | None:
        return None

    @abstractmethod
    def _build(self, database: Database, precision: Precision, search: FormSearch) -> Built: ...


def host_layer(n_keys: int, precision: Precision, parts: Mapping[str, Shaped[np.ndarray, "..."]]) -> AttentionLayer:
    """Return a layer of NumPy arrays, each rounded to the precision.

    >>> parts = {"embedding": np.ones((2, 1)), "unembedding": np.ones((1, 1))}
    >>> heads = {name: np.ones((1, 1, 1)) for name in ("w_q", "w_k", "w_v", "w_o")}
    >>> host_layer(1, "float32", parts | heads).embedding.dtype
    dtype('float32')
    """
    dtype = dtype_of(precision)
    rounded = {name: cast("Any", part.astype(dtype, copy=False)) for name, part in parts.items()}
    return AttentionLayer(n_keys=n_keys, **rounded)


def table_refusal(database: Database, *, functional: bool = True) -> str | None:
    """Return why no form can store the table: no facts or, if `functional`, several values for a (key, query)."""
    if not database.n_facts:
        return "the database has no facts"
    if functional and not database.functional:
        more = f"{database.n_facts - database.n_fibers} more facts than pairs"
        return f"some (key, query) have several values ({more}); logits and set-valued hold such tables"
    return None
