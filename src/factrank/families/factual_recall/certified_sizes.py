r"""Certified sizes: the smallest transformer in closed form that is proved to hold a database, found by building it.

The theorems of Nichani, Lee and Bietti 2025 ask for value parameters $H d\, d_{vo}$ (attention alone) or MLP parameters
m d (with an MLP) of at least the number of facts S R, times constants and logarithms that they leave open. Here the
constant is measured: `CertifiedSize.stored_per_fact` is what was enough. No model needs less than the bits of the facts
over the bits of a weight.

What was certified in float32 for S = R, D = 8, T = 32 and 2 (S + R) + 1 tokens (seed 0; both ends built). Votes have
rank S and R, so that two heads with d_vo = S hold them whole, and it is d that has to grow; the logistic form holds
the facts at a d that separates the tokens, in heads far smaller than that.

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
"""The shapes among which the smallest is sought, by a size: d_vo, the width of the MLP, d_model, ..."""


@dataclass(frozen=True, eq=False)
class CertifiedSize:
    """The smallest size that was certified; both ends were built.

    Arguments:
        size: it.
        failed: the largest smaller size that was built and not certified; None where there is none.
        why: what was wrong with that one.
        shape: of the certified transformer.
        found: the certified transformer.
    """

    size: int
    failed: int | None
    why: str
    shape: FactualRecallShape
    found: Constructed

    @property
    def stored(self) -> int:
        """The parameters in which the theorems say the facts are: H d d_vo without an MLP, m d with one."""
        width = self.shape.mlp_width or self.shape.n_heads * self.shape.d_vo
        return self.shape.d_model * width

    @property
    def stored_per_fact(self) -> float:
        """What the theorems call a constant, times logarithms."""
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
    """The smallest size of a family whose construction is certified, None where none up to `most` is.

    Sizes are doubled or halved from the guess until one is certified and a smaller one is not, then bisected. Where
    certification is not monotone in the size, a smaller one that was not built may be certified too.

    >>> from factrank.databases.generators import answer_sets
    >>> facts = answer_sets(3, 2, 2, seed=0)
    >>> found = smallest_factual_recall(facts, lambda n: FactualRecallShape(16, 1, 1, n), most=16)
    >>> found.size, found.failed, found.found.certified
    (2, 1, True)
    """
    if not 1 <= guess <= most:
        raise InputError(f"the guess lies between 1 and `most`; got {guess} and {most}")

    def build(size: int) -> tuple[Constructed | None, str]:
        try:
            built = construct_factual_recall(database, family(size), seed=seed, form=form, reading=reading)
        except InputError as error:  # no hyperplane
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
