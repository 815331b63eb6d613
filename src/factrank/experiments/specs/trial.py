"""Trial: the frozen specification of one run, and its identity.

A trial says which database, which model, how it is trained, from which seed, and what is measured. Its identity is the
SHA-256 of its canonical JSON (`hash`); everything that a run draws at random follows from its seed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import inf, isfinite
from typing import Any, Literal, cast, get_args

from factrank.databases.database import Database
from factrank.databases.generators.registry import generate
from factrank.errors import InputError
from factrank.experiments.specs.specification import Options, Plain, from_plain, hash_of, register_kind, to_plain
from factrank.families.attention.layer_shape import LayerShape
from factrank.families.attention.pair_transformer import TransformerShape
from factrank.families.factual_recall.factual_recall_shape import FactualRecallOneHotShape, FactualRecallShape
from factrank.families.memoriser.examples.examples import AnyDatabase, Examples, RandomExamples
from factrank.families.memoriser.examples.token_examples import TokenExamples
from factrank.families.memoriser.memoriser_shape import MemoriserShape
from factrank.families.memory.memory_shape import MemoryShape
from factrank.nn.sizes import require_sizes

SCHEMA = 1
NO_OPTIONS = Options()
LARGEST_SEED = 2**32 - 1
SEQUENCES = 1024
"""Sequences of a batch where a trial does not say how many."""
EXAMPLES = 256
"""Examples of a batch where a trial does not say how many."""
Stop = Literal["never", "recall", "recall_tau", "recall_sequences"]
Schedule = Literal["constant", "cosine"]
TrainingPrecision = Literal["float32", "tf32", "float64", "bfloat16"]
ReadingPrecision = Literal["float32", "float64", "bfloat16"]
EngineChoice = Literal["auto", "fused", "lanes"]


def _as_floats(spec: object, *names: str) -> None:
    """Integers in the place of real numbers are made real, so that equal trials have equal hashes."""
    for name in names:
        value = getattr(spec, name)
        if isinstance(value, bool) or not isinstance(value, int | float) or not isfinite(value) or value < 0:
            raise InputError(f"{name} must be a finite number, 0 or more; got {value!r}")
        object.__setattr__(spec, name, float(value) + 0.0)  # -0.0 becomes 0.0


@dataclass(frozen=True)
class Generated:
    """A database by the name of its generator and its arguments, its own seed among them; see `generated`."""

    generator: str
    arguments: Options = NO_OPTIONS

    def build(self) -> Database:
        """The facts."""
        return generate(self.generator, **dict(self.arguments))


@dataclass(frozen=True)
class Given:
    """A database, or examples, that are handed in beside the trial, known by their fingerprint."""

    fingerprint: str


DatabaseSpec = Generated | Given | RandomExamples | TokenExamples
ModelSpec = LayerShape | TransformerShape | MemoryShape | FactualRecallShape | FactualRecallOneHotShape | MemoriserShape


def generated(generator: str, /, **arguments: object) -> Generated:
    """The specification of a generated database.

    >>> generated("uniform", n_keys=20, n_queries=10, n_values=20, seed=0).build().n_facts
    200
    """
    return Generated(generator, Options.of(arguments))


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
    engine: EngineChoice = "auto"
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
        _as_floats(self, "learning_rate", "weight_decay", "score_scale", "stop_at", "key_exponent", "query_exponent")
        _as_floats(self, "copy_share", "warm_up")
        if not 0 < self.stop_at <= 1:
            raise InputError(f"stop_at is a share of the facts, more than 0 and at most 1; got {self.stop_at}")
        if self.copy_share > 1:
            raise InputError(f"copy_share is a share of a batch, from 0 to 1; got {self.copy_share}")
        if self.warm_up >= 1:
            raise InputError(f"warm_up is a share of the epochs, 0 or more and less than 1; got {self.warm_up}")
        choices_of = {"stop": Stop, "precision": TrainingPrecision, "engine": EngineChoice, "schedule": Schedule}
        for name, kind in choices_of.items():
            if getattr(self, name) not in get_args(kind):
                choices = ", ".join(get_args(kind))
                raise InputError(f"{name} must be one of {choices}; got {getattr(self, name)!r}")
        if not isinstance(self.optimiser, Optimiser):
            raise InputError(f"optimiser must be an Optimiser; got {self.optimiser!r}")
        frozen: object = self.frozen
        if not isinstance(frozen, tuple | list) or not all(isinstance(part, str) for part in frozen):
            raise InputError(f"frozen is a list of names of parts; got {frozen!r}")
        object.__setattr__(self, "frozen", tuple(sorted(set(frozen))))


@dataclass(frozen=True)
class Readings:
    """Which readouts of a trained model are looked at: every combination of precision, temperature and tau is a row.

    Logits are divided by the temperature. Weights are rounded to the precision, and the forward pass and the softmax
    are computed in it. `ranks`: three proxies of the rank of the tensor of softmax>=tau; `cp`: its numerical CP rank
    too, which takes minutes for large tensors.
    """

    taus: tuple[float, ...] = (0.95,)
    temperatures: tuple[float, ...] = (1.0,)
    precisions: tuple[ReadingPrecision, ...] = ("float32",)
    ranks: bool = False
    cp: bool = False

    def __post_init__(self) -> None:
        _as_thresholds(self)
        _require_flags(self, "ranks", "cp")
        _require_numbers(self, "temperatures")
        if not _are_different(self.temperatures) or not all(0 < one < inf for one in self.temperatures):
            raise InputError(f"temperatures must be different positive numbers, at least one; got {self.temperatures}")
        given, known = self.precisions, get_args(ReadingPrecision)
        if not isinstance(given, tuple | list) or not _are_different(given) or not all(one in known for one in given):
            raise InputError(f"precisions is a list of different ones of {', '.join(known)}; got {given!r}")
        object.__setattr__(self, "precisions", tuple(given))


@dataclass(frozen=True)
class Measures:
    """What is measured at the end beside loss, recall and margins.

    `taus`: thresholds of softmax>=tau; the first is the one that "tau-recall" means. `epochs_to`: the first check at
    which argmax, and softmax>=tau for each tau, is right on every fact.

    On the host, after training, from the weights that are handed out (see `further_measures`): `artifacts`: confident
    predictions where the database says nothing (needs the logits of all keys x queries). `ranks`: certified bounds of
    the ranks of the database and of the layer. `additive`: how many facts only the sum of all paths gets right.
    `readings`: the model under other readouts. `planted_cp`: the rank of the database's tensor, estimated by CP with
    this relative residual.

    Of models of sequences: `contexts`: noise contexts in which every fact is asked for. `parts`: recall of attention
    alone and of the MLP alone. `hallucination`: losses and answers of the relation alone. Of these and of memories:
    `frequency_groups`: recall in so many groups of facts of equal size, the most frequent first.

    Of models of sequences, to compare with protocols that estimate recall on a sample and keep the best checkpoint:
    `test_sequences`: size of a test set, sampled once like training sequences; its recall is `test_recall`. `best`:
    the greatest value of each recall over all checks and recorded epochs, as `best_recall`, `best_test_recall`, ....

    Of memorisers: `saturation`: the share of heads that give one token of the context a weight above this threshold.
    `tolerance`: how far from a real label an answer may be and is still right. `assumptions`: whether the vectors are
    as independent as the theorem of Mahdavi et al. wants them, by so many random subsets of the queries.
    """

    taus: tuple[float, ...] = (0.95,)
    artifacts: bool = False
    epochs_to: bool = False
    ranks: bool = False
    additive: bool = False
    readings: Readings | None = None
    planted_cp: float | None = None
    contexts: int = 4
    parts: bool = False
    hallucination: bool = False
    frequency_groups: int = 0
    test_sequences: int = 0
    best: bool = False
    saturation: float | None = None
    tolerance: float = 0.01
    assumptions: int = 0

    def __post_init__(self) -> None:
        _as_thresholds(self)
        _require_flags(self, "artifacts", "epochs_to", "ranks", "additive", "parts", "hallucination", "best")
        require_sizes({"test_sequences": self.test_sequences}, least=0)
        require_sizes({"contexts": self.contexts})
        require_sizes({"frequency_groups": self.frequency_groups, "assumptions": self.assumptions}, least=0)
        if self.readings is not None and not isinstance(self.readings, Readings):
            raise InputError(f"readings are described by Readings; got {self.readings!r}")
        if self.planted_cp is not None:
            _as_floats(self, "planted_cp")
            if not 0 < self.planted_cp < 1:
                raise InputError(f"planted_cp is a relative residual between 0 and 1; got {self.planted_cp}")
        _as_floats(self, "tolerance")
        if self.saturation is not None:
            _as_floats(self, "saturation")
            if not 0 < self.saturation < 1:
                raise InputError(f"saturation is an attention weight between 0 and 1; got {self.saturation}")

    @property
    def on_host(self) -> bool:
        """Whether something is measured on the host after training, which may take longer than the training."""
        asked = self.artifacts, self.ranks, self.additive, self.readings is not None, self.planted_cp is not None
        return any(asked)


def _as_thresholds(spec: Readings | Measures) -> None:
    _require_numbers(spec, "taus")
    if not _are_different(spec.taus) or not all(0 < tau < 1 for tau in spec.taus):
        raise InputError(f"taus must be different numbers between 0 and 1, at least one; got {spec.taus}")


def _require_numbers(spec: object, name: str) -> None:
    """Lists of numbers become tuples of real ones."""
    given = getattr(spec, name)
    if not isinstance(given, tuple | list) or not all(isinstance(number, int | float) for number in given):
        raise InputError(f"{name} is a list of numbers; got {given!r}")
    object.__setattr__(spec, name, tuple(map(float, given)))


def _require_flags(spec: object, *names: str) -> None:
    for name in names:
        if not isinstance(getattr(spec, name), bool):
            raise InputError(f"{name} must be True or False; got {getattr(spec, name)!r}")


def _are_different(given: Sequence[object]) -> bool:
    """Whether there is at least one, and none comes twice."""
    return 0 < len(given) == len({repr(one) for one in given})


@dataclass(frozen=True)
class Trial:
    """One fully specified run.

    >>> facts = generated("uniform", n_keys=20, n_queries=10, n_values=20, seed=0)
    >>> trial = Trial(facts, LayerShape(d_model=10, n_heads=1, d_qk=5, d_vo=5), seed=3)
    >>> trial.hash[:12]
    '068b1161e087'
    >>> Trial.from_dict(trial.to_dict()) == trial
    True
    """

    database: DatabaseSpec
    model: ModelSpec
    training: Training = Training()
    seed: int = 0
    measures: Measures = Measures()
    curve_epochs: tuple[int, ...] = ()
    """Epochs at which loss and recalls are recorded; 0 is before training."""

    def __post_init__(self) -> None:
        kinds: dict[str, Any] = {
            "database": DatabaseSpec,
            "model": ModelSpec,
            "training": Training,
            "measures": Measures,
        }
        for name, kind in kinds.items():
            if not isinstance(getattr(self, name), kind):
                raise InputError(f"the {name} of a trial is described by other classes; got {getattr(self, name)!r}")
        require_fitting(self.model, self.database)
        if not isinstance(self.curve_epochs, tuple | list):
            raise InputError(f"curve_epochs is a list of epochs; got {self.curve_epochs!r}")
        require_sizes({"seed": self.seed}, least=0)
        if self.seed > LARGEST_SEED:
            raise InputError(f"seed must be at most {LARGEST_SEED}; got {self.seed}")
        for epoch in self.curve_epochs:
            if type(epoch) is not int or epoch < 0:  # long lists are common, and the check in words takes its time
                require_sizes({"an epoch of curve_epochs": epoch}, least=0)
        if any(epoch > self.training.epochs for epoch in self.curve_epochs):
            raise InputError(f"curve_epochs reach beyond the last epoch, {self.training.epochs}")
        object.__setattr__(self, "curve_epochs", tuple(sorted(set(self.curve_epochs))))

    def to_dict(self) -> dict[str, Plain]:
        """The trial as plain data, with the version of its schema; fields at their default are left out."""
        return {"version": SCHEMA, **cast("dict[str, Plain]", to_plain(self))}

    @classmethod
    def from_dict(cls, plain: dict[str, Plain]) -> Trial:
        """The inverse of `to_dict`; unknown or missing keys and wrong types are errors."""
        if not isinstance(plain, dict) or plain.get("version") != SCHEMA:
            raise InputError(f"a trial is a dictionary with version {SCHEMA}")
        return from_plain(cls, {name: value for name, value in plain.items() if name != "version"})

    @cached_property
    def hash(self) -> str:
        """The identity of the trial: SHA-256 of its canonical JSON."""
        return hash_of(self.to_dict())


def require_fitting(model: ModelSpec, database: DatabaseSpec | AnyDatabase) -> None:
    """Raise an `InputError` where a model of vectors is to read facts, or another one examples."""
    reads_vectors, are_vectors = isinstance(model, MemoriserShape), isinstance(database, Examples | TokenExamples)
    if reads_vectors and not are_vectors and not isinstance(database, Given):
        raise InputError(f"a memoriser reads vectors, RandomExamples or VectorExamples; got {type(database).__name__}")
    if are_vectors and not reads_vectors:
        raise InputError(f"examples are read by a memoriser (MemoriserShape); got {type(model).__name__}")


register_kind("generated", Generated)
register_kind("given", Given)
register_kind("attention", LayerShape)
register_kind("transformer", TransformerShape)
register_kind("memory", MemoryShape)
register_kind("sequence", FactualRecallShape)
register_kind("one_hot", FactualRecallOneHotShape)
register_kind("random_examples", RandomExamples)
register_kind("token_examples", TokenExamples)
register_kind("memoriser", MemoriserShape)
register_kind("readings", Readings)
