r"""Certificates of associative memories: every fact is checked, and its margin proved for every evaluation order.

A logit is a sum of products $e_i W_{ij} u_j$ or, with a hidden layer, $h_k V_{kj} u_j$. Matrices may be multiplied in
any order, one product at a time, and sums may be evaluated in any order. Each term then takes part in one sum over i
(of d terms), one over k if there is a hidden layer, and one over j. Under the assumptions of `arithmetic`, the error of
a logit is at most

$$\gamma_n\, |e|\,|W|\,|u| \;(n = 2d), \qquad
  \bigl(\gamma_n\, (h + \delta) + \delta\bigr)\,|V|\,|u|,\quad \delta = \gamma_d\, |e|\,|W|\;(n = m + d)$$

where $\delta$ is the error of the hidden layer, which a relu does not increase. Therefore the margin of a fact is at
least

$$\min_{y \ne f(x)}\; \ell_{f(x)} - \ell_y - \rho\,(|u_{f(x)}| + |u_y|),$$

where $\rho$ is the vector in front of |u| above; the computed errors also include what underflow can lose. The bound
depends only on the weights, so it applies to trained and constructed memories alike.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from math import inf
from typing import Any, cast

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from factrank.certificates import ARITHMETIC, Arithmetic, MarginBounds, Proof, Prover, RowBlock, storage
from factrank.databases import Database
from factrank.errors import InputError
from factrank.families.memory.associative_memory import AssociativeMemory, LinearMemory, MlpMemory
from factrank.nn import on_device
from factrank.readouts import margins


@dataclass(frozen=True, eq=False)
class MemoryProver(Prover):
    """Prover for `certify`, for a memory and a database with one query.

    The `parameters` in its certificate exclude the embeddings.

    >>> from factrank.certificates import certify
    >>> facts = Database.from_facts([("Oslo", "country", "Norway"), ("Lima", "country", "Peru")])
    >>> one = np.eye(2, dtype=np.float32)
    >>> found = certify(MemoryProver(LinearMemory(one, one, one), facts))
    >>> found.certified, found.margin, round(found.proved_margin, 5)
    (True, 1.0, 1.0)
    """

    model: AssociativeMemory
    data: Database
    fixed = ("parameters",)

    def __post_init__(self) -> None:
        require_memory(self.model, self.data)

    @property
    def forward_cells(self) -> int:
        """Number of logits per fact."""
        return self.model.n_values

    @property
    def bound_cells(self) -> int:
        """Number of logits and error bounds per fact."""
        return 2 * self.model.n_values

    @cached_property
    def _placed(self) -> AssociativeMemory:
        return on_device(self.model)

    def forward(self, block: RowBlock) -> Float[np.ndarray, " rows"]:
        """Return the margins computed by the memory's own forward pass, in its own precision."""
        keys, _, values = map(jnp.asarray, self.data.triples[block.padded].T)
        return np.asarray(_block_margins(self._placed, keys, values), np.float64)[: len(block.rows)]

    def obstacle(self) -> str:
        """Return why no bounds exist: a subclass, or weights that are infinite, NaN or too large."""
        return _why_no_bounds(self.model, ARITHMETIC[self.precision])

    def bound(self, block: RowBlock) -> MarginBounds:
        """Return the proved margins of a block of facts, by the formulas above."""
        return MarginBounds(_proved_margins(self.model, self.data, block.rows, ARITHMETIC[self.precision]))

    def details(self, proof: Proof, recall: float) -> Mapping[str, Any]:  # noqa: ARG002
        """Return the parameters as the paper counts them (without embeddings) and the bits of the facts."""
        return storage(self.model.memory_parameters, self.data.bits_by_query, recall)


