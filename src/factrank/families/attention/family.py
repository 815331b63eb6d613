"""The attention family as the core sees it: layers that read a key and a query, trained on the facts of a database."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

from factrank.databases import Database
from factrank.errors import InputError
from factrank.experiments import Engine, Family, Form, Measure, Work
from factrank.families.attention.attention_work import forward_products, kept_numbers
from factrank.families.attention.layer_shape import LayerShape
from factrank.families.attention.pair_transformer import TransformerShape

if TYPE_CHECKING:
    from pathlib import Path

    from factrank.certificates import Prover
    from factrank.experiments import Checkpoints, Finished, Task
    from factrank.experiments.models import Constructed
    from factrank.experiments.specs import Trial


class FusedEngine(Engine):
    """Attention layers by one hand-written loop; its modules load when it is asked to train."""

    name = "fused"

    def platform_of(self, trial: Trial, data: Database, device: str) -> str | None:
        """The CPU for float64, else the device, where the loop knows every option of the trial and pays."""
        return _platform_of()(trial, data.shape, device)

    def run(
        self, trials: Sequence[Trial], tasks: Sequence[Any], checkpoints: Checkpoints | None, platform: str
    ) -> Generator[tuple[list[Finished], int], None, None]:
        """Train these trials, a model per thread or block."""
        from factrank.families.attention.fused import run_fused  # noqa: PLC0415

        return run_fused(trials, tasks, checkpoints, platform)

    def marks(self, device: str) -> Mapping[str, str] | None:
        """The kind of device and of kernel."""
        from factrank.families.attention.fused import marks_of  # noqa: PLC0415

        return marks_of(device)

    def at_once(self) -> int:
        """A model on each thread."""
        from factrank.families.attention.fused import thread_count  # noqa: PLC0415

        return thread_count()


@cache
def _platform_of() -> Callable[[Trial, tuple[int, int, int], str], str | None]:
    """What answers for every trial, looked up once: to find it in its lazy face takes as long as the answer."""
    from factrank.families.attention.fused import platform_of  # noqa: PLC0415

    return platform_of


class AttentionFamily(Family):
    """`AttentionLayer` and `PairTransformer`."""

    name = "attention"
    models: Mapping[str, type] = {"attention": LayerShape, "transformer": TransformerShape}
    measures: Sequence[Measure] = (
        Measure("silent_fibers", meaning="(key, query) pairs without a fact"),
        Measure("artifacts_*", "artifacts at confidence *", "", "confident answers where the table has no fact"),
        Measure("memorised*", "share that recalls everything", "", "1 if every fact is right, also at a threshold"),
        Measure(
            "memorised_rank", "rank of the table where memorised", "", "`rank_lower` if every fact is right, else 0"
        ),
        Measure("layer_rank", "greatest rank of the layer", "", "certified: no weights of its shape exceed it"),
        Measure(
            "violates", "share of certified violations", "", "1 if every fact is right and `rank_lower` > `layer_rank`"
        ),
        Measure("bits_by_query", "", "bits", "information in the facts, with each query's own range of values"),
        Measure("predicted_*", meaning="recall of a layer that holds this many bits per parameter"),
        Measure("proposition", meaning="size of the table by Wong 2025, Proposition 2.1"),
        Measure("rank_lower", "rank of the table, at least", "", "certified lower bound of the rank"),
        Measure("rank_upper", "rank of the table, at most", "", "certified upper bound of the rank"),
        Measure("completion_lower", "completion rank, at least", "", "certified lower bound"),
        Measure("completion_upper", "completion rank, at most", "", "certified upper bound"),
        Measure("effective_lower", "effective rank, at least", "", "certified lower bound"),
        Measure("effective_upper", "effective rank, at most", "", "certified upper bound"),
        Measure("additive_share", "share of facts that only the sum gets right", "", "no path alone answers them"),
        Measure("direct_alone", "recall of the direct path alone", "", "without the heads"),
        Measure("heads_alone", "recall of the best head alone", "", "without the direct path and the other heads"),
        Measure("cp_rank", "rank by numerical CP", "", "estimate of the rank of the table, not certified"),
        Measure("cp_residual", meaning="relative residual of that estimate"),
        Measure("argmax", "recall by argmax", "", "of a reading: in its precision and at its temperature"),
        Measure("ones", "confident answers", "", "of a reading: ones of the 0/1 tensor of softmax>=tau"),
        Measure("flattening", "largest flattening rank", "", "of a reading: certified lower bound for that tensor"),
        Measure("upper", "least upper bound of the rank", "", "of a reading: certified, for that tensor"),
        Measure("cp", "rank by numerical CP", "", "of a reading: estimate for that tensor, not certified"),
    )

    @property
    def engines(self) -> Sequence[Engine]:
        """The fused engine."""
        return (FUSED,)

    @property
    def forms(self) -> Mapping[str, Form]:
        """Every closed form of `construct`."""
        from factrank.families.attention.forms import CONSTRUCTIONS  # noqa: PLC0415

        return CONSTRUCTIONS

    def construct(self, data: Database, spec: Any = None, form: str | None = None, **options: Any) -> Constructed:
        """The smallest layer that holds the facts; its size is chosen, not given."""
        from factrank.families.attention.forms import construct  # noqa: PLC0415

        if spec is not None:
            raise InputError("the size of an attention layer follows from its facts: leave the specification out")
        return construct(data, only=form, **options)

    def task(self, trial: Trial, data: Database) -> Task:
        """Cross-entropy on the facts."""
        from factrank.families.attention.facts_task import FactsTask  # noqa: PLC0415 - only trials that train load it

        return FactsTask(trial, data)

    def work(self, trial: Trial, data: Database) -> Work:
        """One pass over the facts."""
        spec: Any = trial.model
        shape, n_facts = data.shape, len(data)
        tables = kept_numbers(spec, shape)
        return Work(
            parameters=spec.parameters(*shape),
            products=forward_products(spec, shape, n_facts),
            numbers=tables + n_facts * data.n_values,
            numbers_elsewhere=tables,
        )

    def prover(self, model: Any, data: Database, **options: Any) -> Prover:
        """Exact integers or running error bounds."""
        from factrank.families.attention.proof import AttentionProver  # noqa: PLC0415

        return AttentionProver(model, data, **options)

    file_format = "factrank.layer"

    def to_saved(self, model: Any, data: Any, spec: Any, notes: Mapping[str, str]) -> Any:  # noqa: ARG002
        """A `SavedLayer`, which knows its shape."""
        from factrank.families.attention.layer_files import SavedLayer  # noqa: PLC0415

        return SavedLayer(model, data, dict(notes))

    def write(self, path: Path, saved: Any) -> None:
        """A layer file."""
        from factrank.families.attention.layer_files import write_layer  # noqa: PLC0415

        write_layer(path, saved)

    def read(self, path: Path) -> Any:
        """A layer file, as a `SavedLayer`."""
        from factrank.families.attention.layer_files import load_layer  # noqa: PLC0415

        return load_layer(path)

    def edit(self, path: Path, changes: Sequence[Any], *, force: bool = False) -> Any:
        """Of a layer whose construction says where facts lie."""
        from factrank.families.attention.editing import edit_file  # noqa: PLC0415

        return edit_file(path, changes, force=force)

    def from_parts(self, spec: Any, sizes: tuple[int, ...], parts: Mapping[str, Any]) -> Any:
        """The layer or transformer of these arrays."""
        from factrank.families.attention.attention_arrays import model_from_arrays  # noqa: PLC0415

        n_keys, n_queries, n_values = sizes
        return model_from_arrays(spec, (n_keys, n_queries, n_values), parts)


FUSED = FusedEngine()
FAMILY = AttentionFamily()
