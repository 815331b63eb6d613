"""The memory family as the core sees it: associative memories, trained on a database with one query."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast, get_args

from factrank.databases import Database
from factrank.experiments import Family, Form, Measure, SizedForm, Work
from factrank.families.memory.memory_shape import MemoryShape

if TYPE_CHECKING:
    from factrank.certificates import Prover
    from factrank.experiments import Task
    from factrank.experiments.models import Constructed
    from factrank.experiments.specs import Trial


class MemoryFamily(Family):
    """`LinearMemory` and `MlpMemory`."""

    name = "memory"
    models: Mapping[str, type] = {"memory": MemoryShape}
    measures: Sequence[Measure] = (
        Measure("limit", "", "facts", "estimate of what a linear memory of this width can hold"),
        Measure("limit_half", "", "facts", "N with N ln N = d² / 2, which none exceeds as d grows"),
    )

    def task(self, trial: Trial, data: Database) -> Task:
        """Cross-entropy on all facts at once."""
        from factrank.families.memory.memory_task import MemoryTask  # noqa: PLC0415 - only trials that train load it

        return MemoryTask(trial, data)

    def work(self, trial: Trial, data: Database) -> Work:
        """Every input through the memory, and its logits."""
        spec, n_facts, n_values = cast("MemoryShape", trial.model), len(data), data.n_values
        return Work(
            parameters=spec.parameters(*data.shape),
            products=n_facts * (spec.memory_parameters + spec.d_model * n_values),
            numbers=n_facts * (n_values + spec.d_model + (spec.width or 0)),
        )

    def probe(self, trial: Trial) -> Trial:
        """The same from drawn weights."""
        return replace(trial, model=replace(cast("MemoryShape", trial.model), start="random"))

    @property
    def forms(self) -> Mapping[str, Form]:
        """Those of the matrix that stores the facts."""
        from factrank.nn import MatrixForm  # noqa: PLC0415

        return {name: SizedForm(name) for name in get_args(MatrixForm)}

    def construct(self, data: Database, spec: Any, form: str | None = None, **options: Any) -> Constructed:
        """Embeddings follow from the seed, the other weights from the facts; `logistic` if no form is named."""
        from factrank.families.memory.memory_construction import construct_memory  # noqa: PLC0415

        return construct_memory(data, spec, form=cast("Any", form or "logistic"), **options)

    def prover(self, model: Any, data: Database, **options: Any) -> Prover:
        """Running error bounds."""
        from factrank.families.memory.memory_proof import MemoryProver  # noqa: PLC0415

        return MemoryProver(model, data, **options)

    def from_parts(self, spec: Any, sizes: tuple[int, ...], parts: Mapping[str, Any]) -> Any:
        """The memory of these arrays."""
        from factrank.families.memory.memory_arrays import model_from_arrays  # noqa: PLC0415

        n_keys, n_queries, n_values = sizes
        return model_from_arrays(spec, (n_keys, n_queries, n_values), parts)


FAMILY = MemoryFamily()
