"""Facts weighted by the frequency of their keys."""

from __future__ import annotations

from dataclasses import dataclass

from factrank.experiments.specs import Presentation, as_floats


@dataclass(frozen=True)
class WeightedFacts(Presentation):
    """Facts whose losses are weighted by the frequency of their key.

    Arguments:
        key_exponent: The frequency of the key with code i is proportional to (i + 1)^-`key_exponent`; 0 means uniform.
    """

    key_exponent: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        as_floats(self, "key_exponent")
