"""The factual recall family as the core sees it: one-layer models that read sequences which ask for facts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast, get_args

from factrank.databases import Database
from factrank.experiments import Family, Form, Measure, SizedForm, Work
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
    """`FactualRecallTransformer` and `FactualRecallOneHot`."""

    name = "factual_recall"
    models: Mapping[str, type] = {"sequence": FactualRecallShape, "one_hot": FactualRecallOneHotShape}
    measures: Sequence[Measure] = (
        Measure("recall_sequences", meaning="fraction of (fact, context) that are answered rightly"),
        Measure("recall_attention_alone", meaning="recall without what the MLP adds"),
        Measure("recall_mlp_alone", meaning="recall by what the MLP adds alone"),
        Measure("recall_group_*", meaning="recall in a group of facts of equal size, the most frequent first"),
        Measure("test_recall", meaning="fraction of right answers on a random sample of sequences"),
        Measure("best_*", meaning="greatest value of this recall over all checks and recorded epochs"),
        Measure("copying", meaning="fraction of payloads that are copied rightly"),
        Measure("relation_loss", "", "nats", "-log of the probability of all answers that the query may have"),
        Measure("subject_loss", "", "nats", "-log of the probability of all answers that occur with the key"),
        Measure("relation_alone", meaning="fraction whose answer stays when noise takes the place of the key"),
        Measure("in_range", meaning="fraction answered within the range of the query"),
        Measure("wrong_in_range", meaning="fraction answered wrongly, and within the range of the query"),
    )

    def task(self, trial: Trial, data: Database) -> Task:
        """Cross-entropy on sampled sequences."""
        from factrank.families.factual_recall.factual_recall_task import FactualRecallTask  # noqa: PLC0415

        return FactualRecallTask(trial, data)

    def work(self, trial: Trial, data: Database) -> Work:
        """One batch; weights that tokens share are applied once per token, not once per place in a sequence."""
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
        """That of its arrays and layout; the length of sequences is not known to a model."""
        from factrank.families.factual_recall.factual_recall_arrays import spec_of  # noqa: PLC0415

        return spec_of(model)

    @property
    def forms(self) -> Mapping[str, Form]:
        """Those of the matrix that stores the facts."""
        from factrank.nn import MatrixForm  # noqa: PLC0415

        return {name: SizedForm(name) for name in get_args(MatrixForm)}

    def construct(self, data: Database, spec: Any, form: str | None = None, **options: Any) -> Constructed:
        """Embeddings follow from the seed, the other weights from the facts; `logistic` if no form is named."""
        from factrank.families.factual_recall.factual_recall_form import construct_factual_recall  # noqa: PLC0415

        return construct_factual_recall(data, spec, form=cast("Any", form or "logistic"), **options)

    proof_option_names = ("length", "contexts", "seed")

    def prover(self, model: Any, data: Database, **options: Any) -> Prover:
        """Running error bounds for all noise contexts of a `length`; `contexts` of them are tried."""
        from factrank.families.factual_recall.factual_recall_certificate import SequenceProver  # noqa: PLC0415

        return SequenceProver(model, data, **options)

    def proof_options(self, spec: Any) -> Mapping[str, Any]:
        """The length of the sequences."""
        return {"length": spec.length}

    def sizes(self, model: Any) -> tuple[int, ...]:
        """Those of its layout."""
        return super().sizes(model.layout)

    def from_parts(self, spec: Any, sizes: tuple[int, ...], parts: Mapping[str, Any]) -> Any:
        """The model of these arrays."""
        from factrank.families.factual_recall.factual_recall_arrays import model_from_arrays  # noqa: PLC0415

        n_keys, n_queries, n_values = sizes
        return model_from_arrays(spec, (n_keys, n_queries, n_values), parts)


FAMILY = FactualRecallFamily()
