"""Family: the interface between a kind of model and the rest of the package.

Lanes, store, estimates, statistics, reports and commands call only these methods and never refer to a model by name.
Each family is one folder. Families are found through the table in `registry`, entry points of other packages, or
`register_family`.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, cast, runtime_checkable

from factrank.databases import Database
from factrank.errors import InputError
from factrank.experiments.registry import EVERY_STOP
from factrank.experiments.specs import DataSpec, Measure, ModelSpec, Presentation, ResultColumn, source_of

if TYPE_CHECKING:
    from pathlib import Path

    import numpy as np
    from jaxtyping import Shaped

    from factrank.certificates import Prover
    from factrank.experiments.checks import Finished
    from factrank.experiments.models import Constructed
    from factrank.experiments.run_checkpoints import Checkpoints
    from factrank.experiments.specs import Trial
    from factrank.experiments.task import Task

LANES = "lanes"
"""Name of the engine that can train every family."""


class Work(NamedTuple):
    """Estimated cost of a trial, computed from its sizes. Used to order bundles and to predict the time of a study.

    Arguments:
        parameters: Number of scalars in the model.
        products: Approximate number of multiplications in the forward passes of one epoch.
        numbers: Approximate number of values that a forward pass in lanes keeps for the backward pass, excluding
            weights.
        numbers_elsewhere: The same for an engine of the family.
    """

    parameters: int
    products: int
    numbers: int
    numbers_elsewhere: int = 0


@runtime_checkable
class Engine(Protocol):
    """An engine that trains the models of one family faster than lanes, if it supports the trial."""

    name: str

    def platform_of(self, trial: Trial, data: Any, device: str) -> str | None:
        """Return the platform on which it trains this trial, or None to use lanes.

        Raises:
            InputError: If the trial requests this engine and the engine does not support it.
        """

    def run(
        self, trials: Sequence[Trial], tasks: Sequence[Any], checkpoints: Checkpoints | None, platform: str
    ) -> Generator[tuple[list[Finished], int], None, None]:
        """Train the trials; yield finished ones as they end, and the epochs completed by those still training."""

    def marks(self, device: str) -> Mapping[str, str] | None:
        """Return what a checkpoint must match to resume bit for bit on this device; None if it cannot train here."""

    def at_once(self) -> int:
        """Return how many models train in parallel on this machine."""


@runtime_checkable
class Form(Protocol):
    """A closed form: weights given by a formula."""

    name: str

    def refusal(self, database: Any, precision: Any) -> str | None:
        """Return why it cannot store this data at this precision, or None if it can."""


@dataclass(frozen=True)
class SizedForm(Form):
    """A closed form for models of a given size. Whether it supports the data is only known when it is built."""

    name: str

    def refusal(self, database: Any, precision: Any) -> str | None:  # noqa: ARG002
        """Return None; the family checks the data."""
        return None


@runtime_checkable
class Family(Protocol):
    """A kind of model. Methods that most families have in common are implemented here."""

    name: str
    models: Mapping[str, type]
    """Specification classes of its models, by their `kind` in stored trials."""
    data: Mapping[str, type] = {}
    """Specification classes of data that only this family reads, by `kind`. Every family can read databases."""
    data_in_files: Mapping[str, Mapping[str, type]] = {}
    """How study files name this data: {"examples": {"random": RandomExamples}} means `examples: random`."""
    presentation: type[Presentation] | None = None
    """Class from `data` that describes how facts are presented to a model; None if the family has no such options."""
    starts: tuple[str, ...] = ()
    """Weights that training can start from, in addition to random ones."""
    stops: tuple[str, ...] = EVERY_STOP
    """Metrics at which training can stop."""
    measures: Mapping[str, type[Measure]] = {}
    """Measures of its models by `kind`, in addition to `EVERY_MEASURE`."""
    columns: Sequence[ResultColumn] = ()
    """Columns that all its trials have, in addition to the columns of every family."""
    size_names: tuple[str, ...] = ("n_keys", "n_queries", "n_values")
    """Numbers that, together with the specification, determine the shapes of all parts of a model."""

    @property
    def engines(self) -> Sequence[Engine]:
        """Engines of this family, tried before lanes."""
        return ()

    @property
    def forms(self) -> Mapping[str, Form]:
        """Closed forms by name."""
        return {}

    def refusal(self, spec: ModelSpec, data: object) -> str | None:
        """Return why this model cannot be trained on this data (or data of this description), or None if it can."""
        if isinstance(data, Database):
            return None
        from factrank.experiments.specs import Generated, Given  # noqa: PLC0415 - avoids an import cycle

        known = (Generated, Given) if self.presentation is None else (Generated, Given, self.presentation)
        is_facts = isinstance(data, known) and isinstance(source_of(cast("DataSpec", data)), Generated | Given)
        return None if is_facts else f"a {type(spec).__name__} reads facts; got {type(data).__name__}"

    def task(self, trial: Trial, data: Any) -> Task:
        """Return the task that trains a trial on its data."""

    def work(self, trial: Trial, data: Any) -> Work:
        """Return the estimated cost of a trial on its data."""

    def probe(self, trial: Trial) -> Trial:
        """Return a trial with equally slow epochs but fast setup: no closed form is solved before training."""
        return trial

    def construct(self, data: Any, spec: Any, form: str | None = None, **options: Any) -> Constructed:  # noqa: ARG002
        """Construct a model of this size in one of the `forms`, with its certificate.

        Arguments:
            data: Data that the model should recall.
            spec: Sizes and options of the model.
            form: Name of the closed form; None selects the best one.
            options: `precision`, `seed` and options of the family.

        Raises:
            InputError: If the family has no closed forms.
        """
        raise InputError(f"no closed form is known for models of the family {self.name}")

    def spec_of(self, model: object) -> Any:
        """Return the specification of a model, as far as the model knows it; None if it belongs to another family."""
        shape = getattr(model, "shape", None)
        return shape if type(shape) in self.models.values() else None

    proof_option_names: tuple[str, ...] = ()
    """Options of a proof that users can set."""

    def prover(self, model: Any, data: Any, **options: Any) -> Prover:  # noqa: ARG002
        """Return the prover that `certify` needs to show that a model recalls its data; `options` configure the proof.

        Raises:
            InputError: If the family has no proof.
        """
        raise InputError(f"no proof is known for models of the family {self.name}")

    def proof_options(self, spec: Any) -> Mapping[str, Any]:  # noqa: ARG002
        """Return the options of the proof that follow from a specification, such as the sequence length."""
        return {}

    file_format: str | None = None
    """Format of its files; None for the format of `model_files`, which supports every family."""

    def to_saved(self, model: Any, data: Any, spec: Any, notes: Mapping[str, str]) -> Any:
        """Return the contents of a model file, an object with `model`, `data`, `spec` and `notes`."""
        from factrank.experiments.models import SavedModel  # noqa: PLC0415 - avoids an import cycle

        return SavedModel(model, data, spec, notes)

    def write(self, path: Path, saved: Any) -> None:
        """Write a model file. The caller must have locked it."""
        from factrank.experiments.models import write_model_file  # noqa: PLC0415

        write_model_file(path, saved, self)

    def read(self, path: Path) -> Any:
        """Return the contents of one of its files."""
        from factrank.experiments.models import read_model_file  # noqa: PLC0415

        return read_model_file(path)

    def edit(self, path: Path, changes: Sequence[Any], *, force: bool = False) -> Any:  # noqa: ARG002
        """Set and delete facts of the model in a file, which is replaced if the result is certified, or with `force`.

        Raises:
            InputError: If the family does not support editing.
        """
        raise InputError(f"{path}: facts of this {self.name} cannot be edited one by one; construct it again")

    def data_parts(self, data: Any) -> tuple[Mapping[str, Shaped[np.ndarray, "..."]], Any]:
        """Return the data as arrays for a file, and a specification of everything that arrays cannot represent."""
        from factrank.nn import facts_to_tensors  # noqa: PLC0415

        return facts_to_tensors(data), None

    def data_from_parts(self, parts: Mapping[str, Shaped[np.ndarray, "..."]], described: object) -> Any:
        """Return the data for the results of `data_parts`.

        Raises:
            InputError: If these are not data of the family.
        """
        from factrank.nn import facts_from_tensors  # noqa: PLC0415

        if described is not None:
            raise InputError(f"facts have no description; got {str(described)[:60]!r}")
        return facts_from_tensors(parts)

    def sizes(self, model: Any) -> tuple[int, ...]:
        """Return the `size_names` of a model."""
        return tuple(getattr(model, name) for name in self.size_names)

    def from_parts(self, spec: Any, sizes: tuple[int, ...], parts: Mapping[str, Shaped[np.ndarray, "..."]]) -> Any:
        """Return the model with these arrays.

        Raises:
            InputError: If names, shapes or types of the arrays do not match the specification.
        """
