"""Training: how a model is trained, independently of the engine."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import InitVar, dataclass, fields
from functools import wraps
from typing import TYPE_CHECKING, Any, Literal, get_args

from factrank.errors import InputError
from factrank.experiments.registry import EVERY_ENGINE, EVERY_STOP, engine_names, stop_names
from factrank.experiments.specs.field_checks import as_floats
from factrank.experiments.specs.specification import NO_OPTIONS, Options, to_plain
from factrank.nn import require_sizes

Schedule = Literal["constant", "cosine"]
TrainingPrecision = Literal["float32", "tf32", "float64", "bfloat16"]


@dataclass(frozen=True)
class Optimiser:
    """An optax optimiser, given by name, with its options except the learning rate."""

    name: str = "adam"
    options: Options = NO_OPTIONS

    def __post_init__(self) -> None:
        if not isinstance(self.name, str):
            raise InputError(f"the name of an optimiser must be a string; got {self.name!r}")
        given: object = self.options
        if isinstance(given, Mapping):
            object.__setattr__(self, "options", Options.of(given))
        elif not isinstance(given, Options):
            raise InputError(f"the options of an optimiser must be a dictionary; got {given!r}")
        to_plain(self.options)  # raises if a value is not a number, string or list


@dataclass(frozen=True)
class Training:
    """How a model is trained.

    An epoch is one pass over the facts: one step on all of them or, with a `batch_size`, one step per batch in a new
    random order. Sequence models train on sampled sequences: an epoch is one step on `batch_size` new sequences, 1,024
    by default; 256 for language models. Memorisers visit their examples in a new random order in every pass: an epoch
    is one step on the next `batch_size` examples, 256 by default.

    Arguments:
        optimiser: An optax optimiser, by name or as `Optimiser(name, options)`. `optimizer` is an alias.
        weight_decay: Decoupled weight decay: each step also subtracts learning_rate * weight_decay * weights.
        schedule: Keeps the learning rate constant, or lowers it to 0 along half a cosine wave until the last epoch.
        warm_up: Fraction of the epochs at the start in which the learning rate increases linearly from 1/100 of its
            value.
        stop: Ends a run when the recall ("recall") or tau-recall ("recall_tau") of all facts is at least `stop_at`,
            checked every `check_every` epochs. Families may support other metrics.
        frozen: Names of parts that are not trained.
        score_scale: Factor of the attention scores during training. It is folded into the weights of the trained model.
        precision: float32 uses full float32 products, even if the GPU would use tf32 by default. bfloat16 keeps the
            weights and the optimiser state in float32, and computes losses, gradients and recalls with weights rounded
            to bfloat16.
        engine: "auto", "lanes", or an engine of the family.

    >>> Training(optimizer="sgd") == Training(optimiser=Optimiser("sgd"))
    True
    """

    optimiser: Optimiser = Optimiser()
    learning_rate: float = 0.01
    weight_decay: float = 0.0
    epochs: int = 2000
    batch_size: int | None = None
    stop: str = "never"
    check_every: int = 10
    frozen: tuple[str, ...] = ()
    score_scale: float = 1.0
    precision: TrainingPrecision = "float32"
    engine: str = "auto"
    stop_at: float = 1.0
    schedule: Schedule = "constant"
    warm_up: float = 0.0

    if TYPE_CHECKING:
        optimizer: InitVar[Optimiser | str | None] = None
    else:

        @property
        def optimizer(self) -> Optimiser:
            """The `optimiser`."""
            return self.optimiser

    def __post_init__(self, optimizer: Optimiser | str | None = None) -> None:  # noqa: RUF033 - see _in_both_spellings
        require_sizes({"epochs": self.epochs}, least=0)
        require_sizes({"check_every": self.check_every})
        if self.batch_size is not None:
            require_sizes({"batch_size": self.batch_size})
        as_floats(self, "learning_rate", "weight_decay", "score_scale", "stop_at", "warm_up")
        if not 0 < self.stop_at <= 1:
            raise InputError(f"stop_at must be a fraction of the facts in (0, 1]; got {self.stop_at}")
        if self.warm_up >= 1:
            raise InputError(f"warm_up must be a fraction of the epochs in [0, 1); got {self.warm_up}")
        for name, kind in {"precision": TrainingPrecision, "schedule": Schedule}.items():
            if getattr(self, name) not in get_args(kind):
                choices = ", ".join(get_args(kind))
                raise InputError(f"{name} must be one of {choices}; got {getattr(self, name)!r}")
        if self.stop not in EVERY_STOP and self.stop not in stop_names():
            raise InputError(f"stop must be one of {', '.join((*EVERY_STOP, *stop_names()))}; got {self.stop!r}")
        if self.engine not in EVERY_ENGINE and self.engine not in engine_names():
            engines = ", ".join((*EVERY_ENGINE, *engine_names()))
            raise InputError(f"engine must be one of {engines}; got {self.engine!r}")
        frozen: object = self.frozen
        if not isinstance(frozen, tuple | list) or not all(isinstance(part, str) for part in frozen):
            raise InputError(f"frozen must be a list of part names; got {frozen!r}")
        object.__setattr__(self, "frozen", tuple(sorted(set(frozen))))


def _in_both_spellings(init: Callable[..., None]) -> Callable[..., None]:
    """Accept `optimizer=` for `optimiser=`, and a name for an optimiser without options."""

    @wraps(init)
    def initialise(self: Training, *positional: Any, **named: Any) -> None:
        if "optimizer" in named:
            if positional or "optimiser" in named:
                why = "; `dataclasses.replace` passes every field, so change optimiser there"
                raise InputError(
                    "optimizer is an alias of optimiser; pass only one of them"
                    + (why if len(named) > len(fields(Training)) else "")
                )
            named["optimiser"] = named.pop("optimizer")
        if positional:
            positional = (_as_optimiser(positional[0]), *positional[1:])
        elif "optimiser" in named:
            named["optimiser"] = _as_optimiser(named["optimiser"])
        init(self, *positional, **named)

    return initialise


def _as_optimiser(given: object) -> Optimiser:
    if isinstance(given, str):
        return Optimiser(given)
    if not isinstance(given, Optimiser):
        raise InputError(f"optimiser must be a name or an Optimiser; got {given!r}")
    return given


Training.__init__ = _in_both_spellings(Training.__init__)  # type: ignore[method-assign]