def require_memory(memory: AssociativeMemory, database: Database) -> None:
    """Raise an `InputError` unless the facts are a function from the memory's inputs to its outputs."""
    if not len(database) or database.n_queries != 1 or not database.functional:
        raise InputError(
            "an associative memory stores one value per key and needs a functional database with one query and at "
            f"least one fact; got {database!r}"
        )
    if (memory.n_keys, memory.n_values) != (database.n_keys, database.n_values):
        raise InputError(
            f"the memory has {memory.n_keys} inputs and {memory.n_values} outputs, but the database has "
            f"{database.n_keys} keys and {database.n_values} values"
        )


# -------------------------------------------------------------------- the forward pass


@eqx.filter_jit
def _block_margins(memory: AssociativeMemory, keys: Int[Array, " n"], values: Int[Array, " n"]) -> Float[Array, " n"]:
    return margins(memory.logits(keys), values[:, None])


# -------------------------------------------------------------------- the proof


def _why_no_bounds(memory: AssociativeMemory, arithmetic: Arithmetic) -> str:
    """Return why the margins cannot be bounded, or an empty string if they can."""
    if type(memory) not in (LinearMemory, MlpMemory):  # a subclass may compute something else
        return f"no proof is known for a memory of the class {type(memory).__name__}"
    if not all(np.isfinite(np.asarray(part, np.float64)).all() for part in jax.tree.leaves(memory)):
        return "some weights are infinite or not a number"
    with np.errstate(over="ignore"):
        largest = 8 * _largest_result(memory)
    if not largest <= arithmetic.largest:
        return "some weights are so large that intermediate results may overflow"
    return ""


def _largest_result(memory: AssociativeMemory) -> float:
    """Return an upper bound of every intermediate result, and of everything one is multiplied with."""
    parts = [memory.inputs, *_matrices(memory), np.asarray(memory.outputs).T]
    return float(np.prod([1 + len(part) * np.abs(np.asarray(part, np.float64)).max() for part in parts]))


def _matrices(memory: AssociativeMemory) -> list[Any]:
    return [memory.w_in, memory.w_out] if isinstance(memory, MlpMemory) else [cast("LinearMemory", memory).weights]


def _proved_margins(
    memory: AssociativeMemory, database: Database, rows: Int[np.ndarray, " rows"], arithmetic: Arithmetic
) -> Float[np.ndarray, " rows"]:
    """Return a lower bound of the margin of each fact, valid for every evaluation."""
    keys, _, own = database.triples[rows].T
    inputs, outputs = (np.asarray(part, np.float64) for part in (memory.inputs, memory.outputs))
    widths = [1 + part.shape[1] for part in _matrices(memory)]
    lost = arithmetic.least * 8 * (1 + inputs.shape[1]) * float(np.prod(widths)) * _largest_result(memory)
    here = np.arange(len(own))
    streams, spreads = _proved_streams(memory, inputs[keys], arithmetic)
    logits, errors = streams @ outputs.T, spreads @ np.abs(outputs).T + lost
    leads = (logits - errors)[here, own][:, None] - (logits + errors)
    leads[here, own] = inf
    return np.asarray(leads.min(axis=1))


def _proved_streams(
    memory: AssociativeMemory, inputs: Float[np.ndarray, "n d_model"], arithmetic: Arithmetic
) -> tuple[Float[np.ndarray, "n d_model"], Float[np.ndarray, "n d_model"]]:
    r"""Return $F(e_x)$ in float64, and $\rho$, the factor of |u| in the error of a logit."""
    first, *second = (np.asarray(part, np.float64) for part in _matrices(memory))
    d_model, sizes = inputs.shape[1], np.abs(inputs) @ np.abs(first)
    if not second:
        return inputs @ first, _gamma(arithmetic, 2 * d_model) * sizes
    hidden, error = np.maximum(inputs @ first, 0.0), _gamma(arithmetic, d_model) * sizes
    spread = _gamma(arithmetic, len(second[0]) + d_model) * (hidden + error) + error
    return hidden @ second[0], spread @ np.abs(second[0])


def _gamma(arithmetic: Arithmetic, roundings: int) -> float:
    return float(arithmetic.gamma(np.array([roundings], np.float64))[0])
