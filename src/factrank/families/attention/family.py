"""Registration of the attention family: layers that read a key and a query, trained on the facts of a database."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

from factrank.databases import Database
from factrank.errors import InputError
from factrank.experiments import Engine, Family, Form, Work
from factrank.experiments.specs import Measure
from factrank.families.attention.attention_work import forward_products, kept_numbers
from factrank.families.attention.layer_measures import Additive, Hallucinations, PlantedCP, Ranks, Readings
from factrank.families.attention.layer_shape import LayerShape
from factrank.families.attention.pair_transformer import TransformerShape

if TYPE_CHECKING:
    from pathlib import Path

    from factrank.certificates import Prover
    from factrank.experiments import Checkpoints, Finished, Task
    from factrank.experiments.models import Constructed
    from factrank.experiments.specs import Trial


class FusedEngine(Engine):
    """The engine that trains attention layers in a hand-written loop; its modules are imported on first use."""

    name = "fused"

    def platform_of(self, trial: Trial, data: Database, device: str) -> str | None:
        """Return the CPU for float64, else the device; None if the loop does not support the trial or is not faster."""
        return _platform_of()(trial, data.shape, device)

    def run(
        self, trials: Sequence[Trial], tasks: Sequence[Any], checkpoints: Checkpoints | None, platform: str
    ) -> Generator[tuple[list[Finished], int], None, None]:
        """Train the trials, one model per thread or block."""
        from factrank.families.attention.fused import run_fused  # noqa: PLC0415

        return run_fused(trials, tasks, checkpoints, platform)

    def marks(self, device: str) -> Mapping[str, str] | None:
        """Return the kind of device and the version of the kernel."""
        from factrank.families.attention.fused import marks_of  # noqa: PLC0415

        return marks_of(device)

    def at_once(self) -> int:
        """Return the number of threads, each of which trains one model."""
        from factrank.families.attention.fused import thread_count  # noqa: PLC0415

        return thread_count()


@cache
def _platform_of() -> Callable[[Trial, tuple[int, int, int], str], str | None]:
    """Return the function that decides for each trial, cached because the lazy import costs as much as the decision."""
    from factrank.families.attention.fused import platform_of  # noqa: PLC0415

    return platform_of


class AttentionFamily(Family):
    """The family of `AttentionLayer` and `PairTransformer`."""

    name = "attention"
    models: Mapping[str, type] = {"attention": LayerShape, "transformer": TransformerShape}
    measures: Mapping[str, type[Measure]] = {
        "additive": Additive,
        "hallucinations": Hallucinations,
        "planted_cp": PlantedCP,
        "ranks": Ranks,
        "readings": Readings,
    }

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
        """Construct the smallest layer that stores the facts; its size follows from the facts and cannot be given."""
        from factrank.families.attention.searching import construct  # noqa: PLC0415

        if spec is not None:
            raise InputError("the size of an attention layer follows from its facts; leave out the specification")
        return construct(data, only=form, **options)

    def task(self, trial: Trial, data: Database) -> Task:
        """Return the task: cross-entropy on the facts."""
        from factrank.families.attention.facts_task import FactsTask  # noqa: PLC0415 - only needed for training

        return FactsTask(trial, data)

    def work(self, trial: Trial, data: Database) -> Work:
        """Return the cost of one pass over the facts."""
        spec: Any = trial.model
        shape, n_facts = data.shape, len(data)
        tables = kept_numbers(spec, shape)
        return Work(
            parameters=spec.parameters(*shape),
            products=forward_products(spec, shape, n_facts),
            numbers=tables + n_facts * data.n_values,
            numbers_elsewhere=tables,
        )

    proof_option_names = ("tau", "abstain", "unknown")

    def prover(self, model: Any, data: Database, **options: Any) -> Prover:
        """Return a prover based on exact integers or running error bounds; options make a `ConfidenceClaim`."""
        from factrank.certificates import ConfidenceClaim  # noqa: PLC0415
        from factrank.families.attention.proof import AttentionProver  # noqa: PLC0415

        if options and "tau" not in options:
            raise InputError("a claim about probabilities needs tau, such as tau=0.95")
        return AttentionProver(model, data, ConfidenceClaim(**options) if options else None)

    file_format = "factrank.layer"

    def to_saved(self, model: Any, data: Any, spec: Any, notes: Mapping[str, str]) -> Any:  # noqa: ARG002
        """Return a `SavedLayer`, which contains its shape."""
        from factrank.families.attention.layer_files import SavedLayer  # noqa: PLC0415

        return SavedLayer(model, data, dict(notes))

    def write(self, path: Path, saved: Any) -> None:
        """Write a layer file."""
        from factrank.families.attention.layer_files import write_layer  # noqa: PLC0415

        write_layer(path, saved)

    def read(self, path: Path) -> Any:
        """Read a layer file, as a `SavedLayer`."""
        from factrank.families.attention.layer_files import load_layer  # noqa: PLC0415

        return load_layer(path)

    def edit(self, path: Path, changes: Sequence[Any], *, force: bool = False) -> Any:
        """Edit the facts in a layer file, if its construction records where facts are stored."""
        from factrank.families.attention.editing import edit_file  # noqa: PLC0415

        return edit_file(path, changes, force=force)

    def from_parts(self, spec: Any, sizes: tuple[int, ...], parts: Mapping[str, Any]) -> Any:
        """Build a layer or transformer from its named arrays."""
        from factrank.families.attention.attention_arrays import model_from_arrays  # noqa: PLC0415

        n_keys, n_queries, n_values = sizes
        return model_from_arrays(spec, (n_keys, n_queries, n_values), parts)


FUSED = FusedEngine()
FAMILY = AttentionFamily()
