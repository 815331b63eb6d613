"""What the three studies of memories at 99 % recall show and claim alike: a law "size = product / constant".

`size` is N log N, or N where the outputs are few; `product` is d^2, or m d; the constant is product / size. It was
published as a line beside points on logarithmic axes, so that a tenth of it is the tolerance.
"""

from __future__ import annotations

from dataclasses import dataclass

from factrank.experiments.statistics import Claim, Fit, Quantity, Summary, Where
from factrank.experiments.study import Chart
from factrank.studies.nichani.settings import D_MODEL, FACTS, PRODUCT, RATIO, WIDTH


@dataclass(frozen=True)
class Law:
    """A published law, the columns it is about, and the searches that count for it."""

    size: str
    product: str
    constant: str
    published: float
    line: str
    counted: Where

    def facts_rise(self, statement: str, note: str) -> Claim:
        """The direction that the abstract states."""
        return Claim(
            "facts rise with parameters",
            statement,
            Quantity("slope", FACTS, self.product, where=self.counted),
            "rises",
            place="abstract",
            quote="the storage capacities of both linear and MLP associative memories scale linearly with parameter "
            "count",
            note=note,
            data="searches",
        )

    def constant_is(self, name: str, statement: str, constant: Quantity, note: str, *, ours: bool = False) -> Claim:
        """That the constant is the published one; `ours` where the paper does not say it of these searches."""
        return Claim(
            name,
            statement,
            constant,
            self.published,
            tolerance=self.published / 10,
            place=f"beside {self.line}" if ours else self.line,
            note=note,
            extension=ours,
            data="searches",
        )

    def slope_is(self, name: str, statement: str, slope: Quantity, note: str, *, ours: bool = False) -> Claim:
        """That sizes rise with the product as published."""
        return Claim(
            name,
            statement,
            slope,
            round(1 / self.published, 3),
            tolerance=round(0.1 / self.published, 3),
            place=f"beside {self.line}" if ours else self.line,
            note=note,
            extension=ours,
            data="searches",
        )


def interval_summary(title: str, over: tuple[str, ...]) -> Summary:
    """Both ends of the capacities, and what a parameter holds."""
    return Summary(
        "facts",
        title,
        (
            ("holds at", Quantity("mean", FACTS)),
            ("does not hold at", Quantity("mean", "upper")),
            ("facts per parameter", Quantity("mean", f"{FACTS} / parameters")),
            ("bits per parameter", Quantity("mean", "bits_per_parameter")),
        ),
        over=over,
        data="searches",
        log_x=True,
        log_y=True,
    )


def mlp_chart(title: str) -> Chart:
    """Facts of MLP memories by m d and m / d."""
    return Chart(
        "capacity",
        title,
        "lines",
        x=PRODUCT,
        y=FACTS,
        colour=RATIO,
        log_x=True,
        log_y=True,
        data="searches",
    )


def mlp_summaries(law: Law, label: str, memory: str, y_title: str, shown: Where = ()) -> tuple[Summary, ...]:
    """Sizes by m d and m / d, beside the published line, and the constant; `label` is the size in a formula."""
    quotient = f"m d / {label}" if label == "N" else f"m d / ({label})"
    return (
        Summary(
            "capacity-by-product",
            f"{label} of {memory}, by m d and m / d",
            ((label, Quantity("mean", law.size, where=shown)),),
            over=(PRODUCT, RATIO),
            data="searches",
            y_title=y_title,
            log_x=True,
            log_y=True,
        ),
        Summary(
            "beside-the-line",
            f"{label} by m d, measured and on the published line",
            (
                ("measured", Quantity("mean", law.size, where=law.counted)),
                ("published line", Quantity("mean", f"{PRODUCT} / {law.published}", where=law.counted)),
            ),
            over=(PRODUCT,),
            data="searches",
            y_title=y_title,
            log_x=True,
            log_y=True,
        ),
        Summary(
            "constant",
            f"{quotient}; published {law.published} for all shapes",
            ((quotient, Quantity("mean", law.constant, where=shown)),),
            over=(PRODUCT, RATIO),
            data="searches",
            log_x=True,
        ),
        interval_summary(
            "The interval of the capacity, and facts and bits per parameter (2 m d)", over=(D_MODEL, WIDTH)
        ),
    )


def mlp_fits(label: str) -> tuple[Fit, ...]:
    """Sizes as a multiple of m d, and with a constant."""
    return (
        Fit("proportional", f"{label} as a multiple of m d", "capacity-by-product", (PRODUCT,), intervals=True),
        Fit("line", "The same with a constant", "capacity-by-product", ("1", PRODUCT), intervals=True),
    )
