"""Memories in closed form: random embeddings, and a matrix computed from them that stores the facts.

In a linear memory this matrix is the only weight. In an MLP memory it is the second layer, and its inputs are the
features of a random first layer. The formulas are in `nn.associative_matrices`, the certificates in `memory_proof`.
"""

from __future__ import annotations

from typing import Any, cast, get_args

import equinox as eqx
import numpy as np
from jaxtyping import Float

from factrank.certificates import certify
from factrank.databases import Database
from factrank.errors import InputError
from factrank.experiments.models import Constructed
from factrank.experiments.specs import DRAWN
from factrank.families.memory.associative_memory import LinearMemory, MlpMemory, draw_memory
from factrank.families.memory.memory_proof import MemoryProver, require_memory
from factrank.families.memory.memory_shape import ZERO, MemoryShape
from factrank.nn import MatrixForm, closed_form, dtype_of

Memory = LinearMemory | MlpMemory


def construct_memory(
    database: Database,
    shape: MemoryShape,
    *,
    form: str = "logistic",
    seed: int = 0,
    precision: str = "float32",
) -> Constructed:
    """Construct a memory from facts and certify it.

    The matrix is computed in float64 and then rounded to `precision`.

    Arguments:
        database: A functional database with one query.
        shape: Sizes of the memory.
        form: Closed form of the matrix that stores the facts; see `nn.associative_matrices`.
        seed: Seed of the embeddings and of the first layer.
        precision: Precision of the weights, and of the evaluation that is certified.

    Raises:
        InputError: the form is unknown, or the facts are not a function from keys to values.

    >>> facts = Database.from_facts([("Oslo", "country", "Norway"), ("Lima", "country", "Peru")])
    >>> construct_memory(facts, MemoryShape(d_model=4), form="two-sided").certified
    True
    """
    if form not in get_args(MatrixForm):
        raise InputError(f"form must be one of {', '.join(get_args(MatrixForm))}; got {form!r}")
    rng, dtype = np.random.default_rng(seed), dtype_of(precision).name
    model = started_memory(shape, database, form, rng=rng, dtype=dtype)
    certificate = certify(MemoryProver(model, database))
    return Constructed(model=model, data=database, spec=shape, form=form, certificate=certificate)


def started_memory(
    shape: MemoryShape, database: Database, start: str, *, rng: np.random.Generator, dtype: str = "float32"
) -> Memory:
    """Return a memory initialised by `start`, on the host: "drawn", "zero" or the name of a closed form.

    For a given generator, all starts have the same embeddings and, in an MLP memory, the same first layer. They differ
    in the matrix that writes to the outputs.
    """
    memory = draw_memory(shape, database.n_keys, database.n_values, rng=rng, dtype="float64")
    require_memory(memory, database)
    if start == ZERO:
        memory = _with_matrix(memory, np.zeros_like(_matrix(memory)))
    elif start != DRAWN:
        keys, _, values = database.triples.T
        inputs, outputs = (np.asarray(rows, np.float64) for rows in (memory.inputs, memory.outputs))
        features, centred = _features(memory, inputs[keys]), shape.width is not None
        memory = _with_matrix(
            memory, closed_form(cast("MatrixForm", start), features, outputs, values, centred=centred)
        )
    rounded = [np.asarray(part).astype(dtype) for part in _parts(memory)]
    return cast("Memory", eqx.tree_at(_parts, memory, rounded))


def _parts(memory: Memory) -> list[Any]:
    if isinstance(memory, LinearMemory):
        return [memory.inputs, memory.outputs, memory.weights]
    return [memory.inputs, memory.outputs, memory.w_in, memory.w_out]


def _matrix(memory: Memory) -> Any:
    return _parts(memory)[-1]


def _with_matrix(memory: Memory, matrix: Float[np.ndarray, "features d_model"]) -> Memory:
    changed: Memory = eqx.tree_at(_matrix, memory, matrix)
    return changed


def _features(memory: Memory, inputs: Float[np.ndarray, "n d_model"]) -> Float[np.ndarray, "n features"]:
    return inputs if isinstance(memory, LinearMemory) else np.maximum(inputs @ np.asarray(memory.w_in), 0.0)
