"""Registration of the language family: small decoders that read sentences about facts, in-context recall and text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from factrank.errors import InputError
from factrank.experiments import EVERY_STOP, Family, Work
from factrank.experiments.specs import Given, Measure, ModelSpec, ResultColumn, from_plain
from factrank.families.language.language_data import InContextRecall, PartsRemoved, Sentences, TextFile
from factrank.families.language.language_shape import BATCH_SIZE, LanguageShape

if TYPE_CHECKING:
    from factrank.experiments import Task
    from factrank.experiments.specs import Trial


class LanguageFamily(Family):
    """The family of `LanguageModel`."""

    name = "language"
    models: Mapping[str, type] = {"language": LanguageShape}
    data: Mapping[str, type] = {"sentences": Sentences, "in_context_recall": InContextRecall, "text_file": TextFile}
    data_in_files: Mapping[str, Mapping[str, type]] = {
        "in_context": {"recall": InContextRecall},
        "text": {"file": TextFile},
    }
    presentation = Sentences
    stops = (*EVERY_STOP, "in_context")
    size_names = ("n_tokens",)
    measures: Mapping[str, type[Measure]] = {"parts_removed": PartsRemoved}
    columns: Sequence[ResultColumn] = (
        ResultColumn("value_loss", "loss of values", "nats", "cross-entropy of value tokens given the name"),
        ResultColumn("stored_bits", "bits stored, by the loss", "bits", "bits that value tokens need less"),
        ResultColumn("recalled_bits", "bits recalled", "bits", "information in the facts that are recalled"),
        ResultColumn("inner_parameters", "parameters without embeddings", "", "nor positions and unembedding"),
        ResultColumn(
            "bits_per_inner_parameter", "bits recalled per parameter, without embeddings", "bits", "by recall"
        ),
        ResultColumn("stored_bits_per_parameter", "bits stored per parameter", "bits", "by the loss"),
        ResultColumn(
            "stored_bits_per_inner_parameter", "bits stored per parameter, without embeddings", "bits", "by the loss"
        ),
        ResultColumn("in_context", "in-context accuracy", "", "averaged over the numbers of pairs"),
        ResultColumn("in_context_*", "in-context accuracy with * pairs", "", "fraction of answers that are right"),
        ResultColumn("bits_per_byte", "bits per byte", "bits", "of held-out text"),
    )

    def refusal(self, spec: ModelSpec, data: object) -> str | None:
        """Return why the data cannot be used: a language model reads facts, in-context recall or text."""
        if isinstance(data, InContextRecall | TextFile | Given):
            return None
        refusal = super().refusal(spec, data)
        if refusal is not None:
            from factrank.families.language.text_windows import TokenisedText  # noqa: PLC0415 - imports JAX

            if isinstance(data, TokenisedText):
                return None
        return refusal

    def task(self, trial: Trial, data: Any) -> Task:
        """Return the task: next-token prediction on sampled sequences."""
        from factrank.families.language.language_task import LanguageTask  # noqa: PLC0415

        return LanguageTask(trial, data)

    def work(self, trial: Trial, data: Any) -> Work:
        """Return the cost of one batch."""
        from factrank.families.language.language_task import LanguageTask  # noqa: PLC0415

        spec, task = cast("LanguageShape", trial.model), LanguageTask(trial, data)
        batch, n_tokens = trial.training.batch_size or BATCH_SIZE, task.sources.n_tokens
        products = numbers = 0.0
        for name, fraction in task.sources.fractions:
            length, rows = task.sources.named[name].length - 1, fraction * batch
            pairs = spec.n_layers * spec.n_heads * length
            each = spec.inner_parameters + pairs * (spec.d_qk + spec.d_vo) + n_tokens * spec.d_model
            kept = spec.d_model * 4 + 2 * spec.n_heads * (spec.d_qk + spec.d_vo) + 3 * spec.mlp_width
            products += rows * length * each
            numbers += rows * length * (spec.n_layers * kept + 2 * pairs)
        return Work(spec.parameters(n_tokens), int(products), int(numbers))

    def data_parts(self, data: Any) -> tuple[Mapping[str, Any], Any]:
        """Return facts as arrays, and in-context recall and text as specifications."""
        from factrank.families.language.text_windows import TokenisedText  # noqa: PLC0415

        if isinstance(data, TokenisedText):
            return {}, data.spec
        return ({}, data) if isinstance(data, InContextRecall) else super().data_parts(data)

    def data_from_parts(self, parts: Mapping[str, Any], described: object) -> Any:
        """Rebuild the data from the result of `data_parts`; text is read again from its file."""
        if described is None:
            return super().data_from_parts(parts, described)
        kinds = {"in_context_recall": InContextRecall, "text_file": TextFile}
        kind = described.get("kind") if isinstance(described, Mapping) else None
        if parts or kind not in kinds:
            raise InputError("the data of a language model must be facts, in-context recall or text")
        return from_plain(kinds[kind], described, "data").build()

    def from_parts(self, spec: Any, sizes: tuple[int, ...], parts: Mapping[str, Any]) -> Any:
        """Build a model from its named arrays."""
        from factrank.families.language.language_model import language_model_of  # noqa: PLC0415
        from factrank.nn import checked_arrays  # noqa: PLC0415 - imports JAX

        return language_model_of(spec, checked_arrays(spec.part_sizes(*sizes), parts))


FAMILY = LanguageFamily()
