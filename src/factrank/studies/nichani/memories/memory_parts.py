"""Shared parts of the three studies of memories at 99 % recall: a law "size = product / constant".

`size` is N log N, or N for a fixed number of outputs; `product` is d^2 or m d; the constant is product / size. The
authors drew the law as a line next to points on logarithmic axes, so our tolerance is a tenth of the constant.
"""

from __future__ import annotations

from dataclasses import dataclass

from factrank.experiments.statistics import Claim, Fit, Quantity, ReferenceLine, Summary, Where
from factrank.experiments.study import Chart
from factrank.studies.nichani.settings import D_MODEL, FACTS, PRODUCT, RATIO, WIDTH
from factrank.studies.parts import mean_difference, searches_chart, searches_claim, searches_summary


@dataclass(frozen=True)
class Law:
    """A published law, the columns that it relates, and the searches that count for it."""

    size: str
    product: str
    constant: str
    published: float
    line: str
    counted: Where

    def facts_rise(self, statement: str, note: str) -> Claim:
        """Returns the claim of the abstract, a direction."""
        return searches_claim(
            "facts rise with parameters",
            statement,
            Quantity("slope", FACTS, self.product, where=self.counted),
            "rises",
            place="abstract",
            quote="the storage capacities of both linear and MLP associative memories scale linearly with parameter "
            "count",
            note=note,
        )

    def constant_is(self, name: str, statement: str, constant: Quantity, note: str, *, ours: bool = False) -> Claim:
        """Returns the claim that the constant is as published; `ours` if the paper does not say so of the searches."""
        return searches_claim(
            name,
            statement,
            constant,
            self.published,
            tolerance=self.published / 10,
            place=f"cf. {self.line}" if ours else self.line,
            note=note,
            extension=ours,
        )

    def slope_is(self, name: str, statement: str, slope: Quantity, note: str, *, ours: bool = False) -> Claim:
        """Returns the claim that sizes grow with the product at the published rate."""
        return searches_claim(
            name,
            statement,
            slope,
            round(1 / self.published, 3),
            tolerance=round(0.1 / self.published, 3),
            place=f"cf. {self.line}" if ours else self.line,
            note=note,
            extension=ours,
        )

    def only_product_counts(self, products: tuple[int, ...], place: str, note: str) -> Claim:
        """Returns the claim that m / d does not matter at products m d of two shapes, one with four times the m / d."""
        equal: Where = ((PRODUCT, products),)
        return searches_claim(
            "only m d counts",
            "At equal m d a wide MLP between narrow embeddings holds as many facts as a narrow one between wide ones.",
            mean_difference(self.constant, (*equal, (RATIO, (4, 8))), (*equal, (RATIO, (1, 2)))),
            "flat",
            tolerance=self.published / 10,
            place=place,
            note=f"{note} The tolerance, a tenth of the published constant, is ours. Full size only.",
        )

    def bits_per_parameter(self, place: str, note: str) -> Claim:
        """Returns the claim on the bits that a parameter stores."""
        return searches_claim(
            "bits per parameter",
            "Bits that a parameter holds at capacity.",
            Quantity("mean", "bits_per_parameter", where=self.counted),
            None,
            place=place,
            note=note,
            extension=True,
        )


def interval_summary(title: str, over: tuple[str, ...]) -> Summary:
    """Returns a summary of both ends of the capacity intervals, and of facts and bits per parameter."""
    return searches_summary(
        "facts",
        title,
        (
            ("holds at", Quantity("mean", FACTS)),
            ("does not hold at", Quantity("mean", "upper")),
            ("facts per parameter", Quantity("mean", f"{FACTS} / parameters")),
            ("bits per parameter", Quantity("mean", "bits_per_parameter")),
        ),
        over=over,
        log_x=True,
        log_y=True,
    )


def mlp_chart(title: str) -> Chart:
    """Returns a chart of the facts of MLP memories by m d and m / d."""
    return searches_chart("capacity", title, "lines", x=PRODUCT, y=FACTS, colour=RATIO, log_x=True, log_y=True)


def mlp_summaries(law: Law, label: str, memory: str, y_title: str, shown: Where = ()) -> tuple[Summary, ...]:
    """Returns sizes by m d and m / d, the published line, and the constant; `label` is the size in a formula."""
    published = (ReferenceLine(f"published: m d / {law.published}", f"x / {law.published}"),)
    quotient = f"m d / {label}" if label == "N" else f"m d / ({label})"
    return (
        searches_summary(
            "capacity-by-product",
            f"{label} of {memory}, by m d and m / d",
            ((label, Quantity("mean", law.size, where=shown)),),
            over=(PRODUCT, RATIO),
            y_title=y_title,
            log_x=True,
            log_y=True,
            references=published,
        ),
        searches_summary(
            "beside-the-line",
            f"{label} by m d, measured and on the published line",
            ((label, Quantity("mean", law.size, where=law.counted)),),
            over=(PRODUCT,),
            y_title=y_title,
            log_x=True,
            log_y=True,
            references=published,
        ),
        searches_summary(
            "constant",
            f"{quotient}; published: {law.published} for all shapes",
            ((quotient, Quantity("mean", law.constant, where=shown)),),
            over=(PRODUCT, RATIO),
            log_x=True,
            references=(ReferenceLine(f"published: {law.published}", str(law.published)),),
        ),
        interval_summary("Capacity interval, and facts and bits per parameter (2 m d)", over=(D_MODEL, WIDTH)),
    )


def mlp_fits(label: str) -> tuple[Fit, ...]:
    """Returns fits of sizes as a multiple of m d, without and with an intercept."""
    return (
        Fit("proportional", f"{label} as a multiple of m d", "capacity-by-product", (PRODUCT,), intervals=True),
        Fit("line", "The same with an intercept", "capacity-by-product", ("1", PRODUCT), intervals=True),
    )
