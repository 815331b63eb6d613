r"""Readings: what softmax>=tau makes of one trained model, over thresholds, temperatures and precisions.

For a precision the weights are rounded to it, and the forward pass and the softmax are computed in it; for a
temperature T the logits are divided by it. The 0/1 tensor of a reading has a one at every (key, query, value) with

$$\mathrm{softmax}(L[k,q,:] / T)_v \ge \tau.$$

The softmax is computed on the host, and every step of it is rounded to the precision; only the sum over the values is
collected in float32, as accelerators do it. Thresholds often give the same tensor, and trained models that of their
database: ranks are computed once per tensor.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import nan
from typing import Literal, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from factrank.databases import Database
from factrank.errors import InputError
from factrank.readouts.database_ranks import rank_limit
from factrank.readouts.evaluation_blocks import ReadsFacts, cells_per_pair, in_blocks, pairs, require_match
from factrank.readouts.readout import require_threshold
from factrank.tensors.bounds import SteadyLedger, flattening_and_upper
from factrank.tensors.bounds.upper import proposition_bound
from factrank.tensors.core import Core, ZeroOneTensor
from factrank.tensors.cp import approximate_rank

ReadingPrecision = Literal["float32", "float64", "bfloat16"]

FORMATS: dict[str, np.dtype] = {
    "float32": np.dtype(np.float32),
    "float64": np.dtype(np.float64),
    "bfloat16": np.dtype(jnp.bfloat16),
}

CP_TOLERANCE = 1e-3
"""The relative residual from which a numerical CP decomposition counts."""


@runtime_checkable
class ReadingChoice(Protocol):
    """Which readings are looked at: every combination of precision, temperature and tau is one row.

    `ranks` asks for proxies of the rank of each 0/1 tensor, `cp` for its numerical CP rank, which may take minutes.
    """

    @property
    def taus(self) -> Sequence[float]:
        """Thresholds between 0 and 1."""

    @property
    def temperatures(self) -> Sequence[float]:
        """What the logits are divided by."""

    @property
    def precisions(self) -> Sequence[ReadingPrecision]:
        """The formats of weights, forward pass and softmax."""

    @property
    def ranks(self) -> bool:
        """Whether the ranks of the 0/1 tensors are bounded."""

    @property
    def cp(self) -> bool:
        """Whether their CP ranks are estimated."""


def readings_of(
    model: ReadsFacts, database: Database, spec: ReadingChoice, rank_lower: float
) -> list[dict[str, object]]:
    """One row for every precision, temperature and tau.

    `recall` is the share of facts with probability at least tau, `argmax` the share that argmax gets right in this
    precision (ties are wrong), `ones` the number of ones of the 0/1 tensor. With ranks: its largest `flattening` rank
    and the best `upper` bound, both certified, the `proposition` of Wong 2025 for it, and `violates`: 1 where every
    fact is recalled although the database's rank, at least `rank_lower`, exceeds the upper bound. With cp: `cp`, the
    least number of terms that a numerical search found. Where logits are not finite all numbers are NaN.
    """
    require_match(model, database)
    for tau in spec.taus:
        require_threshold(tau)
    for temperature in spec.temperatures:
        if not temperature > 0:
            raise InputError(f"a temperature is a number above 0; got {temperature!r}")
    rows = list[dict[str, object]]()
    for precision in spec.precisions:
        seen = _evaluate(model, database, spec, precision)
        for at, temperature in enumerate(spec.temperatures):
            for tau in spec.taus:
                setting = {"precision": precision, "temperature": temperature, "tau": tau}
                rows.append(setting | _row(seen, at, tau, spec, rank_lower))
    return rows


# -------------------------------------------------------------------- evaluation


@dataclass(frozen=True, eq=False)
class _Seen:
    """What one precision shows: argmax recall, and of each temperature the entries that some tau may take.

    An entry is its number in the tensor, (key * n_queries + query) * n_values + value; they are in rising order.
    """

    shape: tuple[int, int, int]
    facts: Int[np.ndarray, " facts"]
    finite: bool
    argmax: float
    entries: list[Int[np.ndarray, " _n"]]
    probabilities: list[Float[np.ndarray, " _n"]]


def _evaluate(model: ReadsFacts, database: Database, spec: ReadingChoice, precision: ReadingPrecision) -> _Seen:
    """Logits of all pairs, block by block; kept is only what the least tau lets through."""
    keys, queries, values = database.triples.astype(np.int64).T
    n_queries, n_values = database.shape[1:]
    fact_pairs, n_pairs = keys * n_queries + queries, database.n_keys * n_queries
    least, right, finite = min(spec.taus, default=1.0), 0, True
    found: list[tuple[list[np.ndarray], list[np.ndarray]]] = [([], []) for _ in spec.temperatures]
    with jax.enable_x64(precision == "float64"):
        rounded = rounded_to(model, precision)
        for rows, (logits,) in in_blocks(_logits, rounded, n_pairs, pairs(model), cells_per_pair(model)):
            first, last = np.searchsorted(fact_pairs, [rows.start, rows.stop])
            finite = finite and bool(np.isfinite(logits).all())
            right += _right(logits, fact_pairs[first:last] - rows.start, values[first:last])
            for (entries, kept), temperature in zip(found, spec.temperatures, strict=True):
                probabilities = softmax(logits, temperature).astype(np.float64)
                row, value = np.nonzero(probabilities >= least)
                entries.append((row + rows.start) * n_values + value)
                kept.append(probabilities[row, value])
    return _Seen(
        database.shape,
        fact_pairs * n_values + values,
        finite,
        right / len(keys) if len(keys) else 1.0,
        [np.concatenate(entries) for entries, _ in found],
        [np.concatenate(kept) for _, kept in found],
    )


def rounded_to(model: ReadsFacts, precision: ReadingPrecision) -> ReadsFacts:
    """The model with its real weights in this format, on the host."""

    def rounded(leaf: object) -> object:
        array = np.asarray(leaf)
        return array.astype(FORMATS[precision]) if array.dtype.kind == "f" else leaf

    result: ReadsFacts = jax.tree.map(rounded, model)
    return result


def softmax(logits: Float[np.ndarray, "n values"], temperature: float) -> Float[np.ndarray, "n values"]:
    """The probabilities of each row at a temperature, every step in the format of the logits, sums at least float32."""
    real = logits.dtype
    scaled = logits / real.type(temperature)
    with np.errstate(invalid="ignore", over="ignore"):  # logits that are not finite give no probability
        powers = np.exp(scaled - scaled.max(axis=1, keepdims=True))
        total = powers.astype(np.result_type(real, np.float32)).sum(axis=1, keepdims=True).astype(real)
        return np.asarray(powers / total)


def _right(
    logits: Float[np.ndarray, "n values"], pair: Int[np.ndarray, " facts"], value: Int[np.ndarray, " facts"]
) -> int:
    """How many facts are right under argmax: each value of their fiber stands strictly above all others."""
    numbers = logits.astype(np.float64)
    belongs = np.zeros(numbers.shape, dtype=bool)
    belongs[pair, value] = True
    own = np.where(belongs, numbers, np.inf).min(axis=1)
    others = np.where(belongs, -np.inf, numbers).max(axis=1)
    return int((own > others)[pair].sum())


def _logits(
    model: ReadsFacts, keys: Int[Array, " n"], queries: Int[Array, " n"], _option: int
) -> tuple[Float[Array, "n values"]]:
    return (model.logits(keys, queries),)


# -------------------------------------------------------------------- rows


def _row(seen: _Seen, at: int, tau: float, spec: ReadingChoice, rank_lower: float) -> dict[str, object]:
    """The numbers of one 0/1 tensor."""
    entries = seen.entries[at][seen.probabilities[at] >= tau]
    recalled = np.isin(seen.facts, entries, assume_unique=True)
    numbers = {
        "recall": float(recalled.mean()) if len(recalled) else 1.0,
        "argmax": seen.argmax,
        "ones": float(len(entries)),
    }
    if not seen.finite:
        numbers = dict.fromkeys(numbers, nan)
    content = entries.tobytes()
    if spec.ranks:
        names = ("flattening", "upper", "proposition")
        ranks = _ranks(content, seen.shape) if seen.finite else (nan, nan, nan)
        numbers |= dict(zip(names, ranks, strict=True))
        violated = numbers["recall"] == 1 and rank_lower > numbers["upper"]
        numbers["violates"] = float(violated) if seen.finite else nan
    if spec.cp:
        numbers["cp"] = _cp_rank(content, seen.shape) if seen.finite else nan
    return dict(numbers)


def _tensor(content: bytes, shape: tuple[int, int, int]) -> ZeroOneTensor:
    places = np.unravel_index(np.frombuffer(content, dtype=np.int64), shape)
    return ZeroOneTensor(np.column_stack(places).astype(np.int64), shape)


@lru_cache(maxsize=256)
def _ranks(content: bytes, shape: tuple[int, int, int]) -> tuple[float, float, float]:
    """Largest flattening rank, best certified upper bound, Proposition 2.1."""
    tensor = _tensor(content, shape)
    flattening, upper = flattening_and_upper(Core.of(tensor), SteadyLedger(rank_limit(len(tensor))))
    return float(flattening), float(upper), float(proposition_bound(tensor))


@lru_cache(maxsize=256)
def _cp_rank(content: bytes, shape: tuple[int, int, int]) -> float:
    return approximate_rank(_tensor(content, shape), CP_TOLERANCE)[0]
