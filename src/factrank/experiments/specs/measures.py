"""Measures: metrics of a trained model in addition to loss, recall and margins.

A measure is a small frozen specification. Every engine supports the measures in this module; families define their own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import wraps
from typing import ClassVar

from factrank.errors import InputError
from factrank.experiments.specs.field_checks import are_different, require_numbers
from factrank.experiments.specs.result_columns import ResultColumn
from factrank.experiments.specs.specification import register_kind
from factrank.nn import require_sizes


class Measure:
    """A measurement of a trained model. The class declares the columns that it adds to the results."""

    columns: ClassVar[tuple[ResultColumn, ...]] = ()
    on_host: ClassVar[bool] = False
    """True if it is computed on the host after training, which may take longer than the training."""
    implied: ClassVar[bool] = False
    """True if every trial of its families measures it, with the default options unless it says otherwise."""


@dataclass(frozen=True)
class TauRecall(Measure):
    """Recall of softmax>=tau at each threshold. The first threshold defines "tau-recall".

    Every trial measures it, at 0.95 by default.
    """

    taus: tuple[float, ...] = (0.95,)
    implied: ClassVar[bool] = True

    def __post_init__(self) -> None:
        require_thresholds(self)


@dataclass(frozen=True)
class Curve(Measure):
    """Loss and recalls at these epochs; epoch 0 is before training."""

    epochs: tuple[int, ...]

    def __post_init__(self) -> None:
        for epoch in self.epochs:
            if type(epoch) is not int or epoch < 0:  # require_sizes is slow, and curves are long
                require_sizes({"an epoch of a curve": epoch}, least=0)
        object.__setattr__(self, "epochs", tuple(sorted(set(self.epochs))))
        if not self.epochs:
            raise InputError("a curve needs at least one epoch")


def _of_any_integers(init: Callable[..., None]) -> Callable[..., None]:
    """Accept a range, or any other iterable, for a tuple."""

    @wraps(init)
    def initialise(self: Curve, epochs: object) -> None:
        if isinstance(epochs, str) or not isinstance(epochs, Iterable):
            raise InputError(f"the epochs of a curve must be a list of integers; got {epochs!r}")
        init(self, tuple(epochs))

    return initialise


Curve.__init__ = _of_any_integers(Curve.__init__)  # type: ignore[method-assign]


@dataclass(frozen=True)
class EpochsTo(Measure):
    """First check at which argmax, and softmax>=tau for each tau, answers every fact correctly."""


@dataclass(frozen=True)
class FrequencyGroups(Measure):
    """Recall in groups of facts of equal size, from most to least frequent."""

    groups: int
    columns: ClassVar[tuple[ResultColumn, ...]] = (
        ResultColumn("recall_group_*", meaning="recall in a group of facts of equal size, the most frequent first"),
    )

    def __post_init__(self) -> None:
        require_sizes({"groups": self.groups})


@dataclass(frozen=True)
class Best(Measure):
    """Maximum of each recall over all checks and recorded epochs.

    For comparison with protocols that report the best checkpoint.
    """

    columns: ClassVar[tuple[ResultColumn, ...]] = (
        ResultColumn("best_*", meaning="greatest value of this recall over all checks and recorded epochs"),
    )


def require_thresholds(spec: object) -> None:
    """Convert the `taus` of a specification to a tuple of floats.

    Raises:
        InputError: Unless they are different numbers in (0, 1), at least one.
    """
    require_numbers(spec, "taus")
    taus: tuple[float, ...] = getattr(spec, "taus")  # noqa: B009 - mypy does not know this field
    if not are_different(taus) or not all(0 < tau < 1 for tau in taus):
        raise InputError(f"taus must be different numbers between 0 and 1, at least one; got {taus}")


EVERY_MEASURE: dict[str, type[Measure]] = {"tau_recall": TauRecall, "curve": Curve, "epochs_to": EpochsTo}
"""Measures that every family supports, by their `kind`."""

SHARED_MEASURES: dict[str, type[Measure]] = {"frequency_groups": FrequencyGroups, "best": Best}
"""Measures that several families support."""

for _kind, _measure in {**EVERY_MEASURE, **SHARED_MEASURES}.items():
    register_kind(_kind, _measure, Measure)
