"""Sequences that ask for facts, and measures of models that read them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from factrank.errors import InputError
from factrank.experiments.specs import Measure, Presentation, ResultColumn, as_floats
from factrank.nn import require_sizes


@dataclass(frozen=True)
class FactSequences(Presentation):
    """Sequences of noise tokens that ask for facts.

    Arguments:
        key_exponent: The key with code i is sampled with frequency proportional to (i + 1)^-`key_exponent`.
        query_exponent: The same for queries.
        copy_fraction: Fraction of copying sequences in a batch, for models that copy.
        contexts: Number of noise contexts per fact over which recall is measured.
    """

    key_exponent: float = 0.0
    query_exponent: float = 0.0
    copy_fraction: float = 0.0
    contexts: int = 4

    def __post_init__(self) -> None:
        super().__post_init__()
        as_floats(self, "key_exponent", "query_exponent", "copy_fraction")
        require_sizes({"contexts": self.contexts})
        if self.copy_fraction > 1:
            raise InputError(f"copy_fraction must be between 0 and 1; got {self.copy_fraction}")

    @property
    def options(self) -> tuple[float, float, float, int]:
        """All fields except the facts."""
        return self.key_exponent, self.query_exponent, self.copy_fraction, self.contexts


@dataclass(frozen=True)
class PartsAlone(Measure):
    """Measure the recall of attention without the MLP, and of the MLP alone."""

    columns: ClassVar[tuple[ResultColumn, ...]] = (
        ResultColumn("recall_attention_alone", meaning="recall without what the MLP adds"),
        ResultColumn("recall_mlp_alone", meaning="recall by what the MLP adds alone"),
    )


@dataclass(frozen=True)
class RelationAlone(Measure):
    """Measure how much the relation alone explains: hallucinations of a model that ignores the key."""

    columns: ClassVar[tuple[ResultColumn, ...]] = (
        ResultColumn("relation_loss", "", "nats", "-log of the probability of all answers that the query may have"),
        ResultColumn("subject_loss", "", "nats", "-log of the probability of all answers that occur with the key"),
        ResultColumn("relation_alone", meaning="fraction whose answer stays when noise takes the place of the key"),
        ResultColumn("in_range", meaning="fraction answered within the range of the query"),
        ResultColumn("wrong_in_range", meaning="fraction answered wrongly, and within the range of the query"),
    )


@dataclass(frozen=True)
class TestRecall(Measure):
    """Measure recall on a test set of `sequences` random sequences, sampled once like the training sequences.

    Useful for comparison with protocols that estimate recall on a sample.
    """

    sequences: int
    columns: ClassVar[tuple[ResultColumn, ...]] = (
        ResultColumn("test_recall", meaning="fraction of right answers on a random sample of sequences"),
    )
    __test__ = False  # keeps pytest from collecting this class

    def __post_init__(self) -> None:
        require_sizes({"sequences": self.sequences})
