"""The memoriser family as the core sees it: multi-head attention that memorises vectors with labels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

from factrank.errors import InputError
from factrank.experiments import Family, Form, Measure, SizedForm, Work
from factrank.experiments.specs import Given, ModelSpec, from_plain
from factrank.families.memoriser.examples import Examples, RandomExamples, TokenExamples, VectorExamples
from factrank.families.memoriser.memoriser_shape import BATCH_SIZE, MemoriserShape
from factrank.host import require_memory

if TYPE_CHECKING:
    from factrank.certificates import Prover
    from factrank.experiments import Task
    from factrank.experiments.models import Constructed
    from factrank.experiments.specs import Trial


EXAMPLE_PARTS = ("queries", "contexts", "context_of", "labels")
"""The arrays of given vectors in a file."""


class MemoriserFamily(Family):
    """`Memoriser`."""

    name = "memoriser"
    models: Mapping[str, type] = {"memoriser": MemoriserShape}
    data: Mapping[str, type] = {"random_examples": RandomExamples, "token_examples": TokenExamples}
    data_in_files: Mapping[str, Mapping[str, type]] = {"examples": {"random": RandomExamples}}
    size_names = ("d_input", "n_outputs")
    measures: Sequence[Measure] = (
        Measure("examples", "examples", "", "number of examples"),
        Measure("max_error", "largest error", "", "of a real label"),
        Measure("explained", "share of the variance explained", "", "1 - loss / variance of the real labels"),
        Measure("bound", "examples by the bound of Mahdavi et al.", "", "H (min(n, d_h) - 1) + 1"),
        Measure("rank", "examples that one linear solve can fit", "", "rank of the features, weights as drawn"),
        Measure("memorised_examples", "examples memorised", "", "number of examples that are answered rightly"),
        Measure("saturated", "share of saturated heads", "", "(example, head) with a weight above the threshold"),
        Measure("saturated_least", "examples at which the least saturated head is", "", "as a fraction of all"),
        Measure("saturated_most", "examples at which the most saturated head is", "", "as a fraction of all"),
        Measure("saturated_any", "examples with a saturated head", "", "as a fraction of all"),
        Measure("queries", meaning="number of different queries"),
        Measure("dimension", meaning="dimension of the vectors"),
        Measure("context_size", meaning="tokens of a context"),
        Measure("query_rank", "rank of the queries", "", "at the tolerance of the check"),
        Measure("kruskal_lower", "Kruskal rank of the queries, at least", "", "what is proved"),
        Measure("kruskal_upper", "Kruskal rank of the queries, at most", "", "by dependent queries that were found"),
        Measure("independent_share", meaning="fraction of the random n-subsets of queries that are independent"),
        Measure("dependent_share_below", meaning="at most this fraction of all n-subsets depends, at 99 % confidence"),
        Measure("least_context_rank", "least rank of a context", "", "over all contexts"),
        Measure("full_context_share", "share of contexts of full rank", "", "whose tokens are independent"),
        Measure("queries_in_general_position", meaning="1, 0, or NaN if not decided"),
        Measure("tokens_in_general_position", meaning="1, 0, or NaN if not decided"),
        Measure("assumptions_refuted", "share where an assumption is refuted", "", "1 or 0 for each trial"),
        Measure("assumptions_proved", "share where all assumptions are proved", "", "1 or 0 for each trial"),
    )

    def refusal(self, spec: ModelSpec, data: object) -> str | None:  # noqa: ARG002 - memorisers are all alike
        """It reads vectors."""
        if isinstance(data, Examples | TokenExamples | Given):
            return None
        return f"a memoriser reads vectors, RandomExamples or VectorExamples; got {type(data).__name__}"

    def task(self, trial: Trial, data: Examples) -> Task:
        """Passes over the examples in random orders."""
        from factrank.families.memoriser.memoriser_task import MemoriserTask  # noqa: PLC0415 - loads the solver

        return MemoriserTask(trial, data)

    def work(self, trial: Trial, data: Examples) -> Work:
        """One batch, with the vectors themselves where they were given."""
        spec = cast("MemoriserShape", trial.model)
        batch = trial.training.batch_size or BATCH_SIZE
        return Work(
            parameters=spec.parameters(data.d_input, data.n_outputs),
            products=_products(spec, data, batch),
            numbers=_numbers(spec, data, batch),
        )

    def probe(self, trial: Trial) -> Trial:
        """Drawn weights and, because steps take as long with fewer examples, few of them."""
        model, data = replace(cast("MemoriserShape", trial.model), start="random"), trial.database
        if isinstance(data, RandomExamples):
            n_examples = min(data.n_examples, trial.training.batch_size or BATCH_SIZE)
            n_contexts = data.n_contexts and min(data.n_contexts, n_examples)
            data = replace(data, n_examples=n_examples, n_contexts=n_contexts)
        return replace(trial, database=data, model=model)

    @property
    def forms(self) -> Mapping[str, Form]:
        """One linear solve."""
        return {"linear solve": SizedForm("linear solve")}

    def construct(self, data: Examples, spec: Any, form: str | None = None, **options: Any) -> Constructed:
        """Queries and keys follow from the seed, values from one linear solve."""
        from factrank.families.memoriser.solving import solve  # noqa: PLC0415

        if form not in (None, *self.forms):
            raise InputError(f"form must be {', '.join(self.forms)}; got {form!r}")
        return solve(data, spec, **options)

    proof_option_names = ("precision", "tolerance")

    def prover(self, model: Any, data: Examples, **options: Any) -> Prover:
        """Running error bounds; labels within a `tolerance`, evaluated in a `precision`."""
        from factrank.families.memoriser.solving import MemoriserProver  # noqa: PLC0415

        precision, tolerance = options.get("precision"), options.get("tolerance")
        prover = MemoriserProver(model, data, evaluated_in=precision)
        return prover if tolerance is None else replace(prover, tolerance=tolerance)

    def data_parts(self, data: Examples) -> tuple[Mapping[str, Any], Any]:
        """Given vectors as arrays; examples that are drawn as what they are drawn from."""
        if isinstance(data, RandomExamples):
            return {}, data
        return {name: getattr(data, name) for name in EXAMPLE_PARTS}, data.n_classes

    def data_from_parts(self, parts: Mapping[str, Any], described: object) -> Examples:
        """The way back."""
        if isinstance(described, Mapping) and not parts:
            drawn = from_plain(RandomExamples, described, "data")
            n_vectors = drawn.n_examples + drawn.number_of_contexts * drawn.context_size
            require_memory(8 * n_vectors * drawn.d_input, "the vectors of its examples", "give fewer of them")
            return drawn
        if set(parts) != set(EXAMPLE_PARTS) or not (described is None or isinstance(described, int)):
            raise InputError(f"examples are {', '.join(EXAMPLE_PARTS)} and a number of classes or none")
        return VectorExamples.of(**parts, n_classes=described)

    def from_parts(self, spec: Any, sizes: tuple[int, ...], parts: Mapping[str, Any]) -> Any:
        """The memoriser of these arrays."""
        from factrank.families.memoriser.memoriser_arrays import model_from_arrays  # noqa: PLC0415

        d_input, n_outputs = sizes
        return model_from_arrays(spec, (d_input, n_outputs), parts)


def _products(spec: MemoriserShape, examples: Examples, batch: int) -> int:
    """Embedded queries, the table of keys, scores, values, pooling, outputs; contexts are read as they are."""
    n_rows, heads, n = _table_rows(examples), spec.n_heads, examples.context_size
    table = heads * n_rows * spec.d_model * (spec.d_qk + spec.d_vo)
    folded = heads * n_rows * spec.d_model * (spec.d_qk + batch)  # W_Q times the table first
    in_two = heads * batch * spec.d_qk * (spec.d_model + n_rows)
    contexts = 0 if examples.number_of_contexts == 1 else heads * n * examples.d_input * (1 + spec.d_vo)
    after = heads * spec.d_vo * (n + examples.n_outputs)
    return table + min(folded, in_two) + batch * (examples.d_input * spec.d_model + contexts + after)


def _numbers(spec: MemoriserShape, examples: Examples, batch: int) -> int:
    """What the forward pass of a batch keeps, and the vectors themselves where they were given."""
    n_rows, heads, n = _table_rows(examples), spec.n_heads, examples.context_size
    own = 0 if examples.number_of_contexts == 1 else n * examples.d_input + heads * (n_rows + n * spec.d_vo)
    tables = heads * n_rows * (spec.d_qk + spec.d_model + spec.d_vo)
    each = examples.d_input + spec.d_model + heads * (2 * n + spec.d_vo) + examples.n_outputs
    given = examples.queries.size + examples.contexts.size if isinstance(examples, VectorExamples) else 0
    return given + tables + batch * (own + each)


def _table_rows(examples: Examples) -> int:
    """Rows of the table of keys: the tokens of the one context, or the dimensions of vectors and the positions."""
    shared = examples.number_of_contexts == 1
    return examples.context_size if shared else examples.d_input + examples.context_size


FAMILY = MemoriserFamily()
