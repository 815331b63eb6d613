"""The attention family as the core sees it: layers that read a key and a query, trained on the facts of a database."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
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
    from factrank.experiments import Checkpoints, Constructed, Finished, Task
    from factrank.experiments.specs import Trial


class FusedEngine(Engine):
    """Attention layers by one hand-written loop; its modules load when it is asked to train."""

    name = "fused"

    def platform_of(self, trial: Trial, data: Database, device: str) -> str | None:
        """The CPU for float64, else the device, where the loop knows every option of the trial and pays."""
        from factrank.families.attention.fused import platform_of  # noqa: PLC0415

        return platform_of(trial, data.shape, device)

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


class AttentionFamily(Family):
    """`AttentionLayer` and `PairTransformer`."""

    name = "attention"
    models: Mapping[str, type] = {"attention": LayerShape, "transformer": TransformerShape}
    measures: Sequence[Measure] = (
        Measure("silent_fibers"),
        Measure("artifacts_*"),
        Measure("memorised*", "share that recalls everything"),
        Measure("memorised_rank", "rank of the table where memorised"),
        Measure("layer_rank", "greatest rank of the layer"),
        Measure("violates", "share of certified violations"),
        Measure("proposition"),
        Measure("rank_lower", "rank of the table, at least"),
        Measure("rank_upper", "rank of the table, at most"),
        Measure("completion_lower", "completion rank, at least"),
        Measure("completion_upper", "completion rank, at most"),
        Measure("effective_lower", "effective rank, at least"),
        Measure("effective_upper", "effective rank, at most"),
        Measure("additive_share", "share of facts that only the sum gets right"),
        Measure("direct_alone", "recall of the direct path alone"),
        Measure("heads_alone", "recall of the best head alone"),
        Measure("cp_rank", "rank by numerical CP"),
        Measure("cp_residual"),
        Measure("argmax", "recall by argmax"),
        Measure("ones", "confident answers"),
        Measure("flattening", "largest flattening rank"),
        Measure("upper", "least upper bound of the rank"),
        Measure("cp", "rank by numerical CP"),
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
        tables = kept_numbers(spec, data.shape)
        return Work(
            parameters=spec.parameters(*data.shape),
            products=forward_products(spec, data.shape, len(data)),
            numbers=tables + len(data) * data.n_values,
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
