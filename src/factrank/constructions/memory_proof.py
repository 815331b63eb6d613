r"""Certificates of associative memories: every fact checked, and its margin proved for every order of evaluation.

A logit is a sum of products $e_i W_{ij} u_j$, of $h_k V_{kj} u_j$ behind a hidden layer. Under the assumptions of
`arithmetic`, in whatever order it is added and whichever matrices are multiplied first, it is off by at most

$$\gamma_n\, |e|\,|W|\,|u| \;(n = 2d), \qquad
  \bigl(\gamma_n\, (h + \delta) + \delta\bigr)\,|V|\,|u|,\quad \delta = \gamma_d\, |e|\,|W|\;(n = m + d)$$

with $\delta$ the error of the hidden layer, which a relu does not enlarge. So the margin of a fact is at least

$$\min_{y \ne f(x)}\; \ell_{f(x)} - \ell_y - \rho\,(|u_{f(x)}| + |u_y|),$$

$\rho$ the vector before |u| above, plus what is lost in results below the least normal number. The bound needs the
weights alone, and works for trained memories as for constructed ones.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from math import inf
from typing import Any, cast

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from factrank.constructions.arithmetic import ARITHMETIC, Arithmetic
from factrank.constructions.construction import Precision
from factrank.databases import Database
from factrank.errors import InputError
from factrank.models.associative_memory import AssociativeMemory, LinearMemory, MlpMemory
from factrank.models.weights import on_device
from factrank.readouts.margins import margins
from factrank.readouts.plain import finite_data

BLOCK_CELLS = 2**22
"""Numbers in the largest array of a block of facts."""


@dataclass(frozen=True)
class MemoryCertificate:
    """What is known of a memory's recall of a database with one query.

    It holds for the weights and the facts with these fingerprints, evaluated in the memory's own precision without
    shortened products.

    Arguments:
        certified: every fact is recalled by the memory's own forward pass, and by every other order of evaluation.
        facts: number of facts, all of which were checked.
        recalled: facts that the forward pass gets right under argmax; ties are wrong.
        margin: the least margin in the forward pass; infinite without competing values.
        proved_margin: what the margin is at least in every evaluation; minus infinity where nothing was proved.
        worst: the fact with the least margin in the forward pass.
        parameters: the scalars between the embeddings, which the paper counts.
        bits: information in the facts, n log2 of the number of values that occur.
        precision: of the weights and of the forward pass.
        reason: why it is not certified; empty where it is.
        weights: SHA-256 of the weights.
        database: the fingerprint of the facts.
    """

    certified: bool
    facts: int
    recalled: int
    margin: float
    proved_margin: float
    worst: tuple[str, str, str]
    parameters: int
    bits: float
    precision: Precision
    reason: str
    weights: str
    database: str

    @property
    def recall(self) -> float:
        """The share of facts that the forward pass gets right."""
        return self.recalled / self.facts

    @property
    def bits_per_parameter(self) -> float:
        """Bits of the facts that are recalled over the parameters of the memory."""
        return self.recall * self.bits / self.parameters

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON; infinite margins become null."""
        plain: dict[str, Any] = finite_data(asdict(self) | {"bits_per_parameter": self.bits_per_parameter})
        return plain


def verify_memory(memory: AssociativeMemory, database: Database) -> MemoryCertificate:
    """Check every fact with the memory's own forward pass, and prove that every other evaluation recalls it too.

    >>> facts = Database.from_facts([("Oslo", "country", "Norway"), ("Lima", "country", "Peru")])
    >>> one = np.eye(2, dtype=np.float32)
    >>> found = verify_memory(LinearMemory(one, one, one), facts)
    >>> found.certified, found.margin, round(found.proved_margin, 5)
    (True, 1.0, 1.0)
    """
    require_memory(memory, database)
    precision = _precision_of(memory)
    computed, proved = _margins_of(memory, database), np.full(len(database), -inf)
    obstacle = _why_no_bounds(memory, ARITHMETIC[precision])
    if not obstacle:
        proved = _proved_margins(memory, database, ARITHMETIC[precision])
    n_facts, recalled, n_open = len(database), int((computed > 0).sum()), int((~(proved > 0)).sum())
    least = int(np.where(np.isnan(computed), -inf, computed).argmin())
    reasons = [] if recalled == n_facts else [f"{n_facts - recalled:,} of {n_facts:,} facts are not recalled"]
    if obstacle or n_open:
        reasons.append(obstacle or f"the margins of {n_open:,} facts are not proved positive")
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
        weights=_fingerprint_of(memory),
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
    with jax.enable_x64(_precision_of(memory) == "float64"), jax.default_matmul_precision("highest"):
        placed = on_device(memory)
        for rows in _blocks(len(keys), memory.n_values):
            # The last block is filled up with its first row, so that one shape is compiled.
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
    if not isinstance(memory, LinearMemory | MlpMemory):
        return f"no proof is known for a memory of the class {type(memory).__name__}"
    if not all(np.isfinite(np.asarray(part, np.float64)).all() for part in jax.tree.leaves(memory)):
        return "some weights are infinite or not a number"
    if 8 * _largest_result(memory) > arithmetic.largest:
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


def _precision_of(memory: AssociativeMemory) -> Precision:
    names = {leaf.dtype.name for leaf in jax.tree.leaves(memory)}
    if len(names) != 1 or not names <= ARITHMETIC.keys():
        raise InputError(f"all weights must be of one precision among {', '.join(ARITHMETIC)}; got {sorted(names)}")
    return cast("Precision", names.pop())


def _fingerprint_of(memory: AssociativeMemory) -> str:
    """SHA-256 of the names, types, sizes and bytes of all weights."""
    digest = hashlib.sha256(b"factrank weights 1")
    leaves, _ = jax.tree_util.tree_flatten_with_path(memory)
    for path, leaf in sorted(leaves, key=lambda entry: str(entry[0])):
        part = np.ascontiguousarray(leaf)
        name = jax.tree_util.keystr(path, simple=True, separator=".")
        digest.update(f"{name} {part.dtype.name} {list(part.shape)}\n".encode())
        digest.update(part.reshape(-1).view(np.uint8).data)
    return digest.hexdigest()
