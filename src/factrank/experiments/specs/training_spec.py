"""Training: how a model is trained, in words that every engine understands."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from factrank.errors import InputError
from factrank.experiments.registry import EVERY_ENGINE, engine_names
from factrank.experiments.specs.field_checks import as_floats
from factrank.experiments.specs.specification import NO_OPTIONS, Options, to_plain
from factrank.nn import require_sizes

Stop = Literal["never", "recall", "recall_tau", "recall_sequences"]
Schedule = Literal["constant", "cosine"]
TrainingPrecision = Literal["float32", "tf32", "float64", "bfloat16"]


@dataclass(frozen=True)
class Optimiser:
    """An optimiser of optax by name, with its options beside the learning rate."""

    name: str = "adam"
    options: Options = NO_OPTIONS

    def __post_init__(self) -> None:
        if not isinstance(self.name, str):
            raise InputError(f"an optimiser is given by its name; got {self.name!r}")
        given: object = self.options
        if isinstance(given, dict):
            object.__setattr__(self, "options", Options.of(given))
        to_plain(self.options)  # raises where a value is no number, text or list


@dataclass(frozen=True)
class Training:
    """How a model is trained.

    An epoch is one pass over the facts: one step on all of them, or, with a `batch_size`, one step per batch in a new
    random order. Models of sequences are trained on sampled ones: there an epoch is one step of `batch_size` new
    sequences, 1,024 if not given. Memorisers of examples go through these in a new random order in every pass: there
    too an epoch is one step, on the next `batch_size` examples, 256 if not given. Weight decay is decoupled: each step
    also subtracts learning_rate * weight_decay * weights. `stop` ends a run when the recall, or the tau-recall, of all
    facts is at least `stop_at` at a check, every `check_every` epochs; models of sequences may also stop by the recall
    of sequences. `frozen` names parts that are not trained. Attention scores are multiplied by `score_scale`. float32
    means full float32 products, also where a GPU would round them to tf32. bfloat16 keeps the weights and the optimiser
    in float32; losses, gradients and recalls are those of the model rounded to bfloat16 and computed in it.

    `schedule`: the learning rate stays as it is, or falls to 0 by half a cosine wave until the last epoch. Before that,
    in the first `warm_up` share of the epochs, it rises in a line from 1/100 of itself.

    Memories and models of sequences may see some facts more often: the key of code i has a frequency that is
    proportional to (i + 1)^-`key_exponent`, queries likewise. Memories weigh their losses by it, sequences are sampled
    with it. `copy_share` of the sequences of a batch are copying ones, for models that copy. A model refuses options
    that it does not know.
    """

    optimiser: Optimiser = Optimiser()
    learning_rate: float = 0.01
    weight_decay: float = 0.0
    epochs: int = 2000
    batch_size: int | None = None
    stop: Stop = "never"
    check_every: int = 10
    frozen: tuple[str, ...] = ()
    score_scale: float = 1.0
    precision: TrainingPrecision = "float32"
    engine: str = "auto"
    stop_at: float = 1.0
    key_exponent: float = 0.0
    query_exponent: float = 0.0
    copy_share: float = 0.0
    schedule: Schedule = "constant"
    warm_up: float = 0.0

    def __post_init__(self) -> None:
        require_sizes({"epochs": self.epochs}, least=0)
        require_sizes({"check_every": self.check_every})
        if self.batch_size is not None:
            require_sizes({"batch_size": self.batch_size})
        as_floats(self, "learning_rate", "weight_decay", "score_scale", "stop_at", "key_exponent", "query_exponent")
        as_floats(self, "copy_share", "warm_up")
        if not 0 < self.stop_at <= 1:
            raise InputError(f"stop_at is a share of the facts, more than 0 and at most 1; got {self.stop_at}")
        if self.copy_share > 1:
            raise InputError(f"copy_share is a share of a batch, from 0 to 1; got {self.copy_share}")
        if self.warm_up >= 1:
            raise InputError(f"warm_up is a share of the epochs, 0 or more and less than 1; got {self.warm_up}")
        choices_of = {"stop": Stop, "precision": TrainingPrecision, "schedule": Schedule}
        for name, kind in choices_of.items():
            if getattr(self, name) not in get_args(kind):
                choices = ", ".join(get_args(kind))
                raise InputError(f"{name} must be one of {choices}; got {getattr(self, name)!r}")
        if self.engine not in EVERY_ENGINE and self.engine not in engine_names():
            engines = ", ".join((*EVERY_ENGINE, *engine_names()))
            raise InputError(f"engine must be one of {engines}; got {self.engine!r}")
        if not isinstance(self.optimiser, Optimiser):
            raise InputError(f"optimiser must be an Optimiser; got {self.optimiser!r}")
        frozen: object = self.frozen
        if not isinstance(frozen, tuple | list) or not all(isinstance(part, str) for part in frozen):
            raise InputError(f"frozen is a list of names of parts; got {frozen!r}")
        object.__setattr__(self, "frozen", tuple(sorted(set(frozen))))
