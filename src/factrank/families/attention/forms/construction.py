"""Construction: what every closed form has in common: a database goes in, a layer that recalls it comes out.

A construction says whether it can hold a database in a precision and how large the layer would be, both without
building it, and builds it. It proves nothing about the weights: that is the certificate's work, from the weights and
the facts alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import inf
from typing import Any, Protocol, cast, runtime_checkable

import numpy as np
from jaxtyping import Float, Shaped

from factrank.databases import Database
from factrank.errors import InputError
from factrank.families.attention.attention_layer import AttentionLayer
from factrank.families.attention.layer_shape import LayerShape
from factrank.nn import Precision, dtype_of


@dataclass(frozen=True)
class FormSearch:
    """How long and with which random numbers a construction may look for a smaller layer, where theory leaves a choice.

    Arguments:
        seconds: a time budget for labels, code order and grouping; what is built without it is right too.
        seed: of the random choices.
    """

    seconds: float = 5.0
    seed: int = 0

    def __post_init__(self) -> None:
        if not 0 <= self.seconds < inf:
            raise InputError(f"the time for a search must be a finite number of seconds, 0 or more; got {self.seconds}")
        if isinstance(self.seed, bool) or not isinstance(self.seed, int) or self.seed < 0:
            raise InputError(f"the seed of a search must be an integer, 0 or more; got {self.seed!r}")


@dataclass(frozen=True, eq=False)
class Built:
    """A layer and where it comes from.

    Arguments:
        layer: NumPy arrays on the host, in the precision that was asked for.
        construction: its name.
        editing: plain JSON data that edits need beside the weights; empty where editing means rebuilding.
    """

    layer: AttentionLayer
    construction: str
    editing: Mapping[str, Any] = field(default_factory=dict)


@runtime_checkable
class Construction(Protocol):
    """A closed form."""

    name: str
    """What users call it."""

    estimated: bool
    """Whether `shape` is an estimate from above, because the size is known only after building."""

    def refusal(self, database: Database, precision: Precision) -> str | None:
        """Why it cannot hold this database in this precision; None where it can."""

    def shape(self, database: Database, precision: Precision) -> LayerShape:
        """The size that the layer would have."""

    def build(self, database: Database, precision: Precision, search: FormSearch) -> Built:
        """The layer; an `InputError` with the reason where it is refused."""


def host_layer(n_keys: int, precision: Precision, parts: Mapping[str, Shaped[np.ndarray, "..."]]) -> AttentionLayer:
    """A layer of NumPy arrays, each rounded to the precision.

    >>> parts = {"embedding": np.ones((2, 1)), "unembedding": np.ones((1, 1))}
    >>> heads = {name: np.ones((1, 1, 1)) for name in ("w_q", "w_k", "w_v", "w_o")}
    >>> host_layer(1, "float32", parts | heads).embedding.dtype
    dtype('float32')
    """
    dtype = dtype_of(precision)
    rounded = {name: cast("Any", part.astype(dtype, copy=False)) for name, part in parts.items()}
    return AttentionLayer(n_keys=n_keys, **rounded)


def rounded(numbers: Float[np.ndarray, "*size"], precision: Precision) -> Float[np.ndarray, "*size"]:
    """What the precision keeps of these numbers, in float64."""
    return numbers.astype(dtype_of(precision)).astype(np.float64)


def require_held(construction: Construction, database: Database, precision: Precision) -> None:
    """Raise the refusal, where there is one, as an `InputError`."""
    reason = construction.refusal(database, precision)
    if reason is not None:
        raise InputError(f"{construction.name}: {reason}")


def table_refusal(database: Database, *, functional: bool = True) -> str | None:
    """What no construction can do without: facts and, unless it takes sets, at most one value per (key, query)."""
    if not database.n_facts:
        return "the database has no facts"
    if functional and not database.functional:
        n_several = database.n_facts - database.n_fibers
        return (
            f"some (key, query) have several values ({n_several} more facts than pairs); set-valued holds such tables"
        )
    return None
