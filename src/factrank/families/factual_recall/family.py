"""Registration of the factual recall family: one-layer models that read sequences which ask for facts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast, get_args

from factrank.databases import Database
from factrank.experiments import EVERY_STOP, Family, Form, SizedForm, Work
from factrank.experiments.specs import Best, FrequencyGroups, Measure, ResultColumn
from factrank.families.factual_recall.fact_sequences import FactSequences, PartsAlone, RelationAlone, TestRecall
from factrank.families.factual_recall.factual_recall_shape import (
    BATCH_SIZE,
    FactualRecallOneHotShape,
    FactualRecallShape,
)

if TYPE_CHECKING:
    from factrank.certificates import Prover
    from factrank.experiments import Task
    from factrank.experiments.models import Constructed
    from factrank.experiments.specs import Trial


class FactualRecallFamily(Family):
    """The family of `FactualRecallTransformer` and `FactualRecallOneHot`."""

    name = "factual_recall"
    models: Mapping[str, type] = {"sequence": FactualRecallShape, "one_hot": FactualRecallOneHotShape}
    data: Mapping[str, type] = {"fact_sequences": FactSequences}
    presentation = FactSequences
    stops = (*EVERY_STOP, "recall_sequences")
    measures: Mapping[str, type[Measure]] = {
        "best": Best,
        "frequency_groups": FrequencyGroups,
        "parts_alone": PartsAlone,
        "relation_alone": RelationAlone,
        "test_recall": TestRecall,
    }
    columns: Sequence[ResultColumn] = (
        ResultColumn("recall_sequences", meaning="fraction of (fact, context) that are answered rightly"),
        ResultColumn("copying", meaning="fraction of payloads that are copied rightly"),
    )

    def task(self, trial: Trial, data: Database) -> Task:
        """Return the task: cross-entropy on sampled sequences."""
        from factrank.families.factual_recall.factual_recall_task import FactualRecallTask  # noqa: PLC0415

        return FactualRecallTask(trial, data)

    def work(self, trial: Trial, data: Database) -> Work:
        """Return the cost of one batch; every token is projected once, not once per occurrence."""
        spec = cast("FactualRecallShape | FactualRecallOneHotShape", trial.model)
        n_keys, n_queries, n_values = data.shape
        batch, n_tokens = trial.training.batch_size or BATCH_SIZE, spec.tokens(n_keys, n_queries)
        if isinstance(spec, FactualRecallOneHotShape):
            products = batch * n_tokens * spec.n_heads * (1 + n_values)
            numbers = n_tokens * spec.n_heads * (1 + n_values) + batch * (n_tokens + n_values)
        else:
            heads, outputs = spec.n_heads * (1 + spec.d_vo), spec.outputs(n_values)
            after = spec.n_heads * spec.d_vo + 2 * spec.mlp_width + outputs
            products = n_tokens * spec.d_model * heads + batch * (n_tokens * heads + spec.d_model * after)
            numbers = n_tokens * heads + batch * (n_tokens + heads + spec.d_model + spec.mlp_width + outputs)
        return Work(spec.parameters(*data.shape), products, numbers)

    def spec_of(self, model: object) -> Any:
        """Return the shape of a model; it does not know the length of its sequences."""
        from factrank.families.factual_recall.factual_recall_transformer import spec_of  # noqa: PLC0415

        return spec_of(model)

    @property
    def forms(self) -> Mapping[str, Form]:
        """Closed forms of the matrix that stores the facts."""
        from factrank.nn import MatrixForm  # noqa: PLC0415

        return {name: SizedForm(name) for name in get_args(MatrixForm)}

    def construct(self, data: Database, spec: Any, form: str | None = None, **options: Any) -> Constructed:
        """Construct a model: embeddings from the seed, other weights from the facts (form `logistic` by default)."""
        from factrank.families.factual_recall.factual_recall_form import construct_factual_recall  # noqa: PLC0415

        return construct_factual_recall(data, spec, form=cast("Any", form or "logistic"), **options)

    proof_option_names = ("length", "contexts", "seed")

    def prover(self, model: Any, data: Database, **options: Any) -> Prover:
        """Return a prover for all noise contexts of a `length`; the forward pass tries `contexts` of them."""
        from factrank.families.factual_recall.proof import SequenceProver  # noqa: PLC0415

        return SequenceProver(model, data, **options)

    def proof_options(self, spec: Any) -> Mapping[str, Any]:
        """Return the length of the sequences."""
        return {"length": spec.length}

    def sizes(self, model: Any) -> tuple[int, ...]:
        """Return the sizes of the model's layout."""
        return super().sizes(model.layout)

    def from_parts(self, spec: Any, sizes: tuple[int, ...], parts: Mapping[str, Any]) -> Any:
        """Build a model from its named arrays."""
        from factrank.families.factual_recall.factual_recall_transformer import model_of  # noqa: PLC0415
        from factrank.nn import checked_arrays, require_sizes  # noqa: PLC0415 - imports JAX

        require_sizes(dict(zip(self.size_names, sizes, strict=True)))
        return model_of(spec, sizes, checked_arrays(spec.part_sizes(*sizes), parts))


FAMILY = FactualRecallFamily()
