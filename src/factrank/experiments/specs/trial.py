"""Trial: the frozen specification of one run, and its identity.

A trial says which data, which model, how it is trained, from which seed, and what is measured. Its identity is the
SHA-256 of its canonical JSON (`hash`); everything that a run draws at random follows from its seed.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import cast

from factrank.errors import InputError
from factrank.experiments.registry import families, family_of
from factrank.experiments.specs.measures import Measures
from factrank.experiments.specs.roles import DataSpec, ModelSpec
from factrank.experiments.specs.specification import Plain, from_plain, has_role, hash_of, to_plain
from factrank.experiments.specs.training_spec import Training
from factrank.nn import require_sizes

SCHEMA = 1
LARGEST_SEED = 2**32 - 1
DEFAULT_TRAINING, DEFAULT_MEASURES = Training(), Measures()


@dataclass(frozen=True)
class Trial:
    """One fully specified run.

    >>> from factrank import LayerShape, generated
    >>> facts = generated("uniform", n_keys=20, n_queries=10, n_values=20, seed=0)
    >>> trial = Trial(facts, LayerShape(d_model=10, n_heads=1, d_qk=5, d_vo=5), seed=3)
    >>> trial.hash[:12]
    '068b1161e087'
    >>> Trial.from_dict(trial.to_dict()) == trial
    True
    """

    database: DataSpec
    model: ModelSpec
    training: Training = DEFAULT_TRAINING
    seed: int = 0
    measures: Measures = DEFAULT_MEASURES
    curve_epochs: tuple[int, ...] = ()
    """Epochs at which loss and recalls are recorded; 0 is before training."""

    def __post_init__(self) -> None:
        family = family_of(self.model)
        described = {
            "database": has_role(self.database, DataSpec),
            "training": isinstance(self.training, Training),
            "measures": isinstance(self.measures, Measures),
        }
        for name, is_described in described.items():
            if not is_described:
                raise InputError(f"the {name} of a trial is described by other classes; got {getattr(self, name)!r}")
        refusal = family.refusal(self.model, self.database)
        if refusal is not None:
            raise InputError(refusal)
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
        families()  # whose classes the dictionary names
        return from_plain(cls, {name: value for name, value in plain.items() if name != "version"})

    @cached_property
    def hash(self) -> str:
        """The identity of the trial: SHA-256 of its canonical JSON."""
        return hash_of(self.to_dict())
