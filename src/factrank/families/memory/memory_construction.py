"""Memories in closed form: embeddings are drawn, and the matrix that stores the facts is computed from them.

In a linear memory it is the whole of the weights; in an MLP memory it is the second layer, on the features that a
random first layer makes of the inputs. `nn.associative_matrices` has the formulas, `memory_proof` the certificates.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast, get_args

import equinox as eqx
import numpy as np
from jaxtyping import Float

from factrank.certificates import certify
from factrank.databases import Database
from factrank.errors import InputError
from factrank.experiments.models import Constructed
from factrank.families.memory.associative_memory import LinearMemory, MlpMemory, draw_memory
from factrank.families.memory.memory_proof import MemoryProver, require_memory
from factrank.families.memory.memory_shape import MemoryShape
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
    """A memory whose embeddings follow from the seed and whose weights follow from the facts, with its certificate.

    The form decides, not the `start` of the shape. It is computed in float64 and rounded to the precision.

    >>> facts = Database.from_facts([("Oslo", "country", "Norway"), ("Lima", "country", "Peru")])
    >>> construct_memory(facts, MemoryShape(d_model=4), form="two-sided").certified
    True
    """
    if form not in get_args(MatrixForm):
        raise InputError(f"form must be one of {', '.join(get_args(MatrixForm))}; got {form!r}")
    rng, dtype = np.random.default_rng(seed), dtype_of(precision).name
    model = started_memory(replace(shape, start=cast("MatrixForm", form)), database, rng=rng, dtype=dtype)
    certificate = certify(MemoryProver(model, database))
    return Constructed(model=model, data=database, spec=shape, form=form, certificate=certificate)


def started_memory(
    shape: MemoryShape, database: Database, *, rng: np.random.Generator, dtype: str = "float32"
) -> Memory:
    """A memory with the weights that its shape says it starts from, on the host.

    Every start draws the same embeddings and, in an MLP memory, the same first layer; the start is the matrix that
    writes to the outputs.
    """
    memory = draw_memory(shape, database.n_keys, database.n_values, rng=rng, dtype="float64")
    require_memory(memory, database)
    if shape.start == "zero":
        memory = _with_matrix(memory, np.zeros_like(_matrix(memory)))
    elif shape.start != "random":
        keys, _, values = database.triples.T
        inputs, outputs = (np.asarray(rows, np.float64) for rows in (memory.inputs, memory.outputs))
        features, centred = _features(memory, inputs[keys]), shape.width is not None
        memory = _with_matrix(memory, closed_form(shape.start, features, outputs, values, centred=centred))
    rounded = [np.asarray(part).astype(dtype) for part in _parts(memory)]
    return cast("Memory", eqx.tree_at(_parts, memory, rounded))


def _parts(memory: Memory) -> list[Any]:
    if isinstance(memory, LinearMemory):
        return [memory.inputs, memory.outputs, memory.weights]
    return [memory.inputs, memory.outputs, memory.w_in, memory.w_out]


def _matrix(memory: Memory) -> Any:
    """The matrix that writes to the outputs."""
    return _parts(memory)[-1]


def _with_matrix(memory: Memory, matrix: Float[np.ndarray, "features d_model"]) -> Memory:
    changed: Memory = eqx.tree_at(_matrix, memory, matrix)
    return changed


def _features(memory: Memory, inputs: Float[np.ndarray, "n d_model"]) -> Float[np.ndarray, "n features"]:
    """What the matrix reads."""
    return inputs if isinstance(memory, LinearMemory) else np.maximum(inputs @ np.asarray(memory.w_in), 0.0)
