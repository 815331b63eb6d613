"""Family: a kind of model together with everything specific to it, as the core sees it.

Lanes, store, estimates, statistics, reports and commands ask a family for what they need and know no model by name. A
family is one folder; it is found through the table of `registry`, an entry point of another package, or a call of
`register_family`.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, runtime_checkable

from factrank.databases import Database
from factrank.errors import InputError
from factrank.experiments.specs import ModelSpec

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
"""The engine that trains every family."""


class Work(NamedTuple):
    """How much work a trial is: estimates from its sizes alone, which order bundles and foretell a study.

    Arguments:
        parameters: all scalars of the model.
        products: about how many multiplications the forward passes of one epoch take.
        numbers: about how many numbers a forward pass in lanes keeps for the backward pass, in addition to the weights.
        numbers_elsewhere: the same in an engine of the family's own.
    """

    parameters: int
    products: int
    numbers: int
    numbers_elsewhere: int = 0


@runtime_checkable
class Engine(Protocol):
    """What trains the models of a family faster than lanes do, where it applies."""

    name: str

    def platform_of(self, trial: Trial, data: Any, device: str) -> str | None:
        """The platform on which it trains this trial; None if lanes train it. An `InputError` if it was asked for."""

    def run(
        self, trials: Sequence[Trial], tasks: Sequence[Any], checkpoints: Checkpoints | None, platform: str
    ) -> Generator[tuple[list[Finished], int], None, None]:
        """Train these trials; finished ones come out as they end, with the epochs behind those in flight."""

    def marks(self, device: str) -> Mapping[str, str] | None:
        """What a checkpoint must match to resume with the same bits here; None if it cannot train here."""

    def at_once(self) -> int:
        """How many models train at the same time on this machine."""


class Measure(NamedTuple):
    """A column of results: its name, what people read in its place, its unit, and what it is.

    A name that ends in `*` stands for all columns that begin so, such as `recall_*`, one for each threshold; a `*` in
    its label is the number at the end of the name.
    """

    name: str
    label: str = ""
    unit: str = ""
    meaning: str = ""


@runtime_checkable
class Form(Protocol):
    """A closed form: weights given by a formula."""

    name: str

    def refusal(self, database: Any, precision: Any) -> str | None:
        """Why it cannot hold this data in this precision; None if it can."""


@dataclass(frozen=True)
class SizedForm(Form):
    """A closed form for models of a size that is given; what it needs of its data is known when it is built."""

    name: str

    def refusal(self, database: Any, precision: Any) -> str | None:  # noqa: ARG002
        """None: the family says what is wrong with data."""
        return None


@runtime_checkable
class Family(Protocol):
    """A kind of model. What most families share is written here; the rest each family says itself."""

    name: str
    models: Mapping[str, type]
    """The classes that describe its models, by their `kind` in stored trials."""
    data: Mapping[str, type] = {}
    """The classes of its own that describe data, likewise; every family may read databases."""
    data_in_files: Mapping[str, Mapping[str, type]] = {}
    """How a study in a file names such data: {"examples": {"random": RandomExamples}} is `examples: random`."""
    measures: Sequence[Measure] = ()
    """The numbers that its trials have in addition to what every trial has."""
    size_names: tuple[str, ...] = ("n_keys", "n_queries", "n_values")
    """The numbers that, with its specification, fix the sizes of all parts of a model."""

    @property
    def engines(self) -> Sequence[Engine]:
        """Engines of its own, tried before lanes."""
        return ()

    @property
    def forms(self) -> Mapping[str, Form]:
        """Its closed forms by name."""
        return {}

    def refusal(self, spec: ModelSpec, data: object) -> str | None:
        """Why this model cannot be trained on this data, or on data of this description; None if it can."""
        if isinstance(data, Database):
            return None
        from factrank.experiments.specs import Generated, Given  # noqa: PLC0415 - which asks for families

        is_facts = isinstance(data, Generated | Given)
        return None if is_facts else f"a {type(spec).__name__} reads facts; got {type(data).__name__}"

    def task(self, trial: Trial, data: Any) -> Task:
        """What an engine needs to train a trial on its data."""

    def work(self, trial: Trial, data: Any) -> Work:
        """How much work a trial on its data is."""

    def probe(self, trial: Trial) -> Trial:
        """A trial whose epochs take as long, but that is set up at once: closed forms before training left out."""
        return trial

    def construct(self, data: Any, spec: Any, form: str | None = None, **options: Any) -> Constructed:  # noqa: ARG002
        """A model of this size in one of the `forms`, with its certificate.

        Arguments:
            data: what it should recall.
            spec: its sizes and options.
            form: the name of the closed form; the best one if not given.
            options: `precision` and `seed`, and those of the family.
        """
        raise InputError(f"no closed form is known for models of the family {self.name}")

    def spec_of(self, model: object) -> Any:
        """The specification of a model of this family, as far as the model knows it; None if it is of another."""
        shape = getattr(model, "shape", None)
        return shape if type(shape) in self.models.values() else None

    proof_option_names: tuple[str, ...] = ()
    """What users may say of a proof."""

    def prover(self, model: Any, data: Any, **options: Any) -> Prover:  # noqa: ARG002
        """What `certify` needs to prove that a model recalls its data; the options configure the proof."""
        raise InputError(f"no proof is known for models of the family {self.name}")

    def proof_options(self, spec: Any) -> Mapping[str, Any]:  # noqa: ARG002
        """The options of the proof that follow from a specification, such as the length of sequences."""
        return {}

    file_format: str | None = None
    """The format of its files; None is that of `model_files`, which every family may use."""

    def to_saved(self, model: Any, data: Any, spec: Any, notes: Mapping[str, str]) -> Any:
        """What a file of a model holds; it has a `model`, `data`, `spec` and `notes`."""
        from factrank.experiments.models import SavedModel  # noqa: PLC0415 - which asks for families

        return SavedModel(model, data, spec, notes)

    def write(self, path: Path, saved: Any) -> None:
        """Write a file that nobody else writes at the same time."""
        from factrank.experiments.models import write_model_file  # noqa: PLC0415

        write_model_file(path, saved, self)

    def read(self, path: Path) -> Any:
        """What one of its files holds."""
        from factrank.experiments.models import read_model_file  # noqa: PLC0415

        return read_model_file(path)

    def edit(self, path: Path, changes: Sequence[Any], *, force: bool = False) -> Any:  # noqa: ARG002
        """Set and delete facts of a model in a file, which is replaced if all is certified or by force."""
        raise InputError(f"{path}: facts of this {self.name} cannot be edited one by one: construct it again")

    def data_parts(self, data: Any) -> tuple[Mapping[str, Shaped[np.ndarray, "..."]], Any]:
        """What it reads, as arrays for a file, and the specification of what arrays cannot say."""
        from factrank.nn import facts_to_tensors  # noqa: PLC0415

        return facts_to_tensors(data), None

    def data_from_parts(self, parts: Mapping[str, Shaped[np.ndarray, "..."]], described: object) -> Any:
        """The way back; an `InputError` if these are not its data."""
        from factrank.nn import facts_from_tensors  # noqa: PLC0415

        if described is not None:
            raise InputError(f"the data are facts, without a description; got {str(described)[:60]!r}")
        return facts_from_tensors(parts)

    def sizes(self, model: Any) -> tuple[int, ...]:
        """The `size_names` of a model."""
        return tuple(getattr(model, name) for name in self.size_names)

    def from_parts(self, spec: Any, sizes: tuple[int, ...], parts: Mapping[str, Shaped[np.ndarray, "..."]]) -> Any:
        """The model of these arrays; an `InputError` if they are not its parts."""
