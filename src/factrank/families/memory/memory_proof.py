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

from collections.abc import Iterator
from math import inf
from typing import Any, cast

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from factrank.certificates import ARITHMETIC, Arithmetic, ReaderCertificate, fingerprint_of, precision_of, why_refuted
from factrank.databases import Database
from factrank.errors import InputError
from factrank.families.memory.associative_memory import AssociativeMemory, LinearMemory, MlpMemory
from factrank.nn import on_device
from factrank.readouts import margins

BLOCK_CELLS = 2**22
"""Numbers in the largest array of a block of facts."""


class MemoryCertificate(ReaderCertificate):
    """What is known of a memory's recall of a database with one query; its `parameters` lie between the embeddings."""


def verify_memory(memory: AssociativeMemory, database: Database) -> MemoryCertificate:
    """Check every fact with the memory's own forward pass, and prove that every other evaluation recalls it too.

    >>> facts = Database.from_facts([("Oslo", "country", "Norway"), ("Lima", "country", "Peru")])
    >>> one = np.eye(2, dtype=np.float32)
    >>> found = verify_memory(LinearMemory(one, one, one), facts)
    >>> found.certified, found.margin, round(found.proved_margin, 5)
    (True, 1.0, 1.0)
    """
    require_memory(memory, database)
    precision = precision_of(memory)
    computed, proved = _margins_of(memory, database), np.full(len(database), -inf)
    obstacle = _why_no_bounds(memory, ARITHMETIC[precision])
    if not obstacle:
        proved = _proved_margins(memory, database, ARITHMETIC[precision])
    n_facts, recalled, n_open = len(database), int((computed > 0).sum()), int((~(proved > 0)).sum())
    least = int(np.where(np.isnan(computed), -inf, computed).argmin())
    reasons = [] if recalled == n_facts else [f"{n_facts - recalled:,} of {n_facts:,} facts are not recalled"]
    if obstacle or n_open:
        reasons.append(obstacle or f"the margins of {n_open:,} facts are not proved positive")
    reasons += [text for text in [why_refuted(computed, proved, ARITHMETIC[precision])] if text]
    key, query, value = (int(code) for code in database.triples[least])
    return MemoryCertificate(
        certified=not reasons,
        facts=n_facts,
        recalled=recalled,
        margin=float(computed[least]),
        proved_margin=float(proved.min()),
        worst=(database.keys[key], database.queries[query], database.values[value]),
        parameters=memory.memory_parameters,
        bits=database.bits_by_query,
        precision=precision,
        reason="; ".join(reasons),
        weights=fingerprint_of(memory),
        database=database.fingerprint,
    )


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


def _margins_of(memory: AssociativeMemory, database: Database) -> Float[np.ndarray, " facts"]:
    """The margins in the memory's own forward pass and precision."""
    keys, _, values = database.triples.T
    found = np.empty(len(database))
    with jax.enable_x64(precision_of(memory) == "float64"), jax.default_matmul_precision("highest"):
        placed = on_device(memory)
        for rows in _blocks(len(keys), memory.n_values):
            # The last block is padded with its first row, so that one shape is compiled.
            here = np.resize(keys[rows], rows.stop - rows.start), np.resize(values[rows], rows.stop - rows.start)
            margin = np.asarray(_block_margins(placed, *map(jnp.asarray, here)), np.float64)
            found[rows] = margin[: len(keys[rows])]
    return found


@eqx.filter_jit
def _block_margins(memory: AssociativeMemory, keys: Int[Array, " n"], values: Int[Array, " n"]) -> Float[Array, " n"]:
    return margins(memory.logits(keys), values[:, None])


def _blocks(n_rows: int, cells_per_row: int) -> Iterator[slice]:
    height = max(1, min(n_rows, BLOCK_CELLS // max(1, cells_per_row)))
    for start in range(0, n_rows, height):
        yield slice(start, start + height)


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
    memory: AssociativeMemory, database: Database, arithmetic: Arithmetic
) -> Float[np.ndarray, " facts"]:
    """A lower bound of the margin of each fact in every evaluation."""
    keys, _, values = database.triples.T
    inputs, outputs = (np.asarray(rows, np.float64) for rows in (memory.inputs, memory.outputs))
    widths = [1 + part.shape[1] for part in _matrices(memory)]
    lost = arithmetic.least * 8 * (1 + inputs.shape[1]) * float(np.prod(widths)) * _largest_result(memory)
    bounds = np.empty(len(database))
    for rows in _blocks(len(keys), 2 * memory.n_values):
        here, own = np.arange(len(keys[rows])), values[rows]
        streams, spreads = _proved_streams(memory, inputs[keys[rows]], arithmetic)
        logits, errors = streams @ outputs.T, spreads @ np.abs(outputs).T + lost
        leads = (logits - errors)[here, own][:, None] - (logits + errors)
        leads[here, own] = inf
        bounds[rows] = leads.min(axis=1)
    return bounds


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
