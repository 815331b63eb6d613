"""Charts and claims on memorised examples against heads or tokens, shared by both tasks and kinds of contexts.

The number of memorised examples is N times the recall or, for real labels, N times the explained fraction of their
variance: a model with k free directions explains k / N of N unstructured labels, so this counts the directions used.
Recall includes chance, 1 over the number of classes.

Claims use the cells that were run three times, at one number of examples for each task and kind of contexts; charts
show all runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from factrank.experiments.columns import label
from factrank.experiments.statistics import Claim, Fit, Quantity, Summary, Where
from factrank.experiments.study import Chart, Size
from factrank.studies.mahdavi.settings import (
    CONTEXT_SIZES,
    HELD,
    KIND_TEXT,
    LOSS,
    N_CLASSES,
    N_EXAMPLES,
    N_TOKENS,
    OVER_REPLICATES,
    PAPER_BOUND,
    RANK,
    RECALL,
    WHERE,
    Cells,
    Kind,
    Task,
    task_where,
)

STRAIGHT = 0.95
"""The smallest correlation that we call a linear relationship."""
FEW = 30
"""Number of heads or tokens, in the full size, up to which we look for a line."""


@dataclass(frozen=True)
class Growth:
    """Examples memorised against `x`, for one task and kind of contexts.

    Claims use `cells`: values of x that were run several times on one number of examples. `top` is the largest number
    of examples in the authors' grid.
    """

    task: Task
    kind: Kind
    x: str
    cells: dict[Size, Cells]
    top: dict[Size, int]
    place: str
    quote: str
    by_task: bool = False
    """Whether the study has both tasks and names must tell them apart."""
    more: Cells | None = None
    """Cells of the full size on more examples than the authors use, if theirs are exhausted."""

    @property
    def name(self) -> str:
        """Suffix that distinguishes its charts and claims from others of the study."""
        return f"{self.task}-{self.kind}" if self.by_task else self.kind

    @property
    def text(self) -> str:
        """Description of the task and the kind of contexts."""
        return f"{self.task}, {KIND_TEXT[self.kind]}" if self.by_task else KIND_TEXT[self.kind]

    @property
    def where(self) -> Where:
        """Condition that selects its rows."""
        return (*WHERE[self.kind], *(task_where(self.task) if self.by_task else ()))

    @property
    def decided(self) -> Where:
        """Condition that selects the cells of claims at both sizes of the study, by N and place together."""
        pairs = tuple(1000 * cells.n_examples + place for cells in self.cells.values() for place in cells.places)
        return (*self.where, (f"1000 * {N_EXAMPLES} + {self.x}", pairs))

    @property
    def at_top(self) -> Where:
        """Condition that selects all runs of the largest size."""
        return (*self.where, (N_EXAMPLES, tuple(self.top.values())))

    def straight(self, cells: Cells) -> Where:
        """Returns the condition that selects the cells of the full size in which we look for a line."""
        few = tuple(place for place in cells.places if place <= FEW)
        return (*self.where, (N_EXAMPLES, cells.n_examples), (self.x, few))

    # ------------------------------------------------------------ what is shown

    def charts(self) -> tuple[Chart, ...]:
        """Returns charts of accuracy or error, as in the paper, and of examples memorised, with one line per size."""
        first = ("error", LOSS) if self.task == "regression" else ("accuracy", RECALL)
        return tuple(
            Chart(
                f"{name}-{self.name}",
                f"{name.capitalize()}: {self.text}",
                "lines",
                x=self.x,
                y=column,
                colour=N_EXAMPLES,
                where=self.where,
            )
            for name, column in (first, ("memorised", HELD))
        )

    def summaries(self) -> tuple[Summary, ...]:
        """Returns examples memorised, the closed form and the paper's count, in the cells of claims and at the top."""
        n_examples = self.cells["full"].n_examples
        shown = [("decided", f"Examples memorised of {n_examples:,}, run three times", self.decided)]
        if self.top["full"] != n_examples:
            shown.append(("largest", "Examples memorised of the authors' largest size, run once", self.at_top))
        if self.more is not None:
            title = f"Examples memorised of {self.more.n_examples:,}, run three times"
            shown.append(("more", title, self.straight(self.more)))
        return tuple(
            Summary(
                f"{name}-{self.name}",
                f"{title}: {self.text}",
                (
                    ("memorised", Quantity("mean", HELD, where=rows)),
                    ("closed form", Quantity("mean", RANK, where=rows)),
                    ("H (min(n, d_h) - 1) + 1", Quantity("mean", PAPER_BOUND, where=rows)),
                ),
                over=(self.x,),
                y_title=label(HELD),
            )
            for name, title, rows in shown
        )

    def fits(self) -> tuple[Fit, ...]:
        """Returns fits of a line to each summary, and of a parabola."""
        shapes = (("line", "A line", ("1", self.x)), ("bend", "With a bend", ("1", self.x, f"{self.x} * {self.x}")))
        return tuple(
            Fit(f"{kind}-{summary.name}", f"{title}: {self.text}", summary.name, terms, "memorised", intervals=True)
            for summary in self.summaries()
            for kind, title, terms in shapes
        )

    # ------------------------------------------------------------ what is claimed

    def published(self, what: str) -> tuple[Claim, Claim]:
        """Returns the claims that examples memorised rise with x, and linearly; `what` is the name of x."""
        return (
            Claim(
                f"rises with {what}, {self.name}",
                f"More {what}, more examples memorised ({self.text}).",
                Quantity("slope", HELD, self.x, where=self.decided),
                "rises",
                place=self.place,
                quote=self.quote,
                note=f"Examples per unit, by least squares over {self._places(what)}. {OVER_REPLICATES}",
            ),
            Claim(
                f"linear in {what}, {self.name}",
                f"Examples memorised lie on a line in the number of {what} ({self.text}).",
                self._straightness(self.cells["full"]),
                "greater",
                place=self.place,
                quote=self.quote,
                note=f"Correlation minus {STRAIGHT}, up to {FEW} {what} on {self.cells['full'].n_examples:,} "
                "examples. The threshold is ours: over 1, 5, 10, 20, 30 a logarithm has 0.90 and a square root 0.98, "
                f"so only the fits tell a line from a bend. Full size only. {OVER_REPLICATES}",
            ),
        )

    def on_more(self, what: str) -> tuple[Claim, ...]:
        """Returns the claim about a line on more examples, which are not exhausted (our extension)."""
        if self.more is None:
            return ()
        claim = Claim(
            f"linear in {what} on more examples, {self.name}",
            f"Of {self.more.n_examples:,} examples those memorised lie on a line in the {what} ({self.text}).",
            self._straightness(self.more),
            "greater",
            place=self.place,
            note="As on the authors' largest size; chosen after we saw that that size is nearly exhausted. The fits "
            f"show a bend, if any. Full size only. {OVER_REPLICATES}",
            extension=True,
        )
        return (claim,)

    def _straightness(self, cells: Cells) -> Quantity:
        """Returns the correlation with x minus the threshold of a line."""
        line = self.straight(cells)
        return Quantity("correlation", HELD, self.x, where=line, minus=Quantity("mean", str(STRAIGHT), where=line))

    def _places(self, what: str) -> str:
        cells = self.cells["full"]
        return f"{_listed(cells.places)} {what} on {cells.n_examples:,} examples"

    def further(self, what: str) -> tuple[Claim, Claim]:
        """Returns the claims on the gain per unit of x and on the paper's count (our extensions)."""
        several = (N_TOKENS, tuple(n for sizes in CONTEXT_SIZES.values() for n in sizes if n > 1))
        cells = (*self.decided, several) if self.x == N_TOKENS else self.decided
        chance = f" + {N_EXAMPLES} / {N_CLASSES}" if self.task == "classification" else ""
        beyond = " beyond chance" if chance else ""
        return (
            Claim(
                f"examples per {what[:-1]}, {self.name}",
                f"How many examples more are memorised with each {what[:-1]} more ({self.text}).",
                Quantity("slope", HELD, self.x, where=self.decided),
                None,
                place=self.place,
                note=f"Least squares over {self._places(what)}; no number is published. {OVER_REPLICATES}",
                extension=True,
            ),
            Claim(
                f"more than H (r - 1) + 1, {self.name}",
                f"Every trained model memorises more than H (min(n, d_h) - 1) + 1 examples ({self.text}).",
                Quantity("greatest", f"{PAPER_BOUND}{chance} - {HELD}", where=cells),
                "less",
                place="the theorem",
                note=f"Largest value of the paper's count minus the examples memorised{beyond}. The theorem says that "
                "weights exist for that many examples; here training has more to memorise. Excludes contexts of one "
                f"token. {OVER_REPLICATES}",
                extension=True,
            ),
        )


def growth_claims(growths: Sequence[Growth], what: str) -> tuple[Claim, ...]:
    """Returns the claims of several growths: published ones, then those on more examples, then our extensions."""
    kinds = (Growth.published, Growth.on_more, Growth.further)
    return tuple(claim for claims in kinds for growth in growths for claim in claims(growth, what))


def _listed(places: tuple[int, ...]) -> str:
    return " and ".join(filter(None, [", ".join(map(str, places[:-1])), str(places[-1])]))
