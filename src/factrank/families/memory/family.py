"""Registration of the memory family: associative memories trained on a database with one query."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast, get_args

from factrank.databases import Database
from factrank.experiments import Family, Form, SizedForm, Work
from factrank.experiments.specs import FrequencyGroups, Measure, ResultColumn
from factrank.families.memory.memory_shape import ZERO, MemoryShape
from factrank.families.memory.weighted_facts import WeightedFacts
from factrank.nn import MatrixForm, require_sizes

if TYPE_CHECKING:
    from factrank.certificates import Prover
    from factrank.experiments import Task
    from factrank.experiments.models import Constructed
    from factrank.experiments.specs import Trial


class MemoryFamily(Family):
    """The family of `LinearMemory` and `MlpMemory`."""

    name = "memory"
    models: Mapping[str, type] = {"memory": MemoryShape}
    data: Mapping[str, type] = {"weighted_facts": WeightedFacts}
    presentation = WeightedFacts
    starts = (ZERO, *get_args(MatrixForm))
    measures: Mapping[str, type[Measure]] = {"frequency_groups": FrequencyGroups}
    columns: Sequence[ResultColumn] = (
        ResultColumn("limit", "", "facts", "estimate of what a linear memory of this width can hold"),
        ResultColumn("limit_half", "", "facts", "N with N ln N = d² / 2, which none exceeds as d grows"),
    )

    def task(self, trial: Trial, data: Database) -> Task:
        """Return the task: cross-entropy on all facts in every step."""
        from factrank.families.memory.memory_task import MemoryTask  # noqa: PLC0415 - only needed for training

        return MemoryTask(trial, data)

    def work(self, trial: Trial, data: Database) -> Work:
        """Return the cost of one pass over all inputs, including their logits."""
        spec, n_facts, n_values = cast("MemoryShape", trial.model), len(data), data.n_values
        return Work(
            parameters=spec.parameters(*data.shape),
            products=n_facts * (spec.memory_parameters + spec.d_model * n_values),
            numbers=n_facts * (n_values + spec.d_model + (spec.width or 0)),
        )

    @property
    def forms(self) -> Mapping[str, Form]:
        """Closed forms of the matrix that stores the facts."""
        return {name: SizedForm(name) for name in get_args(MatrixForm)}

    def construct(self, data: Database, spec: Any, form: str | None = None, **options: Any) -> Constructed:
        """Construct a memory: embeddings from the seed, other weights from the facts (form `logistic` by default)."""
        from factrank.families.memory.memory_construction import construct_memory  # noqa: PLC0415

        return construct_memory(data, spec, form=cast("Any", form or "logistic"), **options)

    def prover(self, model: Any, data: Database, **options: Any) -> Prover:
        """Return a prover based on running error bounds."""
        from factrank.families.memory.memory_proof import MemoryProver  # noqa: PLC0415

        return MemoryProver(model, data, **options)

    def from_parts(self, spec: Any, sizes: tuple[int, ...], parts: Mapping[str, Any]) -> Any:
        """Build a memory from its named arrays."""
        from factrank.families.memory.associative_memory import LinearMemory, MlpMemory  # noqa: PLC0415
        from factrank.nn import checked_arrays  # noqa: PLC0415 - imports JAX

        require_sizes(dict(zip(self.size_names, sizes, strict=True)))
        arrays = checked_arrays(spec.part_sizes(*sizes), parts)
        return LinearMemory(**arrays) if spec.width is None else MlpMemory(**arrays)


FAMILY = MemoryFamily()
