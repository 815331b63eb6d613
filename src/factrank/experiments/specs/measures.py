"""Measures: what is measured of a trained model beside loss, recall and margins."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import Literal, get_args

from factrank.errors import InputError
from factrank.experiments.specs.field_checks import are_different, as_floats, require_flags, require_numbers
from factrank.experiments.specs.specification import register_kind
from factrank.nn import require_sizes

ReadingPrecision = Literal["float32", "float64", "bfloat16"]


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
        require_flags(self, "ranks", "cp")
        require_numbers(self, "temperatures")
        if not are_different(self.temperatures) or not all(0 < one < inf for one in self.temperatures):
            raise InputError(f"temperatures must be different positive numbers, at least one; got {self.temperatures}")
        given, known = self.precisions, get_args(ReadingPrecision)
        if not isinstance(given, tuple | list) or not are_different(given) or not all(one in known for one in given):
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
        require_flags(self, "artifacts", "epochs_to", "ranks", "additive", "parts", "hallucination", "best")
        require_sizes({"test_sequences": self.test_sequences}, least=0)
        require_sizes({"contexts": self.contexts})
        require_sizes({"frequency_groups": self.frequency_groups, "assumptions": self.assumptions}, least=0)
        if self.readings is not None and not isinstance(self.readings, Readings):
            raise InputError(f"readings are described by Readings; got {self.readings!r}")
        if self.planted_cp is not None:
            as_floats(self, "planted_cp")
            if not 0 < self.planted_cp < 1:
                raise InputError(f"planted_cp is a relative residual between 0 and 1; got {self.planted_cp}")
        as_floats(self, "tolerance")
        if self.saturation is not None:
            as_floats(self, "saturation")
            if not 0 < self.saturation < 1:
                raise InputError(f"saturation is an attention weight between 0 and 1; got {self.saturation}")

    @property
    def on_host(self) -> bool:
        """Whether something is measured on the host after training, which may take longer than the training."""
        asked = self.artifacts, self.ranks, self.additive, self.readings is not None, self.planted_cp is not None
        return any(asked)


def _as_thresholds(spec: Readings | Measures) -> None:
    require_numbers(spec, "taus")
    if not are_different(spec.taus) or not all(0 < tau < 1 for tau in spec.taus):
        raise InputError(f"taus must be different numbers between 0 and 1, at least one; got {spec.taus}")


register_kind("readings", Readings)
