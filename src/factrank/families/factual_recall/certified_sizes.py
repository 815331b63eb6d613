r"""Certified sizes: the smallest closed-form transformer that provably stores a database, found by construction.

The theorems of Nichani, Lee and Bietti 2025 require at least S R value parameters $H d\, d_{vo}$ (attention only) or
MLP parameters m d (with an MLP) for S R facts, up to unspecified constants and logarithms. This module measures the
constant: `CertifiedSize.stored_per_fact` is a number of parameters that suffices. The information-theoretic minimum is
the bits of the facts divided by the bits of a weight.

Sizes certified in float32 for S = R, D = 8, T = 32 and 2 (S + R) + 1 tokens (seed 0; size and size - 1 were both
built). Votes have ranks S and R, so two heads with d_vo = S represent them exactly and only d has to grow. The logistic
form stores the facts at the d that separates the tokens, in much smaller heads.

    form, heads                                S = 8                    S = 16
    outer product, 2 of d_vo = S               d 295: 74 per fact       d 822: 103 per fact
    least squares, 2 of d_vo = S               d 231: 58                d 701: 88
    two-sided, 2 of d_vo = S                   d 56: 14                 d 115: 14
    logistic, 2 heads apart, d = 3 S           d_vo 3: 2.2              d_vo 6: 2.2
    logistic, 1 head, d = 3 S                  d_vo 5: 1.9              d_vo 10: 1.9
    logistic, MLP, 2 heads of d / 4, d = 2 S   m 16: 4.0                m 36: 4.5
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from factrank.databases import Database
from factrank.errors import InputError
from factrank.experiments.models import Constructed
from factrank.families.factual_recall.factual_recall_form import HeadReading, construct_factual_recall
from factrank.families.factual_recall.factual_recall_shape import FactualRecallShape
from factrank.nn import MatrixForm

ShapeOfSize = Callable[[int], FactualRecallShape]
"""Maps a size (d_vo, MLP width, d_model, ...) to a shape."""


@dataclass(frozen=True, eq=False)
class CertifiedSize:
    """The smallest certified size.

    Arguments:
        size: The smallest size that was certified.
        failed: The largest smaller size that was built and not certified; None if there is none.
        why: Why that size was not certified.
        shape: Shape of the certified transformer.
        found: The certified transformer.
    """

    size: int
    failed: int | None
    why: str
    shape: FactualRecallShape
    found: Constructed

    @property
    def stored(self) -> int:
        """Number of parameters that store the facts in the theorems: H d d_vo without an MLP, m d with one."""
        width = self.shape.mlp_width or self.shape.n_heads * self.shape.d_vo
        return self.shape.d_model * width

    @property
    def stored_per_fact(self) -> float:
        """Stored parameters per fact, a constant times logarithms in the theorems."""
        return self.stored / self.found.certificate.facts


def smallest_factual_recall(
    database: Database,
    family: ShapeOfSize,
    *,
    guess: int = 1,
    most: int = 256,
    form: MatrixForm = "logistic",
    reading: HeadReading | None = None,
    seed: int = 0,
) -> CertifiedSize | None:
    """Return the smallest size whose construction is certified, or None if there is none up to `most`.

    Sizes are doubled from the guess until one is certified, and then bisected. If certification is not monotone in the
    size, there may be a smaller certified size that was not built.

    Arguments:
        database: Facts to store.
        family: Maps a size to a shape.
        guess: The first size to build.
        most: The largest size to build.
        form: Closed form of the matrix that stores the facts.
        reading: How heads read keys and queries; see `construct_factual_recall`.
        seed: Seed of the embeddings.

    >>> from factrank.databases.generators import answer_sets
    >>> facts = answer_sets(3, 2, 2, seed=0)
    >>> found = smallest_factual_recall(facts, lambda n: FactualRecallShape(16, 1, 1, n), most=16)
    >>> found.size, found.failed, found.found.certified
    (2, 1, True)
    """
    if not 1 <= guess <= most:
        raise InputError(f"guess must be between 1 and most = {most}; got {guess}")

    def build(size: int) -> tuple[Constructed | None, str]:
        try:
            built = construct_factual_recall(database, family(size), seed=seed, form=form, reading=reading)
        except InputError as error:  # no separating hyperplane
            return None, str(error)
        return (built if built.certified else None), built.certificate.reason

    upper: tuple[int, Constructed] | None = None
    least, why = 0, ""
    size = guess
    while upper is None or upper[0] - least > 1:
        built, reason = build(size)
        if built is not None:
            upper = size, built
        elif size == most:
            return None
        else:
            least, why = size, reason
        size = min(2 * size, most) if upper is None else (least + upper[0]) // 2
    return CertifiedSize(upper[0], least or None, why, family(upper[0]), upper[1])
