"""Registration of the memoriser family: multi-head attention that memorises vectors with labels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

from factrank.errors import InputError
from factrank.experiments import Family, Form, SizedForm, Work
from factrank.experiments.specs import Given, Measure, ModelSpec, ResultColumn, from_plain
from factrank.families.memoriser.examples import Examples, RandomExamples, TokenExamples, VectorExamples
from factrank.families.memoriser.memoriser_shape import BATCH_SIZE, MemoriserShape
from factrank.families.memoriser.memoriser_specs import Assumptions, Saturation, Tolerance
from factrank.host import require_memory

if TYPE_CHECKING:
    from factrank.certificates import Prover
    from factrank.experiments import Task
    from factrank.experiments.models import Constructed
    from factrank.experiments.specs import Trial


EXAMPLE_PARTS = ("queries", "contexts", "context_of", "labels")
"""Names of the arrays of given examples in a file."""


class MemoriserFamily(Family):
    """The family of `Memoriser`."""

    name = "memoriser"
    models: Mapping[str, type] = {"memoriser": MemoriserShape}
    data: Mapping[str, type] = {"random_examples": RandomExamples, "token_examples": TokenExamples}
    data_in_files: Mapping[str, Mapping[str, type]] = {"examples": {"random": RandomExamples}}
    size_names = ("d_input", "n_outputs")
    starts = ("solved",)
    measures: Mapping[str, type[Measure]] = {
        "assumptions": Assumptions,
        "saturation": Saturation,
        "tolerance": Tolerance,
    }
    columns: Sequence[ResultColumn] = (
        ResultColumn("examples", "examples", "", "number of examples"),
        ResultColumn("max_error", "largest error", "", "of a real label"),
        ResultColumn("explained", "fraction of the variance explained", "", "1 - loss / variance of the real labels"),
        ResultColumn("bound", "examples by the bound of Mahdavi et al.", "", "H (min(n, d_h) - 1) + 1"),
        ResultColumn("rank", "examples that one linear solve can fit", "", "rank of the features, weights as drawn"),
        ResultColumn("memorised_examples", "examples memorised", "", "number of examples that are answered rightly"),
    )

    def refusal(self, spec: ModelSpec, data: object) -> str | None:  # noqa: ARG002 - every memoriser reads the same data
        """Return why the data cannot be used: a memoriser reads vectors."""
        if isinstance(data, Examples | TokenExamples | Given):
            return None
        return f"a memoriser reads vectors, RandomExamples or VectorExamples; got {type(data).__name__}"

    def task(self, trial: Trial, data: Examples) -> Task:
        """Return the task: passes over the examples in random order."""
        from factrank.families.memoriser.memoriser_task import MemoriserTask  # noqa: PLC0415 - imports the solver

        return MemoriserTask(trial, data)

    def work(self, trial: Trial, data: Examples) -> Work:
        """Return the cost of one batch, including the vectors if they are given as arrays."""
        spec = cast("MemoriserShape", trial.model)
        batch = trial.training.batch_size or BATCH_SIZE
        return Work(
            parameters=spec.parameters(data.d_input, data.n_outputs),
            products=_products(spec, data, batch),
            numbers=_numbers(spec, data, batch),
        )

    def probe(self, trial: Trial) -> Trial:
        """Return a trial with few examples; the time of a step does not depend on their number."""
        data = trial.data
        if isinstance(data, RandomExamples):
            n_examples = min(data.n_examples, trial.training.batch_size or BATCH_SIZE)
            n_contexts = data.n_contexts and min(data.n_contexts, n_examples)
            data = replace(data, n_examples=n_examples, n_contexts=n_contexts)
        return replace(trial, data=data)

    @property
    def forms(self) -> Mapping[str, Form]:
        """The only closed form, one linear solve."""
        return {"linear solve": SizedForm("linear solve")}

    def construct(self, data: Examples, spec: Any, form: str | None = None, **options: Any) -> Constructed:
        """Construct a memoriser: queries and keys from the seed, values from one linear solve."""
        from factrank.families.memoriser.solving import solve  # noqa: PLC0415

        if form not in (None, *self.forms):
            raise InputError(f"form must be {', '.join(self.forms)}; got {form!r}")
        return solve(data, spec, **options)

    proof_option_names = ("precision", "tolerance")

    def prover(self, model: Any, data: Examples, **options: Any) -> Prover:
        """Return a prover based on running error bounds, with options `tolerance` (of real labels) and `precision`."""
        from factrank.families.memoriser.solving import MemoriserProver  # noqa: PLC0415

        precision, tolerance = options.get("precision"), options.get("tolerance")
        prover = MemoriserProver(model, data, evaluated_in=precision)
        return prover if tolerance is None else replace(prover, tolerance=tolerance)

    def data_parts(self, data: Examples) -> tuple[Mapping[str, Any], Any]:
        """Return given vectors as arrays, and random examples as their specification."""
        if isinstance(data, RandomExamples):
            return {}, data
        return {name: getattr(data, name) for name in EXAMPLE_PARTS}, data.n_classes

    def data_from_parts(self, parts: Mapping[str, Any], described: object) -> Examples:
        """Rebuild examples from the result of `data_parts`."""
        if isinstance(described, Mapping) and not parts:
            drawn = from_plain(RandomExamples, described, "data")
            n_vectors = drawn.n_examples + drawn.number_of_contexts * drawn.context_size
            require_memory(8 * n_vectors * drawn.d_input, "the vectors of its examples", "reduce their number")
            return drawn
        if set(parts) != set(EXAMPLE_PARTS) or not (described is None or isinstance(described, int)):
            raise InputError(
                f"examples must have the arrays {', '.join(EXAMPLE_PARTS)} and a number of classes or None"
            )
        return VectorExamples.of(**parts, n_classes=described)

    def from_parts(self, spec: Any, sizes: tuple[int, ...], parts: Mapping[str, Any]) -> Any:
        """Build a memoriser from its named arrays."""
        from factrank.families.memoriser.memoriser import memoriser_of  # noqa: PLC0415
        from factrank.nn import checked_arrays  # noqa: PLC0415 - imports JAX

        return memoriser_of(spec, checked_arrays(spec.part_sizes(*sizes), parts))


def _products(spec: MemoriserShape, examples: Examples, batch: int) -> int:
    """Count the products for embedded queries, the table of keys, scores, values, pooling and outputs."""
    n_rows, heads, n = _table_rows(examples), spec.n_heads, examples.context_size
    table = heads * n_rows * spec.d_model * (spec.d_qk + spec.d_vo)
    folded = heads * n_rows * spec.d_model * (spec.d_qk + batch)  # W_Q is multiplied with the table first
    in_two = heads * batch * spec.d_qk * (spec.d_model + n_rows)
    contexts = 0 if examples.number_of_contexts == 1 else heads * n * examples.d_input * (1 + spec.d_vo)
    after = heads * spec.d_vo * (n + examples.n_outputs)
    return table + min(folded, in_two) + batch * (examples.d_input * spec.d_model + contexts + after)


def _numbers(spec: MemoriserShape, examples: Examples, batch: int) -> int:
    """Count the numbers stored by the forward pass of a batch, including the vectors if they are given as arrays."""
    n_rows, heads, n = _table_rows(examples), spec.n_heads, examples.context_size
    own = 0 if examples.number_of_contexts == 1 else n * examples.d_input + heads * (n_rows + n * spec.d_vo)
    tables = heads * n_rows * (spec.d_qk + spec.d_model + spec.d_vo)
    each = examples.d_input + spec.d_model + heads * (2 * n + spec.d_vo) + examples.n_outputs
    given = examples.queries.size + examples.contexts.size if isinstance(examples, VectorExamples) else 0
    return given + tables + batch * (own + each)


def _table_rows(examples: Examples) -> int:
    """Return the number of rows of the table of keys.

    These are the tokens of the shared context or, without one, the dimensions of the vectors and the positions.
    """
    shared = examples.number_of_contexts == 1
    return examples.context_size if shared else examples.d_input + examples.context_size


FAMILY = MemoriserFamily()
