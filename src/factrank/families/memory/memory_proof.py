r"""Certificates of associative memories: every fact checked, and its margin proved for every order of evaluation.

A logit is a sum of products $e_i W_{ij} u_j$, of $h_k V_{kj} u_j$ behind a hidden layer. Under the assumptions of
`arithmetic`, in whatever order it is added and whichever matrices are multiplied first (one product after another: a
term goes through one sum over i, of d terms, one over k where there is a hidden layer, and one over j), it is off by at
most

$$\gamma_n\, |e|\,|W|\,|u| \;(n = 2d), \qquad
  \bigl(\gamma_n\, (h + \delta) + \delta\bigr)\,|V|\,|u|,\quad \delta = \gamma_d\, |e|\,|W|\;(n = m + d)$$

with $\delta$ the error of the hidden layer, which a relu does not enlarge. So the margin of a fact is at least

$$\min_{y \ne f(x)}\; \ell_{f(x)} - \ell_y - \rho\,(|u_{f(x)}| + |u_y|),$$

$\rho$ the vector before |u| above, plus what is lost in results below the least normal number. The bound needs the
weights alone, and works for trained memories as for constructed ones.
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
    """What `certify` needs of a memory and a database with one query; its `parameters` lie between the embeddings.

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
        """The logits."""
        return self.model.n_values

    @property
    def bound_cells(self) -> int:
        """The logits and their errors."""
        return 2 * self.model.n_values

    @cached_property
    def _placed(self) -> AssociativeMemory:
        return on_device(self.model)

    def forward(self, block: RowBlock) -> Float[np.ndarray, " rows"]:
        """The margins in the memory's own forward pass and precision."""
        keys, _, values = map(jnp.asarray, self.data.triples[block.padded].T)
        return np.asarray(_block_margins(self._placed, keys, values), np.float64)[: len(block.rows)]

    def obstacle(self) -> str:
        """Weights that are not finite or too large, or a subclass."""
        return _why_no_bounds(self.model, ARITHMETIC[self.precision])

    def bound(self, block: RowBlock) -> MarginBounds:
        """By the formulas above."""
        return MarginBounds(_proved_margins(self.model, self.data, block.rows, ARITHMETIC[self.precision]))

    def details(self, proof: Proof, recall: float) -> Mapping[str, Any]:  # noqa: ARG002
        """The scalars that the paper counts, without embeddings, and the bits of the facts."""
        return storage(self.model.memory_parameters, self.data.bits_by_query, recall)


def require_memory(memory: AssociativeMemory, database: Database) -> None:
    """Raise an `InputError` where the facts are not a function from the memory's inputs to its outputs."""
    if not len(database) or database.n_queries != 1 or not database.functional:
        raise InputError(
            "an associative memory stores one value per key: a functional database with one query and some facts; "
            f"got {database!r}"
        )
    if (memory.n_keys, memory.n_values) != (database.n_keys, database.n_values):
        raise InputError(
            f"the memory has {memory.n_keys} inputs and {memory.n_values} outputs, the database {database.n_keys} keys "
            f"and {database.n_values} values"
        )


# -------------------------------------------------------------------- the forward pass


@eqx.filter_jit
def _block_margins(memory: AssociativeMemory, keys: Int[Array, " n"], values: Int[Array, " n"]) -> Float[Array, " n"]:
    return margins(memory.logits(keys), values[:, None])


# -------------------------------------------------------------------- the proof


def _why_no_bounds(memory: AssociativeMemory, arithmetic: Arithmetic) -> str:
    """What keeps the margins from being bounded; empty where nothing does."""
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
    """More than any intermediate result, and than all that multiplies one."""
    parts = [memory.inputs, *_matrices(memory), np.asarray(memory.outputs).T]
    return float(np.prod([1 + len(part) * np.abs(np.asarray(part, np.float64)).max() for part in parts]))


def _matrices(memory: AssociativeMemory) -> list[Any]:
    return [memory.w_in, memory.w_out] if isinstance(memory, MlpMemory) else [cast("LinearMemory", memory).weights]


def _proved_margins(
    memory: AssociativeMemory, database: Database, rows: Int[np.ndarray, " rows"], arithmetic: Arithmetic
) -> Float[np.ndarray, " rows"]:
    """A lower bound of the margin of each of these facts in every evaluation."""
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
    r"""F(e_x) of some inputs in float64, and $\rho$: what multiplies |u| in the error of a logit."""
    first, *second = (np.asarray(part, np.float64) for part in _matrices(memory))
    d_model, sizes = inputs.shape[1], np.abs(inputs) @ np.abs(first)
    if not second:
        return inputs @ first, _gamma(arithmetic, 2 * d_model) * sizes
    hidden, error = np.maximum(inputs @ first, 0.0), _gamma(arithmetic, d_model) * sizes
    spread = _gamma(arithmetic, len(second[0]) + d_model) * (hidden + error) + error
    return hidden @ second[0], spread @ np.abs(second[0])


def _gamma(arithmetic: Arithmetic, roundings: int) -> float:
    return float(arithmetic.gamma(np.array([roundings], np.float64))[0])
