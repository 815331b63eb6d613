"""Trial: the frozen specification of one run, and its identity.

A trial specifies data, model, training, measures, initial weights and seed. Its identity is the SHA-256 of its
canonical JSON (`hash`). The seed determines all random numbers of the run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields
from functools import cached_property, wraps
from typing import TYPE_CHECKING, Any, TypeVar, cast

from factrank.errors import InputError
from factrank.experiments.registry import families, family_of
from factrank.experiments.specs.measures import EVERY_MEASURE, Curve, Measure, TauRecall
from factrank.experiments.specs.roles import DataSpec, ModelSpec, simplest, source_of
from factrank.experiments.specs.specification import Plain, from_plain, has_role, hash_of, kind_of, to_plain
from factrank.experiments.specs.training_spec import Training
from factrank.nn import require_sizes

SCHEMA = 2
LARGEST_SEED = 2**32 - 1
DEFAULT_TRAINING = Training()
DEFAULT_TAUS = TauRecall().taus
DRAWN = "drawn"
"""Start that every family supports: random initial weights."""

Asked = TypeVar("Asked", bound=Measure)

if TYPE_CHECKING:

    class _AskedFor:
        """Measures of a trial: one or several are accepted, a tuple is stored."""

        def __get__(self, trial: object, owner: type) -> tuple[Measure, ...]: ...
        def __set__(self, trial: object, given: Measure | Sequence[Measure]) -> None: ...


@dataclass(frozen=True)
class Trial:
    """One fully specified run.

    Arguments:
        data: Description of the data, such as `generated(...)`.
        model: Specification of the model, such as a `LayerShape`.
        training: How the model is trained.
        measures: One or several measures in addition to loss, recall and margins, for example
            `(Ranks(), Curve((0, 100, 1000)))`.
        start: "drawn" (random weights), or one of the `starts` of the family, such as "solved".
        seed: Determines all random numbers of the run.

    Raises:
        InputError: If the family of the model does not support these data, measures, start or stop.

    >>> from factrank import LayerShape, generated
    >>> facts = generated("uniform", n_keys=20, n_queries=10, n_values=20, seed=0)
    >>> trial = Trial(facts, LayerShape(d_model=10, n_heads=1, d_qk=5, d_vo=5), seed=3)
    >>> trial.hash[:12]
    '0bd4a03b8215'
    >>> Trial.from_dict(trial.to_dict()) == trial
    True
    """

    data: DataSpec
    model: ModelSpec
    training: Training = DEFAULT_TRAINING
    if TYPE_CHECKING:
        measures: _AskedFor = _AskedFor()
    else:
        measures: tuple[Measure, ...] = ()
    start: str = DRAWN
    seed: int = 0

    def __post_init__(self) -> None:
        family = family_of(self.model)
        if not has_role(self.data, DataSpec):
            raise InputError(f"expected a description of data, such as generated(...); got {self.data!r}")
        if not isinstance(self.training, Training):
            raise InputError(f"expected a Training; got {self.training!r}")
        object.__setattr__(self, "data", simplest(self.data))
        refusal = family.refusal(self.model, self.data)
        if refusal is not None:
            raise InputError(refusal)
        object.__setattr__(self, "measures", self._sorted_measures(family.measures.values()))
        if self.start not in (DRAWN, *family.starts):
            choices = ", ".join((DRAWN, *family.starts))
            raise InputError(f"start of a {type(self.model).__name__} must be one of {choices}; got {self.start!r}")
        if self.training.stop not in family.stops:
            choices = ", ".join(family.stops)
            raise InputError(
                f"stop of a {type(self.model).__name__} must be one of {choices}; got {self.training.stop!r}"
            )
        require_sizes({"seed": self.seed}, least=0)
        if self.seed > LARGEST_SEED:
            raise InputError(f"seed must be at most {LARGEST_SEED}; got {self.seed}")
        if any(epoch > self.training.epochs for epoch in self.curve_epochs):
            raise InputError(f"the curve extends beyond the last epoch, {self.training.epochs}")

    def _sorted_measures(self, of_family: Iterable[type[Measure]]) -> tuple[Measure, ...]:
        """Sort the measures by kind and omit defaults; raise an `InputError` for unknown or repeated ones."""
        given = self.measures
        if not given:
            return ()
        known = {*EVERY_MEASURE.values(), *of_family}
        for measure in given:
            if type(measure) not in known:
                names = ", ".join(sorted(one.__name__ for one in known))
                what = type(measure).__name__
                raise InputError(f"a {type(self.model).__name__} has no measure {what}; it has {names}")
        if len({type(measure) for measure in given}) < len(given):
            raise InputError("each measure may be given once; got " + ", ".join(type(one).__name__ for one in given))
        kept = [measure for measure in given if not (measure.implied and measure == type(measure)())]
        return tuple(sorted(kept, key=lambda measure: str(kind_of(type(measure)))))

    def measure(self, kind: type[Asked]) -> Asked | None:
        """Return the measure of this class, or None if the trial does not have it."""
        return next((one for one in self.measures if isinstance(one, kind)), None)

    @property
    def source(self) -> DataSpec:
        """Description of the data without their presentation."""
        return source_of(self.data)

    @cached_property
    def taus(self) -> tuple[float, ...]:
        """Thresholds of softmax>=tau. The first one defines "tau-recall"."""
        asked = self.measure(TauRecall)
        return DEFAULT_TAUS if asked is None else asked.taus

    @cached_property
    def curve_epochs(self) -> tuple[int, ...]:
        """Epochs of the curve; empty if there is no curve."""
        asked = self.measure(Curve)
        return () if asked is None else asked.epochs

    @property
    def measured_on_host(self) -> bool:
        """True if a measure is computed on the host after training, which may take longer than the training."""
        return any(measure.on_host for measure in self.measures)

    def to_dict(self) -> dict[str, Plain]:
        """Return the trial as plain data with the schema version; fields with their default value are omitted."""
        return {"version": SCHEMA, **cast("dict[str, Plain]", to_plain(self))}

    @classmethod
    def from_dict(cls, plain: dict[str, Plain]) -> Trial:
        """Convert the result of `to_dict` back to a trial.

        Raises:
            InputError: If keys are unknown or missing, or values have the wrong type.
        """
        version = plain.get("version") if isinstance(plain, dict) else None
        if type(version) is not int or version != SCHEMA:
            raise InputError(_other_version(plain))
        families()  # registers the classes that the dictionary names
        return from_plain(cls, {name: value for name, value in plain.items() if name != "version"})

    @cached_property
    def hash(self) -> str:
        """SHA-256 of the canonical JSON, which identifies the trial."""
        return hash_of(self.to_dict())


def _with_a_tuple(init: Callable[..., None]) -> Callable[..., None]:
    """Accept a single measure, or a list of them."""

    @wraps(init)
    def initialise(self: Trial, *parts: Any, **named: Any) -> None:
        if "measures" in named:
            named["measures"] = _as_tuple(named["measures"])
        elif len(parts) > PLACE_OF_MEASURES:
            before, after = parts[:PLACE_OF_MEASURES], parts[PLACE_OF_MEASURES + 1 :]
            parts = (*before, _as_tuple(parts[PLACE_OF_MEASURES]), *after)
        init(self, *parts, **named)

    return initialise


def _as_tuple(given: object) -> tuple[object, ...]:
    if isinstance(given, Measure):
        return (given,)
    if not isinstance(given, tuple | list) or not all(isinstance(one, Measure) for one in given):
        raise InputError(f"measures must be a tuple of measures, such as (Curve((0, 100)),); got {given!r}")
    return tuple(given)


PLACE_OF_MEASURES = [field.name for field in fields(Trial)].index("measures")
Trial.__init__ = _with_a_tuple(Trial.__init__)  # type: ignore[method-assign]


def _other_version(plain: object) -> str:
    if isinstance(plain, dict) and plain.get("version") == 1:
        return f"this trial was written by factrank 0.1; {CONVERTER}"
    return f"a trial must be a dictionary with version {SCHEMA}"


CONVERTER = "convert it with `python tools/convert_from_0_1.py OLD NEW` of the repository"
"""How to upgrade stores and files of version 0.1."""
