"""What is shown and claimed of examples memorised against heads or tokens, alike for both tasks and kinds of contexts.

Examples memorised are N times the recall, or, for real labels, N times the explained share of their variance: of N
labels without structure a model with k free directions explains k / N, so that the number is that of the directions
used. Recall has a part that is chance, 1 in as many as there are classes.

Claims are about the cells that were run three times, at one number of examples for each task and kind of contexts;
charts show all.
"""

from __future__ import annotations

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
"""The least correlation that we call a linear relationship."""
FEW = 30
"""Heads or tokens of the full size up to which a line is looked for."""


@dataclass(frozen=True)
class Growth:
    """Examples memorised against `x`, for one task and kind of contexts.

    Claims are about `cells`, values of x on one number of examples that were run several times. `top` is the largest
    number of examples of the authors' grid.
    """

    task: Task
    kind: Kind
    x: str
    cells: dict[Size, Cells]
    top: dict[Size, int]
    place: str
    quote: str
    by_task: bool = False
    """Whether the study has both tasks, so that names say which."""
    more: Cells | None = None
    """Cells of the full size on more examples than the authors have, where theirs are used up."""

    @property
    def name(self) -> str:
        """What tells its parts from those of the others of a study."""
        return f"{self.task}-{self.kind}" if self.by_task else self.kind

    @property
    def text(self) -> str:
        """The same in words."""
        return f"{self.task}, {KIND_TEXT[self.kind]}" if self.by_task else KIND_TEXT[self.kind]

    @property
    def where(self) -> Where:
        """Its rows."""
        return (*WHERE[self.kind], *(task_where(self.task) if self.by_task else ()))

    @property
    def decided(self) -> Where:
        """The cells that claims are about, of both sizes of the study: N and place together tell which."""
        pairs = tuple(1000 * cells.n_examples + place for cells in self.cells.values() for place in cells.places)
        return (*self.where, (f"1000 * {N_EXAMPLES} + {self.x}", pairs))

    @property
    def at_top(self) -> Where:
        """All that was run of the largest size."""
        return (*self.where, (N_EXAMPLES, tuple(self.top.values())))

    def straight(self, cells: Cells) -> Where:
        """Those cells of the full size among which a line is looked for."""
        few = tuple(place for place in cells.places if place <= FEW)
        return (*self.where, (N_EXAMPLES, cells.n_examples), (self.x, few))

    # ------------------------------------------------------------ what is shown

    def charts(self) -> tuple[Chart, ...]:
        """Accuracy or error as the paper has it, and examples memorised, with one line for each size."""
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
        """Examples memorised beside the closed form and the paper's count, in the cells of claims and at the top."""
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
        """A line through the points of each summary, and the same with a bend."""
        shapes = (("line", "A line", ("1", self.x)), ("bend", "With a bend", ("1", self.x, f"{self.x} * {self.x}")))
        return tuple(
            Fit(f"{kind}-{summary.name}", f"{title}: {self.text}", summary.name, terms, "memorised", intervals=True)
            for summary in self.summaries()
            for kind, title, terms in shapes
        )

    # ------------------------------------------------------------ what is claimed

    def published(self, what: str) -> tuple[Claim, Claim]:
        """Examples memorised rise with x, and along a line; `what` is the name of x."""
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
                note=f"The correlation, less {STRAIGHT}, up to {FEW} {what} on "
                f"{self.cells['full'].n_examples:,} examples. The threshold is ours: a logarithm over 1, 5, 10, 20, 30 "
                "has 0.90, a square root 0.98, so that the fits tell a line from a bend. In the full size only. "
                f"{OVER_REPLICATES}",
            ),
        )

    def on_more(self, what: str) -> tuple[Claim, ...]:
        """The line again where examples are not used up: a question of ours."""
        if self.more is None:
            return ()
        claim = Claim(
            f"linear in {what} on more examples, {self.name}",
            f"Of {self.more.n_examples:,} examples those memorised lie on a line in the {what} ({self.text}).",
            self._straightness(self.more),
            "greater",
            place=self.place,
            note="As on the authors' largest size, chosen after that was seen to be nearly used up. The fits tell a "
            f"bend. In the full size only. {OVER_REPLICATES}",
            extension=True,
        )
        return (claim,)

    def _straightness(self, cells: Cells) -> Quantity:
        """The correlation with x less what we call a line."""
        line = self.straight(cells)
        return Quantity("correlation", HELD, self.x, where=line, minus=Quantity("mean", str(STRAIGHT), where=line))

    def _places(self, what: str) -> str:
        cells = self.cells["full"]
        return f"{_listed(cells.places)} {what} on {cells.n_examples:,} examples"

    def further(self, what: str) -> tuple[Claim, Claim]:
        """What a unit of x adds, and the paper's count beside what is held: questions of ours."""
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
                note=f"The paper's count less the examples memorised{beyond}, where that is greatest. The theorem says "
                "that weights exist for as many examples; here training has more to memorise. Contexts of one token "
                f"are left out. {OVER_REPLICATES}",
                extension=True,
            ),
        )


def _listed(places: tuple[int, ...]) -> str:
    """The places in words."""
    return " and ".join(filter(None, [", ".join(map(str, places[:-1])), str(places[-1])]))
