r"""Readings: softmax>=tau readouts of a trained model over thresholds, temperatures and precisions.

The weights are rounded to the precision, which is also used for the forward pass and the softmax. The logits are
divided by the temperature T. The 0/1 tensor of a reading has a one at every (key, query, value) with

$$\mathrm{softmax}(L[k,q,:] / T)_v \ge \tau.$$

The softmax is computed on the host with every step rounded to the precision, except that the sum over the values is
accumulated in float32, as on accelerators. Ranks are computed once per distinct tensor, because many thresholds give
the same one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import nan
from typing import Protocol, runtime_checkable

import jax
import numpy as np
from jaxtyping import Float, Int

from factrank.databases import Database
from factrank.errors import InputError
from factrank.nn import Precision, dtype_of
from factrank.readouts.database_ranks import rank_limit
from factrank.readouts.evaluation_blocks import ReadsFacts, cells_per_pair, in_blocks, pairs, require_match
from factrank.readouts.readout import logits_of, require_threshold
from factrank.tensors.bounds import SteadyLedger, flattening_and_upper
from factrank.tensors.bounds.upper import proposition_bound
from factrank.tensors.core import Core, ZeroOneTensor
from factrank.tensors.cp import approximate_rank

CP_TOLERANCE = 1e-3
"""Maximum relative residual of a numerical CP decomposition."""


@runtime_checkable
class ReadingChoice(Protocol):
    """Settings of the readings: every combination of precision, temperature and tau is one row."""

    @property
    def taus(self) -> Sequence[float]:
        """Thresholds between 0 and 1."""

    @property
    def temperatures(self) -> Sequence[float]:
        """Temperatures, by which the logits are divided."""

    @property
    def precisions(self) -> Sequence[Precision]:
        """Precisions of the weights, forward pass and softmax."""

    @property
    def ranks(self) -> bool:
        """Whether to bound the ranks of the 0/1 tensors."""

    @property
    def cp(self) -> bool:
        """Whether to estimate their CP ranks, which may take minutes."""


def readings_of(
    model: ReadsFacts, database: Database, spec: ReadingChoice, rank_lower: float
) -> list[dict[str, object]]:
    """Return one row for every precision, temperature and tau.

    Arguments:
        model: The model.
        database: Its facts.
        spec: Settings of the readings.
        rank_lower: Certified lower bound of the rank of the database.

    Returns:
        Rows with these columns; all numbers are NaN if the logits are not finite.

        - `recall`: fraction of facts with probability at least tau.
        - `argmax`: fraction of facts recalled by argmax in this precision; ties are errors.
        - `ones`: number of ones of the 0/1 tensor.
        - `flattening`, `upper` (if `ranks`): its largest flattening rank and best upper bound, both certified.
        - `proposition` (if `ranks`): its bound from Proposition 2.1 of Wong 2025.
        - `violates` (if `ranks`): 1 if every fact is recalled although `rank_lower` exceeds the upper bound.
        - `cp` (if `cp`): smallest number of terms that a numerical search found.
    """
    require_match(model, database)
    for tau in spec.taus:
        require_threshold(tau)
    for temperature in spec.temperatures:
        if not temperature > 0:
            raise InputError(f"a temperature must be positive; got {temperature!r}")
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
    """Evaluation in one precision: argmax recall, and for each temperature the entries above the smallest tau.

    Entries are flat indices (key * n_queries + query) * n_values + value, in increasing order.
    """

    shape: tuple[int, int, int]
    facts: Int[np.ndarray, " facts"]
    finite: bool
    argmax: float
    entries: list[Int[np.ndarray, " _n"]]
    probabilities: list[Float[np.ndarray, " _n"]]


def _evaluate(model: ReadsFacts, database: Database, spec: ReadingChoice, precision: Precision) -> _Seen:
    """Evaluate all pairs in blocks, keeping only entries above the smallest tau."""
    keys, queries, values = database.triples.astype(np.int64).T
    n_queries, n_values = database.shape[1:]
    fact_pairs, n_pairs = keys * n_queries + queries, database.n_keys * n_queries
    least, right, finite = min(spec.taus, default=1.0), 0, True
    found: list[tuple[list[np.ndarray], list[np.ndarray]]] = [([], []) for _ in spec.temperatures]
    with jax.enable_x64(precision == "float64"):
        rounded = rounded_to(model, precision)
        for rows, (logits,) in in_blocks(logits_of, rounded, n_pairs, pairs(model), cells_per_pair(model)):
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


def rounded_to(model: ReadsFacts, precision: Precision) -> ReadsFacts:
    """Round the floating-point weights of a model to a precision, on the host."""

    def rounded(leaf: object) -> object:
        array = np.asarray(leaf)
        return array.astype(dtype_of(precision)) if array.dtype.kind == "f" else leaf

    result: ReadsFacts = jax.tree.map(rounded, model)
    return result


def softmax(logits: Float[np.ndarray, "n values"], temperature: float) -> Float[np.ndarray, "n values"]:
    """Return the softmax of each row at a temperature, in the precision of the logits but with sums in float32."""
    real = logits.dtype
    scaled = logits / real.type(temperature)
    with np.errstate(invalid="ignore", over="ignore"):  # the result is NaN for logits that are not finite
        powers = np.exp(scaled - scaled.max(axis=1, keepdims=True))
        total = powers.astype(np.result_type(real, np.float32)).sum(axis=1, keepdims=True).astype(real)
        return np.asarray(powers / total)


def _right(
    logits: Float[np.ndarray, "n values"], pair: Int[np.ndarray, " facts"], value: Int[np.ndarray, " facts"]
) -> int:
    """Count facts that argmax recalls: every value of their fiber is strictly above all others."""
    numbers = logits.astype(np.float64)
    belongs = np.zeros(numbers.shape, dtype=bool)
    belongs[pair, value] = True
    own = np.where(belongs, numbers, np.inf).min(axis=1)
    others = np.where(belongs, -np.inf, numbers).max(axis=1)
    return int((own > others)[pair].sum())


# -------------------------------------------------------------------- rows


def _row(seen: _Seen, at: int, tau: float, spec: ReadingChoice, rank_lower: float) -> dict[str, object]:
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
    """Return the largest flattening rank, the best certified upper bound and the bound of Proposition 2.1."""
    tensor = _tensor(content, shape)
    flattening, upper = flattening_and_upper(Core.of(tensor), SteadyLedger(rank_limit(len(tensor))))
    return float(flattening), float(upper), float(proposition_bound(tensor))


@lru_cache(maxsize=256)
def _cp_rank(content: bytes, shape: tuple[int, int, int]) -> float:
    return approximate_rank(_tensor(content, shape), CP_TOLERANCE)[0]
